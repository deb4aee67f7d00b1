// The one connection to the server: token, calls, and the live stream of events of all sessions.
//
// The stores listen here. `onEvent` tells of each event as it comes; `onResync` tells that the stream has just (re)opened, so
// whatever is on the page should be read again. Subscribing comes first and reading second, so nothing falls between.

import { exchangeCode, forgetToken, loadToken, saveToken, takeCodeFromAddress } from "../lib/auth.ts";
import { RpcClient, type Credentials } from "../lib/rpc.ts";
import { EventStream, type Connection, type SseMessage } from "../lib/sse.ts";
import type { FollowedEvent, Methods } from "../lib/wire.ts";
import { clock } from "./clock.svelte.ts";

type Listener<T> = (value: T) => void;

class Api {
  token = $state<string | null>(null);
  connection = $state<Connection>("connecting");
  /** Why the sign-in view is shown, when there is a reason. */
  signInNote = $state<string | null>(null);
  /** False until a code in the address was exchanged or found missing. */
  ready = $state(false);
  serverVersion = $state<string | null>(null);

  private readonly credentials: Credentials = { token: () => this.token, rejected: () => this.signOut("Your sign-in has ended. Sign in again.") };
  private readonly rpc = new RpcClient(this.credentials);
  private stream: EventStream | null = null;
  private readonly eventListeners = new Set<Listener<FollowedEvent>>();
  private readonly resyncListeners = new Set<() => void>();

  constructor() {
    addEventListener("online", () => this.stream?.retryNow());
    // A link from `plexus dashboard` opened in a tab that already shows the page changes only the hash.
    addEventListener("hashchange", () => void this.signInFromAddress());
  }

  async start(): Promise<void> {
    this.token = loadToken();
    await this.signInFromAddress();
    this.ready = true;
    if (this.token) this.connect();
  }

  signIn(token: string): void {
    saveToken(token);
    this.token = token;
    this.signInNote = null;
    this.connect();
  }

  signOut(note: string | null = null): void {
    if (this.token === null) return;
    forgetToken();
    this.token = null;
    this.signInNote = note;
    this.stream?.stop();
    this.stream = null;
  }

  async call<M extends keyof Methods>(method: M, params: Methods[M]["params"]): Promise<Methods[M]["result"]> {
    const result = await this.rpc.call(method, params);
    clock.skewMs = this.rpc.clockSkewMs;
    return result;
  }

  /** Hears every live event. The returned function ends it. */
  onEvent(listener: Listener<FollowedEvent>): () => void {
    this.eventListeners.add(listener);
    return () => this.eventListeners.delete(listener);
  }

  onResync(listener: () => void): () => void {
    this.resyncListeners.add(listener);
    return () => this.resyncListeners.delete(listener);
  }

  /** Opens a stream of its own; whoever asked for it stops it. */
  openStream(path: string, onMessage: (message: SseMessage) => void, onOpen: () => void): EventStream {
    const stream = new EventStream({ path, credentials: this.credentials, onMessage, onOpen, onState: () => {} });
    stream.start();
    return stream;
  }

  private async signInFromAddress(): Promise<void> {
    const code = takeCodeFromAddress();
    if (code === null) return;
    try {
      const token = await exchangeCode(code);
      if (this.ready) this.signIn(token);
      else {
        saveToken(token);
        this.token = token;
      }
    } catch (error) {
      this.signInNote = error instanceof Error ? error.message : String(error);
    }
  }

  private connect(): void {
    this.stream?.stop();
    this.stream = new EventStream({
      path: "events",
      credentials: this.credentials,
      onMessage: (message) => this.deliver(message),
      onOpen: () => this.resyncListeners.forEach((listener) => listener()),
      onState: (state) => (this.connection = state),
    });
    this.stream.start();
    this.resyncListeners.forEach((listener) => listener());
    void this.readVersion();
  }

  private deliver(message: SseMessage): void {
    const event = parseEvent(message.data);
    if (event) this.eventListeners.forEach((listener) => listener(event));
  }

  private async readVersion(): Promise<void> {
    try {
      const answer = await this.call("plexus.version", {});
      this.serverVersion = answer.version;
    } catch {
      this.serverVersion = null;
    }
  }
}

/** An unreadable message is skipped: the event itself is in the store and comes with the next page. */
function parseEvent(data: string): FollowedEvent | null {
  try {
    const value = JSON.parse(data) as FollowedEvent;
    return typeof value.session_id === "string" && typeof value.seq === "number" && typeof value.event?.type === "string" ? value : null;
  } catch {
    return null;
  }
}

export const api = new Api();
