// What a tool call is about, in one line, and the file changes in its input.

import { exactText } from "./text.ts";
import type { Json, JsonObject } from "./wire.ts";

const SUMMARY_CHARS = 240;

/** Says whether a call runs a command of a shell, whose meaning depends on the directory it starts in. */
export function isShell(toolName: string): boolean {
  return toolName === "Bash" || toolName === "PowerShell";
}

/** The argument that tells a call from others: the command, the path, the address. */
export function summarize(toolName: string, input: JsonObject): string {
  const text = (key: string): string => (typeof input[key] === "string" ? (input[key] as string) : "");
  const found =
    isShell(toolName)
      ? text("command")
      : text("file_path") || text("notebook_path") || text("url") || text("query") || text("pattern") || text("path") || text("description") || text("prompt");
  const line = (found || JSON.stringify(input) || "").slice(0, SUMMARY_CHARS + 1);
  return exactText(line.length > SUMMARY_CHARS ? `${line.slice(0, SUMMARY_CHARS)}…` : line).replaceAll("\n", " ⏎ ");
}

export type FileChange = { path: string; before: string; after: string; note: string };

/** The changes that a call would make to files, when its input tells them. */
export function fileChanges(toolName: string, input: JsonObject): FileChange[] {
  const text = (key: string): string => (typeof input[key] === "string" ? (input[key] as string) : "");
  const path = text("file_path") || text("notebook_path");
  switch (toolName) {
    case "Edit":
      return [{ path, before: text("old_string"), after: text("new_string"), note: input["replace_all"] === true ? "every occurrence" : "" }];
    case "MultiEdit":
      return editList(input["edits"]).map((edit, i, all) => ({ path, before: edit.before, after: edit.after, note: all.length > 1 ? `edit ${i + 1} of ${all.length}` : "" }));
    case "Write":
      return [{ path, before: "", after: text("content"), note: "whole file" }];
    case "NotebookEdit":
      return [{ path, before: "", after: text("new_source"), note: `cell ${text("cell_id") || "new"}` }];
    default:
      return [];
  }
}

function editList(edits: Json | undefined): { before: string; after: string }[] {
  if (!Array.isArray(edits)) return [];
  return edits.flatMap((edit) => {
    if (typeof edit !== "object" || edit === null || Array.isArray(edit)) return [];
    return [{ before: String(edit["old_string"] ?? ""), after: String(edit["new_string"] ?? "") }];
  });
}

/** Text of a tool's result: a string as it is, text blocks joined, everything else as JSON. */
export function outputText(output: Json | undefined): string {
  if (output == null) return "";
  if (typeof output === "string") return output;
  if (Array.isArray(output) && output.every((block) => isTextBlock(block))) return output.map((block) => (block as { text: string }).text).join("\n");
  return JSON.stringify(output, null, 2);
}

function isTextBlock(block: Json): boolean {
  return typeof block === "object" && block !== null && !Array.isArray(block) && block["type"] === "text" && typeof block["text"] === "string";
}
