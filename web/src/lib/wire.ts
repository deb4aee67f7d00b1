// Every shape of the wire. Made from schemas/wire.json by `npm run wire`; do not edit.

export type Json = null | boolean | number | string | Json[] | JsonObject;
export type JsonObject = { [key: string]: Json };

/** One agent that the server knows. */
export type AgentKind = {
  /** The program and its version; of one that cannot be used, why and what to do about it. */
  about: string;
  /** The name that `create` takes. */
  agent: string;
  /** Whose protocol it speaks: `claude_code`, `codex` or `acp`. */
  kind: string;
  /** What it can do. */
  powers: AgentPowers;
  /** Whether its program can be used on this server's machine. */
  usable: boolean;
};

/** A result of `kinds`: the default agent first. */
export type AgentKinds = {
  type: "kinds";
  /** The agents. */
  agents: AgentKind[];
};

/** One MCP server for an agent. Arguments, variables, addresses and headers may be secret, so it is never printed. */
export type AgentMcpServer =
  /** A program that the agent starts, and talks to on its stdin and stdout. */
  | {
    type: "stdio";
    /** Its arguments. */
    args?: string[] | null;
    /** The program. */
    command: string;
    /** Variables for its environment. */
    env?: { [key: string]: string } | null;
  }
  /** A server over HTTP. */
  | {
    type: "http";
    /** What every request carries. */
    headers?: { [key: string]: string } | null;
    /** Its address. */
    url: string;
  };

/** What an agent can do. A method that needs a power which the session's agent has not says so. */
export type AgentPowers = {
  /** What the agent asks about. */
  asks_for: AsksFor;
  /** What is known of what a chat costs. */
  cost: CostPower;
  /** How the reason of a denial reaches the agent. */
  deny_reason: DenyReason;
  /** Whether an allow may carry another input than the one that was asked about. */
  edit_input: boolean;
  /** Where a conversation can be forked. */
  fork: ForkPower;
  /** Whether a prompt may have images. */
  images: boolean;
  /** Whether a session can give it MCP servers. */
  mcp_servers: boolean;
  /** Whether a waiting agent can be parked without a process. */
  park: boolean;
  /** Whether an ended conversation can be taken up again. */
  resume: boolean;
  /** Whether the agent says who let a tool run, so that a tool nobody allowed shows. */
  says_who_accepted: boolean;
  /** Whether a message can be put into a running chat. */
  steer: boolean;
  /** Whether a process can wait for the next prompt. */
  warm: boolean;
};

/** A permission request that somebody outside decided. */
export type AnsweredOutside = {
  /** The approval. */
  approval_id: ApprovalId;
  /** Whether the tool may run. */
  approved: boolean;
  /** The digest of the input that was decided about. */
  input_digest: string;
  /** Who was told, and answered: the name of the receiver or of the device. */
  receiver: string;
  /** What answered: `device`, or the kind of receiver: `webhook`, `ntfy`, `slack`, `telegram` or `command`. */
  via: string;
};

/** A permission request that waits, as `pending` and `poll` show it. */
export type Approval = {
  /** When it was asked. */
  created_at: Seconds;
  /** What the CLI says about it. */
  description?: string | null;
  /** Who is asked now, if it was passed on. */
  escalated_to?: Owner | null;
  /** When it is denied automatically. */
  expires_at?: Seconds | null;
  /** Its handle, which `plexus.resolve_handle` takes. Always there from this version on. */
  handle?: Handle | null;
  /** Its id. */
  id: ApprovalId;
  /** The tool's input. */
  input: JsonObject;
  /** The digest of that input: hand it back with the answer. */
  input_digest: string;
  /** True while the agent has no process, which a decision starts again. Absent otherwise. */
  parked?: boolean;
  /** Why only the operator may allow it: no rule, mode or session does. Absent otherwise. */
  person_only?: string | null;
  /** Whether `loopback.preview` can try it over a copy: a shell command of a session with a wall. */
  preview?: boolean;
  /** What the agent asks its user, when the call is a question. */
  question?: Question | null;
  /** How much harm it could do. */
  risk?: Risk | null;
  /** The session that asks. */
  session_id: SessionId;
  /** That session's name. */
  session_name: string;
  /** `pending`. */
  status: ApprovalStatus;
  /** Rules that would answer this call, narrow to wide. */
  suggested_rules: SuggestedRule[];
  /** What the call would act on, in one form for every agent. */
  target?: ToolTarget | null;
  /** The tool. */
  tool_name: string;
  /** The call. */
  tool_use_id: string;
  /** The directory in which the session's commands and relative paths start. */
  working_dir?: string | null;
};

/** One permission request of a child and its single decision. */
export type ApprovalId = string;

/** Parameters of `pending`, `history` and `audit`. */
export type ApprovalPageParams = {
  /** The `cursor` of the page before. */
  cursor?: string | null;
  /** How many (100, at most 1,000). */
  limit?: number | null;
  /** Only of this session, by its exact name. */
  name?: string | null;
  /** Only of this session, by its id. */
  session_id?: SessionId | null;
};

/** Whether an approval waits, and how it was decided. */
export type ApprovalStatus = "pending" | "allowed" | "denied" | "expired" | "cancelled";

/** A request that waits, as somebody outside is told. */
export type AskedApproval = {
  /** When it was asked. */
  created_at: Seconds;
  /** What the CLI says about it. */
  description: string | null;
  /** Who is asked now, if it was passed on. */
  escalated_to?: Owner | null;
  /** When it is denied automatically. */
  expires_at: Seconds | null;
  /** Its id. */
  id: ApprovalId;
  /** The tool's input; null when it is too large to tell. */
  input: JsonObject | null;
  /** How large an input is that is not told, in bytes. */
  input_bytes?: number | null;
  /** The digest of the input. */
  input_digest: string;
  /** What the agent asks its user, when the call is a question. */
  question?: Question | null;
  /** How much harm the call could do. */
  risk?: Risk | null;
  /** The session that asks. */
  session_id: SessionId;
  /** That session's name. */
  session_name: string;
  /** `pending`. */
  status: ApprovalStatus;
  /** What the call would act on; absent when the input is too large to tell. */
  target?: ToolTarget | null;
  /** The tool. */
  tool_name: string;
  /** The call. */
  tool_use_id: string;
  /** The directory in which the session's commands and relative paths start. */
  working_dir?: string | null;
};

/** What an agent asks about before it does it, from the least to the most. */
export type AsksFor = "configured" | "changes" | "everything";

/** What an audit line says, by its kind. */
export type AuditBody = RefusedAttempt | Breach | BudgetUsed | AnsweredOutside | GivenUp | DeviceChanged | JsonObject;

/** One line of the audit. */
export type AuditLine = {
  /** When. */
  at: Seconds;
  /** The rest. */
  body: AuditBody;
  /** Its handle, which `plexus.resolve_handle` takes. Always there from this version on. */
  handle?: Handle | null;
  /** What kind of thing happened: `refused`, `breach`, `approval.answered`, `budget.stopped` and their like. */
  kind: string;
  /** The session it is about. */
  session_id: SessionId | null;
};

/** A result of `audit`. */
export type AuditList = {
  type: "ok";
  /** Where the next page starts, if there is one. */
  cursor?: string | null;
  /** The lines, newest first. */
  lines: AuditLine[];
};

/** Parameters of `backup`. */
export type BackupParams = {
  /** Where the copy goes; the file must not exist. */
  path: string;
};

/** A session by its id alone. */
export type BareSession = {
  /** Its id. */
  id: SessionId;
};

/** A path between two nodes. */
export type BetweenParams = {
  /** Its first node. */
  from: NodeId;
  /** Its last node. */
  to: NodeId;
};

/** One block of a message. */
export type Block =
  /** A text. */
  | {
    type: "text";
    /** The text. */
    text: string;
  }
  /** What the model thinks. */
  | {
    type: "thinking";
    /** The text. */
    thinking: string;
  }
  /** The model uses a tool. */
  | {
    type: "tool_use";
    /** The call. */
    id: string;
    /** Its input. */
    input: JsonObject;
    /** The tool. */
    name: string;
  }
  /** A tool has run, or was refused. */
  | {
    type: "tool_result";
    /** What it gave. */
    content: ToolOutput;
    /** Whether it failed. */
    is_error: boolean;
    /** The call. */
    tool_use_id: string;
  }
  /** Something of long ago, whose content was removed. */
  | {
    type: "pruned";
    /** What it was: `prompt`, or the type of its event. */
    was: string;
  };

/** A run did what nobody allowed. */
export type Breach = {
  /** The decision that it went against, if there was one. */
  approval_id: ApprovalId | null;
  /** What it went against. */
  kind: BreachKind;
  /** The run, by its number within the session. */
  run: number;
  /** What it did. */
  what: string;
};

/** What a breach went against. */
export type BreachKind = "unallowed" | "unprompted_turn";

/** Limits for a session and everything below it. What is not set is not limited. */
export type Budget = {
  /** How many sessions there may be below it. */
  children?: number | null;
  /** Cost in US dollars. */
  cost_usd?: number | null;
  /** How many generations there may be below it. */
  depth?: number | null;
  /** Tokens, read and written: for agents that know no money. */
  tokens?: number | null;
  /** Turns of the model. */
  turns?: number | null;
  /** Seconds of running chats, added up. */
  wall_secs?: number | null;
};

/** Parameters of `budget_set`. */
export type BudgetSetParams = {
  /** All its limits from now on; what is not named is not limited. */
  budget: Budget;
  /** Its exact name. */
  name?: string | null;
  /** The session. */
  session_id?: SessionId | null;
};

/** How far a budget is used. */
export type BudgetUse = {
  /** The limit that is nearest to its end: `cost`, `turns`, `tokens` or `wall time`. */
  of: string;
  /** How much of it is spent; 1 is all. */
  used: number;
};

/** How far a budget is used. */
export type BudgetUsed = {
  /** The budget. */
  budget: Budget;
  /** The limit that is nearest to its end: `cost`, `turns`, `tokens` or `wall time`. */
  of: string;
  /** The session that has the budget. */
  session: NamedSession;
  /** How much of it is spent; 1 is all. */
  used: number;
};

/** A failed call, as its caller sees it. What goes to the log is another text. */
export type CallError = {
  /** The path of the parameter that is wrong, for `invalid`: `budget.turns`, `session_ids[2]`. */
  field?: string | null;
  /** The next step. */
  hint?: string;
  /** What the caller can do. */
  kind: ErrorKind;
  /** What happened, as a lowercase fragment that reads well after "could not". */
  message: string;
  /** When to try again, for `busy` and `unavailable`. */
  retry_after_ms?: number | null;
  /** What stands, for `conflict`. */
  standing?: Standing | null;
};

/** The identity behind one call. */
export type Caller = "operator" | { session: SessionId } | { child: SessionId } | { device: DeviceId };

