// What stands around a waiting call: what the agent said before it, and the files that it would change, as they are now.

import { explain } from "../lib/rpc.ts";
import { saidBefore } from "../lib/said.ts";
import { targetOf } from "../lib/targets.ts";
import type { Approval, FileChange, FileNow } from "../lib/wire.ts";
import { api } from "./api.svelte.ts";

/** Events looked at for what was said: beyond so many calls in a row it says little about this one. */
const LOOKED_AT = 60;

export class CallContext {
  said = $state<string | null>(null);
  files = $state.raw<FileNow[]>([]);

  constructor(approval: Approval) {
    void this.readSaid(approval);
    const target = targetOf(approval.target);
    if (target.kind === "write") void this.readFiles(approval.id, target.changes);
  }

  private async readSaid({ session_id, tool_use_id }: Approval): Promise<void> {
    try {
      const { streams } = await api.call("agents.streams", { session_id, limit: 1_000 });
      const newest = streams.reduce<(typeof streams)[number] | null>((best, each) => (best && best.chat > each.chat ? best : each), null);
      if (!newest) return;
      const from_seq = Math.max(0, newest.total_events - LOOKED_AT);
      const { events } = await api.call("agents.poll", { session_id, chat: newest.chat, from_seq, limit: LOOKED_AT });
      this.said = saidBefore(events, tool_use_id);
    } catch {
      // The call itself is all there; what was said is in the session's timeline.
      this.said = null;
    }
  }

  private async readFiles(approval_id: string, changes: FileChange[]): Promise<void> {
    try {
      this.files = (await api.call("loopback.files", { approval_id })).files;
    } catch (error) {
      const why = explain(error);
      this.files = changes.map(({ path }) => ({ path, is: "unread", why }));
    }
  }
}
