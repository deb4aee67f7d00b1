// One session's timeline: every chat and every event has its row from the start, and is filled in when somebody looks.
//
// The number of events of each chat is known before they are read, so the list has its full length at once and pages are
// read where it is scrolled to, newest first. Each row is a slot (chat, seq): an event that comes twice fills the same slot, and
// one that was missed leaves a slot open, which the next look fills. So nothing is lost or repeated, whatever the stream does.

import { untrack } from "svelte";
import { Heights } from "../lib/heights.ts";
import { explain } from "../lib/rpc.ts";
import { firstLine } from "../lib/text.ts";
import { ToolCalls, type ToolCall } from "../lib/toolcalls.ts";
import { outputText, summarize } from "../lib/tools.ts";
import type { ChatEvent, FollowedEvent, PolledEvent, Stream } from "../lib/wire.ts";
import { api } from "./api.svelte.ts";

const PAGE = 1_000;
/** Height assumed for a row that was never shown. */
const ROW_PX = 30;
/** Rows read beyond the screen before they are reached, so that a scroll does not run into open slots. */
const AHEAD = 400;
const RETRY_MS = 2_000;

/** What is known of a chat: all that the server says, or what its first event tells. */
export type ChatInfo = Pick<Stream, "session_id" | "chat" | "status" | "started_at" | "ended_at" | "error" | "total_events">;
export type EventRow = { kind: "event"; event: PolledEvent };
export type Row = EventRow | { kind: "chat"; chat: ChatInfo } | { kind: "unread" };
/** A slot holds the row itself: the same object as long as nothing changed, so that it is not drawn again. */
type Chat = { info: ChatInfo; firstRow: number; slots: (EventRow | undefined)[] };
const UNREAD: Row = { kind: "unread" };
export type Kinds = "all" | "messages" | "tools" | "problems";

export class Timeline {
  /** Grows with every change of the rows; templates read it to follow. */
  version = $state(0);
  error = $state<string | null>(null);
  loaded = $state(false);
  total = $state(0);
  readonly heights = new Heights();
  /** The position after the newest event of the first page, from which somebody else may listen on. */
  cursor: string | null = null;

  private chats: Chat[] = [];
  private measured: (number | undefined)[] = [];
  private calls = new ToolCalls();
  private readonly expanded = new Set<number>();
  private readonly prompts = new Map<number, string | null>();
  private readonly reading = new Set<string>();
  private needle = "";
  private kinds: Kinds = "all";
  private readonly stopListening: (() => void)[] = [];
  private closed = false;
  private nudged = false;

  constructor(readonly sessionId: string) {
    // Subscribed before the first read: what happens between the two fills its slot either way.
    this.stopListening.push(api.onEvent((event) => event.session_id === sessionId && this.take(event)));
    this.stopListening.push(api.onResync(() => void this.readChats()));
    void this.readChats();
  }

  close(): void {
    this.closed = true;
    this.stopListening.forEach((stop) => stop());
  }

  /** The row at `index`. This and the methods below follow changes when a template reads them. */
  row(index: number): Row {
    void this.version;
    return this.slot(index);
  }

  private slot(index: number): Row {
    const chat = this.chatAt(index);
    if (!chat) return UNREAD;
    const seq = index - chat.firstRow - 1;
    return seq < 0 ? { kind: "chat", chat: chat.info } : (chat.slots[seq] ?? UNREAD);
  }

  call(toolUseId: string): ToolCall {
    void this.version;
    return this.calls.get(toolUseId);
  }

  /** The prompt of a chat; `null` when its text was pruned. */
  promptOf(chat: number): string | null | undefined {
    void this.version;
    return this.prompts.get(chat);
  }

  /** What was not allowed in the chat of this row, of all that was read of it: a chat that ended so is not simply complete. */
  refusals(index: number): { denied: number; expired: number } {
    void this.version;
    const counts = { denied: 0, expired: 0 };
    for (const slot of this.chatAt(index)?.slots ?? []) {
      const event = slot?.event.event;
      if (event?.type === "approval_resolved" && !event.approved) counts[event.decided_by === "deadline" ? "expired" : "denied"]++;
    }
    return counts;
  }

  /** The prompt of the newest chat. */
  lastPrompt(): string | null {
    void this.version;
    return this.prompts.get(this.chats.at(-1)?.info.chat ?? -1) ?? null;
  }

  isOpen(index: number): boolean {
    void this.version;
    return this.expanded.has(index);
  }

  toggle(index: number): void {
    if (!this.expanded.delete(index)) this.expanded.add(index);
    this.changed();
  }

  measure(index: number, px: number): void {
    this.measured[index] = px;
    if (!this.isHidden(index)) this.heights.set(index, px);
  }

  remeasured(): void {
    this.changed();
  }

  setFilter(needle: string, kinds: Kinds): void {
    this.needle = needle.trim().toLowerCase();
    this.kinds = kinds;
    for (let i = 0; i < this.heights.length; i++) this.updateHeight(i);
    this.changed();
  }

