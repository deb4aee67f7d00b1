-- Devices of the operator, such as a phone, and whose token is one of theirs.

CREATE TABLE devices (
    id         {row},
    uuid       {id} NOT NULL UNIQUE,
    name       {name} NOT NULL,
    paired_at  {int} NOT NULL,
    revoked_at {int}
) {table};
CREATE UNIQUE INDEX devices_by_name ON devices (name) WHERE revoked_at IS NULL;

-- tokens.caller: 3 is a device.
ALTER TABLE tokens ADD COLUMN device {id};
CREATE INDEX tokens_by_device ON tokens (device) WHERE device IS NOT NULL;
