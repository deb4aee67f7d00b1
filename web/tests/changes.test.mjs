// What changed in a session's directory since it began.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { after, before, test } from "node:test";
import { until } from "./browser.mjs";
import { startTarget } from "./target.mjs";

const realOnly = process.env["PLEXUS_BIN"] ? {} : { skip: "needs the real server: the stand-in has no files" };
const git = (dir, ...words) => promisify(execFile)("git", ["-c", "user.name=t", "-c", "user.email=t@example.org", ...words], { cwd: dir });

let target;
before(async () => (target = await startTarget()));
after(() => target.close());

const allowAll = async (id, count) => {
  for (let n = 0; n < count; n++) {
    const [approval] = await target.pending(id);
    await target.call("loopback.respond", { approval_id: approval.id, approve: true });
    await until("it to be decided", async () => !(await target.call("loopback.pending", { limit: 500 })).approvals.some((each) => each.id === approval.id));
  }
  await until("it to end", async () => (await target.call("agents.get", { session_id: id })).session.status === "complete");
};

test("the page of a session shows the difference of its directory, file by file", realOnly, async () => {
  const dir = join(target.folder, "repository");
  await mkdir(dir);
  await git(dir, "init", "--quiet");
  await writeFile(join(dir, "kept.txt"), "one\ntwo\nthree\n");
  await git(dir, "add", "--all");
  await git(dir, "commit", "--quiet", "--message", "first");
  await writeFile(join(dir, "before.txt"), "there before\n");
  const session = await target.run("changes", ['tool Bash {"command":"sed -i s/two/2/ kept.txt && echo fresh > new.txt"}', "say done"], { working_dir: dir });
  await allowAll(session.id, 1);
  const { page, check, close } = await target.page(`/sessions/${session.id}`);
  await page.locator(".row.complete").waitFor();
  await page.getByRole("button", { name: "what changed" }).click();
  const changes = page.getByRole("region", { name: "Changes" });
  await changes.getByText("2 files").waitFor();
  const kept = changes.getByRole("group", { name: "modified kept.txt" });
  await kept.getByText("two").waitFor();
  assert.equal(await kept.locator(".line.add").innerText().then((text) => text.includes("2")), true);
  await changes.getByRole("group", { name: "added new.txt" }).getByText("fresh").waitFor();
  assert.equal(await changes.getByText("before.txt").count(), 0, "it was there when the session began");
  await changes.getByRole("button", { name: "modified kept.txt" }).click();
  await kept.waitFor({ state: "detached" });
  // Back to the timeline.
  await page.keyboard.press("w");
  await page.locator(".row.complete").waitFor();
  check();
  await close();
});

test("without a repository the edits of the agent are told", realOnly, async () => {
  const dir = join(target.folder, "plain");
  await mkdir(dir);
  const session = await target.run("edits", ['tool Write {"file_path":"a.txt","content":"written here\\n"}', "say done"], { working_dir: dir });
  await allowAll(session.id, 1);
  const { page, check, close } = await target.page(`/sessions/${session.id}`);
  await page.locator(".row.complete").waitFor();
  await page.keyboard.press("w");
  const changes = page.getByRole("region", { name: "Changes" });
  await changes.getByText(/1 file edited by the tools of the agent/).waitFor();
  await changes.getByText("written here").waitFor();
  await changes.getByText(/Changes by shell commands are not told/).waitFor();
  check();
  await close();
});
