// Moves a whole test file into a network that has only loopback: a real agent must never reach a real host, whatever it decides to
// do. The Rust suites do the same in testkit::netns.

import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";

/** Set in the restarted program, so that it does not restart again. */
const INSIDE = "PLEXUS_TEST_NETNS";
const ENTER = 'ip link set lo up && exec "$@"';

/**
 * Returns null once this file runs in such a network, and otherwise why it cannot. The first call runs the file again inside and
 * ends with its exit code. A network needs root, or unprivileged user namespaces.
 */
export function enterOwnNetwork() {
  if (process.env[INSIDE]) {
    // The table is looked at, because somebody may have exported the variable.
    const others = readFileSync("/proc/net/dev", "utf8").split("\n").flatMap((line) => line.match(/^\s*([^\s:]+):/)?.[1] ?? []).filter((name) => name !== "lo");
    return others.length > 0 ? `${INSIDE} is set, but this network has more than loopback: ${others.join(", ")}` : null;
  }
  const within = (flags, command, options) => spawnSync("unshare", [...flags, "--", "sh", "-c", ENTER, "sh", ...command], options);
  const flags = [["-n"], ["-rn"]].find((each) => within(each, ["true"]).status === 0);
  if (!flags) return "no network namespace can be made here";
  const again = [process.execPath, ...process.execArgv, ...process.argv.slice(1)];
  process.exit(within(flags, again, { stdio: "inherit", env: { ...process.env, [INSIDE]: "1" } }).status ?? 1);
}