/** Parameters of `cancel`. */
export type CancelParams = {
  /** Its exact name. */
  name?: string | null;
  /** Why; readers of the chat see it. */
  reason?: string | null;
  /** The session's id. */
  session_id?: SessionId | null;
};

/** One session of `wait`. */
export type ChangedSession = {
  /** The last thing the agent said in the newest chat, once that has ended. */
  answer?: LastAnswer | null;
  /** How far its budget is used, if it has one. */
  budget?: BudgetUse | null;
  /** Its newest chat. */
  chat: number | null;
  /** The newest thing that happened, in one line. */
  line: string;
  /** Its name. */
  name: string;
  /** How many permission requests wait. */
  pending: number;
  /** The session. */
  session_id: SessionId;
  /** What it is doing. */
  status: SessionStatus;
  /** How many events that has. */
  total_events: number;
};

/** A result of `changes`. */
export type ChangesFound = {
  type: "ok";
  /** The changes, sorted by path. */
  changes: PreviewedChange[];
  /** Whether there are more than are listed. */
  cut: boolean;
  /** What the answer does not tell, and why. */
  note?: string | null;
  /** When the session began. */
  since: Millis;
  /** Where the answer comes from. */
  source: ChangesSource;
};

/** Where an answer about changes comes from. */
export type ChangesSource = "git" | "edits";

/** Which way permission requests travel. */
export type ChannelChoice = "auto" | "control" | "mcp";

/** A result of `cancel`. */
export type ChatCancelled = { type: "cancelled" };

/** A chat that has ended. */
export type ChatEnded = {
  /** The chat. */
  chat: number;
  /** Why it failed or was cancelled. */
  error: string | null;
  /** The session. */
  session: EndedSession;
  /** How it ended. */
  status: ChatStatus;
  /** What it used, if it says so. */
  usage: Usage | null;
};

/** One thing that a reader of a chat sees. */
export type ChatEvent =
  /** The chat has begun. */
  | {
    type: "start";
    /** The session. */
    id: SessionId;
    /** The node of the prompt. */
    user_position: Position;
  }
  /** A text block of the model. */
  | {
    type: "content";
    /** The text. */
    text: string;
  }
  /** A thinking block of the model. */
  | {
    type: "thinking";
    /** The text. */
    thinking: string;
  }
  /** The model wants to use a tool. */
  | {
    type: "tool_use";
    /** Its input. */
    input: JsonObject;
    /** The tool. */
    tool_name: string;
    /** The call. */
    tool_use_id: string;
  }
  /** A tool waits for permission. */
  | {
    type: "awaiting_approval";
    /** The approval to answer. */
    approval_id: ApprovalId;
    /** Its input. */
    input: JsonObject;
    /** Why only the operator may allow it; absent where rules, modes and sessions may too. */
    person_only?: string | null;
    /** What the agent asks its user, when the call is a question. */
    question?: Question | null;
    /** The tool. */
    tool_name: string;
    /** The call. */
    tool_use_id: string;
  }
  /** A permission request was decided. */
  | {
    type: "approval_resolved";
    /** What was answered to a question. */
    answers?: { [key: string]: string[] } | null;
    /** The approval. */
    approval_id: ApprovalId;
    /** Whether the tool may run. */
    approved: boolean;
    /** Who decided: `"operator"`, `{"session": ID}`, `{"rule": ID}`, `"deadline"`, `"agent_ended"` or `"webhook"`. */
    decided_by: DecidedBy;
    /** Why. */
    message?: string | null;
    /** The input as the decider edited it. */
    updated_input?: JsonObject | null;
  }
  /** A tool has run, or was refused. */
  | {
    type: "tool_result";
    /** Whether it failed. */
    is_error: boolean;
    /** What it gave: text, or an array of content blocks. */
    output: ToolOutput;
    /** The call. */
    tool_use_id: string;
  }
  /** A child session asks for permission. The event is in the running chat of its parent. */
  | {
    type: "tool_request";
    /** The approval to answer. */
    approval_id: ApprovalId;
    /** Its input. */
    input: JsonObject;
    /** Why only the operator may allow it; absent where rules, modes and sessions may too. */
    person_only?: string | null;
    /** What the agent asks its user, when the call is a question. */
    question?: Question | null;
    /** The child. */
    session_id: SessionId;
    /** The child's name. */
    session_name: string;
    /** The tool. */
    tool_name: string;
    /** The call. */
    tool_use_id: string;
  }
  /** Somebody put a message into the running chat. */
  | {
    type: "steered";
    /** Who: `"operator"` or `{"session": ID}`. */
    by: Caller;
    /** The message. */
    text: string;
  }
  /** Something a reader should know: retries, stderr, escalation, budget. */
  | {
    type: "notice";
    /** The words. */
    message: string;
  }
  /** Something of the CLI that we do not translate, as it was. */
  | {
    type: "passthrough";
    /** The whole line. */
    data: JsonObject;
    /** Its type, with its subtype after a slash. */
    event_type: string;
  }
  /** The chat has ended well. */
  | {
    type: "complete";
    /** The CLI's own id of the last thing it said: where a fork after this chat goes on. */
    claude_message_id?: string | null;
    /** The CLI's own id of the conversation. */
    claude_session_id: string | null;
    /** The session's head from now on. */
    new_head: Position;
    /** What the chat used. */
    usage: Usage;
  }
  /** Something failed: a line that could not be read, or, as the last event, the chat. */
  | {
    type: "error";
    /** What. */
    message: string;
  }
  /** An event that happened long ago, whose content was removed. Its number and its place in the tree are those of the event that it was. */
  | {
    type: "pruned";
    /** The type of the event that it was, for example `content`. */
    was: string;
  };

/** Parameters of `chat_async`. */
export type ChatParams = {
  /** Whether the session goes on as if this chat had not been. */
  ephemeral?: boolean | null;
  /** The same key again finds the chat that it started, instead of starting another. */
  idempotency_key?: string | null;
  /** Images that belong to the prompt. Its text is stored and shown with a line for each. They need the power `images` of the session's agent. */
  images?: PromptImage[] | null;
  /** Its exact name. */
  name?: string | null;
  /** What to tell the agent. */
  prompt: string;
  /** The session's id. */
  session_id?: SessionId | null;
  /** Only for `chat`: how many milliseconds to wait (60,000 at most). */
  wait_ms?: number | null;
};

/** A result of `chat_async`. */
export type ChatStarted = {
  type: "started";
  /** The chat's number. */
  chat: number;
  /** The session. */
  session_id: SessionId;
  /** Its status: a chat that its idempotency key found may have ended. Always there from this version on. */
  status?: SessionStatus | null;
};

/** The status of a chat. It ends once. */
export type ChatStatus = "running" | "complete" | "failed" | "cancelled";

/** Parameters of `cone.create`. */
export type ConeCreateParams = {
  /** Limits for it. */
  budget?: Budget | null;
  /** Anything you want to find again; an object. */
  metadata?: JsonObject | null;
  /** The model, perhaps with `anthropic/` or `openai/` before it, which chooses the API. Without that, models whose names begin with `claude` have the Messages API and all others that of chat completions. */
  model?: string | null;
  /** A name, unique among the sessions you create. */
  name: string;
  /** The session that is to be its parent. Only the operator may say. */
  parent?: SessionId | null;
  /** What the model is told before everything else. */
  system_prompt?: string | null;
};

/** Parameters of `configure`. */
export type ConfigureParams = {
  /** The session whose child somebody else starts. */
  session_id: SessionId;
};

/** A result of `configure`. */
export type Configured = {
  type: "ok";
  /** The flags to start the CLI with. */
  flags: string[];
  /** What goes into the file for `--mcp-config`. It holds a token: keep it private. */
  mcp_config: McpConfig;
};

/** How tightly the children of a session are confined. The order goes from loose to tight. */
export type Confine = "none" | "workspace" | "strict";

/** A named reader of a session, and its position. */
export type Consumer = {
  /** The chat it stands in. */
  chat: number;
  /** Its name. */
  consumer: string;
  /** Its position. */
  cursor: string;
  /** The number of the next event it will get. */
  seq: number;
  /** When it moved last. */
  updated_at: Millis;
};

/** A result of `cursors`. */
export type ConsumerList = {
  type: "ok";
  /** The named readers of the session. */
  cursors: Consumer[];
};

/** What is known of what a chat costs. */
export type CostPower = "none" | "tokens" | "usd";

/** How much there is. */
export type Counts = {
  /** Approvals that were allowed. */
  approvals_allowed: number;
  /** Approvals that were cancelled. */
  approvals_cancelled: number;
  /** Approvals that were denied. */
  approvals_denied: number;
  /** Approvals that expired. */
  approvals_expired: number;
  /** Approvals that wait. */
  approvals_pending: number;
  /** The size of the store on disk, in bytes; 0 in memory. */
  bytes_on_disk: number;
  /** Chats that were cancelled. */
  chats_cancelled: number;
  /** Chats that ended well. */
  chats_complete: number;
  /** Chats that failed. */
  chats_failed: number;
  /** Open chats. */
  chats_running: number;
  /** The newest commit. */
  commits: number;
  /** Events ever appended. */
  events: number;
  /** Change lists that wait for the writer. */
  queue_entries: number;
  /** Runs that have not ended. */
  runs_open: number;
  /** Sessions. */
  sessions: number;
};

/** Parameters of `create`. */
export type CreateParams = {
  /** More directories it may work in. */
  add_dirs?: string[] | null;
  /** The agent: `claude_code` (which it is without), `codex`, or another that `agents.kinds` lists. */
  agent?: string | null;
  /** Calls that it may make unasked: rules of this session. */
  allowed_tools?: string[] | null;
  /** Limits for it and everything below it. */
  budget?: Budget | null;
  /** Whether it may create and supervise sessions of its own. */
  can_spawn?: boolean | null;
  /** Whether it may use `cone`, and pass that on. */
  can_use_cone?: boolean | null;
  /** How permission requests travel: `auto`, `control` or `mcp`. */
  channel?: ChannelChoice | null;
  /** The wall around its children: `workspace` (the default where this machine can build it), `strict`, or `none`. Never looser than its parent's. */
  confine?: Confine | null;
  /** Tools that it may not use. */
  disallowed_tools?: string[] | null;
  /** Variables for its environment. */
  env?: { [key: string]: string } | null;
  /** After how many seconds an unanswered permission request goes to your own parent. */
  escalate_after_secs?: number | null;
  /** Whether permission requests come to you (true). Without it, what would ask is denied. */
  loopback_enabled?: boolean | null;
  /** How many seconds a permission request waits before it is denied; 0 waits for ever. Default: 300. */
  loopback_timeout_secs?: number | null;
  /** Which calls of its own children it may allow, as patterns such as `Bash(git diff:*)`. */
  may_decide?: string[] | null;
  /** MCP servers by name; calls of their tools are asked about. Only for agents with this power (`agents.kinds`). */
  mcp_servers?: { [key: string]: AgentMcpServer } | null;
  /** Anything you want to find again; an object. */
  metadata?: JsonObject | null;
  /** The model, as the CLI names it. */
  model?: string | null;
  /** A name, unique among the sessions you create. */
  name: string;
  /** The session that is to be its parent. Only the operator may say. */
  parent?: SessionId | null;
  /** Whether its agent is started before the first prompt. */
  prestart?: boolean | null;
  /** What is read of the repository: `instructions` (`CLAUDE.md`; the default), `ignore` (nothing), or `trust` (settings and hooks too; operator only). */
  project_settings?: ProjectSettings | null;
  /** `default`, or `all`: ask also about what the CLI would run unasked. */
  supervise?: Supervise | null;
  /** Added to the agent's own instructions. */
  system_prompt?: string | null;
  /** Where the agent works; the directory must exist. `~` is the home of the server's user. */
  working_dir: string;
};

