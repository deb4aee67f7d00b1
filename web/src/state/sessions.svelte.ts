// All sessions, as a tree. Read once when the stream opens, then kept fresh by the events that change a session.

import { SvelteSet } from "svelte/reactivity";
import { coalesce } from "../lib/coalesce.ts";
import { lastSentence } from "../lib/markdown.ts";
import { explain } from "../lib/rpc.ts";
import { exactText, firstLine, transcriptText } from "../lib/text.ts";
import type { ChatEvent, FollowedEvent, Session, SessionStatus } from "../lib/wire.ts";
import { api } from "./api.svelte.ts";

/** Sessions read at most; more than this belongs into a search, not into a tree. */
const MAX_SESSIONS = 5_000;
const PAGE = 500;
/** More changed sessions than this at once are cheaper to read as the list. */
const MAX_SINGLE_READS = 40;
/** Sessions whose last sentence is read when the page opens; the others say theirs when they speak. */
const MAX_SAID_AT_START = 40;
/** Events looked at for the last sentence of a chat that goes on. */
const LOOKED_AT = 30;
const REFRESH_DELAY_MS = 150;
/** Changes that make no event (a session deleted, renamed) are seen after at most this long. */
const SAFETY_REFRESH_MS = 30_000;

/** Events that change what a session's row says, beside its last sentence. */
const CHANGING = new Set(["start", "complete", "error", "awaiting_approval", "approval_resolved"]);

export type TreeRow = { session: Session; depth: number; childCount: number; open: boolean };

class Sessions {
  byId = $state.raw<ReadonlyMap<string, Session>>(new Map());
  /** What the agent of each session said last, in one sentence. */
  lines = $state.raw<ReadonlyMap<string, string>>(new Map());
  loaded = $state(false);
  error = $state<string | null>(null);
  readonly collapsed = new SvelteSet<string>();

  /** Children by parent; the key `""` holds the roots, and a session whose parent is not known counts as one. */
  readonly children: ReadonlyMap<string, Session[]> = $derived.by(() => {
    const map = new Map<string, Session[]>();
    for (const session of this.byId.values()) {
      const key = session.parent && this.byId.has(session.parent) ? session.parent : "";
      const list = map.get(key);
      if (list) list.push(session);
      else map.set(key, [session]);
    }
    for (const list of map.values()) list.sort((a, b) => a.created_at - b.created_at);
    // The newest piece of work stands first; within it, children stand in the order of their creation.
    map.get("")?.reverse();
    // What waits for somebody stands above all that does not, with what it is part of.
    const waiting = this.waiting();
    for (const list of map.values()) list.sort((a, b) => Number(waiting.has(b.id)) - Number(waiting.has(a.id)));
    return map;
  });

  private readonly dirty = new Set<string>();
  private readonly refreshAll = coalesce(() => this.readAll(), REFRESH_DELAY_MS);
  private readonly refreshDirty = coalesce(() => this.readDirty(), REFRESH_DELAY_MS);
  private pendingLines = new Map<string, string>();
  private readonly flushLines = coalesce(async () => this.applyLines(), REFRESH_DELAY_MS);

  constructor() {
    api.onResync(() => this.refreshAll());
    api.onEvent((event) => this.note(event));
    setInterval(() => api.token && !document.hidden && this.refreshAll(), SAFETY_REFRESH_MS);
  }

  get(id: string): Session | undefined {
    return this.byId.get(id);
  }

  nameOf = (id: string): string | undefined => this.byId.get(id)?.name;

  /** Strict ancestors, nearest first. Stops where a parent is not known or repeats. */
  ancestors = (id: string): string[] => {
    const chain: string[] = [];
    for (let at = this.byId.get(id)?.parent; at && !chain.includes(at); at = this.byId.get(at)?.parent) chain.push(at);
    return chain;
  };

  /** Names from the root to the session, for a breadcrumb. */
  path(id: string): Session[] {
    return [id, ...this.ancestors(id)].reverse().flatMap((each) => this.byId.get(each) ?? []);
  }

  /** Cost of a session without its descendants, which `spent` includes. */
  ownCost(session: Session): number {
    return (this.children.get(session.id) ?? []).reduce((rest, child) => rest - child.spent.cost_usd, session.spent.cost_usd);
  }

  /** The roots of the tree; what they have spent includes everything. */
  get roots(): Session[] {
    return this.children.get("") ?? [];
  }

  /** Number of all descendants of a session. */
  descendants(id: string): number {
    return (this.children.get(id) ?? []).reduce((sum, child) => sum + 1 + this.descendants(child.id), 0);
  }

  /** Rows of the tree as it is unfolded; with a filter, what matches and its ancestors. */
  rows(filter: string): TreeRow[] {
    const needle = filter.trim().toLowerCase();
    const keep = needle ? this.matching(needle) : null;
    const rows: TreeRow[] = [];
    const walk = (parent: string, depth: number) => {
      for (const session of this.children.get(parent) ?? []) {
        if (keep && !keep.has(session.id)) continue;
        const childCount = this.children.get(session.id)?.length ?? 0;
        const open = childCount > 0 && (keep !== null || !this.collapsed.has(session.id));
        rows.push({ session, depth, childCount, open });
        if (open) walk(session.id, depth + 1);
      }
    };
    walk("", 0);
    return rows;
  }

