-- What waits is read for each target, so that none waits behind another; and its age is shown.
ALTER TABLE outbox ADD COLUMN created_at {int} NOT NULL DEFAULT 0;
DROP INDEX outbox_by_due;
CREATE INDEX outbox_by_target ON outbox (target, due_at, id);

-- The most that one chat took: what the next one sets aside.
ALTER TABLE spend ADD COLUMN largest_cost_micros {int} NOT NULL DEFAULT 0;
ALTER TABLE spend ADD COLUMN largest_turns {int} NOT NULL DEFAULT 0;
