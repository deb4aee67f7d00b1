// What can go wrong: the server refuses a call, or is not there.

import type { Json } from "./wire.js";

/** A JSON-RPC error as the server writes it. */
export type RpcError = { code?: number; message?: string; data?: { [key: string]: Json } };

/** The server refused a call. `kind` says what to do next, `hint` says it in words. */
export class PlexusError extends Error {
  override readonly name = "PlexusError";
  readonly method: string;
  readonly code: number;
  readonly kind: string;
  readonly hint: string;
  readonly field: string | undefined;
  readonly standing: Json | undefined;
  readonly retryAfterMs: number;

  constructor(method: string, error: RpcError) {
    const data = error.data ?? {};
    const text = (key: string) => (typeof data[key] === "string" ? (data[key] as string) : undefined);
    const hint = text("hint") ?? "";
    super(`${method}: could not ${text("message") ?? error.message ?? ""}${hint ? ` (hint: ${hint})` : ""}`);
    this.method = method;
    this.code = error.code ?? 0;
    this.kind = text("kind") ?? (this.code === -32601 ? "not_found" : "invalid");
    this.hint = hint;
    this.field = text("field");
    this.standing = data["standing"];
    this.retryAfterMs = typeof data["retry_after_ms"] === "number" ? data["retry_after_ms"] : 0;
  }
}

/**
 * The server could not be reached, or the connection broke before the answer came. Whether the call was done is not
 * known. Calls that may be made twice are repeated before this is thrown.
 */
export class ServerLost extends Error {
  override readonly name = "ServerLost";
}
