// The one queue of pending approvals over all sessions, and the decisions made from here.
//
// The server's list is the truth: it is read again whenever an event speaks of an approval. A decision names the digest of the
// input that was shown, so that what was approved is what runs; an answer that came second is told who came first.

import { SvelteMap } from "svelte/reactivity";
import { coalesce } from "../lib/coalesce.ts";
import { isConfirmed, unconfirmedWords } from "../lib/digest.ts";
import { decisionBy, deciderName } from "../lib/deciders.ts";
import { plural } from "../lib/format.ts";
import { questionLine, questionOf } from "../lib/questions.ts";
import { explain, RpcError } from "../lib/rpc.ts";
import { exactText, transcriptText } from "../lib/text.ts";
import { summarize } from "../lib/tools.ts";
import type { Approval, DecidedApproval, FollowedEvent, Methods, Risk, Standing } from "../lib/wire.ts";
import { api } from "./api.svelte.ts";
import { links, router } from "./router.svelte.ts";
import { prefs } from "./prefs.svelte.ts";
import { sessions } from "./sessions.svelte.ts";
import { toasts } from "./toasts.svelte.ts";

const PAGE = 500;
/** Pending approvals read at most: the server allows 256 for each session, and nobody reads ten thousand. */
const MAX_PENDING = 5_000;
/** Pages of the history that are searched for a request whose link was opened late. */
const MAX_LOOKED_BACK = 10;
const REFRESH_DELAY_MS = 60;
const SAFETY_REFRESH_MS = 20_000;
const LEVELS = { critical: 0, high: 1, medium: 2, low: 3 };

export type QueueItem = { approval: Approval; risk: Risk | null };
/** How an approval ended, for whoever still looks at it. */
export type Ending = { tone: "ok" | "error" | "info"; text: string };
export type Verdict = Omit<Methods["loopback.respond"]["params"], "approval_id" | "input_digest">;

class Approvals {
  list = $state.raw<Approval[]>([]);
  loaded = $state(false);
  error = $state<string | null>(null);
  /** Spoken by screen readers when something new waits. */
  announcement = $state("");
  readonly busy = new SvelteMap<string, boolean>();
  readonly endings = new SvelteMap<string, Ending>();

  /** Riskiest first, and the oldest first among equals. */
  readonly queue: QueueItem[] = $derived.by(() => {
    const items = this.list.map((approval) => ({ approval, risk: approval.risk ?? null }));
    // A call whose risk is not known stands in the middle: it must not be buried among the harmless ones.
    const place = ({ risk }: QueueItem): number => LEVELS[risk?.level ?? "medium"];
    return items.sort((a, b) => place(a) - place(b) || a.approval.created_at - b.approval.created_at || (a.approval.id < b.approval.id ? -1 : 1));
  });

  readonly countBySession: ReadonlyMap<string, number> = $derived.by(() => {
    const counts = new Map<string, number>();
    for (const { session_id } of this.list) counts.set(session_id, (counts.get(session_id) ?? 0) + 1);
    return counts;
  });

  private readonly seen = new Set<string>();
  /** Ids whose end was told by an event, so that a list read before it cannot bring them back. */
  private readonly ended = new Set<string>();
  readonly refresh = coalesce(() => this.read(), REFRESH_DELAY_MS);

  constructor() {
    api.onResync(() => this.refresh());
    api.onEvent((event) => this.note(event));
    setInterval(() => api.token && this.refresh(), SAFETY_REFRESH_MS);
  }

  /** Sends one decision. Returns whether the approval is now decided, by us or by somebody else. */
  async decide(approval: Approval, verdict: Verdict): Promise<boolean> {
    if (this.busy.has(approval.id)) return false;
    const what = `${approval.tool_name} of ${approval.session_name}`;
    if (verdict.approve && !isConfirmed(approval)) {
      toasts.show("error", `Could not allow ${what}: ${unconfirmedWords(approval.id)}`);
      return false;
    }
    this.busy.set(approval.id, true);
    try {
      const answer = await api.call("loopback.respond", { approval_id: approval.id, input_digest: approval.input_digest, ...verdict });
      const words = doneWords(approval, verdict);
      toasts.show("ok", `${words}: ${what}${verdict.remember ? `, and remembered${released(answer.released?.length ?? 0)}` : ""}`);
      this.end(approval.id, { tone: "ok", text: `${words} by you.` });
      return true;
    } catch (error) {
      return this.explainFailure(approval, what, error);
    } finally {
      this.busy.delete(approval.id);
      this.refresh();
    }
  }

