-- Integer keys inside, UUIDs (as 16 bytes) outside. Times are milliseconds since 1970.
--
-- Two tables have keys that are two numbers in one, so that what is read together lies together without another index:
--   nodes.id       = chain << 32 | position in the chain
--   chat_events.id = chat  << 32 | seq

CREATE TABLE store_meta (
    key   TEXT PRIMARY KEY,
    value INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO store_meta VALUES ('commits', 0), ('events', 0);

-- Arbor. A chain is a run of nodes without a branch in between; a branch starts a chain that knows where it hangs.
CREATE TABLE trees (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid       BLOB NOT NULL UNIQUE,
    root       BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    metadata   TEXT NOT NULL
) STRICT;

CREATE TABLE chains (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    tree       INTEGER NOT NULL REFERENCES trees(id),
    parent     INTEGER,          -- the place (chain << 32 | position) it hangs from; NULL for the root's chain
    depth      INTEGER NOT NULL  -- how many nodes lie between its first node and the root
) STRICT;
CREATE INDEX chains_of_tree ON chains (tree, id);
CREATE INDEX chains_by_parent ON chains (parent, id) WHERE parent IS NOT NULL;

-- Nodes that are no events. The nodes of a chat's events are the rows of chat_events.
CREATE TABLE nodes (
    id         INTEGER PRIMARY KEY,
    uuid       BLOB NOT NULL UNIQUE,
    created_at INTEGER NOT NULL,
    kind       INTEGER NOT NULL, -- 0 text, 1 handle
    metadata   TEXT NOT NULL,
    data       TEXT NOT NULL
) STRICT;

CREATE TABLE sessions (
    id                INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid              BLOB NOT NULL UNIQUE,
    name              TEXT NOT NULL,
    parent            INTEGER REFERENCES sessions(id),
    forked_from       BLOB,
    tree              INTEGER NOT NULL REFERENCES trees(id),
    head              BLOB NOT NULL,
    claude_session_id TEXT,
    revision          INTEGER NOT NULL DEFAULT 0,
    created_at        INTEGER NOT NULL,
    updated_at        INTEGER NOT NULL,
    deleted_at        INTEGER,   -- set while a fork still needs the tree; such a session is seen by nobody
    config            TEXT NOT NULL,
    state             TEXT NOT NULL,
    metadata          TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX sessions_by_name ON sessions (coalesce(parent, 0), name) WHERE deleted_at IS NULL;
CREATE INDEX sessions_by_parent ON sessions (parent);
CREATE INDEX sessions_by_tree ON sessions (tree);

-- The commit that changed anything of a session last; apart from sessions, whose rows are wide and change seldom.
CREATE TABLE session_changes (
    session INTEGER PRIMARY KEY REFERENCES sessions(id),
    changed INTEGER NOT NULL
) STRICT;
CREATE INDEX session_changes_by_commit ON session_changes (changed);

CREATE TABLE chat_streams (
    id              INTEGER PRIMARY KEY AUTOINCREMENT, -- never used again: chat_events and event_batches name it
    session         INTEGER NOT NULL REFERENCES sessions(id),
    number          INTEGER NOT NULL,
    status          INTEGER NOT NULL, -- 0 running, 1 complete, 2 failed, 3 cancelled
    prompt_uuid     BLOB NOT NULL,
    idempotency_key TEXT,
    ephemeral       INTEGER NOT NULL,
    self_started    INTEGER NOT NULL,
    run             INTEGER,
    chain           INTEGER NOT NULL, -- the chain its nodes are in,
    first_pos       INTEGER NOT NULL, -- and the position of seq 0; the stream's root is before it, the prompt before that
    started_at      INTEGER NOT NULL,
    ended_at        INTEGER,
    error           TEXT,
    usage           TEXT,
    read_position   INTEGER NOT NULL DEFAULT 0,
    pruned          INTEGER NOT NULL DEFAULT 0
) STRICT;
CREATE UNIQUE INDEX chat_streams_by_number ON chat_streams (session, number);
CREATE UNIQUE INDEX chat_streams_by_key ON chat_streams (session, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE UNIQUE INDEX chat_streams_by_place ON chat_streams (chain, first_pos);
CREATE INDEX chat_streams_by_status ON chat_streams (status);

CREATE TABLE chat_events (
    id         INTEGER PRIMARY KEY,
    uuid       BLOB NOT NULL,
    created_at INTEGER NOT NULL,
    type       TEXT NOT NULL,
    body       TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX chat_events_by_uuid ON chat_events (uuid);

-- Which events a commit brought, for the feed over all sessions.
CREATE TABLE event_batches (
    commit_no INTEGER NOT NULL,
    chat      INTEGER NOT NULL,
    first_seq INTEGER NOT NULL,
    count     INTEGER NOT NULL,
    PRIMARY KEY (commit_no, chat, first_seq)
) STRICT, WITHOUT ROWID;

CREATE TABLE consumers (
    session    INTEGER NOT NULL REFERENCES sessions(id),
    name       TEXT NOT NULL,
    chat       INTEGER NOT NULL,
    next       INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (session, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE runs (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    session     INTEGER NOT NULL REFERENCES sessions(id),
    n           INTEGER NOT NULL,
    channel     TEXT NOT NULL,
    segment     INTEGER NOT NULL DEFAULT 0,
    offset      INTEGER NOT NULL DEFAULT 0,
    idle_since  INTEGER,
    started_at  INTEGER NOT NULL,
    ended_at    INTEGER,
    exit        TEXT,
    process     TEXT,
    launch      TEXT NOT NULL,
    translation TEXT
) STRICT;
CREATE UNIQUE INDEX runs_by_number ON runs (session, n);
CREATE INDEX runs_open ON runs (id) WHERE ended_at IS NULL;

CREATE TABLE loopback_approvals (
    id            INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid          BLOB NOT NULL UNIQUE,
    session       INTEGER NOT NULL REFERENCES sessions(id),
    chat          INTEGER,
    run           INTEGER,
    channel       TEXT NOT NULL,
    request_id    TEXT NOT NULL,
    tool_name     TEXT NOT NULL,
    tool_use_id   TEXT NOT NULL,
    input_digest  TEXT NOT NULL,
    description   TEXT,
    owner         BLOB,             -- a session's UUID; NULL for the operator
    escalations   INTEGER NOT NULL DEFAULT 0,
    status        INTEGER NOT NULL, -- 0 pending, 1 allowed, 2 denied, 3 expired, 4 cancelled
    created_at    INTEGER NOT NULL,
    deadline      INTEGER,
    escalate_at   INTEGER,
    decided_at    INTEGER,
    decided_by    INTEGER,          -- 0 operator, 1 session, 2 rule, 3 deadline, 4 agent ended
    decided_ref   BLOB,             -- the session's or the rule's UUID
    message       TEXT,
    delivered_at  INTEGER,
    void_at       INTEGER,
    breach        TEXT,
    retired       INTEGER NOT NULL DEFAULT 0,
    suggestions   TEXT NOT NULL,
    updated_input TEXT,
    input         TEXT NOT NULL
) STRICT;
CREATE UNIQUE INDEX approvals_by_request ON loopback_approvals (session, coalesce(run, -1), request_id) WHERE retired = 0;
CREATE INDEX approvals_by_session ON loopback_approvals (session, id);
CREATE INDEX approvals_pending ON loopback_approvals (id) WHERE status = 0;
CREATE INDEX approvals_pending_by_session ON loopback_approvals (session, id) WHERE status = 0;
CREATE INDEX approvals_pending_by_owner ON loopback_approvals (owner, id) WHERE status = 0;
CREATE INDEX approvals_by_deadline ON loopback_approvals (deadline, id) WHERE status = 0 AND deadline IS NOT NULL;
CREATE INDEX approvals_by_escalation ON loopback_approvals (escalate_at, id) WHERE status = 0 AND escalate_at IS NOT NULL;
CREATE INDEX approvals_undelivered ON loopback_approvals (session, id) WHERE status <> 0 AND delivered_at IS NULL AND void_at IS NULL;
CREATE INDEX approvals_decided ON loopback_approvals (status, decided_at) WHERE status <> 0;

CREATE TABLE rules (
    id             INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid           BLOB NOT NULL UNIQUE,
    decision       INTEGER NOT NULL, -- 0 allow, 1 deny, 2 ask
    pattern        TEXT NOT NULL,
    scope          INTEGER NOT NULL, -- 0 session, 1 subtree, 2 all
    scope_session  BLOB,
    author         BLOB,             -- a session's UUID; NULL for the operator
    run_session    BLOB,
    run_n          INTEGER,
    expires_at     INTEGER,
    uses           INTEGER,
    used           INTEGER NOT NULL DEFAULT 0,
    reason         TEXT,
    matches        TEXT NOT NULL,
    does_not_match TEXT NOT NULL,
    created_at     INTEGER NOT NULL
) STRICT;

CREATE TABLE tokens (
    hash       BLOB PRIMARY KEY,
    caller     INTEGER NOT NULL,     -- 0 operator, 1 session, 2 child
    session    BLOB,
    run_session BLOB,
    run_n      INTEGER,
    expires_at INTEGER
) STRICT, WITHOUT ROWID;
CREATE INDEX tokens_by_session ON tokens (session) WHERE session IS NOT NULL;
CREATE INDEX tokens_by_run ON tokens (run_session, run_n) WHERE run_session IS NOT NULL;

CREATE TABLE spend (
    session       INTEGER PRIMARY KEY REFERENCES sessions(id),
    cost_micros   INTEGER NOT NULL,
    turns         INTEGER NOT NULL,
    input_tokens  INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    wall_ms       INTEGER NOT NULL
) STRICT;

CREATE TABLE reservations (
    session       INTEGER NOT NULL REFERENCES sessions(id),
    chat          INTEGER NOT NULL,
    cost_micros   INTEGER NOT NULL,
    turns         INTEGER NOT NULL,
    input_tokens  INTEGER NOT NULL,
    output_tokens INTEGER NOT NULL,
    wall_ms       INTEGER NOT NULL,
    PRIMARY KEY (session, chat)
) STRICT, WITHOUT ROWID;

CREATE TABLE audit (
    id      INTEGER PRIMARY KEY AUTOINCREMENT,
    at      INTEGER NOT NULL,
    kind    TEXT NOT NULL,
    session BLOB,
    body    TEXT NOT NULL
) STRICT;
CREATE INDEX audit_by_session ON audit (session, id) WHERE session IS NOT NULL;
CREATE INDEX audit_by_time ON audit (at);

CREATE TABLE outbox (
    id         INTEGER PRIMARY KEY AUTOINCREMENT,
    uuid       BLOB NOT NULL UNIQUE,
    kind       TEXT NOT NULL,
    target     TEXT NOT NULL,
    due_at     INTEGER NOT NULL,
    attempts   INTEGER NOT NULL,
    last_error TEXT,
    body       TEXT NOT NULL
) STRICT;
CREATE INDEX outbox_by_due ON outbox (due_at, id);
