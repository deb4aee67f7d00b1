// One connection for all tabs of a browser, and one sign-in.
//
// A browser opens six connections to a server. With a stream for each tab the seventh tab would never load, so the streams
// belong to a [`Hub`] in a SharedWorker and each tab is a port of it. The hub also holds the token: a new tab asks it who is
// signed in. A worker can be reached by pages of exactly our origin alone, port included, which no cookie offers.

import { EventStream, type Connection, type SseMessage } from "./sse.ts";

/** Streams of single sessions that are kept at once. Whoever asked first is let go; its text then comes whole, as events. */
const MAX_SIDE_STREAMS = 3;

/** The name of the worker. A page of another version must not talk to this one's: raise the number when the messages change. */
export const HUB_NAME = "plexus hub 1";

/** What a tab says to the hub. */
export type ToHub =
  /** The tab is here, with the token that it kept over a reload. */
  | { say: "hello"; token: string | null }
  | { say: "signed_in"; token: string }
  /** `token` is no longer wanted, or not accepted. */
  | { say: "signed_out"; token: string; note: string | null }
  /** The tab wants the stream at `url`; a main stream is kept whatever else is open. */
  | { say: "listen"; url: string; cursor: string | null; main: boolean }
  | { say: "leave"; url: string }
  /** The network is back: no pause is waited for. */
  | { say: "retry" }
  /** The tab goes away. */
  | { say: "bye" };

/** What the hub says to a tab. */
export type FromHub =
  /** Who is signed in, after `hello` and after each change. */
  | { say: "token"; token: string | null; note: string | null }
  | { say: "state"; url: string; state: Connection }
  /** The stream is open and heard: the moment to read what was missed. */
  | { say: "opened"; url: string }
  | { say: "message"; url: string; message: SseMessage };

/** The hub's end of the way to one tab. */
export type Port = { postMessage: (message: FromHub) => void };

type Shared = { stream: EventStream; tabs: Set<Port>; state: Connection; main: boolean };

export class Hub {
  private readonly tabs = new Set<Port>();
  private readonly streams = new Map<string, Shared>();
  private token: string | null = null;

  take(port: Port, message: ToHub): void {
    switch (message.say) {
      case "hello":
        this.tabs.add(port);
        if (this.token === null && message.token !== null) this.signIn(message.token, port);
        port.postMessage({ say: "token", token: this.token, note: null });
        return;
      case "signed_in":
        this.signIn(message.token, port);
        return;
      case "signed_out":
        this.signOut(message.token, message.note);
        return;
      case "listen":
        this.listen(port, message);
        return;
      case "leave":
        this.leave(port, message.url);
        return;
      case "retry":
        for (const { stream } of this.streams.values()) stream.retryNow();
        return;
      case "bye":
        this.tabs.delete(port);
        for (const url of [...this.streams.keys()]) this.leave(port, url);
    }
  }

  /** The newest sign-in holds for all tabs. */
  private signIn(token: string, from: Port): void {
    if (token === this.token) return;
    this.token = token;
    this.closeAll();
    this.tell(this.tabs, { say: "token", token, note: null }, from);
  }

  /** A tab may speak of a token that was replaced since; that changes nothing. */
  private signOut(token: string, note: string | null): void {
    if (token !== this.token) return;
    this.token = null;
    this.closeAll();
    this.tell(this.tabs, { say: "token", token: null, note });
  }

  private listen(port: Port, { url, cursor, main }: Extract<ToHub, { say: "listen" }>): void {
    const known = this.streams.get(url);
    const tabs = new Set(known?.tabs).add(port);
    if (known?.main) {
      known.tabs = tabs;
      port.postMessage({ say: "state", url, state: known.state });
      if (known.state === "live") port.postMessage({ say: "opened", url });
      return;
    }
    // A side stream begins with what is being said now, so a second listener has it begin again.
    known?.stream.stop();
    this.streams.delete(url);
    if (!main) this.makeRoom();
    const stream = this.open(url, cursor);
    this.streams.set(url, { stream, tabs, state: "connecting", main });
    stream.start();
  }

  private open(url: string, cursor: string | null): EventStream {
    const shared = () => this.streams.get(url);
    const stream = new EventStream({
      url,
      cursor,
      credentials: { token: () => this.token, rejected: () => this.token !== null && this.signOut(this.token, REJECTED) },
      onMessage: (message) => this.tell(shared()?.tabs, { say: "message", url, message }),
      onOpen: () => this.tell(shared()?.tabs, { say: "opened", url }),
      onState: (state) => {
        const found = shared();
        if (!found || found.stream !== stream) return;
        found.state = state;
        this.tell(found.tabs, { say: "state", url, state });
      },
    });
    return stream;
  }

  private makeRoom(): void {
    const side = [...this.streams].filter(([, shared]) => !shared.main);
    for (const [url, shared] of side.slice(0, Math.max(0, side.length - MAX_SIDE_STREAMS + 1))) {
      shared.stream.stop();
      this.streams.delete(url);
    }
  }

  private leave(port: Port, url: string): void {
    const shared = this.streams.get(url);
    if (!shared?.tabs.delete(port) || shared.tabs.size > 0) return;
    shared.stream.stop();
    this.streams.delete(url);
  }

  private closeAll(): void {
    for (const { stream } of this.streams.values()) stream.stop();
    this.streams.clear();
  }

  private tell(tabs: Iterable<Port> | undefined, message: FromHub, except?: Port): void {
    for (const tab of tabs ?? []) if (tab !== except) tab.postMessage(message);
  }
}

/** What a person is told when the server no longer takes the token. */
export const REJECTED = "Your sign-in has ended. Sign in again.";
