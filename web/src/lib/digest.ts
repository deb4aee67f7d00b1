// The digest of an input as the server makes it: SHA-256, in hex, of the canonical JSON (RFC 8785). A page that makes it of what
// it shows knows that this is what the decision will be bound to.

import type { Json } from "./wire.ts";

/** Writes a value in its canonical form: keys sorted by UTF-16 code units, numbers as ECMAScript prints them. */
export function canonical(value: Json): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(",")}]`;
  if (typeof value === "object" && value !== null) {
    const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0));
    return `{${entries.map(([key, item]) => `${JSON.stringify(key)}:${canonical(item as Json)}`).join(",")}}`;
  }
  return JSON.stringify(value);
}

/** The digest; null where the browser does not compute any, on a page that came without encryption. */
export async function inputDigest(input: Json): Promise<string | null> {
  if (!globalThis.crypto?.subtle) return null;
  const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(canonical(input)));
  return [...new Uint8Array(hash)].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}