  /**
   * Decides several at once. Allowing goes out as single answers in one batch, because each must carry the digest of its own
   * input; a denial binds nobody to an input, so it is one call.
   */
  async decideMany(items: Approval[], approve: boolean, message?: string): Promise<void> {
    if (approve) {
      // A question needs an answer of its own, and is left for it.
      const calls = items.filter((approval) => approval.question == null);
      const left = items.length - calls.length;
      if (left > 0) toasts.show("info", `${plural(left, "question")} left: open each to answer it`);
      await Promise.all(calls.map((approval) => this.decide(approval, { approve: true })));
      return;
    }
    items.forEach((approval) => this.busy.set(approval.id, true));
    try {
      const answer = await api.call("loopback.respond_many", {
        approval_ids: items.map((approval) => approval.id),
        approve: false,
        ...(message ? { message } : {}),
      });
      const denied = answer.outcomes.filter((outcome) => outcome.ok);
      denied.forEach((outcome) => this.end(outcome.approval_id, { tone: "ok", text: "Denied by you." }));
      const failed = answer.outcomes.length - denied.length;
      toasts.show(failed ? "error" : "ok", `Denied ${denied.length}${failed ? `; ${failed} were decided by others or have ended` : ""}`);
    } catch (error) {
      toasts.show("error", `Could not deny: ${explain(error)}`);
    } finally {
      items.forEach((approval) => this.busy.delete(approval.id));
      this.refresh();
    }
  }

  /** Says what became of a request that does not wait; null when it waits after all. */
  async lookUp(id: string): Promise<Ending | null> {
    // The list may be older than the request.
    await this.read();
    if (this.list.some((approval) => approval.id === id)) return null;
    const known = this.endings.get(id);
    if (known) return known;
    try {
      let cursor: string | null = null;
      for (let pages = 0; pages < MAX_LOOKED_BACK; pages++) {
        const page: Methods["loopback.history"]["result"] = await api.call("loopback.history", cursor === null ? {} : { cursor });
        const found = page.decisions.find((decision) => decision.approval_id === id);
        if (found) return { tone: "info", text: decidedText(found) };
        cursor = page.decisions.length > 0 ? (page.cursor ?? null) : null;
        if (cursor === null) break;
      }
      return { tone: "error", text: "There is no such request here: it was decided long ago, or the link is wrong." };
    } catch (error) {
      return { tone: "error", text: `Could not find out what became of this request: ${explain(error)}` };
    }
  }

  private explainFailure(approval: Approval, what: string, error: unknown): boolean {
    const kind = error instanceof RpcError ? error.kind : "internal";
    if (kind === "conflict") {
      const standing = standingText(error instanceof RpcError ? error.standing : undefined) ?? explain(error);
      toasts.show("error", `${what}: ${standing}`);
      this.end(approval.id, { tone: "error", text: standing });
      return true;
    }
    if (kind === "expired" || kind === "not_found") {
      toasts.show("error", `${what}: ${explain(error)}`);
      this.end(approval.id, { tone: "error", text: explain(error) });
      return true;
    }
    toasts.show("error", `Could not answer ${what}: ${explain(error)}`);
    return false;
  }

  private end(id: string, ending: Ending): void {
    this.endings.set(id, ending);
    this.ended.add(id);
    this.list = this.list.filter((approval) => approval.id !== id);
  }

