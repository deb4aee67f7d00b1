// The methods of the wire contract, as far as the dashboard calls them. Parameters that are not known are refused by name, as the
// real server does, so that a test notices when the page sends one.

import { existsSync, readFileSync } from "node:fs";
import { resolve } from "node:path";
import { Failure, nowSecs } from "./world.mjs";
import { play } from "./sim.mjs";

const powers = (more) => ({ asks_for: "everything", cost: "usd", deny_reason: "in_answer", edit_input: true, fork: "anywhere", park: false, resume: true, says_who_accepted: true, steer: true, warm: true, ...more });
/** One agent of each kind, and one that is not installed. */
const AGENTS = [
  { agent: "claude_code", kind: "claude_code", usable: true, about: "claude 2.1.325", powers: powers({}) },
  { agent: "codex", kind: "codex", usable: true, about: "codex-cli 0.169.0", powers: powers({ asks_for: "changes", cost: "tokens", deny_reason: "as_next_message", edit_input: false, fork: "anywhere" }) },
  { agent: "gemini", kind: "acp", usable: false, about: "gemini is not installed: npm install -g @google/gemini-cli", powers: powers({ edit_input: false, fork: "none" }) },
];
const PAGE_BYTES = 4 * 1024 * 1024;

export function methods(world, { preview = false } = {}) {
  const table = {
    "plexus.version": [[], () => ({ type: "ok", version: "0.0.0-mock" })],
    "plexus.health": [[], () => ({ type: "ok" })],
    "agents.create": [
      ["name", "working_dir", "agent", "parent", "model", "can_spawn", "budget", "metadata", "loopback_timeout_secs", "supervise", "project_settings", "system_prompt", "allowed_tools", "disallowed_tools", "add_dirs", "confine"],
      (p) => ({ type: "created", id: world.createSession(p), head: null }),
    ],
    "agents.search": [["query", "session_id", "name", "tool", "kind", "since", "until", "limit", "cursor"], (p) => search(world, p)],
    "agents.changes": [["session_id", "name"], (p) => ({ type: "ok", source: "edits", since: world.session(p).created_at, changes: [], cut: false, note: "the stand-in has no files" })],
    "agents.kinds": [[], () => ({ type: "kinds", agents: AGENTS })],
    "agents.list": [["parent", "status", "limit", "cursor"], (p) => page([...world.sessions.values()].map((s) => sessionView(world, s)), p, "sessions")],
    "agents.get": [["name", "session_id"], (p) => ({ type: "ok", session: sessionView(world, world.session(p)) })],
    "agents.streams": [
      ["session_id", "limit", "cursor"],
      (p) => page(world.session(p).chats.map((c) => ({ session_id: p.session_id, chat: c.chat, status: statusOf(world, world.session(p), c), started_at: c.started_at, ended_at: c.ended_at, error: c.error, total_events: c.events.length, read_position: 0 })), p, "streams"),
    ],
    "agents.poll": [["session_id", "from_seq", "limit", "wait_ms", "consumer", "cursor", "chat"], (p) => poll(world, p)],
    "agents.wait": [
      ["session_ids", "after", "wait_ms"],
      () => ({ type: "ok", after: world.log.length, sessions: [...world.sessions.values()].map((s) => ({ session_id: s.id, name: s.name, status: sessionView(world, s).status, chat: s.chats.length - 1, total_events: s.chats.at(-1)?.events.length ?? 0, pending: 0, line: lastLine(s), answer: answerOf(s) })) }),
    ],
    "agents.chat_async": [
      ["name", "session_id", "prompt", "ephemeral", "idempotency_key"],
      (p) => {
        const session = world.session(p);
        const chat = world.startChat(session, p.prompt);
        void play(world, session, chat, p.prompt);
        return { type: "started", session_id: session.id, chat: chat.chat };
      },
    ],
    "agents.send": [
      ["name", "session_id", "text"],
      (p) => {
        const session = world.session(p);
        const chat = session.chats.at(-1);
        if (chat?.status !== "running") throw new Failure("conflict", "no chat is running");
        world.emit(session, chat, { type: "steered", by: "operator", text: p.text });
        return { type: "sent" };
      },
    ],
    "agents.rename": [
      ["session_id", "name", "new_name"],
      (p) => {
        const session = world.session(p);
        if ([...world.sessions.values()].some((other) => other !== session && other.name === p.new_name)) throw new Failure("conflict", `could not name the session ${JSON.stringify(p.new_name)}: the name is taken`);
        session.name = p.new_name;
        return { type: "renamed", id: session.id, name: session.name };
      },
    ],
    "agents.fork": [
      ["name", "session_id", "new_name", "at"],
      (p) => {
        const { name, working_dir, agent, parent, model } = world.session(p);
        void name;
        return { type: "forked", id: world.createSession({ name: p.new_name, working_dir, agent, parent, model }), head: null };
      },
    ],
    "agents.delete": [
      ["name", "session_id"],
      (p) => {
        const { id } = world.session(p);
        for (const each of [...world.sessions.keys()].filter((other) => world.chain(other).includes(id))) world.sessions.delete(each);
        return { type: "deleted", id };
      },
    ],
    "agents.cancel": [
      ["name", "session_id", "reason"],
      (p) => {
        const session = world.session(p);
        const chat = session.chats.at(-1);
        if (chat?.status !== "running") throw new Failure("conflict", "no chat is running");
        world.endChat(session, chat, "cancelled");
        chat.hanging?.();
        return { type: "cancelled" };
      },
    ],
    "arbor.node_get": [
      ["node_id"],
      (p) => {
        const node = world.nodes.get(p.node_id);
        if (!node) throw new Failure("not_found", "no such node");
        return { type: "ok", node };
      },
    ],
    "loopback.pending": [["session_id", "limit", "cursor"], (p) => page(pending(world), p, "approvals")],
    "loopback.files": [
      ["approval_id"],
      (p) => {
        const approval = world.approvals.get(p.approval_id);
        const { working_dir } = world.sessions.get(approval.session_id);
        const paths = approval.input.file_path ? [approval.input.file_path] : (approval.input.changes ?? []).map((change) => change.path);
        const known = (path) => (world.files.has(path) ? { path, is: "text", text: world.files.get(path) } : fileNow(working_dir, path));
        return { type: "ok", files: paths.map(known) };
      },
    ],
    "loopback.preview": [
      ["approval_id"],
      (p) => {
        const { command } = world.approvals.get(p.approval_id).input;
        if (command.startsWith("impossible")) throw new Failure("invalid", "preview the command: this machine cannot make a dry run");
        const changes = [
          { path: "notes.txt", change: "modified", diff: "@@ -1,2 +1,2 @@\n same\n-old\n+new <b>text</b>\n" },
          { path: "picture.png", change: "removed", why: "it is not text, or larger than 64 KiB" },
        ];
        return { type: "ok", end: { how: "exited", code: 3 }, changes, cut: false, stdout: `ran ${command}`, stderr: "", note: "a dry run: nothing is bound to it" };
      },
    ],
    "loopback.respond": [["approval_id", "approve", "message", "answers", "updated_input", "input_digest", "remember"], (p) => respond(world, p)],
    "loopback.respond_many": [
      ["approval_ids", "approve", "message"],
      (p) => ({
        type: "ok",
        outcomes: p.approval_ids.map((approval_id) => {
          try {
            respond(world, { approval_id, approve: p.approve, message: p.message });
            return { approval_id, ok: true };
          } catch (error) {
            return { approval_id, ok: false, error: { kind: error.kind, message: error.message } };
          }
        }),
      }),
    ],
    "loopback.history": [
      ["session_id", "limit", "cursor"],
      (p) => page([...world.approvals.values()].filter((a) => a.status !== "pending").sort((a, b) => b.decided_at - a.decided_at).map(({ id, ...rest }) => ({ approval_id: id, ...rest })), p, "decisions"),
    ],
    "loopback.rules": [["limit", "cursor"], (p) => page(world.rules, p, "rules")],
    "loopback.rule_add": [
      ["decision", "pattern", "scope", "expires_in_secs", "uses", "reason", "matches", "does_not_match"],
      (p) => {
        const rule = world.addRule(p);
        if (rule.decision !== "ask") world.release(rule);
        return { type: "ok", rule_id: rule.id };
      },
    ],
    "loopback.rule_remove": [
      ["rule_id"],
      (p) => {
        const index = world.rules.findIndex((rule) => rule.id === p.rule_id);
        if (index < 0) throw new Failure("not_found", "no such rule");
        world.rules.splice(index, 1);
        return { type: "ok" };
      },
    ],
    "loopback.rule_test": [
      ["tool_name", "input", "session_id"],
      (p) => {
        const rule = world.ruleFor(p.session_id, p.tool_name, p.input);
        return rule ? { type: "ok", decision: rule.decision, rule_id: rule.id, why: `the rule ${rule.pattern} covers it` } : { type: "ok", decision: "ask", why: "no rule covers it" };
      },
    ],
    "loopback.mode_set": [
      ["session_id", "mode", "expires_in_secs"],
      (p) => {
        world.session(p).mode = { mode: p.mode, expires_at: nowSecs() + p.expires_in_secs };
        return { type: "ok" };
      },
    ],
  };
  if (preview) {
    table["loopback.rule_preview"] = [
      ["approval_id", "approve", "remember"],
      ({ approval_id, remember }) => {
        const covered = pending(world).filter((a) => a.id !== approval_id && world.covers(remember, a.session_id, a.tool_name, a.input));
        return { type: "ok", pattern: remember.pattern, releases: covered.map((a) => a.id) };
      },
    ];
  }
  return table;
}

