// What a new session can take over from earlier ones: directories, and a name that is free.

import type { Session } from "./wire.ts";

/** Directories offered; more is a list that nobody reads. */
const MAX_DIRECTORIES = 12;

/** Directories of sessions, the last used first. */
export function recentDirectories(sessions: Iterable<Session>): string[] {
  const newest = [...sessions].sort((a, b) => b.updated_at - a.updated_at);
  return [...new Set(newest.map((session) => session.working_dir))].slice(0, MAX_DIRECTORIES);
}

/** A name made from a directory that no root session has. */
export function freeName(directory: string, sessions: Iterable<Session>): string {
  const taken = new Set([...sessions].map((session) => session.name));
  const base = directory.split("/").filter((part) => part !== "" && part !== "~").at(-1) ?? "session";
  for (let n = 1; ; n++) {
    const name = n === 1 ? base : `${base}-${n}`;
    if (!taken.has(name)) return name;
  }
}
