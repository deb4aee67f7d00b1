// Signing in: a one-time code from the address becomes a token, which goes along with every call. A tab keeps it in
// sessionStorage over a reload; the hub (`hub.ts`) gives it to the browser's other tabs.
//
// There is no cookie: cookies ignore ports, so any other page on this host would receive one.

import { apiUrl } from "./rpc.ts";

const KEY = "plexus.token";

/** Takes `#code=…` out of the address and returns it, so that neither history nor a copied link holds it. */
export function takeCodeFromAddress(): string | null {
  const match = /^#code=([^&]+)/.exec(location.hash);
  if (!match?.[1]) return null;
  history.replaceState(null, "", location.pathname + location.search);
  return decodeURIComponent(match[1]);
}

/** Turns a one-time code into a token. Throws with a text for the person when the code is used up or too old. */
export async function exchangeCode(code: string): Promise<string> {
  let response: Response;
  try {
    response = await fetch(apiUrl("auth/exchange"), {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ code }),
      cache: "no-store",
    });
  } catch {
    throw new Error("The server cannot be reached.");
  }
  if (!response.ok) throw new Error("This sign-in link was used already or is older than a minute.");
  const body = (await response.json()) as { token?: unknown };
  if (typeof body.token !== "string" || body.token === "") throw new Error("The server gave no token for this link.");
  return body.token;
}

export const loadToken = (): string | null => sessionStorage.getItem(KEY);
export const saveToken = (token: string): void => sessionStorage.setItem(KEY, token);
export const forgetToken = (): void => sessionStorage.removeItem(KEY);
