"""Every shape of the wire. Made from schemas/wire.json by sdk/generate.py; do not edit."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

Json: TypeAlias = Any


class AgentKind(TypedDict):
    """One agent that the server knows."""
    about: str
    """The program and its version; of one that cannot be used, why and what to do about it."""
    agent: str
    """The name that `create` takes."""
    kind: str
    """Whose protocol it speaks: `claude_code`, `codex` or `acp`."""
    powers: AgentPowers
    """What it can do."""
    usable: bool
    """Whether its program can be used on this server's machine."""


class AgentKinds(TypedDict):
    """A result of `kinds`: the default agent first."""
    type: Literal['kinds']
    agents: list[AgentKind]
    """The agents."""


class AgentMcpServerStdio(TypedDict):
    """A program that the agent starts, and talks to on its stdin and stdout."""
    type: Literal['stdio']
    args: NotRequired[list[str] | None]
    """Its arguments."""
    command: str
    """The program."""
    env: NotRequired[dict[str, str] | None]
    """Variables for its environment."""


class AgentMcpServerHttp(TypedDict):
    """A server over HTTP."""
    type: Literal['http']
    headers: NotRequired[dict[str, str] | None]
    """What every request carries."""
    url: str
    """Its address."""


class AgentPowers(TypedDict):
    """What an agent can do. A method that needs a power which the session's agent has not says
    so."""
    asks_for: AsksFor
    """What the agent asks about."""
    cost: CostPower
    """What is known of what a chat costs."""
    deny_reason: DenyReason
    """How the reason of a denial reaches the agent."""
    edit_input: bool
    """Whether an allow may carry another input than the one that was asked about."""
    fork: ForkPower
    """Where a conversation can be forked."""
    images: bool
    """Whether a prompt may have images."""
    mcp_servers: bool
    """Whether a session can give it MCP servers."""
    park: bool
    """Whether a waiting agent can be parked without a process."""
    resume: bool
    """Whether an ended conversation can be taken up again."""
    says_who_accepted: bool
    """Whether the agent says who let a tool run, so that a tool nobody allowed shows."""
    steer: bool
    """Whether a message can be put into a running chat."""
    warm: bool
    """Whether a process can wait for the next prompt."""


class AnsweredOutside(TypedDict):
    """A permission request that somebody outside decided."""
    approval_id: ApprovalId
    """The approval."""
    approved: bool
    """Whether the tool may run."""
    input_digest: str
    """The digest of the input that was decided about."""
    receiver: str
    """Who was told, and answered: the name of the receiver or of the device."""
    via: str
    """What answered: `device`, or the kind of receiver: `webhook`, `ntfy`, `slack`, `telegram` or
    `command`."""


class Approval(TypedDict):
    """A permission request that waits, as `pending` and `poll` show it."""
    created_at: Seconds
    """When it was asked."""
    description: NotRequired[str | None]
    """What the CLI says about it."""
    escalated_to: NotRequired[Owner | None]
    """Who is asked now, if it was passed on."""
    expires_at: NotRequired[Seconds | None]
    """When it is denied automatically."""
    handle: NotRequired[Handle | None]
    """Its handle, which `plexus.resolve_handle` takes. Always there from this version on."""
    id: ApprovalId
    """Its id."""
    input: dict[str, Any]
    """The tool's input."""
    input_digest: str
    """The digest of that input: hand it back with the answer."""
    parked: NotRequired[bool]
    """True while the agent has no process, which a decision starts again. Absent otherwise."""
    person_only: NotRequired[str | None]
    """Why only the operator may allow it: no rule, mode or session does. Absent otherwise."""
    preview: NotRequired[bool]
    """Whether `loopback.preview` can try it over a copy: a shell command of a session with a
    wall."""
    question: NotRequired[Question | None]
    """What the agent asks its user, when the call is a question."""
    risk: NotRequired[Risk | None]
    """How much harm it could do."""
    session_id: SessionId
    """The session that asks."""
    session_name: str
    """That session's name."""
    status: ApprovalStatus
    """`pending`."""
    suggested_rules: list[SuggestedRule]
    """Rules that would answer this call, narrow to wide."""
    target: NotRequired[ToolTarget | None]
    """What the call would act on, in one form for every agent."""
    tool_name: str
    """The tool."""
    tool_use_id: str
    """The call."""
    working_dir: NotRequired[str | None]
    """The directory in which the session's commands and relative paths start."""


class ApprovalPageParams(TypedDict):
    """Parameters of `pending`, `history` and `audit`."""
    cursor: NotRequired[str | None]
    """The `cursor` of the page before."""
    limit: NotRequired[int | None]
    """How many (100, at most 1,000)."""
    name: NotRequired[str | None]
    """Only of this session, by its exact name."""
    session_id: NotRequired[SessionId | None]
    """Only of this session, by its id."""


class AskedApproval(TypedDict):
    """A request that waits, as somebody outside is told."""
    created_at: Seconds
    """When it was asked."""
    description: str | None
    """What the CLI says about it."""
    escalated_to: NotRequired[Owner | None]
    """Who is asked now, if it was passed on."""
    expires_at: Seconds | None
    """When it is denied automatically."""
    id: ApprovalId
    """Its id."""
    input: dict[str, Any] | None
    """The tool's input; null when it is too large to tell."""
    input_bytes: NotRequired[int | None]
    """How large an input is that is not told, in bytes."""
    input_digest: str
    """The digest of the input."""
    question: NotRequired[Question | None]
    """What the agent asks its user, when the call is a question."""
    risk: NotRequired[Risk | None]
    """How much harm the call could do."""
    session_id: SessionId
    """The session that asks."""
    session_name: str
    """That session's name."""
    status: ApprovalStatus
    """`pending`."""
    target: NotRequired[ToolTarget | None]
    """What the call would act on; absent when the input is too large to tell."""
    tool_name: str
    """The tool."""
    tool_use_id: str
    """The call."""
    working_dir: NotRequired[str | None]
    """The directory in which the session's commands and relative paths start."""


class AuditLine(TypedDict):
    """One line of the audit."""
    at: Seconds
    """When."""
    body: AuditBody
    """The rest."""
    handle: NotRequired[Handle | None]
    """Its handle, which `plexus.resolve_handle` takes. Always there from this version on."""
    kind: str
    """What kind of thing happened: `refused`, `breach`, `approval.answered`, `budget.stopped` and
    their like."""
    session_id: SessionId | None
    """The session it is about."""


class AuditList(TypedDict):
    """A result of `audit`."""
    type: Literal['ok']
    cursor: NotRequired[str | None]
    """Where the next page starts, if there is one."""
    lines: list[AuditLine]
    """The lines, newest first."""


class BackupParams(TypedDict):
    """Parameters of `backup`."""
    path: str
    """Where the copy goes; the file must not exist."""


class BareSession(TypedDict):
    """A session by its id alone."""
    id: SessionId
    """Its id."""


BetweenParams = TypedDict('BetweenParams', {
    'from': 'NodeId',
    'to': 'NodeId',
})


class BlockText(TypedDict):
    """A text."""
    type: Literal['text']
    text: str
    """The text."""


class BlockThinking(TypedDict):
    """What the model thinks."""
    type: Literal['thinking']
    thinking: str
    """The text."""


class BlockToolUse(TypedDict):
    """The model uses a tool."""
    type: Literal['tool_use']
    id: str
    """The call."""
    input: dict[str, Any]
    """Its input."""
    name: str
    """The tool."""


class BlockToolResult(TypedDict):
    """A tool has run, or was refused."""
    type: Literal['tool_result']
    content: ToolOutput
    """What it gave."""
    is_error: bool
    """Whether it failed."""
    tool_use_id: str
    """The call."""


class BlockPruned(TypedDict):
    """Something of long ago, whose content was removed."""
    type: Literal['pruned']
    was: str
    """What it was: `prompt`, or the type of its event."""


class Breach(TypedDict):
    """A run did what nobody allowed."""
    approval_id: ApprovalId | None
    """The decision that it went against, if there was one."""
    kind: BreachKind
    """What it went against."""
    run: int
    """The run, by its number within the session."""
    what: str
    """What it did."""


class Budget(TypedDict):
    """Limits for a session and everything below it. What is not set is not limited."""
    children: NotRequired[int | None]
    """How many sessions there may be below it."""
    cost_usd: NotRequired[float | None]
    """Cost in US dollars."""
    depth: NotRequired[int | None]
    """How many generations there may be below it."""
    tokens: NotRequired[int | None]
    """Tokens, read and written: for agents that know no money."""
    turns: NotRequired[int | None]
    """Turns of the model."""
    wall_secs: NotRequired[int | None]
    """Seconds of running chats, added up."""


class BudgetSetParams(TypedDict):
    """Parameters of `budget_set`."""
    budget: Budget
    """All its limits from now on; what is not named is not limited."""
    name: NotRequired[str | None]
    """Its exact name."""
    session_id: NotRequired[SessionId | None]
    """The session."""


class BudgetUse(TypedDict):
    """How far a budget is used."""
    of: str
    """The limit that is nearest to its end: `cost`, `turns`, `tokens` or `wall time`."""
    used: float
    """How much of it is spent; 1 is all."""


class BudgetUsed(TypedDict):
    """How far a budget is used."""
    budget: Budget
    """The budget."""
    of: str
    """The limit that is nearest to its end: `cost`, `turns`, `tokens` or `wall time`."""
    session: NamedSession
    """The session that has the budget."""
    used: float
    """How much of it is spent; 1 is all."""


class CallError(TypedDict):
    """A failed call, as its caller sees it. What goes to the log is another text."""
    field: NotRequired[str | None]
    """The path of the parameter that is wrong, for `invalid`: `budget.turns`, `session_ids[2]`."""
    hint: NotRequired[str]
    """The next step."""
    kind: ErrorKind
    """What the caller can do."""
    message: str
    """What happened, as a lowercase fragment that reads well after "could not"."""
    retry_after_ms: NotRequired[int | None]
    """When to try again, for `busy` and `unavailable`."""
    standing: NotRequired[Standing | None]
    """What stands, for `conflict`."""


class CallerSession(TypedDict):
    """A session acting as a parent: sees and answers for its own strict descendants only."""
    session: SessionId


class CallerChild(TypedDict):
    """The CLI process of a session, asking for permission: may call `permit` for that session and
    nothing else."""
    child: SessionId


class CallerDevice(TypedDict):
    """A device of the operator, such as a phone: may read and decide, and nothing else."""
    device: DeviceId


class CancelParams(TypedDict):
    """Parameters of `cancel`."""
    name: NotRequired[str | None]
    """Its exact name."""
    reason: NotRequired[str | None]
    """Why; readers of the chat see it."""
    session_id: NotRequired[SessionId | None]
    """The session's id."""


class ChangedSession(TypedDict):
    """One session of `wait`."""
    answer: NotRequired[LastAnswer | None]
    """The last thing the agent said in the newest chat, once that has ended."""
    budget: NotRequired[BudgetUse | None]
    """How far its budget is used, if it has one."""
    chat: int | None
    """Its newest chat."""
    line: str
    """The newest thing that happened, in one line."""
    name: str
    """Its name."""
    pending: int
    """How many permission requests wait."""
    session_id: SessionId
    """The session."""
    status: SessionStatus
    """What it is doing."""
    total_events: int
    """How many events that has."""


class ChangesFound(TypedDict):
    """A result of `changes`."""
    type: Literal['ok']
    changes: list[PreviewedChange]
    """The changes, sorted by path."""
    cut: bool
    """Whether there are more than are listed."""
    note: NotRequired[str | None]
    """What the answer does not tell, and why."""
    since: Millis
    """When the session began."""
    source: ChangesSource
    """Where the answer comes from."""


class ChatCancelled(TypedDict):
    """A result of `cancel`."""
    type: Literal['cancelled']


class ChatEnded(TypedDict):
    """A chat that has ended."""
    chat: int
    """The chat."""
    error: str | None
    """Why it failed or was cancelled."""
    session: EndedSession
    """The session."""
    status: ChatStatus
    """How it ended."""
    usage: Usage | None
    """What it used, if it says so."""


