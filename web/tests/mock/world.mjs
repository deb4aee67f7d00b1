// What the stand-in server knows: sessions, chats, events, approvals, rules. It outlives a "restart" of the HTTP side, as the
// store and the children do, so that a test can take the server away and bring it back.

import { createHash, randomUUID } from "node:crypto";
import { readTarget } from "./targets.mjs";

export const nowMs = () => Date.now();
export const nowSecs = () => Math.floor(Date.now() / 1000);

/** A failure in the shape of the wire contract. */
export class Failure extends Error {
  constructor(kind, message, extra = {}) {
    super(message);
    this.kind = kind;
    this.extra = extra;
  }
}

/** SHA-256 of the canonical JSON (keys sorted; enough of RFC 8785 for the inputs of tests). */
export function digest(value) {
  const canonical = (v) =>
    Array.isArray(v)
      ? `[${v.map(canonical).join(",")}]`
      : v && typeof v === "object"
        ? `{${Object.keys(v).sort().map((k) => `${JSON.stringify(k)}:${canonical(v[k])}`).join(",")}}`
        : JSON.stringify(v);
  return createHash("sha256").update(canonical(value)).digest("hex");
}

/** Risks as a server says them, coarser: enough to order a queue. */
function riskOf(toolName, input) {
  const text = JSON.stringify(input);
  const [level, score, reason] =
    /[\u200b-\u200f\u202a-\u202e]/.test(text) ? ["critical", 90, "holds invisible or direction-changing characters"]
    : toolName === "Bash" && /\brm -rf|\bsudo\b/.test(text) ? ["critical", 95, "deletes recursively or by force"]
    : toolName === "Bash" && /\b(git push|npm install|curl)\b/.test(text) ? ["high", 66, "installs or runs foreign code"]
    : /^(Read|Grep|Glob|WebFetch|WebSearch)$/.test(toolName) ? ["low", 20, "only looks, as far as its words tell"]
    : ["medium", 50, "changes a file or runs a command"];
  return { level, score, reasons: [reason] };
}

/** Questions as a server says them, read as Claude Code asks them. */
function questionOf(toolName, input) {
  if (toolName === "ExitPlanMode") return { kind: "plan", plan: input.plan };
  if (toolName !== "AskUserQuestion") return null;
  const part = ({ question, header, options, multiSelect }) => ({ id: question, header, text: question, options, multiple: multiSelect === true, free_text: true });
  return { kind: "choices", questions: input.questions.map(part) };
}

export class World {
  sessions = new Map();
  approvals = new Map();
  rules = [];
  /** Every event in the order it was committed; its index plus one is the cursor of the stream over all sessions. */
  log = [];
  nodes = new Map();
  listeners = new Set();
  /** The cursor with which each stream over all sessions was opened; null for one that began at now. */
  streams = [];
  /** Files of worlds that are only looked at, by path. */
  files = new Map();
  /** Who hears live pieces of text. */
  hearers = new Set();

  createSession({ name, working_dir, agent, parent, model, budget, can_spawn, metadata, created_at, loopback_timeout_secs, confine }) {
    for (const other of this.sessions.values()) {
      if (other.name === name && other.parent === (parent ?? null)) throw new Failure("conflict", `a session named ${name} exists`);
    }
    const id = randomUUID();
    const created = created_at ?? nowMs();
    this.sessions.set(id, {
      id, name, working_dir, agent: agent ?? "claude_code", parent: parent ?? null, model: model ?? "claude-sonnet", channel: "control", loopback_enabled: true,
      can_spawn: can_spawn ?? false, budget: budget ?? null, spent: { cost_usd: 0, input_tokens: 0, output_tokens: 0, turns: 0, wall_ms: 0 }, metadata: metadata ?? {},
      created_at: created, updated_at: created, timeout: loopback_timeout_secs ?? 300, confine: confine ?? "none", chats: [],
    });
    return id;
  }

  session(ref) {
    const found = this.sessions.get(ref.session_id) ?? [...this.sessions.values()].find((s) => ref.name && s.name === ref.name);
    if (!found) throw new Failure("not_found", "no such session");
    return found;
  }

