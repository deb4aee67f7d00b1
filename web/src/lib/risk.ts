// How much harm a waiting tool call could do, as the server says it. It only orders the queue and draws the eye.

import type { Approval, Risk } from "./wire.ts";

/** What is shown when the server says nothing: neither harmless nor alarming. */
const UNKNOWN: Risk = { level: "medium", score: 50, reasons: ["the server does not say how much harm it could do"] };

export function riskOf(approval: Approval): Risk {
  return approval.risk ?? UNKNOWN;
}
