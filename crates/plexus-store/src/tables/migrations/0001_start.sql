-- Numbers are keys inside, UUIDs outside. Times are milliseconds since 1970.
--
-- Two tables have keys that are two numbers in one. What is read together then lies together, and
-- needs no other index:
--   nodes.id       = chain << 32 | position in the chain
--   chat_events.id = chat  << 32 | seq

CREATE TABLE store_meta (
    key   TEXT PRIMARY KEY,
    value {int} NOT NULL
) {keyed};
INSERT INTO store_meta VALUES ('commits', 0), ('events', 0);

-- Arbor. A chain is a run of nodes without a branch in between; a branch starts a chain that knows
-- where it hangs.
CREATE TABLE trees (
    id         {row},
    uuid       {id} NOT NULL UNIQUE,
    root       {id} NOT NULL,
    created_at {int} NOT NULL,
    metadata   TEXT NOT NULL
) {table};

CREATE TABLE chains (
    id         {row},
    tree       {int} NOT NULL REFERENCES trees(id),
    parent     {int},          -- the place (chain << 32 | position) it hangs from; NULL for the root's chain
    depth      {int} NOT NULL  -- how many nodes lie between its first node and the root
) {table};
CREATE INDEX chains_of_tree ON chains (tree, id);
CREATE INDEX chains_by_parent ON chains (parent, id) WHERE parent IS NOT NULL;

-- Nodes that are no events. The nodes of a chat's events are the rows of chat_events.
CREATE TABLE nodes (
    id         {int} PRIMARY KEY,
    uuid       {id} NOT NULL UNIQUE,
    created_at {int} NOT NULL,
    kind       {int} NOT NULL, -- 0 text, 1 handle
    metadata   TEXT NOT NULL,
    data       TEXT NOT NULL
) {table};

CREATE TABLE sessions (
    id                {row},
    uuid              {id} NOT NULL UNIQUE,
    name              {name} NOT NULL,
    parent            {int} REFERENCES sessions(id),
    forked_from       {id},
    tree              {int} NOT NULL REFERENCES trees(id),
    head              {id} NOT NULL,
    claude_session_id TEXT,
    revision          {int} NOT NULL DEFAULT 0,
    created_at        {int} NOT NULL,
    updated_at        {int} NOT NULL,
    deleted_at        {int},   -- set while a fork still needs the tree; such a session is seen by nobody
    config            TEXT NOT NULL,
    state             TEXT NOT NULL,
    metadata          TEXT NOT NULL
) {table};
CREATE UNIQUE INDEX sessions_by_name ON sessions (coalesce(parent, 0), name) WHERE deleted_at IS NULL;
CREATE INDEX sessions_by_parent ON sessions (parent);
CREATE INDEX sessions_by_tree ON sessions (tree);

-- The commit that changed anything of a session last; apart from sessions, whose rows are wide and
-- change seldom.
CREATE TABLE session_changes (
    session {int} PRIMARY KEY REFERENCES sessions(id),
    changed {int} NOT NULL
) {table at 50%};
CREATE INDEX session_changes_by_commit ON session_changes (changed);