/** Parameters of `cursor_delete`. */
export type CursorDeleteParams = {
  /** The reader's name. */
  consumer: string;
  /** Its exact name. */
  name?: string | null;
  /** The session's id. */
  session_id?: SessionId | null;
};

/** Parameters of `cursor_set`. */
export type CursorSetParams = {
  /** The reader's name. */
  consumer: string;
  /** Its new position. */
  cursor: string;
  /** Its exact name. */
  name?: string | null;
  /** The session's id. */
  session_id?: SessionId | null;
};

/** A permission request and its decision, as `history` shows it and as a conflict names what stands. */
export type DecidedApproval = {
  /** What was answered to it. */
  answers?: { [key: string]: string[] } | null;
  /** Its id. */
  approval_id: ApprovalId;
  /** What the child did against the decision. */
  breach?: string | null;
  /** When it was asked. */
  created_at: Seconds;
  /** When. */
  decided_at?: Seconds | null;
  /** Who decided. */
  decided_by?: DecidedBy | null;
  /** When the answer reached the child. */
  delivered_at?: Seconds | null;
  /** The name of the device that decided; only in `history`. */
  device?: string | null;
  /** Its handle, which `plexus.resolve_handle` takes. Always there from this version on. */
  handle?: Handle | null;
  /** The tool's input, as it was asked for. */
  input: JsonObject;
  /** The digest of that input. */
  input_digest: string;
  /** Why. */
  message?: string | null;
  /** What the agent asked its user, when the call was a question; only in `history`. */
  question?: Question | null;
  /** The session that asked. */
  session_id: SessionId;
  /** How it was decided; `pending` where a conflict shows one that is not. */
  status: ApprovalStatus;
  /** What the call would act on; only in `history`, and absent over MCP and when the server no longer knows the session's agent. It fits `input`, and not `updated_input`. */
  target?: ToolTarget | null;
  /** The tool. */
  tool_name: string;
  /** The call. */
  tool_use_id: string;
  /** The input as the decider edited it. */
  updated_input?: JsonObject | null;
};

/** Who decided. */
export type DecidedBy = "operator" | { session: SessionId } | { rule: RuleId } | "deadline" | "agent_ended" | "webhook" | { device: DeviceId };

/** A result of `history`. */
export type DecisionList = {
  type: "ok";
  /** Where the next page starts, if there is one. */
  cursor?: string | null;
  /** Decisions, newest first. */
  decisions: DecidedApproval[];
};

/** What a live piece says. */
export type Delta =
  /** A message begins: pieces that have not become an event are void. */
  | { type: "delta_start" }
  /** A piece of text. */
  | {
    type: "delta";
    /** The text. */
    text: string;
  };

/** How the reason of a denial reaches an agent. */
export type DenyReason = "none" | "in_answer" | "as_next_message";

/** A device of the operator came or went. */
export type DeviceChanged = {
  /** What it is called. */
  device: string;
  /** The device. */
  device_id: DeviceId;
};

/** One device that decides for the operator, such as a phone. */
export type DeviceId = string;

/** A result of `devices`. */
export type DeviceList = {
  type: "ok";
  /** The devices, oldest first. */
  devices: PairedDevice[];
};

/** A result that says only that it is done. */
export type Done = { type: "ok" };

/** The session of a chat that has ended. */
export type EndedSession = {
  /** Its id. */
  id: SessionId;
  /** Its name. */
  name: string;
  /** The session that created it. */
  parent: SessionId | null;
};

/** What a caller can do about a failure. */
export type ErrorKind = "invalid" | "not_found" | "conflict" | "forbidden" | "unauthorized" | "busy" | "expired" | "unavailable" | "internal";

/** One event of a chat. Readers count events by `seq`; this id is what its handle names. */
export type EventId = string;

/** A change of one file. The texts stay in the tool's input, where JSON Pointers (RFC 6901) find them. */
export type FileChange = (
  /** Its content is replaced, or it is created. */
  | {
    /** Where the new content is. */
    after: string;
    edit: "whole";
  }
  /** A text in it is replaced. */
  | {
    /** Where the new text is. */
    after: string;
    /** Where the old text is. */
    before: string;
    edit: "replace";
    /** Whether every occurrence is replaced. */
    every?: boolean;
  }
  /** A part of it, such as a cell of a notebook, gets new content. */
  | {
    /** Where the new content is. */
    after: string;
    edit: "part";
    /** The name of the part; absent for a new one. */
    name?: string | null;
  }
  /** A unified diff is applied to it. */
  | {
    /** Where the diff is. */
    diff: string;
    edit: "diff";
  }
  /** It is deleted. */
  | { edit: "delete" }
  /** It changes in a way that the input does not show. */
  | { edit: "unknown" }) & {
  /** The path as it was written. */
  path: string;
};

/** One file. */
export type FileNow = (
  /** A text. */
  | {
    is: "text";
    /** All of it. */
    text: string;
  }
  /** Nothing: the call would create it. */
  | { is: "absent" }
  /** Something that is not shown. */
  | {
    is: "unread";
    /** Why. */
    why: string;
  }) & {
  /** The path as the call says it. */
  path: string;
};

/** Parameters of `files`. */
export type FilesParams = {
  /** The approval whose call would change them. */
  approval_id: ApprovalId;
};

/** A result of `files`. */
export type FilesRead = {
  type: "ok";
  /** Each file once, in the order of the changes. */
  files: FileNow[];
};

/** Parameters of `follow`. */
export type FollowParams = {
  /** Continue at the position of this named reader. */
  consumer?: string | null;
  /** Go on after this position. */
  cursor?: string | null;
  /** Also live pieces of text, which are never stored. */
  deltas?: boolean | null;
  /** The session; without it, all that you may see. */
  session_id?: SessionId | null;
};

/** One item of `follow`. */
export type Followed = FollowedEvent | LiveText;

/** An event as a stream shows it: the same, and where it belongs. */
export type FollowedEvent = {
  /** The chat. */
  chat: number;
  /** The event. */
  event: ChatEvent;
  /** Its handle, which `plexus.resolve_handle` takes; not in a `poll` without `handles`. */
  handle: Handle | null;
  /** Its node in the session's tree; not in a `poll` without `handles`. */
  node_id: NodeId | null;
  /** Its number within the chat. */
  seq: number;
  /** The session. */
  session_id: SessionId;
  /** What the call of a `tool_use` or `awaiting_approval` acts on; absent when the server no longer knows the session's agent, and in a `poll` without `handles`. */
  target?: ToolTarget | null;
  /** When. */
  timestamp: Millis;
};

/** Parameters of `fork`. */
export type ForkParams = {
  /** The node to start after: that of a `complete` event of the session, or the root of the tree for a new conversation; the head without it. */
  at?: NodeId | null;
  /** Its exact name. */
  name?: string | null;
  /** The new session's name. */
  new_name: string;
  /** The session's id. */
  session_id?: SessionId | null;
};

/** Where the conversation of an agent can be forked. */
export type ForkPower = "none" | "head" | "anywhere";

/** What a fork goes on from. */
export type ForkedFrom = {
  /** Its handle. */
  handle: Handle;
  /** Its name. */
  name: string;
  /** The session. */
  session_id: SessionId;
};

/** A message to somebody outside that will never arrive. */
export type GivenUp = {
  /** How often it was tried. */
  attempts: number;
  /** What it told. */
  event: string;
  /** The message. */
  id: string;
  /** Whom. */
  receiver: string;
  /** Why it was given up. */
  why: string;
};

/** The name of something that an activation owns. */
export type Handle = {
  /** What the owner needs to find it. */
  meta: string[];
  /** What kind of thing it is, for example `chat_event`. */
  method: string;
  /** The activation that can say what this is. */
  plugin_id: PluginId;
  /** The version of the owner's handle format, for example `1.0.0`. */
  version: string;
};

/** The name of something that an activation owns: an object, or the text plugin_id@version::method:meta0:meta1. */
export type HandleInput =
  /** The name of something that an activation owns. */
  | {
    /** What the owner needs to find it. */
    meta: string[];
    /** What kind of thing it is, for example `chat_event`. */
    method: string;
    /** The activation that can say what this is. */
    plugin_id: PluginId;
    /** The version of the owner's handle format, for example `1.0.0`. */
    version: string;
  }
  | string;

/** One kind of handles as `plugins` lists it. */
export type HandleKindEntry = {
  /** What it stands for. */
  description: string;
  /** What its `meta` must have, in this order. */
  meta: string[];
  /** The `method` of such a handle. */
  method: string;
};

/** A result of `context_get_handles`. */
export type HandleList = {
  type: "ok";
  /** The handles along the path. */
  handles: Handle[];
};

/** How the server and its activations are. */
export type HealthReport = {
  type: "ok";
  /** What each activation says, by path: nothing (`{}`) from one that only answers calls, `{"error": …}` from one that failed. */
  activations: JsonObject;
  /** The version of Plexus. */
  version: string;
};

/** What the server is doing. */
export type HealthState = {
  type: "ok";
  /** Children that live, warm ones included. */
  children: number;
  /** What the store holds. */
  counts: Counts;
  /** The servers that share the store; absent where this one has it to itself. */
  nodes?: ServerNode[];
};

/** The body of `POST /hooks/respond`. */
export type HookAnswer = {
  /** What is answered to a question of the agent, as `loopback.respond` takes it. */
  answers?: { [key: string]: string[] } | null;
  /** Whether the tool may run. */
  approve: boolean;
  /** The digest of the input that was shown; another one is a conflict. */
  input_digest?: string | null;
  /** Why; the model reads it. */
  message?: string | null;
  /** The token of the message. */
  token: string;
};

/** The answer of `POST /hooks/respond`. */
export type HookAnswered = {
  type: "ok";
  /** The approval. */
  approval_id: ApprovalId;
  /** How it was decided. */
  status: ApprovalStatus;
};

