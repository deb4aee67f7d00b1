// A dry run of a waiting command: what it changes in a copy. It is information, and decides nothing.

import { explain } from "../lib/rpc.ts";
import type { Previewed } from "../lib/wire.ts";
import { api } from "./api.svelte.ts";

export class Preview {
  busy = $state(false);
  found = $state.raw<Previewed | null>(null);
  problem = $state<string | null>(null);
  private readonly approvalId: string;

  constructor(approvalId: string) {
    this.approvalId = approvalId;
  }

  async run(): Promise<void> {
    if (this.busy) return;
    this.busy = true;
    this.problem = null;
    try {
      this.found = await api.call("loopback.preview", { approval_id: this.approvalId });
    } catch (error) {
      this.found = null;
      this.problem = explain(error);
    } finally {
      this.busy = false;
    }
  }
}