  startChat(session, prompt, at = nowMs()) {
    const running = session.chats.at(-1);
    if (running && running.status === "running") throw new Failure("busy", "a chat is running", { retry_after_ms: 1000 });
    const node = { tree_id: session.id, node_id: randomUUID() };
    this.nodes.set(node.node_id, { id: node.node_id, tree_id: session.id, data: { type: "text", content: prompt } });
    const chat = { chat: session.chats.length, status: "running", started_at: at, ended_at: null, error: null, events: [], waiters: new Map() };
    session.chats.push(chat);
    this.emit(session, chat, { type: "start", id: randomUUID(), user_position: node }, at);
    return chat;
  }

  emit(session, chat, event, at = nowMs()) {
    if (event.type === "content") session.soFar = "";
    const record = { seq: chat.events.length, event, timestamp: at, node_id: randomUUID(), handle: { plugin_id: "mock", version: "1.0.0", method: "chat_event", meta: ["", event.type] } };
    if (event.type === "tool_use" || event.type === "awaiting_approval") record.target = readTarget(event.tool_name, event.input);
    chat.events.push(record);
    session.updated_at = at;
    this.log.push({ session_id: session.id, chat: chat.chat, ...record });
    for (const listener of this.listeners) listener();
    return record;
  }

  /** Tells of a piece of text that is not stored, or that a message begins. */
  speak(session, event) {
    session.soFar = event.type === "delta_start" ? "" : (session.soFar ?? "") + event.text;
    for (const hearer of this.hearers) hearer(session.id, event);
  }

  endChat(session, chat, status, usage = {}) {
    if (chat.status !== "running") return;
    for (const approval of this.approvals.values()) {
      if (approval.session_id === session.id && approval.status === "pending") this.settle(approval, "cancelled", "agent_ended");
    }
    session.spent.cost_usd += usage.cost_usd ?? 0;
    session.spent.input_tokens += usage.input_tokens ?? 0;
    session.spent.output_tokens += usage.output_tokens ?? 0;
    session.spent.turns += usage.num_turns ?? 0;
    chat.status = status;
    chat.ended_at = nowMs();
    session.spent.wall_ms += chat.ended_at - chat.started_at;
    if (status === "complete") this.emit(session, chat, { type: "complete", new_head: null, claude_session_id: randomUUID(), usage });
    else this.emit(session, chat, { type: "error", message: status === "cancelled" ? "cancelled by the operator" : "the agent ended without a result" });
  }

  /** Opens an approval, or answers by rule. Resolves with the decision when there is one. */
  ask(session, chat, toolName, toolUseId, input, { created_at, expires_at, description, suggested_rules, escalated_to } = {}) {
    const approval = {
      id: randomUUID(), session_id: session.id, session_name: session.name, working_dir: session.working_dir, tool_name: toolName, tool_use_id: toolUseId, input, input_digest: digest(input), target: readTarget(toolName, input),
      description: description ?? null, risk: riskOf(toolName, input), suggested_rules: suggested_rules ?? suggest(toolName, input), status: "pending", created_at: created_at ?? nowSecs(),
      expires_at: expires_at === undefined ? (session.timeout ? nowSecs() + session.timeout : null) : expires_at, escalated_to: escalated_to ?? null,
    };
    if (toolName === "Bash" && session.confine !== "none") approval.preview = true;
    const question = questionOf(toolName, input);
    if (question) Object.assign(approval, { question, target: { kind: "question" }, suggested_rules: [] });
    const rule = question ? null : this.ruleFor(session.id, toolName, input);
    this.approvals.set(approval.id, approval);
    this.emit(session, chat, { type: "awaiting_approval", approval_id: approval.id, tool_name: toolName, tool_use_id: toolUseId, input, ...(question ? { question } : {}) });
    return new Promise((resolve) => {
      chat.waiters.set(approval.id, resolve);
      if (rule && rule.decision !== "ask") {
        rule.used++;
        this.settle(approval, rule.decision === "allow" ? "allowed" : "denied", { rule: rule.id });
      }
    });
  }