/** What can be told. The names are part of the wire. */
export type HookEvent = "approval.requested" | "approval.escalated" | "approval.resolved" | "approval.expired" | "session.ended" | "budget.warned" | "budget.stopped" | "breach";

/** A message as it is sent. */
export type HookMessage = (
  /** `approval.requested`, `approval.escalated`. */
  | {
    /** The request that waits. */
    approval: AskedApproval;
  }
  /** `approval.resolved`, `approval.expired`. */
  | {
    /** The request that needs nobody any more. */
    approval: ResolvedApproval;
  }
  /** `session.ended`. */
  | ChatEnded
  /** `budget.warned`, `budget.stopped`. */
  | BudgetUsed
  /** `breach`. */
  | {
    /** The session. */
    session: BareSession;
    /** What its run did. */
    what: string;
  }) & ({
  /** What it tells. */
  type: HookEvent;
  /** When that happened. */
  created_at: Millis;
  /** Its id, the same at every attempt. */
  id: string;
  /** How to answer, for a receiver that may. */
  respond?: HookRespond | null;
});

/** How a message is answered. */
export type HookRespond = {
  /** Until when the token works. */
  expires_at: Millis;
  /** The one-time token. The outbox never holds it. */
  token?: string | null;
  /** Where the answer goes. */
  url?: string | null;
};

/** What a handle of one of our activations stands for. */
export type KnownThing =
  /** An event of a chat. */
  | FollowedEvent & { type: "event" }
  /** The prompt of a chat. */
  | PromptMessage & { type: "message" }
  /** A permission request. */
  | DecidedApproval & { type: "approval" }
  /** A node of a tree. */
  | {
    type: "node";
    /** The node. */
    node: Node;
  }
  /** A session. */
  | Session & { type: "session" }
  /** A chat. */
  | Stream & { type: "chat" }
  /** A standing rule. */
  | Rule & { type: "rule" }
  /** A line of the audit. */
  | AuditLine & { type: "audit_line" }
  /** A tree. */
  | {
    type: "tree";
    /** The tree. */
    tree: Tree;
  }
  /** A hub, by a handle with its own plugin id. */
  | PluginEntry & { type: "hub" };

/** The last text of a chat that has ended. */
export type LastAnswer = {
  /** The chat. */
  chat: number;
  /** True when the text is longer. Absent otherwise. */
  cut?: boolean;
  /** The number of its event, from which `poll` reads the whole text. */
  seq: number;
  /** The text, or how it begins. */
  text: string;
};

/** Parameters of `context_list_leaves`. */
export type LeavesParams = {
  /** The `cursor` of the page before. */
  cursor?: string | null;
  /** How many (100, at most 1,000). */
  limit?: number | null;
  /** The tree. */
  tree_id: TreeId;
};

/** Parameters of `list`. */
export type ListParams = {
  /** The `cursor` of the page before. */
  cursor?: string | null;
  /** How many (100, at most 1,000). */
  limit?: number | null;
  /** Only children of this session. */
  parent?: SessionId | null;
  /** Only sessions in this state. */
  status?: SessionStatus | null;
};

/** A live piece of text of a session. It has no cursor. */
export type LiveText = {
  /** The piece. */
  event: Delta;
  /** The session. */
  session_id: SessionId;
};

/** The MCP servers of a child, as the CLI's `--mcp-config` takes them. */
export type McpConfig = {
  /** The servers, by name. */
  mcpServers: { [key: string]: McpServer };
};

/** One MCP server over HTTP. */
export type McpServer = {
  /** `http`. */
  type: string;
  /** What every request carries. */
  headers: { [key: string]: string };
  /** How long a call may take, in milliseconds. */
  timeout?: number | null;
  /** Its address. */
  url: string;
};

/** One message of a conversation. */
export type Message = {
  /** What is said, in order. */
  content: Block[];
  /** The handle of each block, in the same order: of the event, or of the node that holds a prompt. Always there from this version on. */
  handles?: Handle[];
  /** Who says it. */
  role: Role;
};

/** A result of `send`. */
export type MessageSent = { type: "sent" };

/** One method as `methods` and `schema` list it. */
export type MethodEntry = {
  /** What it does. */
  description: string;
  /** Its full name. */
  name: string;
  /** The JSON Schema of its parameters; only in `schema`. */
  params?: JsonObject | null;
  /** The JSON Schema of its result; only in `schema`. */
  result?: JsonObject | null;
  /** Whether it may answer with a stream. */
  streaming: boolean;
};

/** A result of `methods` and `schema`. */
export type MethodList = {
  type: "ok";
  /** The methods that you may call, by name. */
  methods: MethodEntry[];
};

/** A moment, in milliseconds since 1970 (UTC). */
export type Millis = number;

/** What is allowed unasked for a while. */
export type Mode = "ask" | "accept_edits" | "allow_all";

/** Parameters of `mode_set`. */
export type ModeSetParams = {
  /** How many seconds it holds. */
  expires_in_secs: number;
  /** `ask`, `accept_edits` or `allow_all`. */
  mode: Mode;
  /** The session. */
  session_id: SessionId;
};

/** A session and its name. */
export type NamedSession = {
  /** Its id. */
  id: SessionId;
  /** Its name. */
  name: string;
};

/** No parameters. */
export type NoParams = Record<string, never>;

/** One node of a tree. */
export type Node = {
  /** When it was made. */
  created_at: Millis;
  /** What it holds. */
  data: NodeData;
  /** Its handle, which `plexus.resolve_handle` takes. Always there from this version on. */
  handle?: Handle | null;
  /** Its id. An event's node has the event's UUID. */
  id: NodeId;
  /** What its maker noted. */
  metadata: JsonObject;
  /** The node before it; null for the root. */
  parent: NodeId | null;
  /** Its tree. */
  tree_id: TreeId;
};

/** Parameters of `node_create_external`. */
export type NodeCreateExternalParams = {
  /** What it stands for, as a handle. */
  handle: HandleInput;
  /** An object. */
  metadata?: JsonObject | null;
  /** The node before it; without it, the root of the tree. */
  parent?: NodeId | null;
  /** The tree. */
  tree_id: TreeId;
};

/** Parameters of `node_create_text`. */
export type NodeCreateTextParams = {
  /** The text. */
  content: string;
  /** An object. */
  metadata?: JsonObject | null;
  /** The node before it; without it, the root of the tree. */
  parent?: NodeId | null;
  /** The tree. */
  tree_id: TreeId;
};

/** A result of `tree_create`, `node_create_text` and `node_create_external`. */
export type NodeCreated = {
  type: "created";
  /** The new node; of a new tree, its root. */
  node_id: NodeId;
  /** The tree. */
  tree_id: TreeId;
};

/** What a node holds. */
export type NodeData =
  /** A text of its own. */
  | {
    type: "text";
    /** The text. */
    content: string;
  }
  /** Something an activation owns. */
  | {
    type: "external";
    /** Its name. */
    handle: Handle;
  }
  /** A prompt of long ago, whose text was removed. */
  | { type: "pruned" };

/** A result of `node_get` and `node_get_parent`. */
export type NodeGot = {
  type: "ok";
  /** The node; null above the root. */
  node: Node | null;
};

/** One node of an Arbor tree. An event has a node; a node need not be an event. */
export type NodeId = string;

/** A result of the methods that list nodes. */
export type NodeList = {
  type: "ok";
  /** Where the next page starts, if there is one. */
  cursor?: string | null;
  /** The nodes. */
  nodes: Node[];
};

/** Names a node. */
export type NodeParams = {
  /** The node. */
  node_id: NodeId;
};

/** A failure and when it happened. */
export type NotifyFailure = {
  /** When. */
  at: Millis;
  /** Why. It holds no secret. */
  why: string;
};

/** One receiver, and what happened to it since the server started. */
export type NotifyReceiver = {
  /** Whether it may decide. */
  answers: boolean;
  /** Why button presses cannot arrive right now. */
  deaf?: NotifyFailure | null;
  /** Messages that it took. */
  delivered: number;
  /** When it last took one. */
  delivered_at?: Millis | null;
  /** Attempts that failed. */
  failed: number;
  /** Messages that were given up. */
  given_up: number;
  /** What the configuration makes impossible, in words. */
  hint?: string | null;
  /** The last failure, also after a later success. */
  last_failure?: NotifyFailure | null;
  /** Its name. */
  name: string;
  /** How many browsers have subscribed, for `webpush`. */
  subscriptions?: number | null;
  /** What it is: `webhook`, `ntfy`, `slack`, `telegram`, `webpush`, `desktop` or `command`. */
  to: string;
  /** Messages that wait for it. */
  waiting: number;
};

/** A result of `receivers`. */
export type NotifyReceivers = {
  type: "receivers";
  /** The receivers, in the order of the configuration. */
  receivers: NotifyReceiver[];
};

/** Parameters of `test`. */
export type NotifyTestParams = {
  /** The name of the receiver. */
  name: string;
};

/** Who is asked now. It says whom to tell, not who may decide: `authority.rs` of the engine says that. */
export type Owner = "operator" | { session: SessionId };

/** Parameters of `pair`. */
export type PairParams = {
  /** What to call the device (phone, or phone-2 and so on where that is taken). */
  name?: string | null;
};

/** A device that may read and decide. */
export type PairedDevice = {
  /** Its id, by which decisions name it. */
  id: DeviceId;
  /** What it is called. */
  name: string;
  /** When it was paired. */
  paired_at: Millis;
};

/** A result of `pair`: what a device needs to get its token. */
export type Pairing = {
  type: "ok";
  /** Works once, until `expires_at`. `POST /auth/exchange` takes it. */
  code: string;
  /** When the code ends. */
  expires_at: Millis;
  /** The SHA-256 of the certificate that the server shows there, if it shows one itself. */
  fingerprint?: string | null;
  /** The link to open on the device: it holds the code. */
  link: string;
  /** What the device will be called. */
  name: string;
  /** Whether other machines reach the link's address, as far as the server knows. */
  reachable: boolean;
};

/** A parent outside that has an identity. */
export type Parent = {
  /** When it was made. */
  created_at: Millis;
  /** What it is called. */
  name: string;
  /** The session that it acts as. */
  session_id: SessionId;
};

/** An identity for a parent outside. */
export type ParentIdentity = {
  type: "ok";
  /** The session that the parent acts as. */
  session_id: SessionId;
  /** Its token. It is shown once and stored as a hash. */
  token: string;
};

/** A result of `parents`. */
export type ParentList = {
  type: "ok";
  /** Where the next page starts, if there is one. */
  cursor?: string | null;
  /** The parents outside, oldest first. */
  parents: Parent[];
};

/** Parameters of `parent`. */
export type ParentParams = {
  /** What to call the parent; the same name again is the same identity, with a new token. */
  name: string;
  /** Whether its earlier tokens end (false: they stay valid beside the new one). */
  replace?: boolean | null;
};

