-- Servers that share the store, and what belongs to them.

CREATE TABLE servers (
    id           INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid         BLOB NOT NULL UNIQUE,
    name         TEXT NOT NULL,
    url          TEXT NOT NULL,
    epoch        INTEGER NOT NULL,
    state        INTEGER NOT NULL, -- 0 alive or expired, 1 retired, 2 taken over
    heartbeat_at INTEGER NOT NULL,
    lease_until  INTEGER NOT NULL
) STRICT;

ALTER TABLE runs ADD COLUMN server BLOB;
ALTER TABLE chat_streams ADD COLUMN server BLOB;
CREATE INDEX runs_open_by_server ON runs (server) WHERE ended_at IS NULL AND server IS NOT NULL;
CREATE INDEX chat_streams_open_by_server ON chat_streams (server) WHERE status = 0 AND server IS NOT NULL;