  isHidden(index: number): boolean {
    const row = this.slot(index);
    return row.kind === "event" && (this.calls.isTold(row.event.event) || !this.isWanted(row.event));
  }

  /** Reads what is still open around the rows on the screen, a page at a time. */
  ensure(first: number, last: number): void {
    for (const chat of this.chats) {
      const from = Math.max(0, first - AHEAD - chat.firstRow - 1);
      const to = Math.min(chat.slots.length - 1, last + AHEAD - chat.firstRow - 1);
      let open = from;
      while (open <= to && chat.slots[open]) open++;
      if (open > to) continue;
      if (open > 0 && chat.slots[open - 1]) {
        // What lies before is read: the way leads down, up to whatever is read already.
        let end = open;
        while (end < chat.slots.length && end - open < PAGE && !chat.slots[end]) end++;
        void this.readPage(chat, open, end - open);
      } else {
        // The way leads up, or here from afar: the page ends with the last open slot in sight.
        let end = to;
        while (chat.slots[end]) end--;
        const start = Math.max(0, end - PAGE + 1);
        void this.readPage(chat, start, end - start + 1);
      }
    }
  }

  /** Reads the event at a place, and returns the row that shows it: a result is shown with its call. */
  async find(place: { chat: number; seq: number }): Promise<number | null> {
    const chat = this.chats.find((each) => each.info.chat === place.chat);
    if (!chat || place.seq >= chat.slots.length) return null;
    if (!chat.slots[place.seq]) {
      const start = Math.max(0, place.seq - PAGE / 2);
      await this.readPage(chat, start, Math.min(PAGE, chat.slots.length - start));
    }
    const event = chat.slots[place.seq]?.event.event;
    const told = event && "tool_use_id" in event && event.type !== "tool_use";
    const seq = told ? chat.slots.findIndex((slot) => slot?.event.event.type === "tool_use" && slot.event.event.tool_use_id === event.tool_use_id) : place.seq;
    return chat.firstRow + 1 + (seq < 0 ? place.seq : seq);
  }

  private async readChats(): Promise<void> {
    try {
      let cursor: string | undefined;
      const found: ChatInfo[] = [];
      do {
        const page = await api.call("agents.streams", { session_id: this.sessionId, ...(cursor ? { cursor } : {}) });
        found.push(...page.streams);
        cursor = page.streams.length > 0 ? (page.cursor ?? undefined) : undefined;
      } while (cursor);
      if (this.closed) return;
      for (const info of found.sort((a, b) => a.chat - b.chat)) this.extend(info, info.total_events);
      this.error = null;
      const newest = this.chats.at(-1);
      if (!this.loaded && newest) {
        const start = Math.max(0, newest.slots.length - PAGE);
        await this.readPage(newest, start, newest.slots.length - start);
      }
      this.loaded = true;
      this.changed();
    } catch (error) {
      this.error = explain(error);
      this.retryLater();
    }
  }

  private async readPage(chat: Chat, from: number, limit: number): Promise<void> {
    const key = `${chat.info.chat}:${from}`;
    if (this.reading.has(key) || limit <= 0) return;
    this.reading.add(key);
    // A page that failed or was empty is not asked for again at once: the slots it left open would ask with every drawing.
    let rest = RETRY_MS;
    try {
      const page = await api.call("agents.poll", { session_id: this.sessionId, chat: chat.info.chat, from_seq: from, limit });
      if (this.closed) return;
      for (const event of page.events) this.fill(chat, event);
      rest = page.events.length > 0 ? 0 : RETRY_MS;
      this.cursor ??= page.cursor;
      this.error = null;
      this.changed();
    } catch (error) {
      this.error = explain(error);
      this.retryLater();
    } finally {
      if (rest === 0) this.reading.delete(key);
      else setTimeout(() => this.reading.delete(key), rest - 50);
    }
  }

  /** After a failure the rows that are looked at are asked for again; the stream's own return does the rest. */
  private retryLater(): void {
    setTimeout(() => !this.closed && this.changed(), RETRY_MS);
  }

  private take(event: FollowedEvent): void {
    const known = this.chats.find((chat) => chat.info.chat === event.chat);
    const info: ChatInfo = known?.info ?? { session_id: this.sessionId, chat: event.chat, status: "running", started_at: event.timestamp, total_events: 0 };
    const chat = this.extend(info, event.seq + 1);
    this.fill(chat, event);
    if (event.event.type === "complete" || event.event.type === "error") void this.readChats();
    this.changedSoon();
  }

