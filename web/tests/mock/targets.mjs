// What calls act on, as the real server reads the tools of Claude Code and Codex: enough for what the tests show.

export function readTarget(toolName, input) {
  const text = (key) => (typeof input[key] === "string" ? input[key] : undefined);
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
    case "Read":
      return { kind: "read", path };
    case "Grep":
    case "Glob":
      return { kind: "read", path: text("path") ?? null, tree: true };
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
function patched(change, at) {
  if (typeof change !== "object" || change === null || Array.isArray(change) || typeof change["path"] !== "string") return [];
  const kind = change["kind"];
  const [type, moved] = typeof kind === "object" && kind !== null && !Array.isArray(kind) ? [kind["type"], kind["move_path"]] : [null, null];
  const { path } = change;
  const diff = `/changes/${at}/diff`;
  const own =
    type === "add" ? { path, edit: "whole", after: diff } : type === "update" ? { path, edit: "diff", diff } : type === "delete" ? { path, edit: "delete" } : { path, edit: "unknown" };
  return typeof moved === "string" ? [own, { path: moved, edit: "unknown" }] : [own];
}

function readChanges(toolName, path, input) {
  const replaced = (at, every) => ({ path, edit: "replace", before: `${at}/old_string`, after: `${at}/new_string`, every });
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