/** Parameters of `parents`. */
export type ParentsParams = {
  /** The `cursor` of the page before. */
  cursor?: string | null;
  /** How many (100, at most 1,000). */
  limit?: number | null;
};

/** How a path changed. */
export type PathChange = "added" | "modified" | "removed";

/** A path that ends at a node. */
export type PathParams = {
  /** How many nodes, counted from the end (100, at most 1,000). */
  limit?: number | null;
  /** Its last node. */
  node_id: NodeId;
};

/** A result of `pending` and `wait_for_approval`. */
export type PendingApprovals =
  /** What waits, oldest first; empty when nothing does. */
  | {
    type: "ok";
    /** Hand this back to hear only of later ends. */
    after?: number | null;
    /** The approvals. */
    approvals: Approval[];
    /** Where the next page starts, if there is one. */
    cursor?: string | null;
    /** Sessions whose chat has ended; only in `wait_for_approval` with `after`. */
    ended?: ChangedSession[];
  }
  /** Nothing came within the wait. */
  | {
    type: "timeout";
    /** Hand this back to hear only of later ends. */
    after?: number | null;
  };

/** The answer to `permit`, in the CLI's own words. */
export type PermitAnswer =
  /** The tool runs with this input. Always the whole of it: older CLIs run a bare allow with empty arguments. */
  | {
    behavior: "allow";
    /** The input. */
    updatedInput: JsonObject;
  }
  /** The tool does not run. */
  | {
    behavior: "deny";
    /** What the model reads. */
    message: string;
  };

/** A permission request as the CLI sends it over MCP: exactly these arguments. */
export type PermitRequest = {
  /** Its input. */
  input: JsonObject;
  /** The tool. */
  tool_name: string;
  /** The call. */
  tool_use_id: string;
};

/** One activation as `plugins` lists it. */
export type PluginEntry = {
  /** What it is for. */
  description: string;
  /** The kinds of handles that it resolves. */
  handles: HandleKindEntry[];
  /** The full names of its methods that you may call. */
  methods: string[];
  /** Where it is registered; the names of its methods begin with it: `claudecode`, `team.notes`. */
  path: string;
  /** The id by which handles name it. */
  plugin_id: PluginId;
  /** Its version. */
  version: string;
};

/** Identifies an activation: a UUIDv5 of its path and major version, so that it is the same in every process and no other activation of the server has it. */
export type PluginId = string;

/** A result of `plugins`. */
export type PluginList = {
  type: "ok";
  /** The activations of this server that you can use, by path. */
  plugins: PluginEntry[];
};

/** Parameters of `poll`. */
export type PollParams = {
  /** Which chat (the newest). */
  chat?: number | null;
  /** Read as this named reader, whose position is kept. It moves when you hand back the cursor you got. */
  consumer?: string | null;
  /** Read after this position. */
  cursor?: string | null;
  /** Read from this event on, and move nobody's position. */
  from_seq?: number | null;
  /** Also handles and node ids (true; not by `agents_poll` over MCP) and targets (true; not over MCP). */
  handles?: boolean | null;
  /** How many events (100, at most 1,000). */
  limit?: number | null;
  /** Its exact name. */
  name?: string | null;
  /** The session's id. */
  session_id?: SessionId | null;
  /** How many milliseconds to wait for the first event (0, at most 60,000). */
  wait_ms?: number | null;
};

/** A result of `poll`. */
export type Polled = {
  type: "ok";
  /** The chat of the last event, or the one that the reader goes on in. A page from a cursor may span chats: each event says its own. */
  chat: number | null;
  /** The position after the last event; hand it back to go on there. */
  cursor: string | null;
  /** The events. */
  events: PolledEvent[];
  /** Whether there are more right now. */
  has_more: boolean;
  /** Permission requests of this session that wait. */
  pending_approvals: Approval[];
  /** Where the default reader stands in this chat. */
  read_position: number;
  /** What the session is doing. */
  status: SessionStatus;
  /** How many events the chat has. */
  total_events: number;
};

/** An event as `poll` shows it. */
export type PolledEvent = {
  /** Its chat; always there in `poll` from this version on. An item of `follow` has it beside the session. */
  chat?: number | null;
  /** The event. */
  event: ChatEvent;
  /** Its handle, which `plexus.resolve_handle` takes; not in a `poll` without `handles`. */
  handle?: Handle | null;
  /** Its node in the session's tree; not in a `poll` without `handles`. */
  node_id?: NodeId | null;
  /** Its number within the chat. */
  seq: number;
  /** What the call of a `tool_use` or `awaiting_approval` acts on; absent when the server no longer knows the session's agent, and in a `poll` without `handles`. */
  target?: ToolTarget | null;
  /** When. */
  timestamp: Millis;
};

/** A place in a tree, as it is shown on the wire. */
export type Position = {
  /** The node. */
  node_id: NodeId;
  /** The tree. */
  tree_id: TreeId;
};

/** How a dry run ended. */
export type PreviewEnd =
  /** The command ended. */
  | {
    /** Its exit code. */
    code: number;
    how: "exited";
  }
  /** A signal ended it. */
  | {
    how: "killed";
    /** The signal's number. */
    signal: number;
  }
  /** It took too long and was killed. What it had changed by then is listed. */
  | { how: "out_of_time" }
  /** It wrote too much and was killed. What it had changed by then is listed. */
  | { how: "too_large" };

/** Parameters of `preview`. */
export type PreviewParams = {
  /** The approval whose command is run over a copy. */
  approval_id: ApprovalId;
};

/** A result of `preview`. */
export type Previewed = {
  type: "ok";
  /** What it changed below the session's working directory, sorted by path. */
  changes: PreviewedChange[];
  /** Whether there were more changes than are listed. */
  cut: boolean;
  /** How the dry run ended. */
  end: PreviewEnd;
  /** What a dry run is worth: it is information, and bound to nothing. */
  note: string;
  /** The beginning of its errors. */
  stderr: string;
  /** The beginning of its output. */
  stdout: string;
};

/** One path that a dry run changed. */
export type PreviewedChange = {
  /** How it changed. */
  change: PathChange;
  /** The difference as a unified diff. Absent for a directory, a link or a change of mode. */
  diff?: string | null;
  /** The path, from the session's working directory. */
  path: string;
  /** Why a difference is not shown. */
  why?: string | null;
};

/** What an agent reads of a repository's own files. Its settings hold hooks, which run unasked and can answer permissions. */
export type ProjectSettings = "ignore" | "instructions" | "trust";

/** An image of a prompt. */
export type PromptImage = {
  /** Its bytes as base64. */
  data: string;
  /** Its type: `image/png`, `image/jpeg`, `image/gif` or `image/webp`. */
  mime_type: string;
};

/** The prompt of a chat, and the status of the chat. */
export type PromptMessage = {
  /** The chat. */
  chat: number;
  /** The prompt; empty when it was removed. */
  content: string;
  /** True when the prompt happened long ago and its text was removed. Absent otherwise. */
  pruned?: boolean;
  /** `user`. */
  role: Role;
  /** The session. */
  session_id: SessionId;
  /** The status of the chat, as `poll` shows it. */
  status: SessionStatus;
  /** How many events it has. */
  total_events: number;
};

/** An allow that decisions already taken speak for. */
export type ProposedRule = {
  /** How many of the decisions it would have taken. You allowed each of them. */
  answers: number;
  /** How many that you denied it would have allowed. Always 0: no other is proposed. */
  denied: number;
  /** The newest of the decisions that it would have taken, at most five. */
  evidence: ApprovalId[];
  /** What it means, in words. */
  label: string;
  /** The pattern. */
  pattern: string;
  /** Which sessions it would hold for. */
  scope: RuleScope;
  /** How many sessions asked. */
  sessions: number;
};

/** Parameters of `prune`. */
export type PruneParams = {
  /** What ended longer ago than this many days goes. */
  older_than_days: number;
  /** Whether the texts of prompts go too (false). */
  prompts?: boolean | null;
};

/** A result of `prune`. */
export type Pruned = {
  type: "ok";
  /** Approvals removed. */
  approvals: number;
  /** Audit lines removed. */
  audit: number;
  /** Chats whose events were removed. */
  chats: number;
  /** Events removed. */
  events: number;
  /** Prompts removed. */
  prompts: number;
  /** Directories of runs removed that an accident had left. */
  run_directories: number;
};

/** A result of `push_key`. */
export type PushKey = {
  type: "push_key";
  /** The server's VAPID key: the uncompressed P-256 point in base64url without padding, which a browser takes as `applicationServerKey`. */
  public_key: string;
};

/** Parameters of `push_subscribe`: what a browser's `PushSubscription` says. */
export type PushSubscribeParams = {
  /** The browser's authentication secret, in base64url. */
  auth: string;
  /** The address of the push service. */
  endpoint: string;
  /** What people call this browser. */
  name?: string | null;
  /** The browser's public key, in base64url. */
  p256dh: string;
};

/** Parameters of `push_unsubscribe`. */
export type PushUnsubscribeParams = {
  /** The address of the push service, as it was subscribed. */
  endpoint: string;
};

/** What an agent asks its user. */
export type Question =
  /** Something to choose or to say. An allow carries `answers`, one for each part. */
  | {
    kind: "choices";
    /** The parts, in their order. */
    questions: QuestionPart[];
  }
  /** May this plan be carried out? A denial sends it back, with its message as the comment. */
  | {
    kind: "plan";
    /** The file in which the agent keeps it. */
    path?: string | null;
    /** The plan, in Markdown. */
    plan: string;
  };

/** One thing that may be chosen. */
export type QuestionChoice = {
  /** What it means. */
  description?: string | null;
  /** What it is called, and what is answered. */
  label: string;
  /** What it would look like, as plain text. */
  preview?: string | null;
};

/** One part of a question. */
export type QuestionPart = {
  /** Whether something else than an option may be answered. */
  free_text?: boolean;
  /** A short label. */
  header?: string | null;
  /** Names its answer in `answers`. */
  id: string;
  /** Whether several may be chosen. */
  multiple?: boolean;
  /** The options to choose from; without any, it is answered in words. */
  options?: QuestionChoice[];
  /** Whether the answer is a secret, which a screen does not show while it is typed. */
  secret?: boolean;
  /** What is asked. */
  text: string;
};

/** How many permission requests of a chat were not allowed. */
export type Refused = {
  /** Somebody or a rule denied them. */
  denied: number;
  /** Their deadline passed. */
  expired: number;
};

/** An attempt that was refused. */
export type RefusedAttempt = {
  /** Who tried; unknown without a valid token. */
  caller?: Caller | null;
  /** The name of the device that tried, if one did. */
  device?: string | null;
  /** The address, where it is no method. */
  door?: string | null;
  /** Why, as the caller was told. */
  kind: ErrorKind;
  /** How many attempts before this one were left out, because too many came at once. */
  left_out_before?: number | null;
  /** The same in words. */
  message: string;
  /** The method. */
  method?: string | null;
  /** The tool that was asked about. */
  tool_name?: string | null;
  /** The call that was asked about. */
  tool_use_id?: string | null;
};