  /** Gives a chat rows for `total` events. Rows are only ever added at the end, so their numbers stay. */
  private extend(info: ChatInfo, total: number): Chat {
    const index = this.chats.findIndex((chat) => chat.info.chat >= info.chat);
    let chat = this.chats[index];
    if (!chat || chat.info.chat !== info.chat) {
      chat = { info, firstRow: this.heights.length, slots: [] };
      if (index >= 0) {
        this.chats.splice(index, 0, chat);
        this.rebuild();
      } else {
        this.chats.push(chat);
        this.heights.push(ROW_PX);
      }
    }
    chat.info = { ...info, total_events: Math.max(info.total_events, chat.slots.length, total) };
    const isLast = this.chats.at(-1) === chat;
    const grown = total > chat.slots.length;
    while (chat.slots.length < total) {
      chat.slots.push(undefined);
      if (isLast) this.heights.push(ROW_PX);
    }
    // A chat in the middle that grows moves all rows after it. The server does not do that; a late answer might.
    if (grown && !isLast) this.rebuild();
    this.total = this.chats.reduce((sum, each) => sum + each.slots.length, 0);
    return chat;
  }

  private fill(chat: Chat, event: PolledEvent): void {
    if (event.seq >= chat.slots.length) this.extend(chat.info, event.seq + 1);
    if (chat.slots[event.seq]) return;
    chat.slots[event.seq] = { kind: "event", event };
    const index = chat.firstRow + 1 + event.seq;
    for (const row of this.calls.add(event.event, index, event.timestamp)) this.updateHeight(row);
    this.updateHeight(index);
    if (event.event.type === "start") void this.readPrompt(chat.info.chat, event.event.user_position.node_id);
  }

  private isWanted({ event, target }: PolledEvent): boolean {
    if (this.kinds === "messages" && !["content", "steered", "start", "complete", "error"].includes(event.type)) return false;
    if (this.kinds === "tools" && !["tool_use", "awaiting_approval", "tool_result", "tool_request"].includes(event.type)) return false;
    if (this.kinds === "problems" && !this.isProblem(event)) return false;
    return this.needle === "" || searchText(event, target, this.calls).includes(this.needle);
  }

  private isProblem(event: ChatEvent): boolean {
    if (event.type === "tool_use") {
      const call = this.calls.get(event.tool_use_id);
      return call.result?.is_error === true || call.resolved?.approved === false;
    }
    return event.type === "error" || event.type === "notice" || (event.type === "tool_result" && event.is_error === true);
  }

  private updateHeight(index: number): void {
    this.heights.set(index, this.isHidden(index) ? 0 : (this.measured[index] ?? ROW_PX));
  }

  private rebuild(): void {
    this.measured = [];
    this.expanded.clear();
    this.calls = new ToolCalls();
    let row = 0;
    for (const chat of this.chats) {
      chat.firstRow = row;
      row += chat.slots.length + 1;
      chat.slots.forEach((row, seq) => {
        if (row) this.calls.add(row.event.event, chat.firstRow + 1 + seq, row.event.timestamp);
      });
    }
    while (this.heights.length < row) this.heights.push(ROW_PX);
    for (let i = 0; i < row; i++) this.updateHeight(i);
  }

  private chatAt(index: number): Chat | undefined {
    for (let i = this.chats.length - 1; i >= 0; i--) if (this.chats[i]!.firstRow <= index) return this.chats[i];
    return undefined;
  }

  /** The prompt is a node of the session's tree, not an event. Without it the row still says that a prompt came. */
  private async readPrompt(chat: number, nodeId: string): Promise<void> {
    if (this.prompts.has(chat)) return;
    const node = await api.call("arbor.node_get", { node_id: nodeId }).catch(() => null);
    const data = node?.node?.data;
    if (data?.type !== "text" && data?.type !== "pruned") return;
    this.prompts.set(chat, data.type === "text" ? data.content : null);
    this.changed();
  }

  private changed(): void {
    // Read without tracking: the code that causes a change must not be run again by it.
    this.version = untrack(() => this.version) + 1;
  }

  /** A burst of live events makes one update a frame. */
  private changedSoon(): void {
    if (this.nudged) return;
    this.nudged = true;
    // A hidden page draws no frames, and must not fall behind for that.
    const soon = document.hidden ? (run: () => void) => setTimeout(run, 250) : requestAnimationFrame;
    soon(() => {
      this.nudged = false;
      this.changed();
    });
  }
}

const SEARCHED_CHARS = 20_000;

function searchText(event: ChatEvent, target: PolledEvent["target"], calls: ToolCalls): string {
  switch (event.type) {
    case "content":
    case "steered":
      return event.text.slice(0, SEARCHED_CHARS).toLowerCase();
    case "thinking":
      return event.thinking.slice(0, SEARCHED_CHARS).toLowerCase();
    case "tool_use": {
      const output = outputText(calls.get(event.tool_use_id).result?.output).slice(0, SEARCHED_CHARS);
      return `${event.tool_name} ${summarize(event.input, target)} ${output}`.toLowerCase();
    }
    case "notice":
    case "error":
      return firstLine(event.message, SEARCHED_CHARS).toLowerCase();
    default:
      return JSON.stringify(event).slice(0, SEARCHED_CHARS).toLowerCase();
  }
}
