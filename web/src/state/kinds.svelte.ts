// The agents that the server knows, and what each can do. Read once for each connection; the set changes with the server.

import { explain } from "../lib/rpc.ts";
import type { AgentKind, AgentPowers } from "../lib/wire.ts";
import { api } from "./api.svelte.ts";
import { sessions } from "./sessions.svelte.ts";

class Kinds {
  list = $state.raw<AgentKind[]>([]);
  error = $state<string | null>(null);

  constructor() {
    api.onResync(() => void this.read());
  }

  /** What the agent of a session can do; undefined while that is not known. */
  powersOf(sessionId: string): AgentPowers | undefined {
    const agent = sessions.get(sessionId)?.agent;
    return this.list.find((kind) => kind.agent === agent)?.powers;
  }

  private async read(): Promise<void> {
    if (!api.token) return;
    try {
      this.list = (await api.call("agents.kinds", {})).agents;
      this.error = null;
    } catch (error) {
      this.error = explain(error);
    }
  }
}

export const kinds = new Kinds();
