-- Parking: an approval whose agent has no process while it waits.

-- NULL with a process, 0 being parked, 1 parked, 2 being woken.
ALTER TABLE loopback_approvals ADD COLUMN parking {int};
-- What wakes it; an object.
ALTER TABLE loopback_approvals ADD COLUMN parked TEXT;
-- When an allow was about to be sent to a woken agent. It is sent once.
ALTER TABLE loopback_approvals ADD COLUMN allow_sent_at {int};
CREATE INDEX approvals_parked ON loopback_approvals (session, id) WHERE parking IS NOT NULL;