class ChatEventStart(TypedDict):
    """The chat has begun."""
    type: Literal['start']
    id: SessionId
    """The session."""
    user_position: Position
    """The node of the prompt."""


class ChatEventContent(TypedDict):
    """A text block of the model."""
    type: Literal['content']
    text: str
    """The text."""


class ChatEventThinking(TypedDict):
    """A thinking block of the model."""
    type: Literal['thinking']
    thinking: str
    """The text."""


class ChatEventToolUse(TypedDict):
    """The model wants to use a tool."""
    type: Literal['tool_use']
    input: dict[str, Any]
    """Its input."""
    tool_name: str
    """The tool."""
    tool_use_id: str
    """The call."""


class ChatEventAwaitingApproval(TypedDict):
    """A tool waits for permission."""
    type: Literal['awaiting_approval']
    approval_id: ApprovalId
    """The approval to answer."""
    input: dict[str, Any]
    """Its input."""
    person_only: NotRequired[str | None]
    """Why only the operator may allow it; absent where rules, modes and sessions may too."""
    question: NotRequired[Question | None]
    """What the agent asks its user, when the call is a question."""
    tool_name: str
    """The tool."""
    tool_use_id: str
    """The call."""


class ChatEventApprovalResolved(TypedDict):
    """A permission request was decided."""
    type: Literal['approval_resolved']
    answers: NotRequired[dict[str, list[str]] | None]
    """What was answered to a question."""
    approval_id: ApprovalId
    """The approval."""
    approved: bool
    """Whether the tool may run."""
    decided_by: DecidedBy
    """Who decided: `"operator"`, `{"session": ID}`, `{"rule": ID}`, `"deadline"`, `"agent_ended"`
    or `"webhook"`."""
    message: NotRequired[str | None]
    """Why."""
    updated_input: NotRequired[dict[str, Any] | None]
    """The input as the decider edited it."""


class ChatEventToolResult(TypedDict):
    """A tool has run, or was refused."""
    type: Literal['tool_result']
    is_error: bool
    """Whether it failed."""
    output: ToolOutput
    """What it gave: text, or an array of content blocks."""
    tool_use_id: str
    """The call."""


class ChatEventToolRequest(TypedDict):
    """A child session asks for permission. The event is in the running chat of its parent."""
    type: Literal['tool_request']
    approval_id: ApprovalId
    """The approval to answer."""
    input: dict[str, Any]
    """Its input."""
    person_only: NotRequired[str | None]
    """Why only the operator may allow it; absent where rules, modes and sessions may too."""
    question: NotRequired[Question | None]
    """What the agent asks its user, when the call is a question."""
    session_id: SessionId
    """The child."""
    session_name: str
    """The child's name."""
    tool_name: str
    """The tool."""
    tool_use_id: str
    """The call."""


class ChatEventSteered(TypedDict):
    """Somebody put a message into the running chat."""
    type: Literal['steered']
    by: Caller
    """Who: `"operator"` or `{"session": ID}`."""
    text: str
    """The message."""


class ChatEventNotice(TypedDict):
    """Something a reader should know: retries, stderr, escalation, budget."""
    type: Literal['notice']
    message: str
    """The words."""


class ChatEventPassthrough(TypedDict):
    """Something of the CLI that we do not translate, as it was."""
    type: Literal['passthrough']
    data: dict[str, Any]
    """The whole line."""
    event_type: str
    """Its type, with its subtype after a slash."""


class ChatEventComplete(TypedDict):
    """The chat has ended well."""
    type: Literal['complete']
    claude_message_id: NotRequired[str | None]
    """The CLI's own id of the last thing it said: where a fork after this chat goes on."""
    claude_session_id: str | None
    """The CLI's own id of the conversation."""
    new_head: Position
    """The session's head from now on."""
    usage: Usage
    """What the chat used."""


class ChatEventError(TypedDict):
    """Something failed: a line that could not be read, or, as the last event, the chat."""
    type: Literal['error']
    message: str
    """What."""


class ChatEventPruned(TypedDict):
    """An event that happened long ago, whose content was removed. Its number and its place in the
    tree are those of the event that it was."""
    type: Literal['pruned']
    was: str
    """The type of the event that it was, for example `content`."""


class ChatParams(TypedDict):
    """Parameters of `chat_async`."""
    ephemeral: NotRequired[bool | None]
    """Whether the session goes on as if this chat had not been."""
    idempotency_key: NotRequired[str | None]
    """The same key again finds the chat that it started, instead of starting another."""
    images: NotRequired[list[PromptImage] | None]
    """Images that belong to the prompt. Its text is stored and shown with a line for each. They
    need the power `images` of the session's agent."""
    name: NotRequired[str | None]
    """Its exact name."""
    prompt: str
    """What to tell the agent."""
    session_id: NotRequired[SessionId | None]
    """The session's id."""
    wait_ms: NotRequired[int | None]
    """Only for `chat`: how many milliseconds to wait (60,000 at most)."""


class ChatStarted(TypedDict):
    """A result of `chat_async`."""
    type: Literal['started']
    chat: int
    """The chat's number."""
    session_id: SessionId
    """The session."""
    status: NotRequired[SessionStatus | None]
    """Its status: a chat that its idempotency key found may have ended. Always there from this
    version on."""


class ConeCreateParams(TypedDict):
    """Parameters of `cone.create`."""
    budget: NotRequired[Budget | None]
    """Limits for it."""
    metadata: NotRequired[dict[str, Any] | None]
    """Anything you want to find again; an object."""
    model: NotRequired[str | None]
    """The model, perhaps with `anthropic/` or `openai/` before it, which chooses the API. Without
    that, models whose names begin with `claude` have the Messages API and all others that of chat
    completions."""
    name: str
    """A name, unique among the sessions you create."""
    parent: NotRequired[SessionId | None]
    """The session that is to be its parent. Only the operator may say."""
    system_prompt: NotRequired[str | None]
    """What the model is told before everything else."""


class ConfigureParams(TypedDict):
    """Parameters of `configure`."""
    session_id: SessionId
    """The session whose child somebody else starts."""


class Configured(TypedDict):
    """A result of `configure`."""
    type: Literal['ok']
    flags: list[str]
    """The flags to start the CLI with."""
    mcp_config: McpConfig
    """What goes into the file for `--mcp-config`. It holds a token: keep it private."""


class Consumer(TypedDict):
    """A named reader of a session, and its position."""
    chat: int
    """The chat it stands in."""
    consumer: str
    """Its name."""
    cursor: str
    """Its position."""
    seq: int
    """The number of the next event it will get."""
    updated_at: Millis
    """When it moved last."""


class ConsumerList(TypedDict):
    """A result of `cursors`."""
    type: Literal['ok']
    cursors: list[Consumer]
    """The named readers of the session."""


class Counts(TypedDict):
    """How much there is."""
    approvals_allowed: int
    """Approvals that were allowed."""
    approvals_cancelled: int
    """Approvals that were cancelled."""
    approvals_denied: int
    """Approvals that were denied."""
    approvals_expired: int
    """Approvals that expired."""
    approvals_pending: int
    """Approvals that wait."""
    bytes_on_disk: int
    """The size of the store on disk, in bytes; 0 in memory."""
    chats_cancelled: int
    """Chats that were cancelled."""
    chats_complete: int
    """Chats that ended well."""
    chats_failed: int
    """Chats that failed."""
    chats_running: int
    """Open chats."""
    commits: int
    """The newest commit."""
    events: int
    """Events ever appended."""
    queue_entries: int
    """Change lists that wait for the writer."""
    runs_open: int
    """Runs that have not ended."""
    sessions: int
    """Sessions."""


class CreateParams(TypedDict):
    """Parameters of `create`."""
    add_dirs: NotRequired[list[str] | None]
    """More directories it may work in."""
    agent: NotRequired[str | None]
    """The agent: `claude_code` (which it is without), `codex`, or another that `agents.kinds`
    lists."""
    allowed_tools: NotRequired[list[str] | None]
    """Calls that it may make unasked: rules of this session."""
    budget: NotRequired[Budget | None]
    """Limits for it and everything below it."""
    can_spawn: NotRequired[bool | None]
    """Whether it may create and supervise sessions of its own."""
    can_use_cone: NotRequired[bool | None]
    """Whether it may use `cone`, and pass that on."""
    channel: NotRequired[ChannelChoice | None]
    """How permission requests travel: `auto`, `control` or `mcp`."""
    confine: NotRequired[Confine | None]
    """The wall around its children: `workspace` (the default where this machine can build it),
    `strict`, or `none`. Never looser than its parent's."""
    disallowed_tools: NotRequired[list[str] | None]
    """Tools that it may not use."""
    env: NotRequired[dict[str, str] | None]
    """Variables for its environment."""
    escalate_after_secs: NotRequired[int | None]
    """After how many seconds an unanswered permission request goes to your own parent."""
    loopback_enabled: NotRequired[bool | None]
    """Whether permission requests come to you (true). Without it, what would ask is denied."""
    loopback_timeout_secs: NotRequired[int | None]
    """How many seconds a permission request waits before it is denied; 0 waits for ever. Default:
    300."""
    may_decide: NotRequired[list[str] | None]
    """Which calls of its own children it may allow, as patterns such as `Bash(git diff:*)`."""
    mcp_servers: NotRequired[dict[str, AgentMcpServer] | None]
    """MCP servers by name; calls of their tools are asked about. Only for agents with this power
    (`agents.kinds`)."""
    metadata: NotRequired[dict[str, Any] | None]
    """Anything you want to find again; an object."""
    model: NotRequired[str | None]
    """The model, as the CLI names it."""
    name: str
    """A name, unique among the sessions you create."""
    parent: NotRequired[SessionId | None]
    """The session that is to be its parent. Only the operator may say."""
    prestart: NotRequired[bool | None]
    """Whether its agent is started before the first prompt."""
    project_settings: NotRequired[ProjectSettings | None]
    """What is read of the repository: `instructions` (`CLAUDE.md`; the default), `ignore`
    (nothing), or `trust` (settings and hooks too; operator only)."""
    supervise: NotRequired[Supervise | None]
    """`default`, or `all`: ask also about what the CLI would run unasked."""
    system_prompt: NotRequired[str | None]
    """Added to the agent's own instructions."""
    working_dir: str
    """Where the agent works; the directory must exist. `~` is the home of the server's user."""


class CursorDeleteParams(TypedDict):
    """Parameters of `cursor_delete`."""
    consumer: str
    """The reader's name."""
    name: NotRequired[str | None]
    """Its exact name."""
    session_id: NotRequired[SessionId | None]
    """The session's id."""


class CursorSetParams(TypedDict):
    """Parameters of `cursor_set`."""
    consumer: str
    """The reader's name."""
    cursor: str
    """Its new position."""
    name: NotRequired[str | None]
    """Its exact name."""
    session_id: NotRequired[SessionId | None]
    """The session's id."""


class DecidedApproval(TypedDict):
    """A permission request and its decision, as `history` shows it and as a conflict names what
    stands."""
    answers: NotRequired[dict[str, list[str]] | None]
    """What was answered to it."""
    approval_id: ApprovalId
    """Its id."""
    breach: NotRequired[str | None]
    """What the child did against the decision."""
    created_at: Seconds
    """When it was asked."""
    decided_at: NotRequired[Seconds | None]
    """When."""
    decided_by: NotRequired[DecidedBy | None]
    """Who decided."""
    delivered_at: NotRequired[Seconds | None]
    """When the answer reached the child."""
    device: NotRequired[str | None]
    """The name of the device that decided; only in `history`."""
    handle: NotRequired[Handle | None]
    """Its handle, which `plexus.resolve_handle` takes. Always there from this version on."""
    input: dict[str, Any]
    """The tool's input, as it was asked for."""
    input_digest: str
    """The digest of that input."""
    message: NotRequired[str | None]
    """Why."""
    question: NotRequired[Question | None]
    """What the agent asked its user, when the call was a question; only in `history`."""
    session_id: SessionId
    """The session that asked."""
    status: ApprovalStatus
    """How it was decided; `pending` where a conflict shows one that is not."""
    target: NotRequired[ToolTarget | None]
    """What the call would act on; only in `history`, and absent over MCP and when the server no
    longer knows the session's agent. It fits `input`, and not `updated_input`."""
    tool_name: str
    """The tool."""
    tool_use_id: str
    """The call."""
    updated_input: NotRequired[dict[str, Any] | None]
    """The input as the decider edited it."""


