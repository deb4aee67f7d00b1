// The client: a server, its sessions, their chats, and the iterators over what happens.

import { PlexusError, type RpcError, ServerLost } from "./errors.js";
import type { Approval, ChatParams, CreateParams, Json, JsonObject, Methods, Polled, PolledEvent, RespondParams, Session as Shown } from "./wire.js";

/** How long one read waits at the server for something new. The server takes at most 60 s. */
const WAIT_MS = 30_000;
/** How much longer than that an answer may take before its connection counts as lost. */
const GRACE_MS = 60_000;
/** The first and the longest rest before a lost call is made again. */
const FIRST_REST_MS = 50;
const LONGEST_REST_MS = 2_000;
/** How long in all a call rests because the server is busy: a chat that runs may need hours, and its caller has to know. */
const BUSY_MS = 5_000;

/** Where the server is and who calls. */
export type Where = { url: string; token: string };

export type Options = {
  /** For how many milliseconds a server that went away is waited for; without it, for ever. */
  patienceMs?: number;
};

/** Lets a call run, perhaps with another input; or refuses it, and the agent reads why. `null` leaves it to somebody else. */
export type Decision = { allow: true; updatedInput?: JsonObject } | { allow: false; message?: string } | null;
/** A callback that returns nothing leaves the request to somebody else too. */
type Maybe<T> = T | void;
/** Answers of a question by the ids of its parts. */
export type Answers = { answers: { [id: string]: string[] } };
export type OnPermission = (asked: Approval) => Maybe<Decision> | Promise<Maybe<Decision>>;
/** Called with a question of the agent (`question` of the request has it). A plan is answered with a decision. */
export type OnQuestion = (asked: Approval) => Maybe<Answers | Decision> | Promise<Maybe<Answers | Decision>>;
export type Callbacks = { onPermission?: OnPermission; onQuestion?: OnQuestion };

/** A server. `where` is asked before every call when it is a function: a server that was started again may listen elsewhere. */
export class Plexus {
  readonly #where: () => Promise<Where> | Where;
  readonly #patienceMs: number;

  constructor(where: Where | (() => Promise<Where> | Where), options: Options = {}) {
    this.#where = typeof where === "function" ? where : () => where;
    this.#patienceMs = options.patienceMs ?? Infinity;
  }

  /** Calls any method. With `again` it is repeated while the server is lost, and for a few seconds while it is busy. */
  async call<M extends keyof Methods>(method: M, params: Methods[M]["params"], { again = false } = {}): Promise<Methods[M]["result"]> {
    const until = Date.now() + this.#patienceMs;
    let busyMs = 0;
    for (let rest = FIRST_REST_MS; ; rest = Math.min(rest * 2, LONGEST_REST_MS)) {
      let pause = rest;
      try {
        return await this.#once(method, params);
      } catch (error) {
        if (error instanceof PlexusError) {
          pause = Math.max(rest, error.retryAfterMs);
          if (error.kind === "busy") again &&= error.retryAfterMs > 0 && (busyMs += pause) <= BUSY_MS;
          else again &&= error.kind === "unavailable";
        } else if (!(error instanceof ServerLost)) throw error;
        if (!again || Date.now() + pause > until) throw error;
      }
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }

  async #once<M extends keyof Methods>(method: M, params: Methods[M]["params"]): Promise<Methods[M]["result"]> {
    const { url: given, token } = await this.#where();
    const url = given.replace(/\/+$/, "");
    const waits = "wait_ms" in params && typeof params.wait_ms === "number" ? params.wait_ms : 0;
    let status = 0;
    let answer: { result?: Methods[M]["result"]; error?: RpcError } | null;
    try {
      const response = await fetch(`${url}/rpc`, {
        method: "POST",
        headers: { authorization: `Bearer ${token}`, "content-type": "application/json" },
        body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
        signal: AbortSignal.timeout(waits + GRACE_MS),
      });
      status = response.status;
      answer = (await response.json()) as typeof answer;
    } catch (cause) {
      throw new ServerLost(status ? `${url} answered ${status} without JSON` : `could not reach ${url}`, { cause });
    }
    if (answer && typeof answer.error === "object") throw new PlexusError(method, answer.error);
    if (answer?.result === undefined) throw new ServerLost(`${url} answered ${status}, and not as a Plexus server does`);
    return answer.result;
  }

  /** Creates a session. */
  async create(params: CreateParams): Promise<Session> {
    const made = await this.call("agents.create", params);
    return new Session(this, made.id);
  }

  /** A session that exists already. */
  session(id: string): Session {
    return new Session(this, id);
  }

  /** Yields every permission request that you may decide, once each, as they come. */
  async *approvals(): AsyncGenerator<Approval, never> {
    let after = 0;
    let seen = new Set<string>();
    for (;;) {
      // Waiting for changes, not for requests: one that nobody answers would end each wait.
      const told = await this.call("agents.wait", { after, wake_on: "asks_or_ends", wait_ms: WAIT_MS }, { again: true });
      after = told.after;
      if (told.sessions.length === 0) continue;
      const waiting = await this.#pending();
      for (const asked of waiting) if (!seen.has(asked.id)) yield asked;
      seen = new Set(waiting.map((asked) => asked.id));
    }
  }

