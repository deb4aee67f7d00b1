// What a tool call acts on, as the server says it: in one form for every agent.

import type { ToolTarget } from "./wire.ts";

/** The target that the server said. An older server says none of events and decisions: such a call is shown by its name and its input. */
export const targetOf = (said?: ToolTarget | null): ToolTarget => said ?? { kind: "other" };
