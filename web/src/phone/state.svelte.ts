// What the page for phones knows: whether it is paired, what waits, and which approval is open.
//
// The server's list is the truth and is read again whenever an event speaks of an approval. A token that is no longer accepted
// makes the page dark: it forgets everything that it has shown.

import { coalesce } from "../lib/coalesce.ts";
import { decisionBy } from "../lib/deciders.ts";
import { apiUrl, explain, RpcClient, RpcError } from "../lib/rpc.ts";
import { EventStream, type Connection } from "../lib/sse.ts";
import type { Approval, DecidedApproval, FollowedEvent, Methods } from "../lib/wire.ts";
import { clock } from "../state/clock.svelte.ts";
import { findDesk } from "./desk.ts";
import { codeIn, exchange, forget, load, save, takeCode, type Pairing } from "./pairing.ts";
import { Push, type Call } from "./push.svelte.ts";

const PAGE = 100;
const REFRESH_DELAY_MS = 60;
const SAFETY_REFRESH_MS = 20_000;
const DARK = "This phone was taken back. It shows nothing any more.";

export type Verdict = Omit<Methods["loopback.respond"]["params"], "approval_id" | "input_digest">;

class Phone {
  pairing = $state.raw<Pairing | null>(null);
  /** False until it is known whether this phone is paired. */
  ready = $state(false);
  /** Why it is not paired, when there is a reason. */
  note = $state<string | null>(null);
  list = $state.raw<Approval[]>([]);
  loaded = $state(false);
  connection = $state<Connection>("connecting");
  error = $state<string | null>(null);
  /** The approval in the address. */
  openId = $state<string | null>(null);
  /** What became of approvals that were open here, by id. */
  endings = $state.raw<Record<string, string>>({});
  busy = $state(false);

  private readonly credentials = { token: () => this.pairing?.token ?? null, rejected: () => this.goDark() };
  private readonly rpc = new RpcClient(this.credentials);
  private stream: EventStream | null = null;
  private readonly refresh = coalesce(() => this.read(), REFRESH_DELAY_MS);
  readonly push = new Push(
    ((method, params) => this.rpc.call(method as keyof Methods, params as never)) as Call,
    (hash) => (location.hash = hash),
  );

  constructor() {
    addEventListener("hashchange", () => void this.readAddress());
    addEventListener("online", () => this.stream?.retryNow());
    document.addEventListener("visibilitychange", () => !document.hidden && this.pairing && this.refresh());
    setInterval(() => !document.hidden && this.pairing && this.refresh(), SAFETY_REFRESH_MS);
  }

  async start(): Promise<void> {
    this.pairing = load();
    await this.readAddress();
    this.ready = true;
    if (this.pairing && !this.stream) this.connect();
    await this.push.start();
  }

  /** Pairs by a link or a code that somebody pasted: an installed page has no camera. */
  async pairBy(text: string): Promise<void> {
    const code = codeIn(text);
    if (code === null) this.note = "This is no link of plexus pair.";
    else await this.pair(code);
  }

  /** Sends one decision, bound to the input that is shown. */
  async decide(approval: Approval, verdict: Verdict): Promise<void> {
    if (this.busy) return;
    this.busy = true;
    this.error = null;
    try {
      await this.rpc.call("loopback.respond", { approval_id: approval.id, input_digest: approval.input_digest, ...verdict });
      this.end(approval.id, verdict.approve ? "Allowed by you." : "Denied by you.");
    } catch (error) {
      const standing = error instanceof RpcError && error.kind === "conflict" ? decided(error.standing as DecidedApproval | null) : null;
      if (standing !== null) this.end(approval.id, standing);
      else this.error = `Could not answer: ${explain(error)}`;
    } finally {
      this.busy = false;
      if (this.pairing) this.refresh();
    }
  }

  close(): void {
    location.hash = "";
  }

  private async readAddress(): Promise<void> {
    const code = takeCode();
    if (code !== null) await this.pair(code);
    const id = /^#\/approve\/([0-9a-f-]{36})$/.exec(location.hash)?.[1] ?? null;
    this.openId = id;
    this.error = null;
    if (id !== null && this.pairing === null) findDesk(() => this.pairing === null && this.openId === id && location.replace(apiUrl(`./#/queue/${id}`)));
    if (id !== null && this.loaded && !this.list.some((approval) => approval.id === id)) this.refresh();
  }

  private async pair(code: string): Promise<void> {
    try {
      const pairing = await exchange(code);
      save(pairing);
      this.pairing = pairing;
      this.note = null;
      this.connect();
    } catch (error) {
      this.note = error instanceof Error ? error.message : String(error);
    }
  }

  private connect(): void {
    this.stream?.stop();
    this.stream = new EventStream({
      url: apiUrl("events"),
      cursor: null,
      credentials: this.credentials,
      onMessage: ({ data }) => this.hear(data),
      onOpen: () => this.refresh(),
      onState: (state) => (this.connection = state),
    });
    this.stream.start();
    this.refresh();
  }

  private hear(data: string): void {
    try {
      const { event } = JSON.parse(data) as FollowedEvent;
      if (["awaiting_approval", "approval_resolved", "complete", "error"].includes(event.type)) this.refresh();
    } catch {
      // The list itself is read again soon enough.
    }
  }

  private async read(): Promise<void> {
    if (!this.pairing) return;
    try {
      const page = await this.rpc.call("loopback.pending", { limit: PAGE });
      clock.skewMs = this.rpc.clockSkewMs;
      if (!this.pairing || page.type !== "ok") return;
      const before = this.list;
      this.list = page.approvals.filter((approval) => approval.status === "pending");
      const gone = this.openId !== null && !this.list.some((approval) => approval.id === this.openId);
      if (gone && this.openId !== null && this.endings[this.openId] === undefined) await this.readEnding(this.openId, before);
      this.loaded = true;
      this.error = null;
    } catch (error) {
      if (this.pairing) this.error = explain(error);
    }
  }

  /** Somebody else has decided, or a message came late: the history says what stands. */
  private async readEnding(id: string, before: Approval[]): Promise<void> {
    const page = await this.rpc.call("loopback.history", { limit: PAGE });
    const found = page.decisions.find((decision) => decision.approval_id === id);
    if (found) this.end(id, decided(found) ?? "It was decided.");
    else if (!before.some((approval) => approval.id === id)) this.end(id, "It is not waiting: it was decided long ago, or there is no such request.");
  }

  private end(id: string, text: string): void {
    this.endings = { ...this.endings, [id]: text };
    this.list = this.list.filter((approval) => approval.id !== id);
  }

  private goDark(): void {
    forget();
    this.stream?.stop();
    this.stream = null;
    this.pairing = null;
    this.list = [];
    this.endings = {};
    this.loaded = false;
    this.error = null;
    this.note = DARK;
    if (location.hash !== "") history.replaceState(null, "", location.pathname);
    this.openId = null;
    void this.push.end();
  }
}

function decided(decision: DecidedApproval | null | undefined): string | null {
  if (!decision?.status || decision.status === "pending") return null;
  return `Already ${decision.status} by ${decisionBy(decision, () => undefined)}.${decision.message ? ` ${decision.message}` : ""}`;
}

export const phone = new Phone();
