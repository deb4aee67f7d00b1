// What a search asks for, as the address keeps it and as the server takes it.

import type { SearchKind, SearchParams } from "./wire.ts";

export type Asked = { query: string; session: string; tool: string; kind: SearchKind | ""; since: string };

export const KINDS: readonly SearchKind[] = ["prompt", "said", "thought", "call", "result", "decision", "notice", "steered"];

/** How far back a search looks, in hours. */
export const SINCE: Record<string, number> = { "an hour": 1, "a day": 24, "a week": 24 * 7, "30 days": 24 * 30 };

export const NOTHING: Asked = { query: "", session: "", tool: "", kind: "", since: "" };

/** The words of the address; an empty text for a search that asks for nothing. */
export function toAddress(asked: Asked): string {
  const set = Object.entries(asked).filter(([, value]) => value !== "");
  return new URLSearchParams(set).toString();
}

/** Reads the address; what it does not know is left out. */
export function fromAddress(text: string): Asked {
  const found = new URLSearchParams(text);
  const word = (name: keyof Asked) => found.get(name) ?? "";
  const kind = KINDS.find((each) => each === found.get("kind")) ?? "";
  return { query: word("query"), session: word("session"), tool: word("tool"), kind, since: word("since") in SINCE ? word("since") : "" };
}

export function asParams(asked: Asked, now: number): SearchParams {
  const hours = SINCE[asked.since];
  return {
    query: asked.query,
    ...(asked.session ? { session_id: asked.session } : {}),
    ...(asked.tool.trim() ? { tool: asked.tool.trim() } : {}),
    ...(asked.kind ? { kind: asked.kind } : {}),
    ...(hours ? { since: Math.floor(now - hours * 3_600_000) } : {}),
  };
}
