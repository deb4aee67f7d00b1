// A real server whose agent is the simulator, which a test may kill and start again.

import { spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";

import { fromDataDir } from "../dist/node.js";

/** `plexus serve` on a folder of its own. PLEXUS_BIN names the program. */
export class Server {
  root = mkdtempSync(join(tmpdir(), "plexus-sdk-"));
  data = join(this.root, "data");
  work = join(this.root, "work");
  plexus = fromDataDir(this.data);

  constructor() {
    mkdirSync(this.work);
  }

  /** Starts it, and returns once it accepts calls. */
  async start() {
    rmSync(join(this.data, "server.json"), { force: true });
    const words = ["serve", "--data-dir", this.data, "--listen", "127.0.0.1:0", "--claude-bin", "sim", "--log", "warn"];
    const env = { ...process.env, CLAUDE_CONFIG_DIR: join(this.root, "claude") };
    this.process = spawn(process.env.PLEXUS_BIN, words, { env, stdio: ["ignore", "ignore", "inherit"] });
    this.ended = new Promise((resolve) => this.process.once("exit", resolve));
    while (!existsSync(join(this.data, "server.json"))) {
      if (this.process.exitCode !== null) throw new Error("the server ended");
      await sleep(50);
    }
  }

  /** Kills it, as an accident would. */
  async kill() {
    this.process.kill("SIGKILL");
    await this.ended;
  }

  /** Ends it with its children, and removes the folder. */
  async stop() {
    await this.plexus.call("server.stop", { children: true });
    await this.ended;
    rmSync(this.root, { recursive: true, force: true });
  }
}
