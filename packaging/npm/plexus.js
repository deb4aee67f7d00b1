#!/usr/bin/env node
// Starts the binary of this machine's platform package, which npm installs beside this one.
"use strict";

const { spawn } = require("node:child_process");

const name = `plexus-agents-${process.platform}-${process.arch}`;
let program;
try {
  program = require.resolve(`${name}/bin/plexus`);
} catch {
  console.error(`plexus: there is no binary for ${process.platform} on ${process.arch}: the package ${name} is not installed.`);
  console.error("If npm was told to leave out optional dependencies, install it without that; else build from source: cargo install plexus");
  process.exit(1);
}
const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
// The terminal sends its signals to both; this one waits for what the program makes of them.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("error", (error) => {
  console.error(`plexus: could not start ${program}: ${error.message}`);
  process.exit(1);
});
child.on("exit", (code, signal) => {
  if (signal === null) process.exit(code);
  process.removeAllListeners(signal);
  process.kill(process.pid, signal);
});
