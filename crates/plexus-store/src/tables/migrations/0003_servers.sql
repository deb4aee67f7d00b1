-- Servers that share the store, and what belongs to them.

CREATE TABLE servers (
    id           {row},
    uuid         {id} NOT NULL UNIQUE,
    name         TEXT NOT NULL,
    url          TEXT NOT NULL,
    epoch        {int} NOT NULL,
    state        {int} NOT NULL, -- 0 alive or expired, 1 retired, 2 taken over
    heartbeat_at {int} NOT NULL,
    lease_until  {int} NOT NULL
) {table};

ALTER TABLE runs ADD COLUMN server {id};
ALTER TABLE chat_streams ADD COLUMN server {id};
CREATE INDEX runs_open_by_server ON runs (server) WHERE ended_at IS NULL AND server IS NOT NULL;
CREATE INDEX chat_streams_open_by_server ON chat_streams (server) WHERE status = 0 AND server IS NOT NULL;