/** Remembers a decision as a rule. */
export type Remember = {
  /** When it ends, in seconds from now. */
  expires_in_secs?: number | null;
  /** The pattern; the narrowest that covers the call without it. */
  pattern?: string | null;
  /** Which sessions it holds for. */
  scope: RuleScope;
  /** How many decisions it may make. */
  uses?: number | null;
};

/** Parameters of `rename`. */
export type RenameParams = {
  /** Its exact name. */
  name?: string | null;
  /** The name it gets. */
  new_name: string;
  /** The session's id. */
  session_id?: SessionId | null;
};

/** Parameters of `render_context`. */
export type RenderParams = {
  /** The last node; the head without it. */
  end?: NodeId | null;
  /** Its exact name. */
  name?: string | null;
  /** The session's id. */
  session_id?: SessionId | null;
  /** The first node; the root without it. */
  start?: NodeId | null;
};

/** A result of `render_context`. */
export type Rendered = {
  type: "ok";
  /** For a fork: the session whose conversation it goes on from, as long as that exists. */
  forked_from?: ForkedFrom | null;
  /** The conversation as the model's API would take it. */
  messages: Message[];
  /** The session that created this one, if any. */
  parent?: SessionId | null;
};

/** What running chats of a session, and of everything below it, have set aside until their results come. */
export type Reserved = {
  /** US dollars. */
  cost_usd: number;
  /** Turns of the model. */
  turns: number;
};

/** Parameters of `resolve_handle`. */
export type ResolveParams = {
  /** The handle, as the object or in its text form `plugin_id@version::method:meta`. */
  handle: HandleInput;
};

/** What a handle stands for, as its owner says. */
export type Resolved = KnownThing | JsonObject;

/** A request that needs nobody any more. Its input was told when it was asked. */
export type ResolvedApproval = {
  /** Its id. */
  approval_id: ApprovalId;
  /** What the child did against the decision. */
  breach?: string | null;
  /** When it was asked. */
  created_at: Seconds;
  /** When. */
  decided_at?: Seconds | null;
  /** Who decided. */
  decided_by?: DecidedBy | null;
  /** When the answer reached the child. */
  delivered_at?: Seconds | null;
  /** The digest of the input. */
  input_digest: string;
  /** Why. */
  message?: string | null;
  /** The receiver that the answer came through, where `decided_by` is `webhook`. */
  receiver?: string | null;
  /** The session that asked. */
  session_id: SessionId;
  /** How it was decided. */
  status: ApprovalStatus;
  /** The tool. */
  tool_name: string;
  /** The call. */
  tool_use_id: string;
};

/** Parameters of `respond_many`. */
export type RespondManyParams = {
  /** The approvals, by their exact ids. */
  approval_ids: ApprovalId[];
  /** Whether the tools may run. */
  approve: boolean;
  /** Why. */
  message?: string | null;
};

/** One outcome of `respond_many`. */
export type RespondOutcome = {
  /** The approval. */
  approval_id: ApprovalId;
  /** Why not. */
  error?: CallError | null;
  /** Whether it is decided as you said. */
  ok: boolean;
};

/** A result of `respond_many`. */
export type RespondOutcomes = {
  type: "ok";
  /** One for each id, in that order. */
  outcomes: RespondOutcome[];
};

/** Parameters of `respond`. */
export type RespondParams = {
  /** What is answered to a question of the agent: for the id of each part, labels of its options, or own words where it takes them. */
  answers?: { [key: string]: string[] } | null;
  /** The approval. */
  approval_id: ApprovalId;
  /** Whether the tool may run. */
  approve: boolean;
  /** The digest of the input you saw; another input then is a conflict. */
  input_digest?: string | null;
  /** Why; the model reads it when you deny. */
  message?: string | null;
  /** Also answer such calls from now on. */
  remember?: Remember | null;
  /** Run with this input instead; the whole of it. */
  updated_input?: JsonObject | null;
};

/** A result of `respond`. */
export type Responded = {
  type: "ok";
  /** The approval. */
  approval_id: ApprovalId;
  /** Other approvals that it answered at once. */
  released?: ApprovalId[];
  /** The rule that was remembered. */
  rule_id?: RuleId | null;
};

/** Parameters of `revoke`. */
export type RevokeParams = {
  /** The name of the parent whose tokens end. */
  name: string;
};

/** A result of `revoke`. */
export type Revoked = {
  type: "ok";
  /** The session that the parent acted as. It and what it created stay. */
  session_id: SessionId;
  /** How many tokens have ended. */
  tokens: number;
};

/** How much harm a tool call could do. It orders queues and draws attention. It decides nothing, and a low level is no promise. */
export type Risk = {
  /** The level. */
  level: RiskLevel;
  /** The reasons, the gravest first. */
  reasons: string[];
  /** The same as a number from 0 to 100, to sort by. */
  score: number;
};

/** How much harm a tool call could do. */
export type RiskLevel = "low" | "medium" | "high" | "critical";

/** Who says a message. */
export type Role = "user" | "assistant";

/** A standing rule, as `rules` shows it. */
export type Rule = {
  /** Who made it. */
  author: RuleAuthor;
  /** When it was added; the file does not say. */
  created_at: Seconds | null;
  /** What it says. */
  decision: RuleDecision;
  /** Calls it must not fit. */
  does_not_match: string[];
  /** When it ends. */
  expires_at: Seconds | null;
  /** Its handle, which `plexus.resolve_handle` takes. Always there from this version on. */
  handle?: Handle | null;
  /** Its id. The file's rules get new ones whenever it is read. */
  id: RuleId;
  /** Calls it must fit. */
  matches: string[];
  /** Which calls it is about, in the CLI's notation. */
  pattern: string;
  /** Why it exists. */
  reason: string | null;
  /** Which sessions it holds for. */
  scope: RuleScope;
  /** How many it has made; not counted for the file's. */
  used: number | null;
  /** How many decisions it may make; without a number, any. */
  uses: number | null;
  /** How many more it may make. */
  uses_left: number | null;
};

/** Parameters of `rule_add`. */
export type RuleAddParams = {
  /** `allow`, `deny` or `ask`. */
  decision: RuleDecision;
  /** Calls it must not fit. */
  does_not_match?: string[] | null;
  /** When it ends, in seconds from now. */
  expires_in_secs?: number | null;
  /** Calls it must fit, as `Tool(argument)`. */
  matches?: string[] | null;
  /** Which calls, in the CLI's notation: `Bash(git diff:*)`, `Read(/src/**)`, `WebFetch(domain:example.org)`. */
  pattern: string;
  /** Why it exists. */
  reason?: string | null;
  /** `{"session": ID}`, `{"subtree": ID}` or `"all"`. */
  scope?: RuleScope | null;
  /** How many decisions it may make. */
  uses?: number | null;
};

/** A result of `rule_add`. */
export type RuleAdded = {
  type: "ok";
  /** The rule. */
  rule_id: RuleId;
};

/** Who made a rule. */
export type RuleAuthor = "operator" | { session: SessionId } | "file";

/** What a rule says. */
export type RuleDecision = "allow" | "deny" | "ask";

/** One standing rule that answers permission requests. */
export type RuleId = string;

/** A result of `rules`. */
export type RuleList = {
  type: "ok";
  /** Where the next page starts, if there is one. */
  cursor?: string | null;
  /** The rules, oldest first, with how often each has decided. */
  rules: Rule[];
};

/** Parameters of `rule_preview`. */
export type RulePreviewParams = {
  /** The approval whose decision would be remembered. */
  approval_id: ApprovalId;
  /** Whether it would be allowed. */
  approve: boolean;
  /** How it would be remembered. */
  remember: Remember;
};

/** A result of `rule_preview`. */
export type RulePreviewed = {
  type: "ok";
  /** The pattern that the rule would have. */
  pattern: string;
  /** The other pending approvals that it would decide at once. */
  releases: ApprovalId[];
};

/** Parameters of `rule_remove`. */
export type RuleRemoveParams = {
  /** The rule. */
  rule_id: RuleId;
};

/** Which sessions a rule holds for. */
export type RuleScope = { session: SessionId } | { subtree: SessionId } | "all";

/** Parameters of `rule_suggest`. */
export type RuleSuggestParams = {
  /** How many of your newest decisions are looked at (100, at most 200). */
  last?: number | null;
};

/** A result of `rule_suggest`. */
export type RuleSuggestions = {
  type: "ok";
  /** How many of your decisions were looked at. */
  looked_at: number;
  /** The rules, the narrowest first. None is in force: `rule_add` makes it one. */
  suggestions: ProposedRule[];
};

/** Parameters of `rule_test`. */
export type RuleTestParams = {
  /** Its input. */
  input: JsonObject;
  /** The session that would ask; without it, your oldest. */
  session_id?: SessionId | null;
  /** The tool. */
  tool_name: string;
  /** Instead of a session: the directory of one that is yet to be created. */
  working_dir?: string | null;
};

/** A result of `rule_test`. */
export type RuleTested = {
  type: "ok";
  /** What would happen. */
  decision: RuleDecision;
  /** The rule that would decide. */
  rule_id?: RuleId | null;
  /** Why. */
  why: string;
};

/** Parameters of `rules`. */
export type RulesParams = {
  /** The `cursor` of the page before. */
  cursor?: string | null;
  /** How many (100, at most 1,000). */
  limit?: number | null;
};

/** Parameters of `schema`. */
export type SchemaParams = {
  /** One method's full name; without it, all. */
  method?: string | null;
};

/** A result of `search`. */
export type SearchFound = {
  type: "ok";
  /** How many commits of the store are not indexed yet; their events are not found. */
  behind: number;
  /** Hand it back to go on; missing when nothing is left. */
  cursor?: string | null;
  /** The hits, newest first. There may be more although these are few or none: `cursor` says so. */
  hits: SearchHit[];
  /** What was not understood in the query, or taken otherwise than it looks. */
  notes: string[];
};

/** One thing that was found. */
export type SearchHit = {
  /** When it happened. */
  at: Millis;
  /** The chat. */
  chat: number;
  /** The event. */
  event_id: EventId;
  /** A part of its text, around the first place that fits. */
  excerpt: SearchPiece[];
  /** What it is. */
  kind: SearchKind;
  /** The event in the chat; 0 stands for the prompt. */
  seq: number;
  /** The session. */
  session_id: SessionId;
  /** Its name. */
  session_name: string;
  /** The tool of a call or a result, where it is known. */
  tool?: string | null;
};

/** What a hit is. */
export type SearchKind = "prompt" | "said" | "thought" | "call" | "result" | "decision" | "notice" | "steered";

