-- Full text of all that was asked, said and done. A background task of the server fills it, and
-- store_meta says up to which commit.

CREATE TABLE search_entries (
    id    {row},                -- in the order of commits: a newer entry has a larger number
    event {int} NOT NULL UNIQUE, -- chat_events.id; the first event of a chat stands for its prompt
    at    {int} NOT NULL,
    kind  {int} NOT NULL,
    tool  TEXT NOT NULL          -- the tool of a call or a result; empty for all else
) {table};
INSERT INTO store_meta VALUES ('search', 0);

{search words}
