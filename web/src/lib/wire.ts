// The shapes of Plexus' wire contract that the dashboard reads: sessions, chats, events, approvals, rules, decisions.
//
// Only what is shown is named. Fields that a newer server adds are kept by not being looked at, and an event of an unknown
// type is shown as its JSON. Times of sessions and events are milliseconds; times of approvals and rules are seconds.

export type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
export type JsonObject = { [key: string]: Json };

export type SessionStatus = "idle" | "running" | "awaiting_permission" | "complete" | "failed" | "cancelled";

/** Limits of a session and all its descendants. Every field is optional: a missing one is no limit. */
export type Budget = {
  cost_usd?: number;
  turns?: number;
  wall_secs?: number;
  children?: number;
  depth?: number;
};

/** What a session and everything below it have used so far. */
export type Spent = { cost_usd?: number; turns?: number; input_tokens?: number; output_tokens?: number; wall_ms?: number };

export type Session = {
  id: string;
  name: string;
  parent?: string | null;
  working_dir: string;
  model?: string | null;
  channel?: string;
  loopback_enabled?: boolean;
  can_spawn?: boolean;
  status: SessionStatus;
  chat?: number | null;
  claude_session_id?: string | null;
  budget?: Budget | null;
  spent?: Spent | null;
  /** A mode that the operator set for a while. */
  mode?: { mode?: string; expires_at?: number } | null;
  created_at: number;
  updated_at: number;
};

/** One line of `claudecode.wait`: what changed, without transcripts. */
export type SessionLine = {
  session_id: string;
  name: string;
  status: SessionStatus;
  chat?: number | null;
  total_events?: number;
  pending?: number;
  line?: string | null;
};

export type ChatStream = {
  session_id: string;
  chat: number;
  status: SessionStatus;
  started_at: number;
  ended_at?: number | null;
  error?: string | null;
  total_events: number;
};

export type Position = { tree_id: string; node_id: string };

export type Usage = { input_tokens?: number; output_tokens?: number; cost_usd?: number; num_turns?: number };

export type EventBody =
  | { type: "start"; id: string; user_position?: Position }
  | { type: "content"; text: string }
  | { type: "thinking"; thinking: string }
  | { type: "tool_use"; tool_name: string; tool_use_id: string; input: JsonObject }
  | { type: "awaiting_approval"; approval_id: string; tool_name: string; tool_use_id: string; input: JsonObject }
  | { type: "approval_resolved"; approval_id: string; approved: boolean; message?: string | null; updated_input?: JsonObject | null; decided_by?: DecidedBy }
  | { type: "tool_result"; tool_use_id: string; output: Json; is_error?: boolean }
  | { type: "tool_request"; approval_id: string; session_id: string; session_name: string; tool_name: string; tool_use_id: string; input: JsonObject }
  | { type: "notice"; message: string }
  | { type: "passthrough"; event_type: string; data: Json }
  | { type: "complete"; claude_session_id?: string; usage?: Usage }
  | { type: "error"; message: string };

/** One event of a chat, as `claudecode.poll` returns it. */
export type ChatEvent = { seq: number; event: EventBody; timestamp: number; node_id?: string };

/** One event of any chat, as the event stream delivers it. */
export type StreamEvent = ChatEvent & { session_id: string; chat: number };

/** Who decided: a word, or an object with the word as its only key (`{"rule": "…"}`). */
export type DecidedBy = string | { [who: string]: Json };

export type SuggestedRule = string | { pattern: string; label?: string };

export type Approval = {
  id: string;
  session_id: string;
  session_name: string;
  tool_name: string;
  tool_use_id: string;
  input: JsonObject;
  input_digest: string;
  description?: string | null;
  suggested_rules?: SuggestedRule[];
  status: string;
  created_at: number;
  expires_at?: number | null;
  escalated_to?: DecidedBy | null;
};

export type Scope = "all" | { session: string } | { subtree: string };
export type RuleDecision = "allow" | "deny" | "ask";

export type Rule = {
  id: string;
  decision: RuleDecision;
  pattern: string;
  scope?: Scope | null;
  /** Who made it; `"file"` for a rule of the configuration, which cannot be removed here. */
  author?: DecidedBy | null;
  expires_at?: number | null;
  uses?: number | null;
  used?: number | null;
  reason?: string | null;
};

export type Decision = {
  approval_id: string;
  session_id: string;
  session_name?: string;
  tool_name: string;
  tool_use_id: string;
  input?: JsonObject;
  input_digest: string;
  status: string;
  decided_by?: DecidedBy | null;
  message?: string | null;
  updated_input?: JsonObject | null;
  created_at: number;
  decided_at?: number | null;
  delivered_at?: number | null;
  breach?: Json;
};

export type Remember = { pattern?: string; scope: Scope; expires_in_secs?: number; uses?: number };

/** Names a decider for people: "operator", "rule 0192…", "session builder". */
export function deciderName(by: DecidedBy | null | undefined, sessionName: (id: string) => string | undefined): string {
  if (by == null) return "unknown";
  if (typeof by === "string") return by.replaceAll("_", " ");
  const [who, what] = Object.entries(by).find(([key]) => key !== "type") ?? [String(by["type"] ?? "unknown"), null];
  const kind = typeof by["type"] === "string" ? by["type"] : who;
  const id = typeof what === "string" ? what : "";
  if (kind === "session" && id) return `session ${sessionName(id) ?? id.slice(0, 8)}`;
  if (kind === "rule" && id) return `rule ${id.slice(0, 8)}`;
  return kind.replaceAll("_", " ");
}