/** Parameters of `search`. Every condition that is given must hold. */
export type SearchParams = {
  /** The position that the last page gave. */
  cursor?: string | null;
  /** This kind alone. */
  kind?: SearchKind | null;
  /** How many hits (20, at most 100). */
  limit?: number | null;
  /** In this session alone, by its exact name. */
  name?: string | null;
  /** Words that must all occur, in any order; `"quoted words"` stand together, and `word*` is the beginning of a word. Nothing or an empty text finds everything. */
  query?: string | null;
  /** In this session alone, by its id. */
  session_id?: SessionId | null;
  /** Nothing before this moment, in milliseconds since 1970. */
  since?: Millis | null;
  /** Calls and results of this tool alone; its exact name. */
  tool?: string | null;
  /** Nothing at or after this moment, in milliseconds since 1970. */
  until?: Millis | null;
};

/** A piece of an excerpt. */
export type SearchPiece = {
  /** Whether it is what was looked for. */
  hit?: boolean;
  /** The text, as somebody else wrote it. */
  text: string;
};

/** A moment, in seconds since 1970 (UTC). */
export type Seconds = number;

/** Parameters of `send`. */
export type SendParams = {
  /** Its exact name. */
  name?: string | null;
  /** The session's id. */
  session_id?: SessionId | null;
  /** The message. */
  text: string;
};

/** One server of those that share a store: what operators call a node. It stays the same when that server starts again. */
export type ServerId = string;

/** One server of those that share a store: what operators call a node. */
export type ServerNode = {
  /** Which of its registrations this is. */
  epoch: number;
  /** How long ago it was heard from, in milliseconds, by the database's clock. */
  heartbeat_age_ms: number;
  /** Its id. */
  id: ServerId;
  /** How much of its lease is left, in milliseconds, by the database's clock. */
  lease_left_ms: number;
  /** What people call it. */
  name: string;
  /** Its runs that have not ended. */
  open_runs: number;
  /** `alive`, `expired`, `retired` or `taken_over`. */
  state: ServerState;
  /** Whether it is the server that answers. */
  this: boolean;
  /** Where the others reach it. */
  url: string;
};

/** The state of a server. */
export type ServerState = "alive" | "expired" | "retired" | "taken_over";

/** A session as `get` and `list` show it. */
export type Session = {
  /** Its agent. */
  agent: string;
  /** The last thing the agent said in the newest chat, once that has ended; only in `get`. */
  answer?: LastAnswer | null;
  /** Its limits. */
  budget?: Budget | null;
  /** Whether it may create sessions. */
  can_spawn: boolean;
  /** How its permission requests travel. */
  channel: ChannelChoice;
  /** Its newest chat. */
  chat: number | null;
  /** The CLI's own id of the conversation. */
  claude_session_id?: string | null;
  /** The wall around its children. */
  confine: Wall;
  /** When it was created. */
  created_at: Millis;
  /** Its handle, which `plexus.resolve_handle` takes. Always there from this version on. */
  handle?: Handle | null;
  /** The node after which its next chat starts. */
  head: Position;
  /** Its id. */
  id: SessionId;
  /** Whether they come to its parent. */
  loopback_enabled: boolean;
  /** The names of the MCP servers that its agent was given. */
  mcp_servers?: string[];
  /** What its creator noted. */
  metadata: JsonObject;
  /** A mode that the operator set for a while. */
  mode?: TimedMode | null;
  /** The model, if one was named. */
  model: string | null;
  /** Its name. */
  name: string;
  /** The session that created it. */
  parent?: SessionId | null;
  /** True while its agent has no process, which a decision starts again. Absent otherwise. */
  parked?: boolean;
  /** How many permission requests of the newest chat were not allowed. Absent when none was. */
  refused?: Refused | null;
  /** What running chats have set aside, when a budget limits them. */
  reserved?: Reserved | null;
  /** What it and everything below it have spent. */
  spent: Spent;
  /** What it is doing. */
  status: SessionStatus;
  /** When it was changed. */
  updated_at: Millis;
  /** Where it works. */
  working_dir: string;
};

/** A result of `create`. */
export type SessionCreated = {
  type: "created";
  /** Its tree and the node after which its first chat starts. */
  head: Position;
  /** The new session. */
  id: SessionId;
};

/** A result of `delete`. */
export type SessionDeleted = {
  type: "deleted";
  /** The session that is gone. */
  id: SessionId;
};

/** A result of `fork`. */
export type SessionForked = {
  type: "forked";
  /** Where it starts. */
  head: Position;
  /** The new session. */
  id: SessionId;
};

/** A result of `get`. */
export type SessionGot = {
  type: "ok";
  /** The session. */
  session: Session;
};

/** One supervised conversation, the only identifier of a session on the wire. Its `claude_session_id` is the CLI's own. */
export type SessionId = string;

/** A result of `list`. */
export type SessionList = {
  type: "ok";
  /** Where the next page starts, if there is one. */
  cursor?: string | null;
  /** The sessions, oldest first. */
  sessions: Session[];
};

/** A session by its id or its exact name. */
export type SessionRef = {
  /** Its exact name. */
  name?: string | null;
  /** Its id. */
  session_id?: SessionId | null;
};

/** A result of `rename`. */
export type SessionRenamed = {
  type: "renamed";
  /** The session. */
  id: SessionId;
  /** Its name from now on. */
  name: string;
};

/** What a session is doing. */
export type SessionStatus = "idle" | "running" | "awaiting_permission" | "complete" | "failed" | "cancelled";

/** The shell that reads a command. */
export type ShellLanguage = "posix" | "power_shell";

/** A one-time code for the dashboard. */
export type SignInCode = {
  type: "ok";
  /** Works once, for a minute. */
  code: string;
};

/** What a session and everything below it have spent. */
export type Spent = {
  /** US dollars. */
  cost_usd: number;
  /** Tokens read. */
  input_tokens: number;
  /** Tokens written. */
  output_tokens: number;
  /** Turns of the model. */
  turns: number;
  /** Milliseconds that chats took, from prompt to end. A running one counts when it ends. */
  wall_ms: number;
};

/** What is spent already, as the `standing` of a budget below it says. */
export type SpentAlready = {
  /** Sessions below it. */
  children: number;
  /** US dollars. */
  cost_usd: number;
  /** Tokens, read and written. */
  tokens: number;
  /** Turns of the model. */
  turns: number;
  /** Seconds of running chats, added up. */
  wall_secs: number;
};

/** What may stand in the way. Only its schema is used: the JSON is that of the shape it names. */
export type Standing = DecidedApproval | SpentAlready | Stream | string | string[];

/** Parameters of `stop`. */
export type StopParams = {
  /** Whether the children end first (false: they go on, and the next server picks them up). */
  children?: boolean | null;
  /** Whether children that wait for a decision are parked first, where that is safe (false). */
  park?: boolean | null;
};

/** A result of `stop`. */
export type Stopping = {
  type: "stopping";
  /** Children that go on running. */
  children: number;
};

/** A chat's stream of events, as `streams` shows it. */
export type Stream = {
  /** The chat. */
  chat: number;
  /** When it ended. */
  ended_at?: Millis | null;
  /** Why it failed or was cancelled. */
  error?: string | null;
  /** Its handle, which `plexus.resolve_handle` takes. Always there from this version on. */
  handle?: Handle | null;
  /** The node of its newest event. */
  head_node: NodeId;
  /** The position of the default reader. */
  read_position: number;
  /** The node its events hang from. */
  root_node: NodeId;
  /** True for a chat that nobody asked for: the agent went on by itself, for example when it had scheduled something. Absent otherwise. */
  self_started?: boolean;
  /** The session. */
  session_id: SessionId;
  /** When it started. */
  started_at: Millis;
  /** Its status, as `poll` shows it. */
  status: SessionStatus;
  /** How many events it has. */
  total_events: number;
  /** The session's tree. */
  tree_id: TreeId;
};

/** A result of `streams`. */
export type StreamList = {
  type: "ok";
  /** Where the next page starts, if there is one. */
  cursor?: string | null;
  /** The streams, oldest first. */
  streams: Stream[];
};

/** Parameters of `streams`. */
export type StreamsParams = {
  /** The `cursor` of the page before. */
  cursor?: string | null;
  /** How many (100, at most 1,000). */
  limit?: number | null;
  /** Only of this session, by its exact name. */
  name?: string | null;
  /** Only of this session, by its id. */
  session_id?: SessionId | null;
};

/** A rule that would answer a call. */
export type SuggestedRule = {
  /** What it means, for a button or a menu. */
  label: string;
  /** The pattern. */
  pattern: string;
};

/** How much of what a child does is asked about. */
export type Supervise = "default" | "all";

/** A mode that the operator set, and when it ends by itself. */
export type TimedMode = {
  /** What is allowed unasked. */
  mode: Mode;
  /** When it ends. */
  until: Seconds;
};

/** What a tool gave: text, or content blocks as the agent wrote them. Only its schema is used; the JSON itself is kept as it was. */
export type ToolOutput = string | JsonObject[] | JsonObject | null;

/** What a tool call would act on. Agents name their tools and inputs differently; rules, risk, diffs and screens read this form instead. */
export type ToolTarget =
  /** Runs a shell command. */
  | {
    /** The whole command. */
    command: string;
    /** The directory in which it starts; absent: the session's `working_dir`. */
    cwd?: string | null;
    kind: "shell";
    /** The shell that reads it; absent: a POSIX shell. */
    language?: ShellLanguage;
  }
  /** Changes files. */
  | {
    /** The changes, in their order. */
    changes: FileChange[];
    kind: "write";
  }
  /** Reads a file or a directory. */
  | {
    kind: "read";
    /** The path as it was written; absent: the session's `working_dir`. */
    path?: string | null;
    /** Whether it reads everything below the path, as a search does. */
    tree?: boolean;
  }
  /** Sends a request to a server of the network. */
  | {
    kind: "fetch";
    /** The address; absent for a web search. */
    url?: string | null;
  }
  /** Opens a connection from within a wall. */
  | {
    /** The host. */
    host: string;
    kind: "connect";
    /** Its port. */
    port: number;
  }
  /** Calls a tool of an MCP server. */
  | {
    kind: "mcp";
    /** The server, as the agent's configuration names it. */
    server: string;
    /** Its tool. */
    tool: string;
  }
  /** Starts an agent of the agent's own. */
  | { kind: "agent" }
  /** Keeps notes of its own, and changes nothing else. */
  | { kind: "think" }
  /** Asks its user something, and changes nothing. */
  | { kind: "question" }
  /** Something else. */
  | { kind: "other" };

/** One tree. */
export type Tree = {
  /** When it was made. */
  created_at: Millis;
  /** Its handle, which `plexus.resolve_handle` takes. Always there from this version on. */
  handle?: Handle | null;
  /** Its id. */
  id: TreeId;
  /** What its maker noted. */
  metadata: JsonObject;
  /** Its root node. */
  root: NodeId;
};