  /** Sessions that wait for an answer, and all above them. */
  private waiting(): Set<string> {
    const found = [...this.byId.values()].filter((session) => session.status === "awaiting_permission");
    return new Set(found.flatMap((session) => [session.id, ...this.ancestors(session.id)]));
  }

  private matching(needle: string): Set<string> {
    const keep = new Set<string>();
    for (const session of this.byId.values()) {
      const text = `${session.name} ${session.status} ${session.working_dir} ${session.id}`.toLowerCase();
      if (text.includes(needle)) [session.id, ...this.ancestors(session.id)].forEach((id) => keep.add(id));
    }
    return keep;
  }

  private note(event: FollowedEvent): void {
    const line = lineOf(event.event);
    if (line) {
      this.pendingLines.set(event.session_id, line);
      this.flushLines();
    }
    if (CHANGING.has(event.event.type) || !this.byId.has(event.session_id)) this.refresh(event.session_id);
    // What a chat has cost counts for all above it.
    if (event.event.type === "complete" || event.event.type === "error") this.ancestors(event.session_id).forEach((id) => this.refresh(id));
  }

  /** Takes a session that was deleted, and all below it, off the page. */
  forget(id: string): void {
    const below = (each: string): string[] => [each, ...(this.children.get(each) ?? []).flatMap((child) => below(child.id))];
    const gone = new Set(below(id));
    this.byId = new Map([...this.byId].filter(([each]) => !gone.has(each)));
  }

  /** Reads one session again, soon. */
  refresh(id: string): void {
    this.dirty.add(id);
    this.refreshDirty();
  }

  private applyLines(): void {
    this.lines = new Map([...this.lines, ...this.pendingLines]);
    this.pendingLines = new Map();
  }

  private async readDirty(): Promise<void> {
    const ids = [...this.dirty];
    this.dirty.clear();
    if (ids.length > MAX_SINGLE_READS) return this.refreshAll();
    const answers = await Promise.allSettled(ids.map((id) => api.call("agents.get", { session_id: id })));
    const next = new Map(this.byId);
    for (const [i, answer] of answers.entries()) {
      if (answer.status === "fulfilled") next.set(ids[i]!, shown(answer.value.session));
      else this.refreshAll();
    }
    this.byId = next;
  }

  private async readAll(): Promise<void> {
    if (!api.token) return;
    try {
      const next = new Map<string, Session>();
      let cursor: string | undefined;
      do {
        const page = await api.call("agents.list", { limit: PAGE, ...(cursor ? { cursor } : {}) });
        for (const session of page.sessions) next.set(session.id, shown(session));
        cursor = page.sessions.length > 0 ? (page.cursor ?? undefined) : undefined;
      } while (cursor && next.size < MAX_SESSIONS);
      this.byId = next;
      this.error = null;
      if (!this.loaded) void this.readLines();
      this.loaded = true;
    } catch (error) {
      this.error = explain(error);
    }
  }

  /** Reads what was said before the page was opened: of work that goes on first, then of the newest. */
  private async readLines(): Promise<void> {
    const answer = await api.call("agents.wait", { wait_ms: 0 }).catch(() => null);
    const isOpen = (status: SessionStatus) => status === "running" || status === "awaiting_permission";
    const newest = (answer?.sessions ?? []).toSorted((a, b) => Number(isOpen(b.status)) - Number(isOpen(a.status)) || (this.byId.get(b.session_id)?.updated_at ?? 0) - (this.byId.get(a.session_id)?.updated_at ?? 0));
    const said = newest.slice(0, MAX_SAID_AT_START).map(async ({ session_id, status, chat, total_events, answer: last }) => {
      const text = isOpen(status) ? await lastContent(session_id, chat ?? undefined, total_events) : last?.text;
      return text ? ([session_id, transcriptText(lastSentence(text))] as const) : null;
    });
    // One that cannot be read only lacks its sentence.
    const found = (await Promise.allSettled(said)).flatMap((each) => (each.status === "fulfilled" && each.value ? [each.value] : []));
    this.lines = new Map([...found, ...this.lines]);
  }
}

/** Names and directories come from agents too: what is invisible in them is made visible before anything is shown. */
function shown(session: Session): Session {
  return { ...session, name: exactText(session.name), working_dir: exactText(session.working_dir) };
}

/** The last text in the newest events of a chat. */
async function lastContent(session_id: string, chat: number | undefined, total: number): Promise<string | null> {
  const from_seq = Math.max(0, total - LOOKED_AT);
  const { events } = await api.call("agents.poll", { session_id, from_seq, limit: LOOKED_AT, ...(chat === undefined ? {} : { chat }) });
  for (const { event } of events.toReversed()) if (event.type === "content") return event.text;
  return null;
}

function lineOf(event: ChatEvent): string | null {
  if (event.type === "content") return transcriptText(lastSentence(event.text)) || null;
  // An error is the last thing that is heard of a chat.
  return event.type === "error" ? firstLine(event.message) : null;
}

export const sessions = new Sessions();
