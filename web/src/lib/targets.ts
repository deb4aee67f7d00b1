// What a tool call would act on. The server says it for approvals that wait, in one form for every agent. Events and decisions
// of the past carry only name and input, which are read here as Claude Code and Codex name their tools.

import type { FileChange, Json, JsonObject, ToolTarget } from "./wire.ts";

/** The target that the server said, else what the name and the input tell. */
export function targetOf(toolName: string, input: JsonObject, said?: ToolTarget | null): ToolTarget {
  return said ?? readTarget(toolName, input);
}

function readTarget(toolName: string, input: JsonObject): ToolTarget {
  const text = (key: string): string | undefined => (typeof input[key] === "string" ? (input[key] as string) : undefined);
  const path = text("file_path") ?? text("notebook_path");
  switch (toolName) {
    case "Bash":
    case "PowerShell":
      return { kind: "shell", command: text("command") ?? "" };
    case "exec_command":
      return { kind: "shell", command: text("command") ?? "", cwd: text("cwd") ?? null };
    case "apply_patch":
      return Array.isArray(input["changes"]) ? { kind: "write", changes: input["changes"].flatMap(patched) } : { kind: "other" };
    case "WebFetch":
      return { kind: "fetch", url: text("url") ?? "" };
    case "Network":
      return { kind: "connect", host: text("host") ?? "", port: typeof input["port"] === "number" ? input["port"] : 0 };
    case "Write":
    case "Edit":
    case "MultiEdit":
    case "NotebookEdit":
      return path === undefined ? { kind: "other" } : { kind: "write", changes: readChanges(toolName, path, input) };
    default:
      return { kind: "other" };
  }
}

/** One change of a patch of Codex, and the file that it is moved to. */
function patched(change: Json, at: number): FileChange[] {
  if (typeof change !== "object" || change === null || Array.isArray(change) || typeof change["path"] !== "string") return [];
  const kind = change["kind"];
  const [type, moved] = typeof kind === "object" && kind !== null && !Array.isArray(kind) ? [kind["type"], kind["move_path"]] : [null, null];
  const { path } = change;
  const diff = `/changes/${at}/diff`;
  const own: FileChange =
    type === "add" ? { path, edit: "whole", after: diff } : type === "update" ? { path, edit: "diff", diff } : type === "delete" ? { path, edit: "delete" } : { path, edit: "unknown" };
  return typeof moved === "string" ? [own, { path: moved, edit: "unknown" }] : [own];
}

function readChanges(toolName: string, path: string, input: JsonObject): FileChange[] {
  const replaced = (at: string, every: boolean): FileChange => ({ path, edit: "replace", before: `${at}/old_string`, after: `${at}/new_string`, every });
  switch (toolName) {
    case "Write":
      return [{ path, edit: "whole", after: "/content" }];
    case "NotebookEdit":
      return [{ path, edit: "part", after: "/new_source", name: typeof input["cell_id"] === "string" ? input["cell_id"] : null }];
    case "MultiEdit":
      return Array.isArray(input["edits"]) ? input["edits"].map((_, i) => replaced(`/edits/${i}`, false)) : [{ path, edit: "unknown" }];
    default:
      return [replaced("", input["replace_all"] === true)];
  }
}
