// The live event stream: Server-Sent Events read by `fetch`, which, unlike EventSource, can carry an Authorization header.
//
// [`EventStream`] keeps one connection open for as long as it is wanted. It comes back by itself with `Last-Event-ID`, after a
// growing pause, and treats a stream that is silent for longer than three heartbeats as lost. It says nothing of duplicates:
// whoever keeps events knows them by session, chat and seq.

import type { Credentials } from "./rpc.ts";

export type SseMessage = { id: string | null; event: string; data: string };
export type Connection = "connecting" | "live" | "offline";

/** The server sends a comment every 15 s; three missed ones mean that the connection is dead. */
const SILENCE_MS = 45_000;
const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 10_000;
/** A message larger than this is a broken peer: the server's own line limit is 16 MiB. */
const MAX_MESSAGE_CHARS = 32 * 1024 * 1024;

/** Cuts a text stream into messages, by the rules of the HTML standard. Feed it chunks as they come. */
export class SseParser {
  private rest = "";
  private data: string[] = [];
  private event = "";
  private sawCr = false;
  /** The last id seen; it stays until another one comes. */
  lastId: string | null = null;

  constructor(private readonly deliver: (message: SseMessage) => void) {}

  push(chunk: string): void {
    if (chunk === "") return;
    // A CR at the end of one chunk and an LF at the start of the next are one line end.
    if (this.sawCr && chunk.startsWith("\n")) chunk = chunk.slice(1);
    this.sawCr = chunk.endsWith("\r");
    const text = this.rest + chunk;
    let start = 0;
    const lineEnd = /\r\n|\n|\r/g;
    // What was kept from before holds no line end, so looking begins where the new chunk begins.
    lineEnd.lastIndex = this.rest.length;
    for (let match = lineEnd.exec(text); match; match = lineEnd.exec(text)) {
      this.line(text.slice(start, match.index));
      start = lineEnd.lastIndex;
    }
    this.rest = text.slice(start);
    if (this.rest.length > MAX_MESSAGE_CHARS) throw new Error("a stream message is too long");
  }

  private line(line: string): void {
    if (line === "") return this.dispatch();
    if (line.startsWith(":")) return;
    const colon = line.indexOf(":");
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? "" : line.slice(line[colon + 1] === " " ? colon + 2 : colon + 1);
    if (field === "data") this.data.push(value);
    else if (field === "event") this.event = value;
    else if (field === "id" && !value.includes("\0")) this.lastId = value;
  }

  private dispatch(): void {
    if (this.data.length > 0) this.deliver({ id: this.lastId, event: this.event || "message", data: this.data.join("\n") });
    this.data = [];
    this.event = "";
  }
}

export type StreamOptions = {
  url: string;
  /** The position to begin after; without it, the stream begins now. */
  cursor: string | null;
  credentials: Credentials;
  onMessage: (message: SseMessage) => void;
  /** Called each time the stream is open, before its first message: the moment to read what was missed. */
  onOpen: () => void;
  onState: (state: Connection) => void;
};

export class EventStream {
  private abort = new AbortController();
  private lastId: string | null;
  private stopped = false;
  private wakePause: (() => void) | null = null;

  constructor(private readonly options: StreamOptions) {
    this.lastId = options.cursor;
  }

  start(): void {
    void this.keepOpen();
  }

  stop(): void {
    this.stopped = true;
    this.abort.abort();
    this.wakePause?.();
  }

  /** Tries again at once, for when the browser says that the network is back. */
  retryNow(): void {
    this.wakePause?.();
  }

  private async keepOpen(): Promise<void> {
    let pause = FIRST_PAUSE_MS;
    while (!this.stopped) {
      this.options.onState("connecting");
      const opened = await this.readOnce().catch(() => false);
      if (this.stopped) return;
      this.options.onState("offline");
      pause = opened ? FIRST_PAUSE_MS : Math.min(pause * 2, LONGEST_PAUSE_MS);
      // Half fixed, half random: many dashboards do not come back in the same instant.
      await this.sleep(pause / 2 + Math.random() * (pause / 2));
    }
  }

  /** Reads one connection to its end. Returns whether it was ever open. */
  private async readOnce(): Promise<boolean> {
    const abort = new AbortController();
    this.abort = abort;
    let silence = setTimeout(() => abort.abort(), SILENCE_MS);
    let opened = false;
    try {
      const headers: Record<string, string> = { Accept: "text/event-stream", Authorization: `Bearer ${this.options.credentials.token() ?? ""}` };
      if (this.lastId !== null) headers["Last-Event-ID"] = this.lastId;
      const response = await fetch(this.options.url, { headers, signal: abort.signal, cache: "no-store" });
      // A stream that was stopped in the meantime speaks of a token that nobody uses any more.
      if (response.status === 401 && !this.stopped) this.options.credentials.rejected();
      if (!response.ok || !response.body) {
        // A cursor that the server no longer knows must not keep us out for ever: what it skipped is read by page.
        if (response.status === 400 || response.status === 404 || response.status === 410) this.lastId = this.options.cursor;
        return false;
      }
      opened = true;
      this.options.onState("live");
      this.options.onOpen();
      const parser = new SseParser((message) => {
        if (message.event === "error") {
          // The server ends a stream that it cannot continue, perhaps for its cursor. The next one starts as the first did, and
          // the page reads the rest by itself.
          this.lastId = this.options.cursor;
          return;
        }
        this.options.onMessage(message);
        this.lastId = message.id;
      });
      parser.lastId = this.lastId;
      const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        clearTimeout(silence);
        silence = setTimeout(() => abort.abort(), SILENCE_MS);
        parser.push(value);
      }
    } catch {
      // A broken connection and our own abort end alike: by coming back.
    } finally {
      clearTimeout(silence);
      abort.abort();
    }
    return opened;
  }

  private sleep(ms: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.wakePause = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }
}