  settle(approval, status, decidedBy, { message, updated_input, answers } = {}) {
    approval.status = status;
    Object.assign(approval, { decided_by: decidedBy, message: message ?? null, updated_input: updated_input ?? null, decided_at: nowSecs(), delivered_at: nowSecs(), ...(answers ? { answers } : {}) });
    const session = this.sessions.get(approval.session_id);
    const chat = session.chats.findLast((c) => c.waiters.has(approval.id)) ?? session.chats.at(-1);
    this.emit(session, chat, { type: "approval_resolved", approval_id: approval.id, approved: status === "allowed", decided_by: decidedBy, ...(message ? { message } : {}), ...(updated_input ? { updated_input } : {}), ...(answers ? { answers } : {}) });
    chat.waiters.get(approval.id)?.({ approved: status === "allowed", message, input: updated_input ?? approval.input });
    chat.waiters.delete(approval.id);
  }

  addRule({ decision, pattern, scope = "all", expires_in_secs, uses, reason }, by = "operator") {
    if (!/^[\w*]+(\(.+\))?$/s.test(pattern)) throw new Failure("invalid", `the pattern ${pattern} cannot be read`, { hint: "write Tool or Tool(argument)" });
    const rule = { id: randomUUID(), decision, pattern, scope, expires_at: expires_in_secs ? nowSecs() + expires_in_secs : null, uses: uses ?? null, used: 0, reason: reason ?? null, author: by, created_at: nowSecs() };
    this.rules.push(rule);
    return rule;
  }

  /** Decides whatever waits and is covered by `rule`. */
  release(rule) {
    const released = [];
    for (const approval of this.approvals.values()) {
      if (approval.status !== "pending" || !this.covers(rule, approval.session_id, approval.tool_name, approval.input)) continue;
      rule.used++;
      this.settle(approval, rule.decision === "allow" ? "allowed" : "denied", { rule: rule.id });
      released.push(approval.id);
    }
    return released;
  }

  ruleFor(sessionId, toolName, input) {
    const found = this.rules.filter((rule) => this.covers(rule, sessionId, toolName, input));
    return ["deny", "ask", "allow"].map((decision) => found.find((rule) => rule.decision === decision)).find(Boolean);
  }

  covers(rule, sessionId, toolName, input) {
    const scope = rule.scope;
    if (scope !== "all" && scope.session !== sessionId && !(scope.subtree && this.chain(sessionId).includes(scope.subtree))) return false;
    const [, tool, argument] = /^([\w*]+)(?:\((.+)\))?$/s.exec(rule.pattern);
    if (tool !== toolName) return false;
    if (!argument) return true;
    if (toolName === "Bash") {
      const prefix = argument.endsWith(":*") ? argument.slice(0, -2) : null;
      return prefix === null ? input.command === argument : input.command === prefix || (input.command.startsWith(`${prefix} `) && !/[;&|`$]/.test(input.command));
    }
    if (toolName === "WebFetch") return new URL(input.url).hostname === argument.replace("domain:", "");
    return (input.file_path ?? "").startsWith(argument.replace(/\*+$/, ""));
  }

  chain(id) {
    const ids = [];
    for (let at = id; at; at = this.sessions.get(at)?.parent) ids.push(at);
    return ids;
  }
}

function suggest(toolName, input) {
  if (toolName === "Bash" && typeof input.command === "string") {
    const words = input.command.split(" ");
    return [`Bash(${input.command})`, `Bash(${words.slice(0, words[0] === "git" || words[0] === "cargo" || words[0] === "npm" ? 2 : 1).join(" ")}:*)`];
  }
  if (toolName === "WebFetch") return [`WebFetch(domain:${new URL(input.url).hostname})`];
  if (input.file_path) return [`${toolName}(${input.file_path})`, `${toolName}(${input.file_path.replace(/[^/]*$/, "**")})`];
  return [toolName];
}