class DecidedBySession(TypedDict):
    """A session."""
    session: SessionId


class DecidedByRule(TypedDict):
    """A rule."""
    rule: RuleId


class DecidedByDevice(TypedDict):
    """A device of the operator."""
    device: DeviceId


class DecisionList(TypedDict):
    """A result of `history`."""
    type: Literal['ok']
    cursor: NotRequired[str | None]
    """Where the next page starts, if there is one."""
    decisions: list[DecidedApproval]
    """Decisions, newest first."""


class DeltaDeltaStart(TypedDict):
    """A message begins: pieces that have not become an event are void."""
    type: Literal['delta_start']


class DeltaDelta(TypedDict):
    """A piece of text."""
    type: Literal['delta']
    text: str
    """The text."""


class DeviceChanged(TypedDict):
    """A device of the operator came or went."""
    device: str
    """What it is called."""
    device_id: DeviceId
    """The device."""


class DeviceList(TypedDict):
    """A result of `devices`."""
    type: Literal['ok']
    devices: list[PairedDevice]
    """The devices, oldest first."""


class Done(TypedDict):
    """A result that says only that it is done."""
    type: Literal['ok']


class EndedSession(TypedDict):
    """The session of a chat that has ended."""
    id: SessionId
    """Its id."""
    name: str
    """Its name."""
    parent: SessionId | None
    """The session that created it."""


class FileChangeWhole(TypedDict):
    """A change of one file. The texts stay in the tool's input, where JSON Pointers (RFC 6901) find
    them."""
    after: str
    """Where the new content is."""
    edit: Literal['whole']
    path: str
    """The path as it was written."""


class FileChangeReplace(TypedDict):
    """A change of one file. The texts stay in the tool's input, where JSON Pointers (RFC 6901) find
    them."""
    after: str
    """Where the new text is."""
    before: str
    """Where the old text is."""
    edit: Literal['replace']
    every: NotRequired[bool]
    """Whether every occurrence is replaced."""
    path: str
    """The path as it was written."""


class FileChangePart(TypedDict):
    """A change of one file. The texts stay in the tool's input, where JSON Pointers (RFC 6901) find
    them."""
    after: str
    """Where the new content is."""
    edit: Literal['part']
    name: NotRequired[str | None]
    """The name of the part; absent for a new one."""
    path: str
    """The path as it was written."""


class FileChangeDiff(TypedDict):
    """A change of one file. The texts stay in the tool's input, where JSON Pointers (RFC 6901) find
    them."""
    diff: str
    """Where the diff is."""
    edit: Literal['diff']
    path: str
    """The path as it was written."""


class FileChangeDelete(TypedDict):
    """A change of one file. The texts stay in the tool's input, where JSON Pointers (RFC 6901) find
    them."""
    edit: Literal['delete']
    path: str
    """The path as it was written."""


class FileChangeUnknown(TypedDict):
    """A change of one file. The texts stay in the tool's input, where JSON Pointers (RFC 6901) find
    them."""
    edit: Literal['unknown']
    path: str
    """The path as it was written."""


FileNowText = TypedDict('FileNowText', {
    'is': "Literal['text']",
    'text': 'str',
    'path': 'str',
})


FileNowAbsent = TypedDict('FileNowAbsent', {
    'is': "Literal['absent']",
    'path': 'str',
})


FileNowUnread = TypedDict('FileNowUnread', {
    'is': "Literal['unread']",
    'why': 'str',
    'path': 'str',
})


class FilesParams(TypedDict):
    """Parameters of `files`."""
    approval_id: ApprovalId
    """The approval whose call would change them."""


class FilesRead(TypedDict):
    """A result of `files`."""
    type: Literal['ok']
    files: list[FileNow]
    """Each file once, in the order of the changes."""


class FollowParams(TypedDict):
    """Parameters of `follow`."""
    consumer: NotRequired[str | None]
    """Continue at the position of this named reader."""
    cursor: NotRequired[str | None]
    """Go on after this position."""
    deltas: NotRequired[bool | None]
    """Also live pieces of text, which are never stored."""
    session_id: NotRequired[SessionId | None]
    """The session; without it, all that you may see."""


class FollowedEvent(TypedDict):
    """An event as a stream shows it: the same, and where it belongs."""
    chat: int
    """The chat."""
    event: ChatEvent
    """The event."""
    handle: Handle | None
    """Its handle, which `plexus.resolve_handle` takes; not in a `poll` without `handles`."""
    node_id: NodeId | None
    """Its node in the session's tree; not in a `poll` without `handles`."""
    seq: int
    """Its number within the chat."""
    session_id: SessionId
    """The session."""
    target: NotRequired[ToolTarget | None]
    """What the call of a `tool_use` or `awaiting_approval` acts on; absent when the server no
    longer knows the session's agent, and in a `poll` without `handles`."""
    timestamp: Millis
    """When."""


class ForkParams(TypedDict):
    """Parameters of `fork`."""
    at: NotRequired[NodeId | None]
    """The node to start after: that of a `complete` event of the session, or the root of the tree
    for a new conversation; the head without it."""
    name: NotRequired[str | None]
    """Its exact name."""
    new_name: str
    """The new session's name."""
    session_id: NotRequired[SessionId | None]
    """The session's id."""


class ForkedFrom(TypedDict):
    """What a fork goes on from."""
    handle: Handle
    """Its handle."""
    name: str
    """Its name."""
    session_id: SessionId
    """The session."""


class GivenUp(TypedDict):
    """A message to somebody outside that will never arrive."""
    attempts: int
    """How often it was tried."""
    event: str
    """What it told."""
    id: str
    """The message."""
    receiver: str
    """Whom."""
    why: str
    """Why it was given up."""


class Handle(TypedDict):
    """The name of something that an activation owns."""
    meta: list[str]
    """What the owner needs to find it."""
    method: str
    """What kind of thing it is, for example `chat_event`."""
    plugin_id: PluginId
    """The activation that can say what this is."""
    version: str
    """The version of the owner's handle format, for example `1.0.0`."""


class HandleInput1(TypedDict):
    """The name of something that an activation owns."""
    meta: list[str]
    """What the owner needs to find it."""
    method: str
    """What kind of thing it is, for example `chat_event`."""
    plugin_id: PluginId
    """The activation that can say what this is."""
    version: str
    """The version of the owner's handle format, for example `1.0.0`."""


class HandleKindEntry(TypedDict):
    """One kind of handles as `plugins` lists it."""
    description: str
    """What it stands for."""
    meta: list[str]
    """What its `meta` must have, in this order."""
    method: str
    """The `method` of such a handle."""


class HandleList(TypedDict):
    """A result of `context_get_handles`."""
    type: Literal['ok']
    handles: list[Handle]
    """The handles along the path."""


class HealthReport(TypedDict):
    """How the server and its activations are."""
    type: Literal['ok']
    activations: dict[str, Any]
    """What each activation says, by path: nothing (`{}`) from one that only answers calls,
    `{"error": …}` from one that failed."""
    version: str
    """The version of Plexus."""


class HealthState(TypedDict):
    """What the server is doing."""
    type: Literal['ok']
    children: int
    """Children that live, warm ones included."""
    counts: Counts
    """What the store holds."""
    nodes: NotRequired[list[ServerNode]]
    """The servers that share the store; absent where this one has it to itself."""


class HookAnswer(TypedDict):
    """The body of `POST /hooks/respond`."""
    answers: NotRequired[dict[str, list[str]] | None]
    """What is answered to a question of the agent, as `loopback.respond` takes it."""
    approve: bool
    """Whether the tool may run."""
    input_digest: NotRequired[str | None]
    """The digest of the input that was shown; another one is a conflict."""
    message: NotRequired[str | None]
    """Why; the model reads it."""
    token: str
    """The token of the message."""


class HookAnswered(TypedDict):
    """The answer of `POST /hooks/respond`."""
    type: Literal['ok']
    approval_id: ApprovalId
    """The approval."""
    status: ApprovalStatus
    """How it was decided."""


class HookMessage1(TypedDict):
    """A message as it is sent."""
    type: HookEvent
    """What it tells."""
    approval: AskedApproval
    """The request that waits."""
    created_at: Millis
    """When that happened."""
    id: str
    """Its id, the same at every attempt."""
    respond: NotRequired[HookRespond | None]
    """How to answer, for a receiver that may."""


class HookMessage2(TypedDict):
    """A message as it is sent."""
    type: HookEvent
    """What it tells."""
    approval: ResolvedApproval
    """The request that needs nobody any more."""
    created_at: Millis
    """When that happened."""
    id: str
    """Its id, the same at every attempt."""
    respond: NotRequired[HookRespond | None]
    """How to answer, for a receiver that may."""


class HookMessage3(TypedDict):
    """A message as it is sent."""
    type: HookEvent
    """What it tells."""
    chat: int
    """The chat."""
    error: str | None
    """Why it failed or was cancelled."""
    session: EndedSession
    """The session."""
    status: ChatStatus
    """How it ended."""
    usage: Usage | None
    """What it used, if it says so."""
    created_at: Millis
    """When that happened."""
    id: str
    """Its id, the same at every attempt."""
    respond: NotRequired[HookRespond | None]
    """How to answer, for a receiver that may."""


class HookMessage4(TypedDict):
    """A message as it is sent."""
    type: HookEvent
    """What it tells."""
    budget: Budget
    """The budget."""
    of: str
    """The limit that is nearest to its end: `cost`, `turns`, `tokens` or `wall time`."""
    session: NamedSession
    """The session that has the budget."""
    used: float
    """How much of it is spent; 1 is all."""
    created_at: Millis
    """When that happened."""
    id: str
    """Its id, the same at every attempt."""
    respond: NotRequired[HookRespond | None]
    """How to answer, for a receiver that may."""


class HookMessage5(TypedDict):
    """A message as it is sent."""
    type: HookEvent
    """What it tells."""
    session: BareSession
    """The session."""
    what: str
    """What its run did."""
    created_at: Millis
    """When that happened."""
    id: str
    """Its id, the same at every attempt."""
    respond: NotRequired[HookRespond | None]
    """How to answer, for a receiver that may."""


class HookRespond(TypedDict):
    """How a message is answered."""
    expires_at: Millis
    """Until when the token works."""
    token: NotRequired[str | None]
    """The one-time token. The outbox never holds it."""
    url: NotRequired[str | None]
    """Where the answer goes."""


class KnownThingEvent(TypedDict):
    """An event of a chat."""
    type: Literal['event']
    chat: int
    """The chat."""
    event: ChatEvent
    """The event."""
    handle: Handle | None
    """Its handle, which `plexus.resolve_handle` takes; not in a `poll` without `handles`."""
    node_id: NodeId | None
    """Its node in the session's tree; not in a `poll` without `handles`."""
    seq: int
    """Its number within the chat."""
    session_id: SessionId
    """The session."""
    target: NotRequired[ToolTarget | None]
    """What the call of a `tool_use` or `awaiting_approval` acts on; absent when the server no
    longer knows the session's agent, and in a `poll` without `handles`."""
    timestamp: Millis
    """When."""


class KnownThingMessage(TypedDict):
    """The prompt of a chat."""
    type: Literal['message']
    chat: int
    """The chat."""
    content: str
    """The prompt; empty when it was removed."""
    pruned: NotRequired[bool]
    """True when the prompt happened long ago and its text was removed. Absent otherwise."""
    role: Role
    """`user`."""
    session_id: SessionId
    """The session."""
    status: SessionStatus
    """The status of the chat, as `poll` shows it."""
    total_events: int
    """How many events it has."""


