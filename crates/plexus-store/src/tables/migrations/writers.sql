-- One row for each open handle: the group it committed last. After a connection broke in the middle
-- of a commit, the row says whether the commit was done.
CREATE TABLE writers (
    id         {id} PRIMARY KEY,
    last_group {int} NOT NULL,
    last_base  {int} NOT NULL, -- the commit number before it
    seen_at    {int} NOT NULL
) {table};
