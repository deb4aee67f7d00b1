// The changes that a call would make to files, as differences. Where the server shows what a file holds now, the difference is
// that of the whole file: with its line numbers, its surroundings, and what an overwrite takes away. Where it does not, that is said.

import { textAt } from "./tools.ts";
import type { FileChange, FileNow, JsonObject, ToolTarget } from "./wire.ts";

/** One difference. `from` are the numbers of its first lines, before and after. */
export type ShownChange = { path: string; before: string; after: string; note: string; from?: [number, number] };

/** Returns the differences of a call. `files` are its files as they are now, when they were asked for. */
export function fileChanges(input: JsonObject, target: ToolTarget, files: readonly FileNow[] = []): ShownChange[] {
  if (target.kind !== "write") return [];
  const paths = [...new Set(target.changes.map((change) => change.path))];
  return paths.flatMap((path) => {
    const changes = target.changes.filter((change) => change.path === path);
    const now = files.find((file) => file.path === path);
    const whole = now && now.is !== "unread" ? wholeFile(input, path, changes, now) : null;
    return whole ?? changes.flatMap((change, i) => alone(input, change, [`edit ${i + 1} of ${changes.length}`].filter(() => changes.length > 1), now));
  });
}

/** All changes of one file as one difference; null when one of them does not fit what the file holds now. */
function wholeFile(input: JsonObject, path: string, changes: readonly FileChange[], now: Exclude<FileNow, { is: "unread" }>): ShownChange[] | null {
  const before = now.is === "text" ? now.text : "";
  let after = before;
  const notes = new Set<string>();
  for (const change of changes) {
    const next = applied(input, change, after);
    if (next === null) return null;
    after = next;
    if (change.edit === "whole") notes.add(now.is === "text" ? "replaces the file" : "new file");
    if (change.edit === "delete") notes.add("deletes the file");
    if (change.edit === "replace" && change.every) notes.add("every occurrence");
  }
  if (now.is === "absent") notes.add("new file");
  if (before === after && notes.has("replaces the file")) notes.add("nothing changes");
  return [{ path, before, after, note: [...notes].join(", ") }];
}

/** What a text is after a change; null when the change cannot be made to it. */
function applied(input: JsonObject, change: FileChange, text: string): string | null {
  const at = (pointer: string): string => textAt(input, pointer) ?? "";
  switch (change.edit) {
    case "whole":
      return at(change.after);
    case "delete":
      return "";
    case "replace": {
      const [before, after] = [at(change.before), at(change.after)];
      // An empty text is found everywhere; agents make a file with it.
      if (before === "") return text === "" ? after : null;
      if (change.every) return text.includes(before) ? text.split(before).join(after) : null;
      const found = text.indexOf(before);
      return found < 0 ? null : text.slice(0, found) + after + text.slice(found + before.length);
    }
    default:
      return null;
  }
}

/** A change by itself, with what is known of its file. */
function alone(input: JsonObject, change: FileChange, notes: string[], now: FileNow | undefined): ShownChange[] {
  const text = (pointer: string): string => textAt(input, pointer) ?? "";
  const { path } = change;
  const unseen = now?.is === "unread" ? [`what is there now is not shown: ${now.why}`] : [];
  const shown = (before: string, after: string, ...more: string[]): ShownChange[] => [{ path, before, after, note: [...more, ...notes, ...unseen].join(", ") }];
  switch (change.edit) {
    case "whole":
      return shown("", text(change.after), "whole file");
    case "replace": {
      const missing = now?.is === "text" || now?.is === "absent" ? ["the file does not hold this text now"] : [];
      return shown(text(change.before), text(change.after), ...(change.every ? ["every occurrence"] : []), ...missing);
    }
    case "part":
      return shown("", text(change.after), `cell ${change.name || "new"}`);
    case "diff":
      return hunksOf(text(change.diff)).map((hunk, i, all) => ({
        path,
        ...hunk,
        note: [...(all.length > 1 ? [`part ${i + 1} of ${all.length}`] : []), ...notes, ...unseen].join(", "),
      }));
    case "delete":
      return shown("", "", "deletes the file");
    default:
      return [];
  }
}

type Hunk = { before: string; after: string; from: [number, number] };

/** The parts of a unified diff: what each takes away and puts there, with the lines around both and where they begin. */
export function hunksOf(diff: string): Hunk[] {
  const hunks: { before: string[]; after: string[]; from: [number, number] }[] = [];
  for (const line of diff.split("\n")) {
    const head = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/.exec(line);
    if (head || line.startsWith("@@")) {
      hunks.push({ before: [], after: [], from: [Number(head?.[1] ?? 1) || 1, Number(head?.[2] ?? 1) || 1] });
      continue;
    }
    const hunk = hunks.at(-1);
    // Before the first part stand the names of the file.
    if (!hunk && /^(---|\+\+\+|diff |index |new file|deleted file|similarity|rename )/.test(line)) continue;
    const into = hunk ?? { before: [], after: [], from: [1, 1] };
    if (!hunk) hunks.push(into);
    if (line.startsWith("\\")) continue;
    const body = /^[-+ ]/.test(line) ? line.slice(1) : line;
    if (!line.startsWith("+")) into.before.push(body);
    if (!line.startsWith("-")) into.after.push(body);
  }
  return hunks.map(({ before, after, from }) => ({ before: before.join("\n"), after: after.join("\n"), from }));
}