class KnownThingApproval(TypedDict):
    """A permission request."""
    type: Literal['approval']
    answers: NotRequired[dict[str, list[str]] | None]
    """What was answered to it."""
    approval_id: ApprovalId
    """Its id."""
    breach: NotRequired[str | None]
    """What the child did against the decision."""
    created_at: Seconds
    """When it was asked."""
    decided_at: NotRequired[Seconds | None]
    """When."""
    decided_by: NotRequired[DecidedBy | None]
    """Who decided."""
    delivered_at: NotRequired[Seconds | None]
    """When the answer reached the child."""
    device: NotRequired[str | None]
    """The name of the device that decided; only in `history`."""
    handle: NotRequired[Handle | None]
    """Its handle, which `plexus.resolve_handle` takes. Always there from this version on."""
    input: dict[str, Any]
    """The tool's input, as it was asked for."""
    input_digest: str
    """The digest of that input."""
    message: NotRequired[str | None]
    """Why."""
    question: NotRequired[Question | None]
    """What the agent asked its user, when the call was a question; only in `history`."""
    session_id: SessionId
    """The session that asked."""
    status: ApprovalStatus
    """How it was decided; `pending` where a conflict shows one that is not."""
    target: NotRequired[ToolTarget | None]
    """What the call would act on; only in `history`, and absent over MCP and when the server no
    longer knows the session's agent. It fits `input`, and not `updated_input`."""
    tool_name: str
    """The tool."""
    tool_use_id: str
    """The call."""
    updated_input: NotRequired[dict[str, Any] | None]
    """The input as the decider edited it."""


class KnownThingNode(TypedDict):
    """A node of a tree."""
    type: Literal['node']
    node: Node
    """The node."""


class KnownThingSession(TypedDict):
    """A session."""
    type: Literal['session']
    agent: str
    """Its agent."""
    answer: NotRequired[LastAnswer | None]
    """The last thing the agent said in the newest chat, once that has ended; only in `get`."""
    budget: NotRequired[Budget | None]
    """Its limits."""
    can_spawn: bool
    """Whether it may create sessions."""
    channel: ChannelChoice
    """How its permission requests travel."""
    chat: int | None
    """Its newest chat."""
    claude_session_id: NotRequired[str | None]
    """The CLI's own id of the conversation."""
    confine: Wall
    """The wall around its children."""
    created_at: Millis
    """When it was created."""
    handle: NotRequired[Handle | None]
    """Its handle, which `plexus.resolve_handle` takes. Always there from this version on."""
    head: Position
    """The node after which its next chat starts."""
    id: SessionId
    """Its id."""
    loopback_enabled: bool
    """Whether they come to its parent."""
    mcp_servers: NotRequired[list[str]]
    """The names of the MCP servers that its agent was given."""
    metadata: dict[str, Any]
    """What its creator noted."""
    mode: NotRequired[TimedMode | None]
    """A mode that the operator set for a while."""
    model: str | None
    """The model, if one was named."""
    name: str
    """Its name."""
    parent: NotRequired[SessionId | None]
    """The session that created it."""
    parked: NotRequired[bool]
    """True while its agent has no process, which a decision starts again. Absent otherwise."""
    refused: NotRequired[Refused | None]
    """How many permission requests of the newest chat were not allowed. Absent when none was."""
    reserved: NotRequired[Reserved | None]
    """What running chats have set aside, when a budget limits them."""
    spent: Spent
    """What it and everything below it have spent."""
    status: SessionStatus
    """What it is doing."""
    updated_at: Millis
    """When it was changed."""
    working_dir: str
    """Where it works."""


class KnownThingChat(TypedDict):
    """A chat."""
    type: Literal['chat']
    chat: int
    """The chat."""
    ended_at: NotRequired[Millis | None]
    """When it ended."""
    error: NotRequired[str | None]
    """Why it failed or was cancelled."""
    handle: NotRequired[Handle | None]
    """Its handle, which `plexus.resolve_handle` takes. Always there from this version on."""
    head_node: NodeId
    """The node of its newest event."""
    read_position: int
    """The position of the default reader."""
    root_node: NodeId
    """The node its events hang from."""
    self_started: NotRequired[bool]
    """True for a chat that nobody asked for: the agent went on by itself, for example when it had
    scheduled something. Absent otherwise."""
    session_id: SessionId
    """The session."""
    started_at: Millis
    """When it started."""
    status: SessionStatus
    """Its status, as `poll` shows it."""
    total_events: int
    """How many events it has."""
    tree_id: TreeId
    """The session's tree."""


class KnownThingRule(TypedDict):
    """A standing rule."""
    type: Literal['rule']
    author: RuleAuthor
    """Who made it."""
    created_at: Seconds | None
    """When it was added; the file does not say."""
    decision: RuleDecision
    """What it says."""
    does_not_match: list[str]
    """Calls it must not fit."""
    expires_at: Seconds | None
    """When it ends."""
    handle: NotRequired[Handle | None]
    """Its handle, which `plexus.resolve_handle` takes. Always there from this version on."""
    id: RuleId
    """Its id. The file's rules get new ones whenever it is read."""
    matches: list[str]
    """Calls it must fit."""
    pattern: str
    """Which calls it is about, in the CLI's notation."""
    reason: str | None
    """Why it exists."""
    scope: RuleScope
    """Which sessions it holds for."""
    used: int | None
    """How many it has made; not counted for the file's."""
    uses: int | None
    """How many decisions it may make; without a number, any."""
    uses_left: int | None
    """How many more it may make."""


class KnownThingAuditLine(TypedDict):
    """A line of the audit."""
    type: Literal['audit_line']
    at: Seconds
    """When."""
    body: AuditBody
    """The rest."""
    handle: NotRequired[Handle | None]
    """Its handle, which `plexus.resolve_handle` takes. Always there from this version on."""
    kind: str
    """What kind of thing happened: `refused`, `breach`, `approval.answered`, `budget.stopped` and
    their like."""
    session_id: SessionId | None
    """The session it is about."""


class KnownThingTree(TypedDict):
    """A tree."""
    type: Literal['tree']
    tree: Tree
    """The tree."""


class KnownThingHub(TypedDict):
    """A hub, by a handle with its own plugin id."""
    type: Literal['hub']
    description: str
    """What it is for."""
    handles: list[HandleKindEntry]
    """The kinds of handles that it resolves."""
    methods: list[str]
    """The full names of its methods that you may call."""
    path: str
    """Where it is registered; the names of its methods begin with it: `claudecode`,
    `team.notes`."""
    plugin_id: PluginId
    """The id by which handles name it."""
    version: str
    """Its version."""


class LastAnswer(TypedDict):
    """The last text of a chat that has ended."""
    chat: int
    """The chat."""
    cut: NotRequired[bool]
    """True when the text is longer. Absent otherwise."""
    seq: int
    """The number of its event, from which `poll` reads the whole text."""
    text: str
    """The text, or how it begins."""


class LeavesParams(TypedDict):
    """Parameters of `context_list_leaves`."""
    cursor: NotRequired[str | None]
    """The `cursor` of the page before."""
    limit: NotRequired[int | None]
    """How many (100, at most 1,000)."""
    tree_id: TreeId
    """The tree."""


class ListParams(TypedDict):
    """Parameters of `list`."""
    cursor: NotRequired[str | None]
    """The `cursor` of the page before."""
    limit: NotRequired[int | None]
    """How many (100, at most 1,000)."""
    parent: NotRequired[SessionId | None]
    """Only children of this session."""
    status: NotRequired[SessionStatus | None]
    """Only sessions in this state."""


class LiveText(TypedDict):
    """A live piece of text of a session. It has no cursor."""
    event: Delta
    """The piece."""
    session_id: SessionId
    """The session."""


class McpConfig(TypedDict):
    """The MCP servers of a child, as the CLI's `--mcp-config` takes them."""
    mcpServers: dict[str, McpServer]
    """The servers, by name."""


class McpServer(TypedDict):
    """One MCP server over HTTP."""
    type: str
    """`http`."""
    headers: dict[str, str]
    """What every request carries."""
    timeout: NotRequired[int | None]
    """How long a call may take, in milliseconds."""
    url: str
    """Its address."""


class Message(TypedDict):
    """One message of a conversation."""
    content: list[Block]
    """What is said, in order."""
    handles: NotRequired[list[Handle]]
    """The handle of each block, in the same order: of the event, or of the node that holds a
    prompt. Always there from this version on."""
    role: Role
    """Who says it."""


class MessageSent(TypedDict):
    """A result of `send`."""
    type: Literal['sent']


class MethodEntry(TypedDict):
    """One method as `methods` and `schema` list it."""
    description: str
    """What it does."""
    name: str
    """Its full name."""
    params: NotRequired[dict[str, Any] | None]
    """The JSON Schema of its parameters; only in `schema`."""
    result: NotRequired[dict[str, Any] | None]
    """The JSON Schema of its result; only in `schema`."""
    streaming: bool
    """Whether it may answer with a stream."""


class MethodList(TypedDict):
    """A result of `methods` and `schema`."""
    type: Literal['ok']
    methods: list[MethodEntry]
    """The methods that you may call, by name."""


class ModeSetParams(TypedDict):
    """Parameters of `mode_set`."""
    expires_in_secs: int
    """How many seconds it holds."""
    mode: Mode
    """`ask`, `accept_edits` or `allow_all`."""
    session_id: SessionId
    """The session."""


class NamedSession(TypedDict):
    """A session and its name."""
    id: SessionId
    """Its id."""
    name: str
    """Its name."""


class Node(TypedDict):
    """One node of a tree."""
    created_at: Millis
    """When it was made."""
    data: NodeData
    """What it holds."""
    handle: NotRequired[Handle | None]
    """Its handle, which `plexus.resolve_handle` takes. Always there from this version on."""
    id: NodeId
    """Its id. An event's node has the event's UUID."""
    metadata: dict[str, Any]
    """What its maker noted."""
    parent: NodeId | None
    """The node before it; null for the root."""
    tree_id: TreeId
    """Its tree."""


class NodeCreateExternalParams(TypedDict):
    """Parameters of `node_create_external`."""
    handle: HandleInput
    """What it stands for, as a handle."""
    metadata: NotRequired[dict[str, Any] | None]
    """An object."""
    parent: NotRequired[NodeId | None]
    """The node before it; without it, the root of the tree."""
    tree_id: TreeId
    """The tree."""


class NodeCreateTextParams(TypedDict):
    """Parameters of `node_create_text`."""
    content: str
    """The text."""
    metadata: NotRequired[dict[str, Any] | None]
    """An object."""
    parent: NotRequired[NodeId | None]
    """The node before it; without it, the root of the tree."""
    tree_id: TreeId
    """The tree."""


class NodeCreated(TypedDict):
    """A result of `tree_create`, `node_create_text` and `node_create_external`."""
    type: Literal['created']
    node_id: NodeId
    """The new node; of a new tree, its root."""
    tree_id: TreeId
    """The tree."""


class NodeDataText(TypedDict):
    """A text of its own."""
    type: Literal['text']
    content: str
    """The text."""


class NodeDataExternal(TypedDict):
    """Something an activation owns."""
    type: Literal['external']
    handle: Handle
    """Its name."""


class NodeDataPruned(TypedDict):
    """A prompt of long ago, whose text was removed."""
    type: Literal['pruned']


class NodeGot(TypedDict):
    """A result of `node_get` and `node_get_parent`."""
    type: Literal['ok']
    node: Node | None
    """The node; null above the root."""


class NodeList(TypedDict):
    """A result of the methods that list nodes."""
    type: Literal['ok']
    cursor: NotRequired[str | None]
    """Where the next page starts, if there is one."""
    nodes: list[Node]
    """The nodes."""


class NodeParams(TypedDict):
    """Names a node."""
    node_id: NodeId
    """The node."""


class NotifyFailure(TypedDict):
    """A failure and when it happened."""
    at: Millis
    """When."""
    why: str
    """Why. It holds no secret."""