  private note({ event }: FollowedEvent): void {
    if (event.type === "approval_resolved") {
      const who = deciderName(event.decided_by, sessions.nameOf);
      // The stream may tell of our own answer before the answer to it is here; that one knows better what to say.
      if (!this.endings.has(event.approval_id) && !this.busy.has(event.approval_id)) {
        this.end(event.approval_id, { tone: "info", text: `Already ${event.approved ? "allowed" : "denied"} by ${who}.${event.message ? ` ${event.message}` : ""}` });
      }
      this.refresh();
    } else if (event.type === "awaiting_approval" || event.type === "complete" || event.type === "error") {
      // The end of a chat may have cancelled what it still asked.
      this.refresh();
    }
  }

  private async read(): Promise<void> {
    if (!api.token) return;
    try {
      const found: Approval[] = [];
      let cursor: string | undefined;
      do {
        const page = await api.call("loopback.pending", { limit: PAGE, ...(cursor ? { cursor } : {}) });
        if (page.type !== "ok") break;
        found.push(...page.approvals);
        cursor = page.approvals.length > 0 ? (page.cursor ?? undefined) : undefined;
      } while (cursor && found.length < MAX_PENDING);
      const waiting = found.filter((approval) => approval.status === "pending" && !this.ended.has(approval.id));
      this.list = waiting.map((approval) => ({ ...approval, session_name: exactText(approval.session_name) }));
      this.error = null;
      this.tellOfNew();
      this.loaded = true;
    } catch (error) {
      this.error = explain(error);
    }
  }

  private tellOfNew(): void {
    const fresh = this.list.filter((approval) => !this.seen.has(approval.id));
    fresh.forEach((approval) => this.seen.add(approval.id));
    if (fresh.length === 0) return;
    const first = fresh[0]!;
    const text =
      fresh.length === 1 ? tellOne(first) : `${fresh.length} new approvals wait`;
    this.announcement = `${text}. ${this.list.length} waiting in all.`;
    // What waited before the page was opened is on the page; only news is worth an interruption.
    if (this.loaded && prefs.notify) notify(text, first);
  }
}

/** What is new, for a voice and a notification. */
function tellOne(approval: Approval): string {
  const question = questionOf(approval);
  if (question) return `${approval.session_name} ${question.kind === "plan" ? "has a plan" : "asks"}: ${exactText(questionLine(question)).slice(0, 120)}`;
  return `${approval.session_name} asks for ${approval.tool_name}: ${summarize(approval.input, approval.target).slice(0, 120)}`;
}

function doneWords(approval: Approval, verdict: Verdict): string {
  const question = questionOf(approval);
  if (question?.kind === "plan") return verdict.approve ? "Plan approved" : "Plan sent back";
  if (question) return verdict.approve ? "Answered" : "Not answered";
  return verdict.approve ? (verdict.updated_input ? "Allowed with your edit" : "Allowed") : "Denied";
}

const released = (count: number): string => (count > 0 ? `; ${plural(count, "other waiting call")} decided with it` : "");

function notify(text: string, approval: Approval): void {
  try {
    // The tag makes a newer notification replace an older one instead of piling up.
    const note = new Notification("Plexus: an approval waits", { body: text, tag: "plexus-approval", icon: "./favicon-waiting.svg" });
    note.onclick = () => {
      window.focus();
      router.go(links.queue(approval.id));
      note.close();
    };
  } catch {
    // Some phones allow notifications only from a service worker; the title and the badge still tell.
  }
}

/** What the history says of a request. */
function decidedText(decision: DecidedApproval): string {
  const message = decision.message ? `: ${transcriptText(decision.message)}` : "";
  return `This request does not wait any more. It was ${decision.status} by ${decisionBy(decision, sessions.nameOf)}${message}.`;
}

/** Reads the decision that stands out of a conflict's `standing`. */
function standingText(standing: Standing | null | undefined): string | null {
  if (!isDecision(standing)) return null;
  const message = standing.message ? `: ${transcriptText(standing.message)}` : "";
  return `Already ${standing.status} by ${deciderName(standing.decided_by, sessions.nameOf)}${message}.`;
}

function isDecision(standing: Standing | null | undefined): standing is DecidedApproval {
  return typeof standing === "object" && standing !== null && "approval_id" in standing && "status" in standing;
}

export const approvals = new Approvals();
