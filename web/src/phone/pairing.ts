// The pairing of this phone: a one-time code becomes a token that may read and decide, and is kept until it is taken back.
//
// It is in localStorage, unlike the dashboard's: an installed page must still know it tomorrow, and it can do far less.

import { apiUrl } from "../lib/rpc.ts";

const KEY = "plexus.device";

export type Pairing = { token: string; name: string };

/** Takes `#code=…` out of the address, so that neither history nor a copied link holds it. */
export function takeCode(): string | null {
  const code = codeIn(location.hash);
  if (code !== null) history.replaceState(null, "", location.pathname + location.search);
  return code;
}

/** Finds the code in a pasted link, or takes the text for the code itself. */
export function codeIn(text: string): string | null {
  const match = /#code=([^&\s]+)/.exec(text) ?? /^\s*(plx_[0-9a-f]+)\s*$/.exec(text);
  return match?.[1] ? decodeURIComponent(match[1]) : null;
}

/** Turns a code into a pairing. Throws with the server's words when it is used up or too old. */
export async function exchange(code: string): Promise<Pairing> {
  let response: Response;
  try {
    response = await fetch(apiUrl("auth/exchange"), { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ code }), cache: "no-store" });
  } catch {
    throw new Error("The server cannot be reached. Its certificate may be unknown to this phone.");
  }
  const body = (await response.json().catch(() => ({}))) as { token?: unknown; device?: unknown; error?: { message?: string; data?: { message?: string; hint?: string } } };
  if (!response.ok) {
    const { message, hint } = body.error?.data ?? {};
    throw new Error(`Could not ${message ?? body.error?.message ?? `pair: the server answered ${response.status}`}.${hint ? ` ${hint}.` : ""}`);
  }
  if (typeof body.token !== "string") throw new Error("The server gave no token for this link.");
  if (typeof body.device !== "string") throw new Error("This link is for the dashboard, not for a phone. Run plexus pair.");
  return { token: body.token, name: body.device };
}

export function load(): Pairing | null {
  try {
    const kept = JSON.parse(localStorage.getItem(KEY) ?? "null") as Partial<Pairing> | null;
    return typeof kept?.token === "string" && typeof kept.name === "string" ? { token: kept.token, name: kept.name } : null;
  } catch {
    return null;
  }
}

export const save = (pairing: Pairing): void => localStorage.setItem(KEY, JSON.stringify(pairing));
export const forget = (): void => localStorage.removeItem(KEY);