class NotifyReceiver(TypedDict):
    """One receiver, and what happened to it since the server started."""
    answers: bool
    """Whether it may decide."""
    deaf: NotRequired[NotifyFailure | None]
    """Why button presses cannot arrive right now."""
    delivered: int
    """Messages that it took."""
    delivered_at: NotRequired[Millis | None]
    """When it last took one."""
    failed: int
    """Attempts that failed."""
    given_up: int
    """Messages that were given up."""
    hint: NotRequired[str | None]
    """What the configuration makes impossible, in words."""
    last_failure: NotRequired[NotifyFailure | None]
    """The last failure, also after a later success."""
    name: str
    """Its name."""
    subscriptions: NotRequired[int | None]
    """How many browsers have subscribed, for `webpush`."""
    to: str
    """What it is: `webhook`, `ntfy`, `slack`, `telegram`, `webpush`, `desktop` or `command`."""
    waiting: int
    """Messages that wait for it."""


class NotifyReceivers(TypedDict):
    """A result of `receivers`."""
    type: Literal['receivers']
    receivers: list[NotifyReceiver]
    """The receivers, in the order of the configuration."""


class NotifyTestParams(TypedDict):
    """Parameters of `test`."""
    name: str
    """The name of the receiver."""


class OwnerSession(TypedDict):
    """A session, a strict ancestor of the one that asks."""
    session: SessionId


class PairParams(TypedDict):
    """Parameters of `pair`."""
    name: NotRequired[str | None]
    """What to call the device (phone, or phone-2 and so on where that is taken)."""


class PairedDevice(TypedDict):
    """A device that may read and decide."""
    id: DeviceId
    """Its id, by which decisions name it."""
    name: str
    """What it is called."""
    paired_at: Millis
    """When it was paired."""


class Pairing(TypedDict):
    """A result of `pair`: what a device needs to get its token."""
    type: Literal['ok']
    code: str
    """Works once, until `expires_at`. `POST /auth/exchange` takes it."""
    expires_at: Millis
    """When the code ends."""
    fingerprint: NotRequired[str | None]
    """The SHA-256 of the certificate that the server shows there, if it shows one itself."""
    link: str
    """The link to open on the device: it holds the code."""
    name: str
    """What the device will be called."""
    reachable: bool
    """Whether other machines reach the link's address, as far as the server knows."""


class Parent(TypedDict):
    """A parent outside that has an identity."""
    created_at: Millis
    """When it was made."""
    name: str
    """What it is called."""
    session_id: SessionId
    """The session that it acts as."""


class ParentIdentity(TypedDict):
    """An identity for a parent outside."""
    type: Literal['ok']
    session_id: SessionId
    """The session that the parent acts as."""
    token: str
    """Its token. It is shown once and stored as a hash."""


class ParentList(TypedDict):
    """A result of `parents`."""
    type: Literal['ok']
    cursor: NotRequired[str | None]
    """Where the next page starts, if there is one."""
    parents: list[Parent]
    """The parents outside, oldest first."""


class ParentParams(TypedDict):
    """Parameters of `parent`."""
    name: str
    """What to call the parent; the same name again is the same identity, with a new token."""
    replace: NotRequired[bool | None]
    """Whether its earlier tokens end (false: they stay valid beside the new one)."""


class ParentsParams(TypedDict):
    """Parameters of `parents`."""
    cursor: NotRequired[str | None]
    """The `cursor` of the page before."""
    limit: NotRequired[int | None]
    """How many (100, at most 1,000)."""


class PathParams(TypedDict):
    """A path that ends at a node."""
    limit: NotRequired[int | None]
    """How many nodes, counted from the end (100, at most 1,000)."""
    node_id: NodeId
    """Its last node."""


class PendingApprovalsOk(TypedDict):
    """What waits, oldest first; empty when nothing does."""
    type: Literal['ok']
    after: NotRequired[int | None]
    """Hand this back to hear only of later ends."""
    approvals: list[Approval]
    """The approvals."""
    cursor: NotRequired[str | None]
    """Where the next page starts, if there is one."""
    ended: NotRequired[list[ChangedSession]]
    """Sessions whose chat has ended; only in `wait_for_approval` with `after`."""


class PendingApprovalsTimeout(TypedDict):
    """Nothing came within the wait."""
    type: Literal['timeout']
    after: NotRequired[int | None]
    """Hand this back to hear only of later ends."""


class PermitAnswerAllow(TypedDict):
    """The tool runs with this input. Always the whole of it: older CLIs run a bare allow with empty
    arguments."""
    behavior: Literal['allow']
    updatedInput: dict[str, Any]
    """The input."""


class PermitAnswerDeny(TypedDict):
    """The tool does not run."""
    behavior: Literal['deny']
    message: str
    """What the model reads."""


class PermitRequest(TypedDict):
    """A permission request as the CLI sends it over MCP: exactly these arguments."""
    input: dict[str, Any]
    """Its input."""
    tool_name: str
    """The tool."""
    tool_use_id: str
    """The call."""


class PluginEntry(TypedDict):
    """One activation as `plugins` lists it."""
    description: str
    """What it is for."""
    handles: list[HandleKindEntry]
    """The kinds of handles that it resolves."""
    methods: list[str]
    """The full names of its methods that you may call."""
    path: str
    """Where it is registered; the names of its methods begin with it: `claudecode`,
    `team.notes`."""
    plugin_id: PluginId
    """The id by which handles name it."""
    version: str
    """Its version."""


class PluginList(TypedDict):
    """A result of `plugins`."""
    type: Literal['ok']
    plugins: list[PluginEntry]
    """The activations of this server that you can use, by path."""


class PollParams(TypedDict):
    """Parameters of `poll`."""
    chat: NotRequired[int | None]
    """Which chat (the newest)."""
    consumer: NotRequired[str | None]
    """Read as this named reader, whose position is kept. It moves when you hand back the cursor you
    got."""
    cursor: NotRequired[str | None]
    """Read after this position."""
    from_seq: NotRequired[int | None]
    """Read from this event on, and move nobody's position."""
    handles: NotRequired[bool | None]
    """Also handles and node ids (true; not by `agents_poll` over MCP) and targets (true; not over
    MCP)."""
    limit: NotRequired[int | None]
    """How many events (100, at most 1,000)."""
    name: NotRequired[str | None]
    """Its exact name."""
    session_id: NotRequired[SessionId | None]
    """The session's id."""
    wait_ms: NotRequired[int | None]
    """How many milliseconds to wait for the first event (0, at most 60,000)."""


class Polled(TypedDict):
    """A result of `poll`."""
    type: Literal['ok']
    chat: int | None
    """The chat of the last event, or the one that the reader goes on in. A page from a cursor may
    span chats: each event says its own."""
    cursor: str | None
    """The position after the last event; hand it back to go on there."""
    events: list[PolledEvent]
    """The events."""
    has_more: bool
    """Whether there are more right now."""
    pending_approvals: list[Approval]
    """Permission requests of this session that wait."""
    read_position: int
    """Where the default reader stands in this chat."""
    status: SessionStatus
    """What the session is doing."""
    total_events: int
    """How many events the chat has."""


class PolledEvent(TypedDict):
    """An event as `poll` shows it."""
    chat: NotRequired[int | None]
    """Its chat; always there in `poll` from this version on. An item of `follow` has it beside the
    session."""
    event: ChatEvent
    """The event."""
    handle: NotRequired[Handle | None]
    """Its handle, which `plexus.resolve_handle` takes; not in a `poll` without `handles`."""
    node_id: NotRequired[NodeId | None]
    """Its node in the session's tree; not in a `poll` without `handles`."""
    seq: int
    """Its number within the chat."""
    target: NotRequired[ToolTarget | None]
    """What the call of a `tool_use` or `awaiting_approval` acts on; absent when the server no
    longer knows the session's agent, and in a `poll` without `handles`."""
    timestamp: Millis
    """When."""


class Position(TypedDict):
    """A place in a tree, as it is shown on the wire."""
    node_id: NodeId
    """The node."""
    tree_id: TreeId
    """The tree."""


class PreviewEndExited(TypedDict):
    """The command ended."""
    code: int
    """Its exit code."""
    how: Literal['exited']


class PreviewEndKilled(TypedDict):
    """A signal ended it."""
    how: Literal['killed']
    signal: int
    """The signal's number."""


class PreviewEndOutOfTime(TypedDict):
    """It took too long and was killed. What it had changed by then is listed."""
    how: Literal['out_of_time']


class PreviewEndTooLarge(TypedDict):
    """It wrote too much and was killed. What it had changed by then is listed."""
    how: Literal['too_large']


class PreviewParams(TypedDict):
    """Parameters of `preview`."""
    approval_id: ApprovalId
    """The approval whose command is run over a copy."""


class Previewed(TypedDict):
    """A result of `preview`."""
    type: Literal['ok']
    changes: list[PreviewedChange]
    """What it changed below the session's working directory, sorted by path."""
    cut: bool
    """Whether there were more changes than are listed."""
    end: PreviewEnd
    """How the dry run ended."""
    note: str
    """What a dry run is worth: it is information, and bound to nothing."""
    stderr: str
    """The beginning of its errors."""
    stdout: str
    """The beginning of its output."""


class PreviewedChange(TypedDict):
    """One path that a dry run changed."""
    change: PathChange
    """How it changed."""
    diff: NotRequired[str | None]
    """The difference as a unified diff. Absent for a directory, a link or a change of mode."""
    path: str
    """The path, from the session's working directory."""
    why: NotRequired[str | None]
    """Why a difference is not shown."""


class PromptImage(TypedDict):
    """An image of a prompt."""
    data: str
    """Its bytes as base64."""
    mime_type: str
    """Its type: `image/png`, `image/jpeg`, `image/gif` or `image/webp`."""


class PromptMessage(TypedDict):
    """The prompt of a chat, and the status of the chat."""
    chat: int
    """The chat."""
    content: str
    """The prompt; empty when it was removed."""
    pruned: NotRequired[bool]
    """True when the prompt happened long ago and its text was removed. Absent otherwise."""
    role: Role
    """`user`."""
    session_id: SessionId
    """The session."""
    status: SessionStatus
    """The status of the chat, as `poll` shows it."""
    total_events: int
    """How many events it has."""


class ProposedRule(TypedDict):
    """An allow that decisions already taken speak for."""
    answers: int
    """How many of the decisions it would have taken. You allowed each of them."""
    denied: int
    """How many that you denied it would have allowed. Always 0: no other is proposed."""
    evidence: list[ApprovalId]
    """The newest of the decisions that it would have taken, at most five."""
    label: str
    """What it means, in words."""
    pattern: str
    """The pattern."""
    scope: RuleScope
    """Which sessions it would hold for."""
    sessions: int
    """How many sessions asked."""


class PruneParams(TypedDict):
    """Parameters of `prune`."""
    older_than_days: int
    """What ended longer ago than this many days goes."""
    prompts: NotRequired[bool | None]
    """Whether the texts of prompts go too (false)."""


class Pruned(TypedDict):
    """A result of `prune`."""
    type: Literal['ok']
    approvals: int
    """Approvals removed."""
    audit: int
    """Audit lines removed."""
    chats: int
    """Chats whose events were removed."""
    events: int
    """Events removed."""
    prompts: int
    """Prompts removed."""
    run_directories: int
    """Directories of runs removed that an accident had left."""


class PushKey(TypedDict):
    """A result of `push_key`."""
    type: Literal['push_key']
    public_key: str
    """The server's VAPID key: the uncompressed P-256 point in base64url without padding, which a
    browser takes as `applicationServerKey`."""


class PushSubscribeParams(TypedDict):
    """Parameters of `push_subscribe`: what a browser's `PushSubscription` says."""
    auth: str
    """The browser's authentication secret, in base64url."""
    endpoint: str
    """The address of the push service."""
    name: NotRequired[str | None]
    """What people call this browser."""
    p256dh: str
    """The browser's public key, in base64url."""


class PushUnsubscribeParams(TypedDict):
    """Parameters of `push_unsubscribe`."""
    endpoint: str
    """The address of the push service, as it was subscribed."""


class QuestionChoices(TypedDict):
    """Something to choose or to say. An allow carries `answers`, one for each part."""
    kind: Literal['choices']
    questions: list[QuestionPart]
    """The parts, in their order."""


class QuestionPlan(TypedDict):
    """May this plan be carried out? A denial sends it back, with its message as the comment."""
    kind: Literal['plan']
    path: NotRequired[str | None]
    """The file in which the agent keeps it."""
    plan: str
    """The plan, in Markdown."""