  async #pending(): Promise<Approval[]> {
    const all: Approval[] = [];
    let cursor: string | null = null;
    do {
      const page: Methods["loopback.pending"]["result"] = await this.call("loopback.pending", { cursor }, { again: true });
      if (page.type !== "ok") break;
      all.push(...page.approvals);
      cursor = page.cursor ?? null;
    } while (cursor !== null);
    return all;
  }

  /** Decides a request. False when it was decided otherwise meanwhile, or is left alone. */
  async decide(asked: Approval, decision: Maybe<Answers | Decision>): Promise<boolean> {
    if (decision === null || decision === undefined) return false;
    if ("updatedInput" in decision && decision.updatedInput) refuseRounded(asked.input, decision.updatedInput);
    // The decision is for the input that was looked at, and for no other.
    const params: RespondParams = { approval_id: asked.id, input_digest: asked.input_digest, approve: true };
    if ("answers" in decision) params.answers = decision.answers;
    else if (decision.allow) params.updated_input = decision.updatedInput ?? null;
    else Object.assign(params, { approve: false, message: decision.message ?? null });
    try {
      await this.call("loopback.respond", params, { again: true });
    } catch (error) {
      if (error instanceof PlexusError && ["conflict", "expired", "not_found"].includes(error.kind)) return false;
      throw error;
    }
    return true;
  }
}

/** Refuses an edited input with a number of the old one that JavaScript has rounded: the agent asked for another. */
function refuseRounded(input: Json, updated: Json): void {
  const rounded = new Set(unsafeIntegers(input));
  for (const number of unsafeIntegers(updated)) {
    if (rounded.has(number)) {
      throw new RangeError(`the input has an integer beyond 2^53 near ${number}, which JavaScript rounds: allow it unchanged, or deny`);
    }
  }
}

function* unsafeIntegers(value: Json): Generator<number> {
  if (typeof value === "number") {
    if (Number.isInteger(value) && !Number.isSafeInteger(value)) yield value;
  } else if (typeof value === "object" && value !== null) {
    for (const part of Object.values(value)) yield* unsafeIntegers(part as Json);
  }
}

/** One supervised conversation. */
export class Session {
  constructor(
    readonly plexus: Plexus,
    readonly id: string,
  ) {}

  /** Gives the session a prompt, and returns at once. */
  async chat(prompt: string, more: Omit<ChatParams, "prompt" | "session_id" | "name" | "wait_ms"> = {}): Promise<Chat> {
    // With the key a call whose answer got lost finds the chat that it started.
    const params = { idempotency_key: crypto.randomUUID(), ...more, session_id: this.id, prompt };
    const started = await this.plexus.call("agents.chat_async", params, { again: true });
    return new Chat(this, started.chat);
  }

  /** The session as it is now; `answer` is the last thing the agent said. */
  async get(): Promise<Shown> {
    return (await this.plexus.call("agents.get", { session_id: this.id }, { again: true })).session;
  }

  /** Ends the running chat. */
  async cancel(reason?: string): Promise<void> {
    await this.plexus.call("agents.cancel", { session_id: this.id, reason: reason ?? null });
  }

  /** Ends the session and everything below it, and removes their records. */
  async delete(): Promise<void> {
    await this.plexus.call("agents.delete", { session_id: this.id });
  }

  /**
   * Yields the events of all chats, past and to come, none twice and none left out. The `node_id` of an event is a
   * cursor: with it a later call, in another process too, goes on behind that event.
   */
  async *events(cursor?: string): AsyncGenerator<PolledEvent, never> {
    let page = cursor === undefined ? await this.#firstPage() : await this.poll({ cursor });
    for (;;) {
      yield* page.events;
      page = await this.poll({ cursor: page.cursor ?? null });
    }
  }

  async #firstPage(): Promise<Polled> {
    try {
      return await this.poll({ chat: 0, from_seq: 0 });
    } catch (error) {
      if (!(error instanceof PlexusError) || error.kind !== "not_found") throw error;
    }
    // Before the first chat there is nothing to read, and the position is the beginning.
    return this.poll({ from_seq: 0 });
  }

  /** Reads one page, waiting for its first event. */
  poll(position: Pick<Methods["agents.poll"]["params"], "chat" | "from_seq" | "cursor">): Promise<Polled> {
    return this.plexus.call("agents.poll", { session_id: this.id, wait_ms: WAIT_MS, ...position }, { again: true });
  }
}

/** One prompt and all that follows from it. */
export class Chat {
  constructor(
    readonly session: Session,
    readonly number: number,
  ) {}

  /**
   * Yields the events of this chat until it has ended, none twice and none left out. Requests go to the callbacks; one
   * without a callback waits for somebody else.
   */
  async *events({ fromSeq = 0, onPermission, onQuestion }: Callbacks & { fromSeq?: number } = {}): AsyncGenerator<PolledEvent, void> {
    const handled = new Set<string>();
    for (let next = fromSeq; ; ) {
      const page = await this.session.poll({ chat: this.number, from_seq: next });
      for (const event of page.events) {
        next = event.seq + 1;
        yield event;
      }
      for (const asked of page.pending_approvals) {
        const callback = asked.question ? onQuestion : onPermission;
        if (!callback || handled.has(asked.id)) continue;
        handled.add(asked.id);
        await this.session.plexus.decide(asked, await callback(asked));
      }
      if (["complete", "failed", "cancelled"].includes(page.status) && next >= page.total_events) return;
    }
  }

  /** Waits for the end and returns the last thing the agent said. */
  async result(callbacks: Callbacks = {}): Promise<string> {
    let said = "";
    for await (const { event } of this.events(callbacks)) if (event.type === "content") said = event.text;
    return said;
  }
}
