// What an agent is saying right now, word by word: a second stream of one session, with live pieces of text that are never
// stored. Only a page that is looked at has it: the tabs of a browser share few connections.

import { LiveText } from "../lib/live.ts";
import type { SseMessage } from "../lib/sse.ts";
import type { Listening } from "../lib/tab.ts";
import type { ChatEvent, Delta, Followed } from "../lib/wire.ts";
import { api } from "./api.svelte.ts";

/** Characters of a long speech that are shown while it lasts: its end. */
const SHOWN_CHARS = 4_000;

export class Speech {
  /** What is being said; empty when nothing is. */
  text = $state("");

  private readonly live = new LiveText();
  private stream: Listening | null = null;
  private cursor: string | null = null;
  private wanted = false;
  private nudged = false;

  constructor(private readonly sessionId: string) {
    document.addEventListener("visibilitychange", this.adjust);
  }

  /** Listens from this position on. */
  start(cursor: string | null): void {
    this.cursor = cursor;
    this.wanted = true;
    this.adjust();
  }

  close(): void {
    this.wanted = false;
    document.removeEventListener("visibilitychange", this.adjust);
    this.adjust();
  }

  private readonly adjust = (): void => {
    const open = this.wanted && !document.hidden;
    if (open === (this.stream !== null)) return;
    this.stream?.stop();
    this.stream = null;
    this.forget();
    if (!open) return;
    const query = new URLSearchParams({ session_id: this.sessionId, deltas: "true" });
    this.stream = api.openStream(`events?${query}`, this.cursor, (message) => this.take(message), this.forget);
  };

  private readonly forget = (): void => {
    this.live.reset();
    this.text = "";
  };

  private take(message: SseMessage): void {
    if (message.id !== null) this.cursor = message.id;
    const event = bodyOf(message.data);
    if (event === null) return;
    if (event.type === "delta") this.live.piece(event.text);
    else if (event.type === "delta_start") this.live.messageStarts();
    else if (event.type === "content") this.live.whole(event.text);
    else if (event.type === "complete" || event.type === "error") this.live.ended();
    else return;
    this.showSoon();
  }

  /** Many pieces make one update a frame. */
  private showSoon(): void {
    if (this.nudged) return;
    this.nudged = true;
    requestAnimationFrame(() => {
      this.nudged = false;
      const { text } = this.live;
      this.text = text.length > SHOWN_CHARS ? `…${text.slice(-SHOWN_CHARS)}` : text;
    });
  }
}

function bodyOf(data: string): ChatEvent | Delta | null {
  try {
    const value = JSON.parse(data) as Partial<Followed>;
    return value.event ?? null;
  } catch {
    return null;
  }
}
