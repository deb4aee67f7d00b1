// What an agent said before it asked: the text that tells why.

import type { ChatEvent, PolledEvent } from "./wire.ts";

/** The last text before the call `toolUseId`, or before the end when the call is not among the events. */
export function saidBefore(events: readonly PolledEvent[], toolUseId: string): string | null {
  const asked = events.findIndex(({ event }) => isCall(event, toolUseId));
  const before = asked < 0 ? events : events.slice(0, asked);
  for (const { event } of before.toReversed()) {
    if (event.type === "content" && event.text.trim() !== "") return event.text;
    // A text before somebody else spoke answers something else.
    if (event.type === "start" || event.type === "steered") return null;
  }
  return null;
}

function isCall(event: ChatEvent, toolUseId: string): boolean {
  return (event.type === "tool_use" || event.type === "awaiting_approval") && event.tool_use_id === toolUseId;
}