/** A file as it is now; of what lies outside of the session's directory nothing is shown. */
function fileNow(working_dir, path) {
  const whole = resolve(working_dir, path);
  if (!whole.startsWith(`${working_dir}/`)) return { path, is: "unread", why: "it lies outside of the session's directories" };
  return existsSync(whole) ? { path, is: "text", text: readFileSync(whole, "utf8") } : { path, is: "absent" };
}

function pending(world) {
  const open = [...world.approvals.values()].filter((approval) => approval.status === "pending");
  for (const approval of open) {
    if (approval.expires_at && approval.expires_at < nowSecs()) world.settle(approval, "expired", "deadline", { message: "nobody answered in time" });
  }
  return open.filter((approval) => approval.status === "pending");
}

function respond(world, { approval_id, approve, message, answers, updated_input, input_digest, remember }) {
  const approval = world.approvals.get(approval_id);
  if (!approval) throw new Failure("not_found", "no such approval");
  if (approval.status !== "pending") {
    if (approval.status === (approve ? "allowed" : "denied")) return { type: "ok", approval_id };
    throw new Failure("conflict", "the approval was decided already", { standing: { approval_id: approval.id, status: approval.status, decided_by: approval.decided_by, message: approval.message } });
  }
  if (input_digest && input_digest !== approval.input_digest) throw new Failure("conflict", "the input has changed");
  if (approve && approval.question?.kind === "choices" && !answers) throw new Failure("invalid", "the question is not answered", { field: "answers" });
  const rule = remember ? world.addRule({ ...remember, decision: approve ? "allow" : "deny" }) : null;
  world.settle(approval, approve ? "allowed" : "denied", "operator", { message, updated_input, answers });
  return { type: "ok", approval_id, ...(rule ? { rule_id: rule.id, released: world.release(rule) } : {}) };
}

