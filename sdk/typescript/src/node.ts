// A server on this machine, found by its data directory. For Node; browsers name the address and the token themselves.

import { readFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";

import { type Options, Plexus, type Where } from "./client.js";
import { ServerLost } from "./errors.js";

/** The server of a data directory; without one, that of a server that was started without naming one. */
export function fromDataDir(directory: string = defaultDataDir(), options: Options = {}): Plexus {
  return new Plexus(async (): Promise<Where> => {
    try {
      const [told, token] = await Promise.all([
        readFile(join(directory, "server.json"), "utf8"),
        readFile(join(directory, "operator.token"), "utf8"),
      ]);
      return { url: (JSON.parse(told) as Where).url, token: token.trim() };
    } catch (cause) {
      throw new ServerLost(`no server runs in ${directory}`, { cause });
    }
  }, options);
}

/** The data directory of a server that was started without naming one. */
export function defaultDataDir(): string {
  const { PLEXUS_DATA_DIR, XDG_STATE_HOME } = process.env;
  return PLEXUS_DATA_DIR || join(XDG_STATE_HOME || join(homedir(), ".local", "state"), "plexus");
}
