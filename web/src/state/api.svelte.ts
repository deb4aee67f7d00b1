// The way to the server: token, calls, and the live stream of events of all sessions. Stream and sign-in are shared with the
// browser's other tabs (`lib/hub.ts`).
//
// The stores listen here. `onEvent` tells of each event as it comes; `onResync` tells that the stream has just (re)opened, so
// whatever is on the page should be read again. Subscribing comes first and reading second, so nothing falls between.

import { exchangeCode, forgetToken, loadToken, saveToken, takeCodeFromAddress } from "../lib/auth.ts";
import { readWire } from "../lib/exact.ts";
import { REJECTED } from "../lib/hub.ts";
import { apiUrl, explain, RpcClient, RpcError } from "../lib/rpc.ts";
import type { Connection, SseMessage } from "../lib/sse.ts";
import { Tab, type Listening } from "../lib/tab.ts";
import type { FollowedEvent, Methods } from "../lib/wire.ts";
import { clock } from "./clock.svelte.ts";

type Listener<T> = (value: T) => void;

class Api {
  token = $state<string | null>(null);
  connection = $state<Connection>("connecting");
  /** Why the sign-in view is shown, when there is a reason. */
  signInNote = $state<string | null>(null);
  /** False until it is known whether somebody is signed in: by a code in the address, by this tab, or by another one. */
  ready = $state(false);
  serverVersion = $state<string | null>(null);

  private readonly rpc = new RpcClient({ token: () => this.token, rejected: () => this.signOut(REJECTED) });
  private tab: Tab | null = null;
  private stream: Listening | null = null;
  private readonly eventListeners = new Set<Listener<FollowedEvent>>();
  private readonly resyncListeners = new Set<() => void>();

  constructor() {
    // A link from `plexus dashboard` opened in a tab that already shows the page changes only the hash.
    addEventListener("hashchange", () => void this.signInFromAddress());
  }

  async start(): Promise<void> {
    await this.signInFromAddress();
    const [fresh, kept] = [this.token, loadToken()];
    this.tab = new Tab({ fresh, kept }, (token, note) => this.hear(token, note));
    // A token of one's own need not wait for the hub, which says so when another one replaced it.
    const own = fresh ?? kept;
    if (own === null) return;
    this.use(own);
    this.ready = true;
  }

  /** Signs in with a token that somebody pasted. The other tabs hear of it once the server has taken it. */
  async signIn(token: string): Promise<void> {
    const rpc = new RpcClient({ token: () => token, rejected: () => {} });
    try {
      // Other characters cannot even be sent.
      if (!/^[!-~]+$/.test(token)) throw new RpcError("unauthorized", "the token is not accepted");
      await rpc.call("plexus.version", {});
    } catch (error) {
      const unknown = error instanceof RpcError && error.kind === "unauthorized";
      this.signInNote = unknown ? "This is not a token of this server. In a terminal, plexus token prints it." : `Could not sign in: ${explain(error)}.`;
      return;
    }
    this.adopt(token);
  }

  private adopt(token: string): void {
    this.tab?.signedIn(token);
    this.use(token);
  }

  signOut(note: string | null = null): void {
    const { token } = this;
    if (token === null) return;
    this.drop(note);
    this.tab?.signedOut(token, note);
  }

  /** The hub tells who is signed in: this tab, or another one before it. */
  private hear(token: string | null, note: string | null): void {
    if (token === null) this.drop(note);
    else if (token !== this.token) this.use(token);
    this.ready = true;
  }

  private use(token: string): void {
    saveToken(token);
    this.token = token;
    this.signInNote = null;
    this.connect();
  }

  private drop(note: string | null): void {
    forgetToken();
    this.stream?.stop();
    this.stream = null;
    // An earlier reason, such as a used code, stays until somebody signs in.
    if (note !== null || this.token !== null) this.signInNote = note;
    this.token = null;
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

  /** Hears a stream of one session; whoever asked for it stops it. */
  openStream(path: string, cursor: string | null, onMessage: (message: SseMessage) => void, onOpen: () => void): Listening | null {
    return this.tab?.listen(apiUrl(path), cursor, "side", { onMessage, onOpen, onState: () => {} }) ?? null;
  }

  private async signInFromAddress(): Promise<void> {
    const code = takeCodeFromAddress();
    if (code === null) return;
    try {
      const token = await exchangeCode(code);
      if (this.ready) this.adopt(token);
      else this.token = token;
    } catch (error) {
      this.signInNote = error instanceof Error ? error.message : String(error);
    }
  }

  private connect(): void {
    this.stream?.stop();
    this.connection = "connecting";
    const stream = this.tab?.listen(apiUrl("events"), null, "main", {
      onMessage: (message) => this.deliver(message),
      onOpen: () => this.resyncListeners.forEach((listener) => listener()),
      onState: (state) => (this.connection = state),
    });
    this.stream = stream ?? null;
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
    const value = readWire(data) as FollowedEvent;
    return typeof value.session_id === "string" && typeof value.seq === "number" && typeof value.event?.type === "string" ? value : null;
  } catch {
    return null;
  }
}

export const api = new Api();
