// JSON-RPC over `POST rpc`: one promise for each call, calls of the same tick sent as one batch.
//
// The token is held by `auth.ts`; a 401 tells it that the token is no longer good. Every failure that reaches a caller is an
// [`RpcError`] whose `kind` says what can be done next and whose `message` and `hint` are fit to be shown.

import { readWire, write } from "./exact.ts";
import type { CallError, ErrorKind, Methods, Standing } from "./wire.ts";

/** Where the API lives: beside the page, so that a path prefix of a proxy is kept. */
export const apiUrl = (path: string): string => new URL(path, document.baseURI.split("#")[0]).href;

/** A call is given up after this long; no call of the dashboard waits on the server for more than a moment. */
const CALL_TIMEOUT_MS = 30_000;

/** More calls than this in one tick go out as several batches, to stay well below the server's body limit. */
const MAX_BATCH = 50;

/** What the server says can be done, or that it says nothing or does not know the method. */
export type FailureKind = ErrorKind | "unreachable" | "no_method";

export class RpcError extends Error {
  constructor(
    readonly kind: FailureKind,
    message: string,
    readonly hint: string | undefined = undefined,
    readonly standing: Standing | null | undefined = undefined,
    readonly code = 0,
  ) {
    super(message);
  }
}

/** Text of any failure for a person, with the hint of the server when it gave one. */
export function explain(error: unknown): string {
  if (error instanceof RpcError) return error.hint ? `${error.message}. ${error.hint}` : error.message;
  return error instanceof Error ? error.message : String(error);
}

export type Credentials = { token: () => string | null; rejected: () => void };

type Waiting = { id: number; method: keyof Methods; params: object; resolve: (value: unknown) => void; reject: (error: RpcError) => void };
type Answer = { id: number | null; result?: unknown; error?: { code: number; message: string; data?: CallError } };

export class RpcClient {
  private queue: Waiting[] = [];
  private nextId = 1;
  /** Server clock minus ours in milliseconds, from the `Date` header; it has a resolution of one second. */
  clockSkewMs = 0;

  constructor(private readonly credentials: Credentials) {}

  call<M extends keyof Methods>(method: M, params: Methods[M]["params"]): Promise<Methods[M]["result"]> {
    return new Promise<Methods[M]["result"]>((resolve, reject) => {
      this.queue.push({ id: this.nextId++, method, params, resolve: resolve as (value: unknown) => void, reject });
      if (this.queue.length === 1) queueMicrotask(() => this.flush());
    });
  }

  private flush(): void {
    const calls = this.queue;
    this.queue = [];
    for (let i = 0; i < calls.length; i += MAX_BATCH) void this.post(calls.slice(i, i + MAX_BATCH));
  }

  private async post(calls: Waiting[]): Promise<void> {
    const messages = calls.map(({ id, method, params }) => ({ jsonrpc: "2.0", id, method, params }));
    try {
      const response = await fetch(apiUrl("rpc"), {
        method: "POST",
        headers: { "Content-Type": "application/json", Authorization: `Bearer ${this.credentials.token() ?? ""}` },
        body: write(messages.length === 1 ? messages[0] : messages),
        signal: AbortSignal.timeout(CALL_TIMEOUT_MS),
        cache: "no-store",
      });
      if (response.status === 401) {
        this.credentials.rejected();
        throw new RpcError("unauthorized", "the token is not accepted");
      }
      this.noteClock(response.headers.get("Date"));
      const answers = await readAnswers(response);
      const byId = new Map(answers.map((answer) => [answer.id, answer]));
      for (const call of calls) settle(call, byId.get(call.id) ?? (calls.length === 1 ? answers[0] : undefined));
    } catch (error) {
      const failure = error instanceof RpcError ? error : new RpcError("unreachable", "the server cannot be reached");
      for (const call of calls) call.reject(failure);
    }
  }

  private noteClock(date: string | null): void {
    const server = date ? Date.parse(date) : NaN;
    if (Number.isNaN(server)) return;
    const skew = server - Date.now();
    // Within two seconds the header's own rounding and the way here explain the difference.
    this.clockSkewMs = Math.abs(skew) > 2_000 ? skew : 0;
  }
}

async function readAnswers(response: Response): Promise<Answer[]> {
  try {
    const body = readWire(await response.text()) as Answer | Answer[];
    return Array.isArray(body) ? body : [body];
  } catch {
    throw new RpcError("unavailable", `the server answered ${response.status} without an answer to the call`);
  }
}

function settle(call: Waiting, answer: Answer | undefined): void {
  if (!answer) {
    call.reject(new RpcError("internal", `the server did not answer ${call.method}`));
  } else if (answer.error) {
    const { code, message, data } = answer.error;
    const kind = data?.kind ?? (code === -32601 ? "no_method" : "internal");
    call.reject(new RpcError(kind, data?.message ?? message, data?.hint, data?.standing, code));
  } else {
    call.resolve(answer.result);
  }
}
