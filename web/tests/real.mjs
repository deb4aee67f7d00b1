// Starts a real `plexus serve` with the simulator as its agent, unless a test names another, and ends it without a word, as a crash
// would. `env` is the server's whole environment; without it the server has ours.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile, rm } from "node:fs/promises";
import { dirname, join, resolve } from "node:path";
import { until } from "./browser.mjs";

export async function serveReal(binary, dataDir, port = 0, more = [], { agent: named, env } = {}) {
  const program = resolve(binary);
  const agent = named ?? process.env["PLEXUS_SIM_BIN"] ?? join(dirname(program), "plexus-sim");
  // The file of the server before would be taken for this one's.
  await rm(join(dataDir, "server.json"), { force: true });
  const child = spawn(program, ["serve", "--data-dir", dataDir, "--listen", `127.0.0.1:${port}`, "--claude-bin", agent, ...more], { env, stdio: ["ignore", "ignore", "pipe"] });
  let errors = "";
  child.stderr.on("data", (chunk) => (errors = (errors + chunk).slice(-4_000)));
  const announced = await until(`the server to announce itself`, async () => {
    if (child.exitCode !== null) throw new Error(`plexus serve ended with ${child.exitCode}: ${errors}`);
    return readFile(join(dataDir, "server.json"), "utf8").then(JSON.parse).catch(() => null);
  });
  return {
    url: announced.url,
    port: Number(new URL(announced.url).port),
    token: (await readFile(join(dataDir, "operator.token"), "utf8")).trim(),
    async close() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      child.kill("SIGKILL");
      await once(child, "exit");
    },
  };
}
