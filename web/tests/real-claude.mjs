// The real Claude Code CLI for a test on the page, and a stand-in for its model: the example `messages_api` of testkit, which plays
// the script that a prompt holds, and prints what the CLI sends.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { until } from "./browser.mjs";
import { enterOwnNetwork } from "./own-network.mjs";

const { PLEXUS_BIN, PLEXUS_REAL_CLAUDE, PLEXUS_REQUIRE_REAL_CLAUDE } = process.env;
const CLI = PLEXUS_REAL_CLAUDE || resolve(import.meta.dirname, "../../.cache/claude-cli/node_modules/.bin/claude");
const MODEL = join(dirname(resolve(PLEXUS_BIN ?? ".")), "examples", "messages_api");

function whyNot() {
  if (!PLEXUS_BIN) return "needs a real server: PLEXUS_BIN";
  if (!existsSync(CLI)) return `no ${CLI}: run scripts/install-claude-cli.sh or set PLEXUS_REAL_CLAUDE`;
  if (!existsSync(MODEL)) return `no ${MODEL}: run cargo build --workspace --examples --all-features`;
  return enterOwnNetwork();
}

/** Why the CLI cannot be run here, for the options of a test. Call it first in a file, because it may run the file again. */
export function realClaude() {
  const skip = whyNot();
  // Without a server of its own nothing in this folder is real, which is no failure.
  if (skip && PLEXUS_BIN && PLEXUS_REQUIRE_REAL_CLAUDE === "1") throw new Error(`the real CLI cannot be run here: ${skip}`);
  return skip ? { skip } : {};
}

/** A prompt that holds the answers of its model. A tool use is `[name, input]`. */
export const script = (steps) => `go @@${JSON.stringify(steps)}@@`;

/** Starts the model, and names the CLI with the whole environment that it may see. */
export async function startModel() {
  const folder = await mkdtemp(join(tmpdir(), "plexus-claude-"));
  for (const part of ["home", "tmp"]) await mkdir(join(folder, part));
  const child = spawn(MODEL, ["-v"], { stdio: ["ignore", "pipe", "inherit"] });
  const lines = [];
  createInterface({ input: child.stdout }).on("line", (line) => lines.push(line));
  const url = await until("the address of the model", () => lines[0]);
  return {
    agent: CLI,
    env: {
      PATH: process.env["PATH"],
      LANG: "C.UTF-8",
      HOME: join(folder, "home"),
      TMPDIR: join(folder, "tmp"),
      ANTHROPIC_API_KEY: "dummy-key-of-a-test",
      ANTHROPIC_BASE_URL: url,
      CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
      DISABLE_TELEMETRY: "1",
      DISABLE_AUTOUPDATER: "1",
      // The wall has tests of its own, and does not like a home below a temporary folder.
      PLEXUS_CONFINE_PROFILE: "none",
    },

    /** Waits until the model has read a result of a tool that contains this text. */
    hasRead: (text) =>
      until(`the model to read ${text}`, () => {
        const main = lines.slice(1).map((line) => JSON.parse(line)).filter((request) => request.main);
        const blocks = main.flatMap(({ body }) => body.messages).flatMap(({ content }) => (Array.isArray(content) ? content : []));
        return blocks.some(({ type, content }) => type === "tool_result" && JSON.stringify(content).includes(JSON.stringify(text).slice(1, -1)));
      }),

    async close() {
      child.kill("SIGKILL");
      if (child.exitCode === null && child.signalCode === null) await once(child, "exit");
      await rm(folder, { recursive: true, force: true });
    },
  };
}