/** Parameters of `tree_create`. */
export type TreeCreateParams = {
  /** Anything you want to find again; an object. */
  metadata?: JsonObject | null;
};

/** A result of `tree_get`. */
export type TreeGot = {
  type: "ok";
  /** The tree. */
  tree: Tree;
};

/** One Arbor tree. A forked session shares the tree of the session it was forked from. */
export type TreeId = string;

/** A result of `tree_list`. */
export type TreeList = {
  type: "ok";
  /** Where the next page starts, if there is one. */
  cursor?: string | null;
  /** The trees, oldest first. */
  trees: Tree[];
};

/** Parameters of `tree_list`. */
export type TreeListParams = {
  /** The `cursor` of the page before. */
  cursor?: string | null;
  /** How many (100, at most 1,000). */
  limit?: number | null;
};

/** A result of `get_tree`. */
export type TreeOf = {
  type: "ok";
  /** Its head. */
  head: Position;
  /** The session's tree. */
  tree_id: TreeId;
};

/** Names a tree. */
export type TreeParams = {
  /** The tree. */
  tree_id: TreeId;
};

/** A result of `tree_render`. */
export type TreeRendered = {
  type: "ok";
  /** The tree as indented lines. */
  text: string;
};

/** Parameters of `unpair`. */
export type UnpairParams = {
  /** The name of the device whose token ends. */
  name: string;
};

/** A result of `unpair`. */
export type Unpaired = {
  type: "ok";
  /** The device. What it decided stays, under its name. */
  id: DeviceId;
};

/** What a chat used. */
export type Usage = {
  /** What it cost, in US dollars. */
  cost_usd: number;
  /** Tokens read. */
  input_tokens: number;
  /** Turns of the model. */
  num_turns: number;
  /** Tokens written. */
  output_tokens: number;
};

/** A result of `version`. */
export type Version = {
  type: "ok";
  /** The version of Plexus. */
  version: string;
};

/** Parameters of `wait_for_approval`. */
export type WaitForApprovalParams = {
  /** Also return when the chat of such a session has ended after this number: the `after` of the answer before, or 0. */
  after?: number | null;
  /** Only of this session, by its exact name. */
  name?: string | null;
  /** Only of this session, by its id. */
  session_id?: SessionId | null;
  /** How many milliseconds to wait (60,000 at most). */
  wait_ms?: number | null;
};

/** Parameters of `wait`. */
export type WaitParams = {
  /** The `after` of the answer before: only what changed since is told. */
  after?: number | null;
  /** Which sessions; all that you may see without it. */
  session_ids?: SessionId[] | null;
  /** How many milliseconds to wait for a change (0, at most 60,000). */
  wait_ms?: number | null;
  /** What counts as a change: `change` (any), or `asks_or_ends`: a session asks for permission, or its chat has ended. */
  wake_on?: WakeOn | null;
};

/** A result of `wait`. */
export type Waited = {
  type: "ok";
  /** Hand this back to hear only of later changes. */
  after: number;
  /** What changed. */
  sessions: ChangedSession[];
};

/** What a waiter is woken by. */
export type WakeOn = "change" | "asks_or_ends";

/** The wall around the children of a session. */
export type Wall = {
  /** What it prevents, in words; only in `get`. */
  enforced?: string[];
  /** What it does not prevent, in words; only in `get`. */
  gaps?: string[];
  /** Where the key of the model is; only in `get`. */
  key?: string | null;
  /** Why this machine cannot build the wall, with the next step; only in `get`. */
  missing?: string | null;
  /** Which one the session has. */
  profile: Confine;
  /** What it is made of on this machine: `full` or `landlock`. Absent without a wall, and in `list`. */
  tier?: string | null;
};

/** Every method with its parameters and its result. */
export type Methods = {
  "agents.budget_set": { params: BudgetSetParams; result: Done };
  "agents.cancel": { params: CancelParams; result: ChatCancelled };
  "agents.changes": { params: SessionRef; result: ChangesFound };
  "agents.chat": { params: ChatParams; result: Polled };
  "agents.chat_async": { params: ChatParams; result: ChatStarted };
  "agents.create": { params: CreateParams; result: SessionCreated };
  "agents.cursor_delete": { params: CursorDeleteParams; result: Done };
  "agents.cursor_set": { params: CursorSetParams; result: Done };
  "agents.cursors": { params: SessionRef; result: ConsumerList };
  "agents.delete": { params: SessionRef; result: SessionDeleted };
  "agents.follow": { params: FollowParams; result: Followed };
  "agents.fork": { params: ForkParams; result: SessionForked };
  "agents.get": { params: SessionRef; result: SessionGot };
  "agents.get_tree": { params: SessionRef; result: TreeOf };
  "agents.kinds": { params: NoParams; result: AgentKinds };
  "agents.list": { params: ListParams; result: SessionList };
  "agents.poll": { params: PollParams; result: Polled };
  "agents.rename": { params: RenameParams; result: SessionRenamed };
  "agents.render_context": { params: RenderParams; result: Rendered };
  "agents.search": { params: SearchParams; result: SearchFound };
  "agents.send": { params: SendParams; result: MessageSent };
  "agents.streams": { params: StreamsParams; result: StreamList };
  "agents.wait": { params: WaitParams; result: Waited };
  "arbor.context_get_handles": { params: PathParams; result: HandleList };
  "arbor.context_get_path": { params: PathParams; result: NodeList };
  "arbor.context_list_leaves": { params: LeavesParams; result: NodeList };
  "arbor.node_create_external": { params: NodeCreateExternalParams; result: NodeCreated };
  "arbor.node_create_text": { params: NodeCreateTextParams; result: NodeCreated };
  "arbor.node_get": { params: NodeParams; result: NodeGot };
  "arbor.node_get_children": { params: NodeParams; result: NodeList };
  "arbor.node_get_parent": { params: NodeParams; result: NodeGot };
  "arbor.node_get_path": { params: PathParams; result: NodeList };
  "arbor.node_get_path_between": { params: BetweenParams; result: NodeList };
  "arbor.tree_create": { params: TreeCreateParams; result: NodeCreated };
  "arbor.tree_get": { params: TreeParams; result: TreeGot };
  "arbor.tree_list": { params: TreeListParams; result: TreeList };
  "arbor.tree_render": { params: TreeParams; result: TreeRendered };
  "claudecode.budget_set": { params: BudgetSetParams; result: Done };
  "claudecode.cancel": { params: CancelParams; result: ChatCancelled };
  "claudecode.chat": { params: ChatParams; result: Polled };
  "claudecode.chat_async": { params: ChatParams; result: ChatStarted };
  "claudecode.create": { params: CreateParams; result: SessionCreated };
  "claudecode.cursor_delete": { params: CursorDeleteParams; result: Done };
  "claudecode.cursor_set": { params: CursorSetParams; result: Done };
  "claudecode.cursors": { params: SessionRef; result: ConsumerList };
  "claudecode.delete": { params: SessionRef; result: SessionDeleted };
  "claudecode.follow": { params: FollowParams; result: Followed };
  "claudecode.fork": { params: ForkParams; result: SessionForked };
  "claudecode.get": { params: SessionRef; result: SessionGot };
  "claudecode.get_tree": { params: SessionRef; result: TreeOf };
  "claudecode.list": { params: ListParams; result: SessionList };
  "claudecode.poll": { params: PollParams; result: Polled };
  "claudecode.rename": { params: RenameParams; result: SessionRenamed };
  "claudecode.render_context": { params: RenderParams; result: Rendered };
  "claudecode.send": { params: SendParams; result: MessageSent };
  "claudecode.streams": { params: StreamsParams; result: StreamList };
  "claudecode.wait": { params: WaitParams; result: Waited };
  "cone.chat_async": { params: ChatParams; result: ChatStarted };
  "cone.create": { params: ConeCreateParams; result: SessionCreated };
  "cone.delete": { params: SessionRef; result: SessionDeleted };
  "cone.get": { params: SessionRef; result: SessionGot };
  "cone.list": { params: ListParams; result: SessionList };
  "cone.poll": { params: PollParams; result: Polled };
  "health.state": { params: NoParams; result: HealthState };
  "identity.code": { params: NoParams; result: SignInCode };
  "identity.devices": { params: NoParams; result: DeviceList };
  "identity.pair": { params: PairParams; result: Pairing };
  "identity.parent": { params: ParentParams; result: ParentIdentity };
  "identity.parents": { params: ParentsParams; result: ParentList };
  "identity.revoke": { params: RevokeParams; result: Revoked };
  "identity.unpair": { params: UnpairParams; result: Unpaired };
  "loopback.audit": { params: ApprovalPageParams; result: AuditList };
  "loopback.configure": { params: ConfigureParams; result: Configured };
  "loopback.files": { params: FilesParams; result: FilesRead };
  "loopback.history": { params: ApprovalPageParams; result: DecisionList };
  "loopback.mode_set": { params: ModeSetParams; result: Done };
  "loopback.pending": { params: ApprovalPageParams; result: PendingApprovals };
  "loopback.permit": { params: PermitRequest; result: PermitAnswer };
  "loopback.preview": { params: PreviewParams; result: Previewed };
  "loopback.respond": { params: RespondParams; result: Responded };
  "loopback.respond_many": { params: RespondManyParams; result: RespondOutcomes };
  "loopback.rule_add": { params: RuleAddParams; result: RuleAdded };
  "loopback.rule_preview": { params: RulePreviewParams; result: RulePreviewed };
  "loopback.rule_remove": { params: RuleRemoveParams; result: Done };
  "loopback.rule_suggest": { params: RuleSuggestParams; result: RuleSuggestions };
  "loopback.rule_test": { params: RuleTestParams; result: RuleTested };
  "loopback.rules": { params: RulesParams; result: RuleList };
  "loopback.wait_for_approval": { params: WaitForApprovalParams; result: PendingApprovals };
  "notify.push_key": { params: NoParams; result: PushKey };
  "notify.push_subscribe": { params: PushSubscribeParams; result: Done };
  "notify.push_unsubscribe": { params: PushUnsubscribeParams; result: Done };
  "notify.receivers": { params: NoParams; result: NotifyReceivers };
  "notify.test": { params: NotifyTestParams; result: Done };
  "plexus.health": { params: NoParams; result: HealthReport };
  "plexus.methods": { params: NoParams; result: MethodList };
  "plexus.plugins": { params: NoParams; result: PluginList };
  "plexus.resolve_handle": { params: ResolveParams; result: Resolved };
  "plexus.schema": { params: SchemaParams; result: MethodList };
  "plexus.version": { params: NoParams; result: Version };
  "server.backup": { params: BackupParams; result: Done };
  "server.prune": { params: PruneParams; result: Pruned };
  "server.stop": { params: StopParams; result: Stopping };
};
