// A tab's end of the way to the hub, which holds the connection of all tabs.
//
// Where there is no SharedWorker (some phones) the tab has a hub of its own: a connection and a sign-in of its own, as if it
// were the only tab.

import { Hub, HUB_NAME, type FromHub, type ToHub } from "./hub.ts";
import type { Connection, SseMessage } from "./sse.ts";

/** What a tab hears of one stream. */
export type Listener = {
  onMessage: (message: SseMessage) => void;
  /** Called each time the stream is open, before its first message: the moment to read what was missed. */
  onOpen: () => void;
  onState: (state: Connection) => void;
};

export type Listening = { stop: () => void };

export class Tab {
  private readonly listeners = new Map<string, Listener>();
  private readonly say: (message: ToHub) => void;

  /** A tab has just signed in (`fresh`), or kept a token over a reload (`kept`), which another tab may have replaced since. */
  constructor(
    own: { fresh: string | null; kept: string | null },
    private readonly onToken: (token: string | null, note: string | null) => void,
  ) {
    this.say = reachHub((message) => this.take(message));
    addEventListener("pagehide", () => this.say({ say: "bye" }));
    // A page that comes back from the browser's cache is a new tab to the hub.
    addEventListener("pageshow", (event) => event.persisted && location.reload());
    addEventListener("online", () => this.say({ say: "retry" }));
    if (own.fresh !== null) this.say({ say: "signed_in", token: own.fresh });
    this.say({ say: "hello", token: own.kept });
  }

  signedIn(token: string): void {
    this.say({ say: "signed_in", token });
  }

  signedOut(token: string, note: string | null): void {
    this.listeners.clear();
    this.say({ say: "signed_out", token, note });
  }

  /** Hears the stream at `url` until it is stopped. A side stream may be let go when many are wanted. */
  listen(url: string, cursor: string | null, kind: "main" | "side", listener: Listener): Listening {
    this.listeners.set(url, listener);
    this.say({ say: "listen", url, cursor, main: kind === "main" });
    return {
      stop: () => {
        if (this.listeners.get(url) !== listener) return;
        this.listeners.delete(url);
        this.say({ say: "leave", url });
      },
    };
  }

  private take(message: FromHub): void {
    if (message.say === "token") {
      this.onToken(message.token, message.note);
      return;
    }
    const listener = this.listeners.get(message.url);
    if (message.say === "state") listener?.onState(message.state);
    else if (message.say === "opened") listener?.onOpen();
    else listener?.onMessage(message.message);
  }
}

/** Finds the hub. Returns how to speak to it; it answers by `heard`. */
function reachHub(heard: (message: FromHub) => void): (message: ToHub) => void {
  if (typeof SharedWorker === "function") {
    const { port } = new SharedWorker(new URL("../hub-worker.ts", import.meta.url), { type: "module", name: HUB_NAME });
    port.onmessage = ({ data }: MessageEvent<FromHub>) => heard(data);
    return (message) => port.postMessage(message);
  }
  const hub = new Hub();
  // Answers come later, as they do from a worker.
  const port = { postMessage: (message: FromHub) => queueMicrotask(() => heard(message)) };
  return (message) => hub.take(port, message);
}
