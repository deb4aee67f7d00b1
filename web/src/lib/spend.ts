// Sums for the charts: what each day cost, and how far each budget is used.

import type { Budget, Session, Spent } from "./wire.ts";

export type Day = { start: number; label: string; cost: number };
export type Meter = { what: string; used: number; limit: number; share: number; unit: "money" | "seconds" | "count" };

const DAY_MS = 86_400_000;

/** Cost of the last `count` days by the day a session last worked, oldest first. `ownCost` leaves out its descendants. */
export function costByDay(sessions: Iterable<Session>, ownCost: (session: Session) => number, now: number, count: number): Day[] {
  const today = new Date(now).setHours(0, 0, 0, 0);
  const days = Array.from({ length: count }, (_, i): Day => {
    const start = new Date(today).setDate(new Date(today).getDate() - (count - 1 - i));
    return { start, label: new Date(start).toLocaleDateString([], { weekday: "short", day: "numeric", month: "short" }), cost: 0 };
  });
  const first = days[0]?.start ?? today;
  for (const session of sessions) {
    const cost = Math.max(0, ownCost(session));
    if (cost === 0 || session.updated_at < first) continue;
    // A day may have 23 or 25 hours, so the day is looked up, not computed.
    const day = days.findLast((each) => each.start <= session.updated_at) ?? days.at(-1);
    if (day && session.updated_at < day.start + 2 * DAY_MS) day.cost += cost;
  }
  return days;
}

/** How far each limit of a budget is used. A chat that runs counts for the time when it ends; of depth there is nothing to use up. */
export function meters(budget: Budget, spent: Spent, descendants: number): Meter[] {
  const meter = (what: string, used: number, limit: number | null | undefined, unit: Meter["unit"] = "count"): Meter[] =>
    limit == null || limit <= 0 ? [] : [{ what, used, limit, share: Math.min(1, used / limit), unit }];
  return [
    ...meter("cost", spent.cost_usd, budget.cost_usd, "money"),
    ...meter("tokens", spent.input_tokens + spent.output_tokens, budget.tokens),
    ...meter("turns", spent.turns, budget.turns),
    ...meter("time", spent.wall_ms / 1_000, budget.wall_secs, "seconds"),
    ...meter("children", descendants, budget.children),
  ];
}
