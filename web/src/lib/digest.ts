// The digest of an input as the server makes it: SHA-256, in hex, of the canonical JSON (RFC 8785). A page that makes it of what
// it shows knows that this is what the decision will be bound to.

import { ExactNumber, isWide } from "./exact.ts";
import { sha256 } from "./sha256.ts";
import type { Approval, Json, JsonObject } from "./wire.ts";

/** Writes a value in its canonical form: keys sorted by UTF-16 code units, numbers as ECMAScript prints them. */
export function canonical(value: Json): string {
  if ((value as unknown) instanceof ExactNumber) return canonicalNumber((value as unknown as ExactNumber).literal);
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (typeof value === "object" && value !== null) {
    const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
    return `{${entries.map(([key, item]) => `${JSON.stringify(key)}:${canonical(item as Json)}`).join(",")}}`;
  }
  return JSON.stringify(value);
}

/** Integers of 64 bits keep their digits, as in `write_number` of `crates/plexus-core/src/digest.rs`. */
const canonicalNumber = (literal: string): string => (isWide(literal) ? literal : JSON.stringify(Number(literal)));

const known = new WeakMap<JsonObject, string>();

/** The digest. It is made once of each input, because a long one takes a moment. */
export function inputDigest(input: JsonObject): string {
  const before = known.get(input);
  if (before !== undefined) return before;
  const digest = sha256(new TextEncoder().encode(canonical(input)));
  known.set(input, digest);
  return digest;
}

/** Whether this page shows exactly what was asked. */
export const isConfirmed = (approval: Pick<Approval, "input" | "input_digest">): boolean => inputDigest(approval.input) === approval.input_digest;

/** What somebody is told who may not allow it here, and what to do instead. */
export const unconfirmedWords = (id: string): string => `What this page shows is not exactly what was asked, so it cannot be allowed here. In a terminal, plexus approve ${id} is exact.`;
