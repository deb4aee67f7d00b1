// Names whoever decided, or may decide, for people.

import type { DecidedBy, Owner, RuleAuthor } from "./wire.ts";

/** Returns "operator", "rule 0192…", "session builder". */
export function deciderName(by: DecidedBy | Owner | RuleAuthor | null | undefined, sessionName: (id: string) => string | undefined): string {
  if (by == null) return "unknown";
  if (typeof by === "string") return by.replaceAll("_", " ");
  if ("session" in by) return `session ${sessionName(by.session) ?? by.session.slice(0, 8)}`;
  return `rule ${by.rule.slice(0, 8)}`;
}