class QuestionChoice(TypedDict):
    """One thing that may be chosen."""
    description: NotRequired[str | None]
    """What it means."""
    label: str
    """What it is called, and what is answered."""
    preview: NotRequired[str | None]
    """What it would look like, as plain text."""


class QuestionPart(TypedDict):
    """One part of a question."""
    free_text: NotRequired[bool]
    """Whether something else than an option may be answered."""
    header: NotRequired[str | None]
    """A short label."""
    id: str
    """Names its answer in `answers`."""
    multiple: NotRequired[bool]
    """Whether several may be chosen."""
    options: NotRequired[list[QuestionChoice]]
    """The options to choose from; without any, it is answered in words."""
    secret: NotRequired[bool]
    """Whether the answer is a secret, which a screen does not show while it is typed."""
    text: str
    """What is asked."""


class Refused(TypedDict):
    """How many permission requests of a chat were not allowed."""
    denied: int
    """Somebody or a rule denied them."""
    expired: int
    """Their deadline passed."""


class RefusedAttempt(TypedDict):
    """An attempt that was refused."""
    caller: NotRequired[Caller | None]
    """Who tried; unknown without a valid token."""
    device: NotRequired[str | None]
    """The name of the device that tried, if one did."""
    door: NotRequired[str | None]
    """The address, where it is no method."""
    kind: ErrorKind
    """Why, as the caller was told."""
    left_out_before: NotRequired[int | None]
    """How many attempts before this one were left out, because too many came at once."""
    message: str
    """The same in words."""
    method: NotRequired[str | None]
    """The method."""
    tool_name: NotRequired[str | None]
    """The tool that was asked about."""
    tool_use_id: NotRequired[str | None]
    """The call that was asked about."""


class Remember(TypedDict):
    """Remembers a decision as a rule."""
    expires_in_secs: NotRequired[int | None]
    """When it ends, in seconds from now."""
    pattern: NotRequired[str | None]
    """The pattern; the narrowest that covers the call without it."""
    scope: RuleScope
    """Which sessions it holds for."""
    uses: NotRequired[int | None]
    """How many decisions it may make."""


class RenameParams(TypedDict):
    """Parameters of `rename`."""
    name: NotRequired[str | None]
    """Its exact name."""
    new_name: str
    """The name it gets."""
    session_id: NotRequired[SessionId | None]
    """The session's id."""


class RenderParams(TypedDict):
    """Parameters of `render_context`."""
    end: NotRequired[NodeId | None]
    """The last node; the head without it."""
    name: NotRequired[str | None]
    """Its exact name."""
    session_id: NotRequired[SessionId | None]
    """The session's id."""
    start: NotRequired[NodeId | None]
    """The first node; the root without it."""


class Rendered(TypedDict):
    """A result of `render_context`."""
    type: Literal['ok']
    forked_from: NotRequired[ForkedFrom | None]
    """For a fork: the session whose conversation it goes on from, as long as that exists."""
    messages: list[Message]
    """The conversation as the model's API would take it."""
    parent: NotRequired[SessionId | None]
    """The session that created this one, if any."""


class Reserved(TypedDict):
    """What running chats of a session, and of everything below it, have set aside until their
    results come."""
    cost_usd: float
    """US dollars."""
    turns: int
    """Turns of the model."""


class ResolveParams(TypedDict):
    """Parameters of `resolve_handle`."""
    handle: HandleInput
    """The handle, as the object or in its text form `plugin_id@version::method:meta`."""


class ResolvedApproval(TypedDict):
    """A request that needs nobody any more. Its input was told when it was asked."""
    approval_id: ApprovalId
    """Its id."""
    breach: NotRequired[str | None]
    """What the child did against the decision."""
    created_at: Seconds
    """When it was asked."""
    decided_at: NotRequired[Seconds | None]
    """When."""
    decided_by: NotRequired[DecidedBy | None]
    """Who decided."""
    delivered_at: NotRequired[Seconds | None]
    """When the answer reached the child."""
    input_digest: str
    """The digest of the input."""
    message: NotRequired[str | None]
    """Why."""
    receiver: NotRequired[str | None]
    """The receiver that the answer came through, where `decided_by` is `webhook`."""
    session_id: SessionId
    """The session that asked."""
    status: ApprovalStatus
    """How it was decided."""
    tool_name: str
    """The tool."""
    tool_use_id: str
    """The call."""


class RespondManyParams(TypedDict):
    """Parameters of `respond_many`."""
    approval_ids: list[ApprovalId]
    """The approvals, by their exact ids."""
    approve: bool
    """Whether the tools may run."""
    message: NotRequired[str | None]
    """Why."""


class RespondOutcome(TypedDict):
    """One outcome of `respond_many`."""
    approval_id: ApprovalId
    """The approval."""
    error: NotRequired[CallError | None]
    """Why not."""
    ok: bool
    """Whether it is decided as you said."""


class RespondOutcomes(TypedDict):
    """A result of `respond_many`."""
    type: Literal['ok']
    outcomes: list[RespondOutcome]
    """One for each id, in that order."""


class RespondParams(TypedDict):
    """Parameters of `respond`."""
    answers: NotRequired[dict[str, list[str]] | None]
    """What is answered to a question of the agent: for the id of each part, labels of its options,
    or own words where it takes them."""
    approval_id: ApprovalId
    """The approval."""
    approve: bool
    """Whether the tool may run."""
    input_digest: NotRequired[str | None]
    """The digest of the input you saw; another input then is a conflict."""
    message: NotRequired[str | None]
    """Why; the model reads it when you deny."""
    remember: NotRequired[Remember | None]
    """Also answer such calls from now on."""
    updated_input: NotRequired[dict[str, Any] | None]
    """Run with this input instead; the whole of it."""


class Responded(TypedDict):
    """A result of `respond`."""
    type: Literal['ok']
    approval_id: ApprovalId
    """The approval."""
    released: NotRequired[list[ApprovalId]]
    """Other approvals that it answered at once."""
    rule_id: NotRequired[RuleId | None]
    """The rule that was remembered."""


class RevokeParams(TypedDict):
    """Parameters of `revoke`."""
    name: str
    """The name of the parent whose tokens end."""


class Revoked(TypedDict):
    """A result of `revoke`."""
    type: Literal['ok']
    session_id: SessionId
    """The session that the parent acted as. It and what it created stay."""
    tokens: int
    """How many tokens have ended."""


class Risk(TypedDict):
    """How much harm a tool call could do. It orders queues and draws attention. It decides nothing,
    and a low level is no promise."""
    level: RiskLevel
    """The level."""
    reasons: list[str]
    """The reasons, the gravest first."""
    score: int
    """The same as a number from 0 to 100, to sort by."""


class Rule(TypedDict):
    """A standing rule, as `rules` shows it."""
    author: RuleAuthor
    """Who made it."""
    created_at: Seconds | None
    """When it was added; the file does not say."""
    decision: RuleDecision
    """What it says."""
    does_not_match: list[str]
    """Calls it must not fit."""
    expires_at: Seconds | None
    """When it ends."""
    handle: NotRequired[Handle | None]
    """Its handle, which `plexus.resolve_handle` takes. Always there from this version on."""
    id: RuleId
    """Its id. The file's rules get new ones whenever it is read."""
    matches: list[str]
    """Calls it must fit."""
    pattern: str
    """Which calls it is about, in the CLI's notation."""
    reason: str | None
    """Why it exists."""
    scope: RuleScope
    """Which sessions it holds for."""
    used: int | None
    """How many it has made; not counted for the file's."""
    uses: int | None
    """How many decisions it may make; without a number, any."""
    uses_left: int | None
    """How many more it may make."""


class RuleAddParams(TypedDict):
    """Parameters of `rule_add`."""
    decision: RuleDecision
    """`allow`, `deny` or `ask`."""
    does_not_match: NotRequired[list[str] | None]
    """Calls it must not fit."""
    expires_in_secs: NotRequired[int | None]
    """When it ends, in seconds from now."""
    matches: NotRequired[list[str] | None]
    """Calls it must fit, as `Tool(argument)`."""
    pattern: str
    """Which calls, in the CLI's notation: `Bash(git diff:*)`, `Read(/src/**)`,
    `WebFetch(domain:example.org)`."""
    reason: NotRequired[str | None]
    """Why it exists."""
    scope: NotRequired[RuleScope | None]
    """`{"session": ID}`, `{"subtree": ID}` or `"all"`."""
    uses: NotRequired[int | None]
    """How many decisions it may make."""


class RuleAdded(TypedDict):
    """A result of `rule_add`."""
    type: Literal['ok']
    rule_id: RuleId
    """The rule."""


class RuleAuthorSession(TypedDict):
    """A session, for its strict descendants."""
    session: SessionId


class RuleList(TypedDict):
    """A result of `rules`."""
    type: Literal['ok']
    cursor: NotRequired[str | None]
    """Where the next page starts, if there is one."""
    rules: list[Rule]
    """The rules, oldest first, with how often each has decided."""


class RulePreviewParams(TypedDict):
    """Parameters of `rule_preview`."""
    approval_id: ApprovalId
    """The approval whose decision would be remembered."""
    approve: bool
    """Whether it would be allowed."""
    remember: Remember
    """How it would be remembered."""


class RulePreviewed(TypedDict):
    """A result of `rule_preview`."""
    type: Literal['ok']
    pattern: str
    """The pattern that the rule would have."""
    releases: list[ApprovalId]
    """The other pending approvals that it would decide at once."""


class RuleRemoveParams(TypedDict):
    """Parameters of `rule_remove`."""
    rule_id: RuleId
    """The rule."""


class RuleScopeSession(TypedDict):
    """This session alone."""
    session: SessionId


class RuleScopeSubtree(TypedDict):
    """This session and everything below it."""
    subtree: SessionId


class RuleSuggestParams(TypedDict):
    """Parameters of `rule_suggest`."""
    last: NotRequired[int | None]
    """How many of your newest decisions are looked at (100, at most 200)."""


class RuleSuggestions(TypedDict):
    """A result of `rule_suggest`."""
    type: Literal['ok']
    looked_at: int
    """How many of your decisions were looked at."""
    suggestions: list[ProposedRule]
    """The rules, the narrowest first. None is in force: `rule_add` makes it one."""


class RuleTestParams(TypedDict):
    """Parameters of `rule_test`."""
    input: dict[str, Any]
    """Its input."""
    session_id: NotRequired[SessionId | None]
    """The session that would ask; without it, your oldest."""
    tool_name: str
    """The tool."""
    working_dir: NotRequired[str | None]
    """Instead of a session: the directory of one that is yet to be created."""


class RuleTested(TypedDict):
    """A result of `rule_test`."""
    type: Literal['ok']
    decision: RuleDecision
    """What would happen."""
    rule_id: NotRequired[RuleId | None]
    """The rule that would decide."""
    why: str
    """Why."""


class RulesParams(TypedDict):
    """Parameters of `rules`."""
    cursor: NotRequired[str | None]
    """The `cursor` of the page before."""
    limit: NotRequired[int | None]
    """How many (100, at most 1,000)."""


class SchemaParams(TypedDict):
    """Parameters of `schema`."""
    method: NotRequired[str | None]
    """One method's full name; without it, all."""


class SearchFound(TypedDict):
    """A result of `search`."""
    type: Literal['ok']
    behind: int
    """How many commits of the store are not indexed yet; their events are not found."""
    cursor: NotRequired[str | None]
    """Hand it back to go on; missing when nothing is left."""
    hits: list[SearchHit]
    """The hits, newest first. There may be more although these are few or none: `cursor` says
    so."""
    notes: list[str]
    """What was not understood in the query, or taken otherwise than it looks."""


class SearchHit(TypedDict):
    """One thing that was found."""
    at: Millis
    """When it happened."""
    chat: int
    """The chat."""
    event_id: EventId
    """The event."""
    excerpt: list[SearchPiece]
    """A part of its text, around the first place that fits."""
    kind: SearchKind
    """What it is."""
    seq: int
    """The event in the chat; 0 stands for the prompt."""
    session_id: SessionId
    """The session."""
    session_name: str
    """Its name."""
    tool: NotRequired[str | None]
    """The tool of a call or a result, where it is known."""


