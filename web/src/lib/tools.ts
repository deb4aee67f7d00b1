// What a tool call is about, in one line, and the file changes in its input.

import { write } from "./exact.ts";
import { exactText } from "./text.ts";
import type { Approval, FileChange, Json, JsonObject, ToolTarget } from "./wire.ts";

const SUMMARY_CHARS = 240;
const GUESSED_FIELDS = ["command", "file_path", "notebook_path", "url", "query", "pattern", "path", "description", "prompt"];

/** What tells a call from others: the command, the path, the address. A call whose target has no such part is told by its whole input. */
export function summarize(input: JsonObject, said?: ToolTarget | null): string {
  const line = ((said ? subject(said, input) : guess(input)) || write(input)).slice(0, SUMMARY_CHARS + 1);
  return exactText(line.length > SUMMARY_CHARS ? `${line.slice(0, SUMMARY_CHARS)}…` : line).replaceAll("\n", " ⏎ ");
}

/** The terminal says the same of a call: `subject` of `crates/plexus/src/cli/render/mod.rs`. */
function subject(target: ToolTarget, input: JsonObject): string {
  switch (target.kind) {
    case "shell":
      return target.command;
    case "write":
      return [...new Set(target.changes.map((change) => change.path))].join(", ");
    case "fetch":
      return target.url ?? textOf(input, "query");
    case "connect":
      return `${target.host}:${target.port}`;
    // A search is about what it looks for, which only its input says.
    case "read":
      return (target.tree ? textOf(input, "pattern") || target.path : target.path || textOf(input, "pattern")) ?? "";
    case "agent":
      return textOf(input, "description");
    // One field of an input whose shape nobody knows may be its harmless part.
    default:
      return "";
  }
}

/** The field that is usually the one, for a call of an older server, which says no target. */
const guess = (input: JsonObject): string => GUESSED_FIELDS.map((name) => textOf(input, name)).find((text) => text) ?? "";

const textOf = (input: JsonObject, name: string): string => {
  const value = input[name];
  return typeof value === "string" ? value : "";
};

/** Fields of an input that its target shows, by name. All others are listed beside it, so that nothing is left out. */
export function shownFields(input: JsonObject, target: ToolTarget): Set<string> {
  const texts = new Set<string>();
  const fields = new Set<string>();
  /** Fields that hold something else than the text that is expected there. */
  const hidden = new Set<string>();
  switch (target.kind) {
    case "shell":
      texts.add(target.command);
      fields.add("description");
      break;
    case "fetch":
      if (target.url) texts.add(target.url);
      fields.add("prompt");
      break;
    case "write":
      for (const change of target.changes) {
        if (change.edit === "unknown") continue;
        texts.add(change.path);
        if (change.edit === "part" && change.name) texts.add(change.name);
        if (change.edit === "replace") fields.add("replace_all");
        for (const pointer of pointersOf(change)) (textAt(input, pointer) === null ? hidden : fields).add(segments(pointer)[0] ?? "");
      }
      break;
    default:
  }
  return new Set(Object.keys(input).filter((key) => (fields.has(key) && !hidden.has(key)) || (typeof input[key] === "string" && texts.has(input[key] as string))));
}

function pointersOf(change: FileChange): string[] {
  switch (change.edit) {
    case "whole":
    case "part":
      return [change.after];
    case "replace":
      return [change.before, change.after];
    case "diff":
      return [change.diff];
    default:
      return [];
  }
}

/** The text that a JSON Pointer (RFC 6901) finds in an input; null when there is no text. */
export function textAt(input: Json, pointer: string): string | null {
  let at: Json | undefined = input;
  for (const name of segments(pointer)) {
    if (typeof at !== "object" || at === null) return null;
    at = Array.isArray(at) ? at[Number(name)] : Object.hasOwn(at, name) ? at[name] : undefined;
  }
  return typeof at === "string" ? at : null;
}

function segments(pointer: string): string[] {
  return pointer.split("/").slice(1).map((name) => name.replaceAll("~1", "/").replaceAll("~0", "~"));
}

/** The description of a request, unless its call shows the same one: Claude Code repeats that of a command. */
export function descriptionOf({ description, input, target }: Pick<Approval, "description" | "input" | "target">): string | null {
  return !description || (target?.kind === "shell" && textOf(input, "description") === description) ? null : description;
}

/** Text of a tool's result: a string as it is, text blocks joined, everything else as JSON. */
export function outputText(output: Json | undefined): string {
  if (output == null) return "";
  if (typeof output === "string") return output;
  if (Array.isArray(output) && output.every((block) => isTextBlock(block))) return output.map((block) => (block as { text: string }).text).join("\n");
  return write(output, 2);
}

function isTextBlock(block: Json): boolean {
  return typeof block === "object" && block !== null && !Array.isArray(block) && block["type"] === "text" && typeof block["text"] === "string";
}
