// Names whoever decided, or may decide, for people.

import { exactText } from "./text.ts";
import type { DecidedApproval, DecidedBy, Owner, RuleAuthor } from "./wire.ts";

/** Names the decider of a decision, a device by its own name. */
export const decisionBy = (decision: DecidedApproval, sessionName: (id: string) => string | undefined): string =>
  decision.device ? `device ${exactText(decision.device)}` : deciderName(decision.decided_by, sessionName);

/** Returns "operator", "rule 0192…", "session builder". */
export function deciderName(by: DecidedBy | Owner | RuleAuthor | null | undefined, sessionName: (id: string) => string | undefined): string {
  if (by == null) return "unknown";
  if (typeof by === "string") return by.replaceAll("_", " ");
  if ("session" in by) return `session ${sessionName(by.session) ?? by.session.slice(0, 8)}`;
  if ("device" in by) return "a device of the operator";
  return `rule ${by.rule.slice(0, 8)}`;
}