class SearchParams(TypedDict):
    """Parameters of `search`. Every condition that is given must hold."""
    cursor: NotRequired[str | None]
    """The position that the last page gave."""
    kind: NotRequired[SearchKind | None]
    """This kind alone."""
    limit: NotRequired[int | None]
    """How many hits (20, at most 100)."""
    name: NotRequired[str | None]
    """In this session alone, by its exact name."""
    query: NotRequired[str | None]
    """Words that must all occur, in any order; `"quoted words"` stand together, and `word*` is the
    beginning of a word. Nothing or an empty text finds everything."""
    session_id: NotRequired[SessionId | None]
    """In this session alone, by its id."""
    since: NotRequired[Millis | None]
    """Nothing before this moment, in milliseconds since 1970."""
    tool: NotRequired[str | None]
    """Calls and results of this tool alone; its exact name."""
    until: NotRequired[Millis | None]
    """Nothing at or after this moment, in milliseconds since 1970."""


class SearchPiece(TypedDict):
    """A piece of an excerpt."""
    hit: NotRequired[bool]
    """Whether it is what was looked for."""
    text: str
    """The text, as somebody else wrote it."""


class SendParams(TypedDict):
    """Parameters of `send`."""
    name: NotRequired[str | None]
    """Its exact name."""
    session_id: NotRequired[SessionId | None]
    """The session's id."""
    text: str
    """The message."""


class ServerNode(TypedDict):
    """One server of those that share a store: what operators call a node."""
    epoch: int
    """Which of its registrations this is."""
    heartbeat_age_ms: int
    """How long ago it was heard from, in milliseconds, by the database's clock."""
    id: ServerId
    """Its id."""
    lease_left_ms: int
    """How much of its lease is left, in milliseconds, by the database's clock."""
    name: str
    """What people call it."""
    open_runs: int
    """Its runs that have not ended."""
    state: ServerState
    """`alive`, `expired`, `retired` or `taken_over`."""
    this: bool
    """Whether it is the server that answers."""
    url: str
    """Where the others reach it."""


class Session(TypedDict):
    """A session as `get` and `list` show it."""
    agent: str
    """Its agent."""
    answer: NotRequired[LastAnswer | None]
    """The last thing the agent said in the newest chat, once that has ended; only in `get`."""
    budget: NotRequired[Budget | None]
    """Its limits."""
    can_spawn: bool
    """Whether it may create sessions."""
    channel: ChannelChoice
    """How its permission requests travel."""
    chat: int | None
    """Its newest chat."""
    claude_session_id: NotRequired[str | None]
    """The CLI's own id of the conversation."""
    confine: Wall
    """The wall around its children."""
    created_at: Millis
    """When it was created."""
    handle: NotRequired[Handle | None]
    """Its handle, which `plexus.resolve_handle` takes. Always there from this version on."""
    head: Position
    """The node after which its next chat starts."""
    id: SessionId
    """Its id."""
    loopback_enabled: bool
    """Whether they come to its parent."""
    mcp_servers: NotRequired[list[str]]
    """The names of the MCP servers that its agent was given."""
    metadata: dict[str, Any]
    """What its creator noted."""
    mode: NotRequired[TimedMode | None]
    """A mode that the operator set for a while."""
    model: str | None
    """The model, if one was named."""
    name: str
    """Its name."""
    parent: NotRequired[SessionId | None]
    """The session that created it."""
    parked: NotRequired[bool]
    """True while its agent has no process, which a decision starts again. Absent otherwise."""
    refused: NotRequired[Refused | None]
    """How many permission requests of the newest chat were not allowed. Absent when none was."""
    reserved: NotRequired[Reserved | None]
    """What running chats have set aside, when a budget limits them."""
    spent: Spent
    """What it and everything below it have spent."""
    status: SessionStatus
    """What it is doing."""
    updated_at: Millis
    """When it was changed."""
    working_dir: str
    """Where it works."""


class SessionCreated(TypedDict):
    """A result of `create`."""
    type: Literal['created']
    head: Position
    """Its tree and the node after which its first chat starts."""
    id: SessionId
    """The new session."""


class SessionDeleted(TypedDict):
    """A result of `delete`."""
    type: Literal['deleted']
    id: SessionId
    """The session that is gone."""


class SessionForked(TypedDict):
    """A result of `fork`."""
    type: Literal['forked']
    head: Position
    """Where it starts."""
    id: SessionId
    """The new session."""


class SessionGot(TypedDict):
    """A result of `get`."""
    type: Literal['ok']
    session: Session
    """The session."""


class SessionList(TypedDict):
    """A result of `list`."""
    type: Literal['ok']
    cursor: NotRequired[str | None]
    """Where the next page starts, if there is one."""
    sessions: list[Session]
    """The sessions, oldest first."""


class SessionRef(TypedDict):
    """A session by its id or its exact name."""
    name: NotRequired[str | None]
    """Its exact name."""
    session_id: NotRequired[SessionId | None]
    """Its id."""


class SessionRenamed(TypedDict):
    """A result of `rename`."""
    type: Literal['renamed']
    id: SessionId
    """The session."""
    name: str
    """Its name from now on."""


class SignInCode(TypedDict):
    """A one-time code for the dashboard."""
    type: Literal['ok']
    code: str
    """Works once, for a minute."""


class Spent(TypedDict):
    """What a session and everything below it have spent."""
    cost_usd: float
    """US dollars."""
    input_tokens: int
    """Tokens read."""
    output_tokens: int
    """Tokens written."""
    turns: int
    """Turns of the model."""
    wall_ms: int
    """Milliseconds that chats took, from prompt to end. A running one counts when it ends."""


class SpentAlready(TypedDict):
    """What is spent already, as the `standing` of a budget below it says."""
    children: int
    """Sessions below it."""
    cost_usd: float
    """US dollars."""
    tokens: int
    """Tokens, read and written."""
    turns: int
    """Turns of the model."""
    wall_secs: float
    """Seconds of running chats, added up."""


class StopParams(TypedDict):
    """Parameters of `stop`."""
    children: NotRequired[bool | None]
    """Whether the children end first (false: they go on, and the next server picks them up)."""
    park: NotRequired[bool | None]
    """Whether children that wait for a decision are parked first, where that is safe (false)."""


class Stopping(TypedDict):
    """A result of `stop`."""
    type: Literal['stopping']
    children: int
    """Children that go on running."""


class Stream(TypedDict):
    """A chat's stream of events, as `streams` shows it."""
    chat: int
    """The chat."""
    ended_at: NotRequired[Millis | None]
    """When it ended."""
    error: NotRequired[str | None]
    """Why it failed or was cancelled."""
    handle: NotRequired[Handle | None]
    """Its handle, which `plexus.resolve_handle` takes. Always there from this version on."""
    head_node: NodeId
    """The node of its newest event."""
    read_position: int
    """The position of the default reader."""
    root_node: NodeId
    """The node its events hang from."""
    self_started: NotRequired[bool]
    """True for a chat that nobody asked for: the agent went on by itself, for example when it had
    scheduled something. Absent otherwise."""
    session_id: SessionId
    """The session."""
    started_at: Millis
    """When it started."""
    status: SessionStatus
    """Its status, as `poll` shows it."""
    total_events: int
    """How many events it has."""
    tree_id: TreeId
    """The session's tree."""


class StreamList(TypedDict):
    """A result of `streams`."""
    type: Literal['ok']
    cursor: NotRequired[str | None]
    """Where the next page starts, if there is one."""
    streams: list[Stream]
    """The streams, oldest first."""


class StreamsParams(TypedDict):
    """Parameters of `streams`."""
    cursor: NotRequired[str | None]
    """The `cursor` of the page before."""
    limit: NotRequired[int | None]
    """How many (100, at most 1,000)."""
    name: NotRequired[str | None]
    """Only of this session, by its exact name."""
    session_id: NotRequired[SessionId | None]
    """Only of this session, by its id."""


class SuggestedRule(TypedDict):
    """A rule that would answer a call."""
    label: str
    """What it means, for a button or a menu."""
    pattern: str
    """The pattern."""


class TimedMode(TypedDict):
    """A mode that the operator set, and when it ends by itself."""
    mode: Mode
    """What is allowed unasked."""
    until: Seconds
    """When it ends."""


class ToolTargetShell(TypedDict):
    """Runs a shell command."""
    command: str
    """The whole command."""
    cwd: NotRequired[str | None]
    """The directory in which it starts; absent: the session's `working_dir`."""
    kind: Literal['shell']
    language: NotRequired[ShellLanguage]
    """The shell that reads it; absent: a POSIX shell."""


class ToolTargetWrite(TypedDict):
    """Changes files."""
    changes: list[FileChange]
    """The changes, in their order."""
    kind: Literal['write']


class ToolTargetRead(TypedDict):
    """Reads a file or a directory."""
    kind: Literal['read']
    path: NotRequired[str | None]
    """The path as it was written; absent: the session's `working_dir`."""
    tree: NotRequired[bool]
    """Whether it reads everything below the path, as a search does."""


class ToolTargetFetch(TypedDict):
    """Sends a request to a server of the network."""
    kind: Literal['fetch']
    url: NotRequired[str | None]
    """The address; absent for a web search."""


class ToolTargetConnect(TypedDict):
    """Opens a connection from within a wall."""
    host: str
    """The host."""
    kind: Literal['connect']
    port: int
    """Its port."""


class ToolTargetMcp(TypedDict):
    """Calls a tool of an MCP server."""
    kind: Literal['mcp']
    server: str
    """The server, as the agent's configuration names it."""
    tool: str
    """Its tool."""


class ToolTargetAgent(TypedDict):
    """Starts an agent of the agent's own."""
    kind: Literal['agent']


class ToolTargetThink(TypedDict):
    """Keeps notes of its own, and changes nothing else."""
    kind: Literal['think']


class ToolTargetQuestion(TypedDict):
    """Asks its user something, and changes nothing."""
    kind: Literal['question']


class ToolTargetOther(TypedDict):
    """Something else."""
    kind: Literal['other']


class Tree(TypedDict):
    """One tree."""
    created_at: Millis
    """When it was made."""
    handle: NotRequired[Handle | None]
    """Its handle, which `plexus.resolve_handle` takes. Always there from this version on."""
    id: TreeId
    """Its id."""
    metadata: dict[str, Any]
    """What its maker noted."""
    root: NodeId
    """Its root node."""


class TreeCreateParams(TypedDict):
    """Parameters of `tree_create`."""
    metadata: NotRequired[dict[str, Any] | None]
    """Anything you want to find again; an object."""


class TreeGot(TypedDict):
    """A result of `tree_get`."""
    type: Literal['ok']
    tree: Tree
    """The tree."""


class TreeList(TypedDict):
    """A result of `tree_list`."""
    type: Literal['ok']
    cursor: NotRequired[str | None]
    """Where the next page starts, if there is one."""
    trees: list[Tree]
    """The trees, oldest first."""


class TreeListParams(TypedDict):
    """Parameters of `tree_list`."""
    cursor: NotRequired[str | None]
    """The `cursor` of the page before."""
    limit: NotRequired[int | None]
    """How many (100, at most 1,000)."""


class TreeOf(TypedDict):
    """A result of `get_tree`."""
    type: Literal['ok']
    head: Position
    """Its head."""
    tree_id: TreeId
    """The session's tree."""


class TreeParams(TypedDict):
    """Names a tree."""
    tree_id: TreeId
    """The tree."""


class TreeRendered(TypedDict):
    """A result of `tree_render`."""
    type: Literal['ok']
    text: str
    """The tree as indented lines."""


class UnpairParams(TypedDict):
    """Parameters of `unpair`."""
    name: str
    """The name of the device whose token ends."""


class Unpaired(TypedDict):
    """A result of `unpair`."""
    type: Literal['ok']
    id: DeviceId
    """The device. What it decided stays, under its name."""


class Usage(TypedDict):
    """What a chat used."""
    cost_usd: float
    """What it cost, in US dollars."""
    input_tokens: int
    """Tokens read."""
    num_turns: int
    """Turns of the model."""
    output_tokens: int
    """Tokens written."""