function poll(world, p) {
  const session = world.session(p);
  const chat = session.chats[p.chat ?? session.chats.length - 1];
  if (!chat) throw new Failure("not_found", "no such chat");
  const from = p.from_seq ?? 0;
  const events = [];
  let bytes = 0;
  for (const event of chat.events.slice(from, from + Math.min(p.limit ?? 100, 1000))) {
    const size = (event.event.text ?? event.event.thinking ?? "").length + 300;
    if (events.length > 0 && bytes + size > PAGE_BYTES) break;
    bytes += size;
    events.push(event);
  }
  return { type: "ok", status: statusOf(world, session, chat), events, pending_approvals: pending(world).filter((a) => a.session_id === session.id), read_position: 0, total_events: chat.events.length, has_more: from + events.length < chat.events.length, cursor: `${chat.chat}:${from + events.length}`, chat: chat.chat };
}

/** Every event whose text holds all words; the real server knows more of words, kinds and tools. */
function search(world, { query = "", session_id, limit = 20, cursor }) {
  const words = query.toLowerCase().split(/[^\p{L}\p{N}]+/u).filter(Boolean);
  if (query.trim() && words.length === 0) throw new Failure("invalid", `could not search for ${JSON.stringify(query)}: it has no letter and no digit, so there is no word to look for`);
  const hits = [];
  for (const session of world.sessions.values()) {
    if (session_id && session.id !== session_id) continue;
    for (const chat of session.chats)
      for (const { seq, event, timestamp, node_id } of chat.events) {
        const text = event.type === "content" ? event.text : event.type === "thinking" ? event.thinking : "";
        if (!text || !words.every((word) => text.toLowerCase().includes(word))) continue;
        const excerpt = words.length === 0 ? [{ text }] : text.split(new RegExp(`(${words.join("|")})`, "i")).map((piece) => ({ text: piece, ...(words.includes(piece.toLowerCase()) ? { hit: true } : {}) }));
        hits.push({ session_id: session.id, session_name: session.name, chat: chat.chat, seq, event_id: node_id, at: timestamp, kind: event.type === "content" ? "said" : "thought", excerpt });
      }
  }
  hits.sort((a, b) => b.at - a.at);
  return { ...page(hits, { limit, cursor }, "hits"), notes: [], behind: 0 };
}