CREATE TABLE chat_streams (
    id              {row}, -- never used again: chat_events and event_batches name it
    session         {int} NOT NULL REFERENCES sessions(id),
    number          {int} NOT NULL,
    status          {int} NOT NULL, -- 0 running, 1 complete, 2 failed, 3 cancelled
    prompt_uuid     {id} NOT NULL,
    idempotency_key TEXT,
    ephemeral       {bool} NOT NULL,
    self_started    {bool} NOT NULL,
    run             {int},
    chain           {int} NOT NULL, -- the chain its nodes are in,
    first_pos       {int} NOT NULL, -- and the position of seq 0; the stream's root is before it, the prompt before that
    started_at      {int} NOT NULL,
    ended_at        {int},
    error           TEXT,
    usage           TEXT,
    read_position   {int} NOT NULL DEFAULT 0,
    pruned          {bool} NOT NULL DEFAULT {false}
) {table at 70%};
CREATE UNIQUE INDEX chat_streams_by_number ON chat_streams (session, number);
CREATE UNIQUE INDEX chat_streams_by_key ON chat_streams (session, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE UNIQUE INDEX chat_streams_by_place ON chat_streams (chain, first_pos);
CREATE INDEX chat_streams_by_status ON chat_streams (status);

CREATE TABLE chat_events (
    id         {int} PRIMARY KEY,
    uuid       {id} NOT NULL,
    created_at {int} NOT NULL,
    type       TEXT NOT NULL,
    body       TEXT NOT NULL
) {table};
CREATE UNIQUE INDEX chat_events_by_uuid ON chat_events (uuid);

-- Which events a commit brought, for the feed over all sessions.
CREATE TABLE event_batches (
    commit_no {int} NOT NULL,
    chat      {int} NOT NULL,
    first_seq {int} NOT NULL,
    count     {int} NOT NULL,
    PRIMARY KEY (commit_no, chat, first_seq)
) {keyed};

CREATE TABLE consumers (
    session    {int} NOT NULL REFERENCES sessions(id),
    name       {name} NOT NULL,
    chat       {int} NOT NULL,
    next       {int} NOT NULL,
    updated_at {int} NOT NULL,
    PRIMARY KEY (session, name)
) {keyed at 50%};

CREATE TABLE runs (
    id          {row},
    session     {int} NOT NULL REFERENCES sessions(id),
    n           {int} NOT NULL,
    channel     TEXT NOT NULL,
    segment     {int} NOT NULL DEFAULT 0,
    "offset"      {int} NOT NULL DEFAULT 0,
    idle_since  {int},
    started_at  {int} NOT NULL,
    ended_at    {int},
    exit        TEXT,
    process     TEXT,
    launch      TEXT NOT NULL,
    translation TEXT
) {table at 50%};
CREATE UNIQUE INDEX runs_by_number ON runs (session, n);
CREATE INDEX runs_open ON runs (id) WHERE ended_at IS NULL;

CREATE TABLE loopback_approvals (
    id            {row},
    uuid          {id} NOT NULL UNIQUE,
    session       {int} NOT NULL REFERENCES sessions(id),
    chat          {int},
    run           {int},
    channel       TEXT NOT NULL,
    request_id    TEXT NOT NULL,
    tool_name     TEXT NOT NULL,
    tool_use_id   TEXT NOT NULL,
    input_digest  TEXT NOT NULL,
    description   TEXT,
    owner         {id},             -- a session; NULL for the operator
    escalations   {int} NOT NULL DEFAULT 0,
    status        {int} NOT NULL, -- 0 pending, 1 allowed, 2 denied, 3 expired, 4 cancelled
    created_at    {int} NOT NULL,
    deadline      {int},
    escalate_at   {int},
    decided_at    {int},
    decided_by    {int},          -- 0 operator, 1 session, 2 rule, 3 deadline, 4 agent ended, 5 webhook
    decided_ref   {id},             -- the session or the rule
    message       TEXT,
    delivered_at  {int},
    void_at       {int},
    breach        TEXT,
    retired       {bool} NOT NULL DEFAULT {false},
    suggestions   TEXT NOT NULL,
    updated_input TEXT,
    input         TEXT NOT NULL
) {table};
CREATE UNIQUE INDEX approvals_by_request ON loopback_approvals (session, coalesce(run, -1), request_id) WHERE {not retired};
CREATE INDEX approvals_by_session ON loopback_approvals (session, id);
CREATE INDEX approvals_pending ON loopback_approvals (id) WHERE status = 0;
CREATE INDEX approvals_pending_by_session ON loopback_approvals (session, id) WHERE status = 0;
CREATE INDEX approvals_pending_by_owner ON loopback_approvals (owner, id) WHERE status = 0;
CREATE INDEX approvals_by_deadline ON loopback_approvals (deadline, id) WHERE status = 0 AND deadline IS NOT NULL;
CREATE INDEX approvals_by_escalation ON loopback_approvals (escalate_at, id) WHERE status = 0 AND escalate_at IS NOT NULL;
CREATE INDEX approvals_undelivered ON loopback_approvals (session, id) WHERE status <> 0 AND delivered_at IS NULL AND void_at IS NULL;
CREATE INDEX approvals_decided ON loopback_approvals (status, decided_at) WHERE status <> 0;

CREATE TABLE rules (
    id             {row},
    uuid           {id} NOT NULL UNIQUE,
    decision       {int} NOT NULL, -- 0 allow, 1 deny, 2 ask
    pattern        TEXT NOT NULL,
    scope          {int} NOT NULL, -- 0 session, 1 subtree, 2 all
    scope_session  {id},
    author         {id},             -- a session; NULL for the operator
    run_session    {id},
    run_n          {int},
    expires_at     {int},
    uses           {int},
    used           {int} NOT NULL DEFAULT 0,
    reason         TEXT,
    matches        TEXT NOT NULL,
    does_not_match TEXT NOT NULL,
    created_at     {int} NOT NULL
) {table};

CREATE TABLE tokens (
    hash       {bytes} PRIMARY KEY,
    caller     {int} NOT NULL,     -- 0 operator, 1 session, 2 child
    session    {id},
    run_session {id},
    run_n      {int},
    expires_at {int}
) {keyed};
CREATE INDEX tokens_by_session ON tokens (session) WHERE session IS NOT NULL;
CREATE INDEX tokens_by_run ON tokens (run_session, run_n) WHERE run_session IS NOT NULL;

CREATE TABLE spend (
    session       {int} PRIMARY KEY REFERENCES sessions(id),
    cost_micros   {int} NOT NULL,
    turns         {int} NOT NULL,
    input_tokens  {int} NOT NULL,
    output_tokens {int} NOT NULL,
    wall_ms       {int} NOT NULL
) {table};

CREATE TABLE reservations (
    session       {int} NOT NULL REFERENCES sessions(id),
    chat          {int} NOT NULL,
    cost_micros   {int} NOT NULL,
    turns         {int} NOT NULL,
    input_tokens  {int} NOT NULL,
    output_tokens {int} NOT NULL,
    wall_ms       {int} NOT NULL,
    PRIMARY KEY (session, chat)
) {keyed};

CREATE TABLE audit (
    id      {row},
    at      {int} NOT NULL,
    kind    TEXT NOT NULL,
    session {id},
    body    TEXT NOT NULL
) {table};
CREATE INDEX audit_by_session ON audit (session, id) WHERE session IS NOT NULL;
CREATE INDEX audit_by_time ON audit (at);

CREATE TABLE outbox (
    id         {row},
    uuid       {id} NOT NULL UNIQUE,
    kind       TEXT NOT NULL,
    target     {name} NOT NULL,
    due_at     {int} NOT NULL,
    attempts   {int} NOT NULL,
    last_error TEXT,
    body       TEXT NOT NULL
) {table};
CREATE INDEX outbox_by_due ON outbox (due_at, id);