class Version(TypedDict):
    """A result of `version`."""
    type: Literal['ok']
    version: str
    """The version of Plexus."""


class WaitForApprovalParams(TypedDict):
    """Parameters of `wait_for_approval`."""
    after: NotRequired[int | None]
    """Also return when the chat of such a session has ended after this number: the `after` of the
    answer before, or 0."""
    name: NotRequired[str | None]
    """Only of this session, by its exact name."""
    session_id: NotRequired[SessionId | None]
    """Only of this session, by its id."""
    wait_ms: NotRequired[int | None]
    """How many milliseconds to wait (60,000 at most)."""


class WaitParams(TypedDict):
    """Parameters of `wait`."""
    after: NotRequired[int | None]
    """The `after` of the answer before: only what changed since is told."""
    session_ids: NotRequired[list[SessionId] | None]
    """Which sessions; all that you may see without it."""
    wait_ms: NotRequired[int | None]
    """How many milliseconds to wait for a change (0, at most 60,000)."""
    wake_on: NotRequired[WakeOn | None]
    """What counts as a change: `change` (any), or `asks_or_ends`: a session asks for permission, or
    its chat has ended."""


class Waited(TypedDict):
    """A result of `wait`."""
    type: Literal['ok']
    after: int
    """Hand this back to hear only of later changes."""
    sessions: list[ChangedSession]
    """What changed."""


class Wall(TypedDict):
    """The wall around the children of a session."""
    enforced: NotRequired[list[str]]
    """What it prevents, in words; only in `get`."""
    gaps: NotRequired[list[str]]
    """What it does not prevent, in words; only in `get`."""
    key: NotRequired[str | None]
    """Where the key of the model is; only in `get`."""
    missing: NotRequired[str | None]
    """Why this machine cannot build the wall, with the next step; only in `get`."""
    profile: Confine
    """Which one the session has."""
    tier: NotRequired[str | None]
    """What it is made of on this machine: `full` or `landlock`. Absent without a wall, and in
    `list`."""


AgentMcpServer: TypeAlias = AgentMcpServerStdio | AgentMcpServerHttp
"""One MCP server for an agent. Arguments, variables, addresses and headers may be secret, so it is
never printed."""


ApprovalId: TypeAlias = str
"""One permission request of a child and its single decision."""


ApprovalStatus: TypeAlias = (
    Literal['pending']
    | Literal['allowed']
    | Literal['denied']
    | Literal['expired']
    | Literal['cancelled']
)
"""Whether an approval waits, and how it was decided."""


AsksFor: TypeAlias = Literal['configured'] | Literal['changes'] | Literal['everything']
"""What an agent asks about before it does it, from the least to the most."""


AuditBody: TypeAlias = (
    RefusedAttempt
    | Breach
    | BudgetUsed
    | AnsweredOutside
    | GivenUp
    | DeviceChanged
    | dict[str, Any]
)
"""What an audit line says, by its kind."""


Block: TypeAlias = BlockText | BlockThinking | BlockToolUse | BlockToolResult | BlockPruned
"""One block of a message."""


BreachKind: TypeAlias = Literal['unallowed'] | Literal['unprompted_turn']
"""What a breach went against."""


Caller: TypeAlias = Literal['operator'] | CallerSession | CallerChild | CallerDevice
"""The identity behind one call."""


ChangesSource: TypeAlias = Literal['git'] | Literal['edits']
"""Where an answer about changes comes from."""


ChannelChoice: TypeAlias = Literal['auto'] | Literal['control'] | Literal['mcp']
"""Which way permission requests travel."""


ChatEvent: TypeAlias = (
    ChatEventStart
    | ChatEventContent
    | ChatEventThinking
    | ChatEventToolUse
    | ChatEventAwaitingApproval
    | ChatEventApprovalResolved
    | ChatEventToolResult
    | ChatEventToolRequest
    | ChatEventSteered
    | ChatEventNotice
    | ChatEventPassthrough
    | ChatEventComplete
    | ChatEventError
    | ChatEventPruned
)
"""One thing that a reader of a chat sees."""


ChatStatus: TypeAlias = (
    Literal['running']
    | Literal['complete']
    | Literal['failed']
    | Literal['cancelled']
)
"""The status of a chat. It ends once."""


Confine: TypeAlias = Literal['none'] | Literal['workspace'] | Literal['strict']
"""How tightly the children of a session are confined. The order goes from loose to tight."""


CostPower: TypeAlias = Literal['none'] | Literal['tokens'] | Literal['usd']
"""What is known of what a chat costs."""


DecidedBy: TypeAlias = (
    Literal['operator']
    | DecidedBySession
    | DecidedByRule
    | Literal['deadline']
    | Literal['agent_ended']
    | Literal['webhook']
    | DecidedByDevice
)
"""Who decided."""


Delta: TypeAlias = DeltaDeltaStart | DeltaDelta
"""What a live piece says."""


DenyReason: TypeAlias = Literal['none'] | Literal['in_answer'] | Literal['as_next_message']
"""How the reason of a denial reaches an agent."""


DeviceId: TypeAlias = str
"""One device that decides for the operator, such as a phone."""


ErrorKind: TypeAlias = (
    Literal['invalid']
    | Literal['not_found']
    | Literal['conflict']
    | Literal['forbidden']
    | Literal['unauthorized']
    | Literal['busy']
    | Literal['expired']
    | Literal['unavailable']
    | Literal['internal']
)
"""What a caller can do about a failure."""


EventId: TypeAlias = str
"""One event of a chat. Readers count events by `seq`; this id is what its handle names."""


FileChange: TypeAlias = (
    FileChangeWhole
    | FileChangeReplace
    | FileChangePart
    | FileChangeDiff
    | FileChangeDelete
    | FileChangeUnknown
)
"""A change of one file. The texts stay in the tool's input, where JSON Pointers (RFC 6901) find
them."""


FileNow: TypeAlias = FileNowText | FileNowAbsent | FileNowUnread
"""One file."""


Followed: TypeAlias = FollowedEvent | LiveText
"""One item of `follow`."""


ForkPower: TypeAlias = Literal['none'] | Literal['head'] | Literal['anywhere']
"""Where the conversation of an agent can be forked."""


HandleInput: TypeAlias = HandleInput1 | str
"""The name of something that an activation owns: an object, or the text
plugin_id@version::method:meta0:meta1."""


HookEvent: TypeAlias = (
    Literal['approval.requested']
    | Literal['approval.escalated']
    | Literal['approval.resolved']
    | Literal['approval.expired']
    | Literal['session.ended']
    | Literal['budget.warned']
    | Literal['budget.stopped']
    | Literal['breach']
)
"""What can be told. The names are part of the wire."""


HookMessage: TypeAlias = HookMessage1 | HookMessage2 | HookMessage3 | HookMessage4 | HookMessage5
"""A message as it is sent."""


KnownThing: TypeAlias = (
    KnownThingEvent
    | KnownThingMessage
    | KnownThingApproval
    | KnownThingNode
    | KnownThingSession
    | KnownThingChat
    | KnownThingRule
    | KnownThingAuditLine
    | KnownThingTree
    | KnownThingHub
)
"""What a handle of one of our activations stands for."""


Millis: TypeAlias = int
"""A moment, in milliseconds since 1970 (UTC)."""


Mode: TypeAlias = Literal['ask'] | Literal['accept_edits'] | Literal['allow_all']
"""What is allowed unasked for a while."""


NoParams: TypeAlias = dict[str, Any]
"""No parameters."""


NodeData: TypeAlias = NodeDataText | NodeDataExternal | NodeDataPruned
"""What a node holds."""


NodeId: TypeAlias = str
"""One node of an Arbor tree. An event has a node; a node need not be an event."""


Owner: TypeAlias = Literal['operator'] | OwnerSession
"""Who is asked now. It says whom to tell, not who may decide: `authority.rs` of the engine says
that."""


PathChange: TypeAlias = Literal['added'] | Literal['modified'] | Literal['removed']
"""How a path changed."""


PendingApprovals: TypeAlias = PendingApprovalsOk | PendingApprovalsTimeout
"""A result of `pending` and `wait_for_approval`."""


PermitAnswer: TypeAlias = PermitAnswerAllow | PermitAnswerDeny
"""The answer to `permit`, in the CLI's own words."""


PluginId: TypeAlias = str
"""Identifies an activation: a UUIDv5 of its path and major version, so that it is the same in every
process and no other activation of the server has it."""


PreviewEnd: TypeAlias = (
    PreviewEndExited
    | PreviewEndKilled
    | PreviewEndOutOfTime
    | PreviewEndTooLarge
)
"""How a dry run ended."""


ProjectSettings: TypeAlias = Literal['ignore'] | Literal['instructions'] | Literal['trust']
"""What an agent reads of a repository's own files. Its settings hold hooks, which run unasked and
can answer permissions."""


Question: TypeAlias = QuestionChoices | QuestionPlan
"""What an agent asks its user."""


Resolved: TypeAlias = KnownThing | dict[str, Any]
"""What a handle stands for, as its owner says."""


RiskLevel: TypeAlias = Literal['low'] | Literal['medium'] | Literal['high'] | Literal['critical']
"""How much harm a tool call could do."""


Role: TypeAlias = Literal['user'] | Literal['assistant']
"""Who says a message."""


RuleAuthor: TypeAlias = Literal['operator'] | RuleAuthorSession | Literal['file']
"""Who made a rule."""


RuleDecision: TypeAlias = Literal['allow'] | Literal['deny'] | Literal['ask']
"""What a rule says."""


RuleId: TypeAlias = str
"""One standing rule that answers permission requests."""


RuleScope: TypeAlias = RuleScopeSession | RuleScopeSubtree | Literal['all']
"""Which sessions a rule holds for."""


SearchKind: TypeAlias = (
    Literal['prompt']
    | Literal['said']
    | Literal['thought']
    | Literal['call']
    | Literal['result']
    | Literal['decision']
    | Literal['notice']
    | Literal['steered']
)
"""What a hit is."""


Seconds: TypeAlias = int
"""A moment, in seconds since 1970 (UTC)."""


ServerId: TypeAlias = str
"""One server of those that share a store: what operators call a node. It stays the same when that
server starts again."""


ServerState: TypeAlias = (
    Literal['alive']
    | Literal['expired']
    | Literal['retired']
    | Literal['taken_over']
)
"""The state of a server."""


SessionId: TypeAlias = str
"""One supervised conversation, the only identifier of a session on the wire. Its
`claude_session_id` is the CLI's own."""


SessionStatus: TypeAlias = (
    Literal['idle']
    | Literal['running']
    | Literal['awaiting_permission']
    | Literal['complete']
    | Literal['failed']
    | Literal['cancelled']
)
"""What a session is doing."""


ShellLanguage: TypeAlias = Literal['posix'] | Literal['power_shell']
"""The shell that reads a command."""


Standing: TypeAlias = DecidedApproval | SpentAlready | Stream | str | list[str]
"""What may stand in the way. Only its schema is used: the JSON is that of the shape it names."""


Supervise: TypeAlias = Literal['default'] | Literal['all']
"""How much of what a child does is asked about."""


ToolOutput: TypeAlias = str | list[dict[str, Any]] | dict[str, Any] | None
"""What a tool gave: text, or content blocks as the agent wrote them. Only its schema is used; the
JSON itself is kept as it was."""


ToolTarget: TypeAlias = (
    ToolTargetShell
    | ToolTargetWrite
    | ToolTargetRead
    | ToolTargetFetch
    | ToolTargetConnect
    | ToolTargetMcp
    | ToolTargetAgent
    | ToolTargetThink
    | ToolTargetQuestion
    | ToolTargetOther
)
"""What a tool call would act on. Agents name their tools and inputs differently; rules, risk, diffs
and screens read this form instead."""


TreeId: TypeAlias = str
"""One Arbor tree. A forked session shares the tree of the session it was forked from."""


WakeOn: TypeAlias = Literal['change'] | Literal['asks_or_ends']
"""What a waiter is woken by."""