function page(items, { limit = 100, cursor }, key) {
  const from = Number(cursor ?? 0);
  const part = items.slice(from, from + limit);
  return { type: "ok", [key]: part, ...(from + part.length < items.length ? { cursor: String(from + part.length) } : {}) };
}

function statusOf(world, session, chat) {
  if (!chat) return "idle";
  if (chat.status !== "running") return chat.status;
  return [...world.approvals.values()].some((a) => a.session_id === session.id && a.status === "pending") ? "awaiting_permission" : "running";
}

function sessionView(world, session) {
  const { chats, timeout, soFar, confine, ...view } = session;
  void [timeout, soFar];
  const spent = { cost_usd: 0, turns: 0, input_tokens: 0, output_tokens: 0, wall_ms: 0 };
  for (const other of world.sessions.values()) {
    if (world.chain(other.id).includes(session.id)) for (const key of Object.keys(spent)) spent[key] += other.spent[key];
  }
  return { ...view, confine: { profile: confine }, spent, chat: chats.length - 1, status: statusOf(world, session, chats.at(-1)), head: null };
}

/** The last thing that was said in the newest chat, once that has ended. */
function answerOf(session) {
  const chat = session.chats.at(-1);
  const said = chat && chat.status !== "running" ? chat.events.findLast((each) => each.event.type === "content") : null;
  return said ? { chat: chat.chat, seq: said.seq, text: said.event.text } : null;
}

function lastLine(session) {
  const event = session.chats.at(-1)?.events.findLast((e) => e.event.type === "content" || e.event.type === "tool_use")?.event;
  return event ? (event.text ?? `${event.tool_name} ${event.input.command ?? event.input.file_path ?? ""}`).slice(0, 200) : null;
}
