// Ties the events of one tool call together: the call, the question, the decision, the result.
//
// Pages are read newest first, so the parts come in any order. A part whose call is known needs no row of its own; `add` says
// which rows that changes.

import type { ChatEvent } from "./wire.ts";

type Of<T extends ChatEvent["type"]> = Extract<ChatEvent, { type: T }>;

/** All that is known of one tool call. */
export type ToolCall = { use?: Of<"tool_use">; asked?: Of<"awaiting_approval">; resolved?: Of<"approval_resolved">; result?: Of<"tool_result">; resultAt?: number };

export class ToolCalls {
  private readonly calls = new Map<string, ToolCall>();
  private readonly rows = new Map<string, number[]>();
  private readonly callOfApproval = new Map<string, string>();
  /** Decisions whose question was not read yet, by approval. */
  private readonly early = new Map<string, { resolved: Of<"approval_resolved">; row: number }>();

  get(toolUseId: string): ToolCall {
    return this.calls.get(toolUseId) ?? {};
  }

  /** Takes an event in and returns the rows whose visibility it may have changed. */
  add(event: ChatEvent, row: number, at: number): number[] {
    switch (event.type) {
      case "tool_use":
        return this.join(event.tool_use_id, { use: event }, row);
      case "tool_result":
        return this.join(event.tool_use_id, { result: event, resultAt: at }, row);
      case "awaiting_approval": {
        this.callOfApproval.set(event.approval_id, event.tool_use_id);
        const rows = this.join(event.tool_use_id, { asked: event }, row);
        const early = this.early.get(event.approval_id);
        this.early.delete(event.approval_id);
        return early ? this.join(event.tool_use_id, { resolved: early.resolved }, early.row) : rows;
      }
      case "approval_resolved": {
        const toolUse = this.callOfApproval.get(event.approval_id);
        if (toolUse !== undefined) return this.join(toolUse, { resolved: event }, row);
        this.early.set(event.approval_id, { resolved: event, row });
        return [row];
      }
      default:
        return [row];
    }
  }

  /** Whether the row of its call already tells what this event says. */
  isTold(event: ChatEvent): boolean {
    switch (event.type) {
      case "awaiting_approval":
      case "tool_result":
        return this.get(event.tool_use_id).use !== undefined;
      case "approval_resolved":
        return this.get(this.callOfApproval.get(event.approval_id) ?? "").use !== undefined;
      case "start":
        // The head of the chat says that it started, and with which prompt.
        return true;
      default:
        return false;
    }
  }

  private join(toolUseId: string, part: ToolCall, row: number): number[] {
    this.calls.set(toolUseId, { ...this.calls.get(toolUseId), ...part });
    const rows = this.rows.get(toolUseId) ?? [];
    rows.push(row);
    this.rows.set(toolUseId, rows);
    return rows;
  }
}
