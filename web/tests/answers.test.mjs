// Answering with what one needs to know: what the agent said before, and what its call would really change.

import assert from "node:assert/strict";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { until } from "./browser.mjs";
import { standInOnly, startTarget } from "./target.mjs";

let target;
before(async () => (target = await startTarget()));
after(() => target.close());

const numbered = (count) => Array.from({ length: count }, (_, i) => `line ${i + 1}`);

/** A file in the directory of the sessions, and the approval of a call that would change it. */
async function openChange(name, lines, tool, input) {
  const path = join(target.folder, `${name}.txt`);
  if (lines) await writeFile(path, `${lines.join("\n")}\n`);
  const session = await target.run(name, [`tool ${tool} ${JSON.stringify({ file_path: path, ...input })}`]);
  const [approval] = await target.pending(session.id);
  const opened = await target.page(`/queue/${approval.id}`);
  const diff = opened.page.getByRole("group", { name: new RegExp(`${name}\\.txt`) });
  return { ...opened, session, approval, diff };
}

async function done({ session, check, close }) {
  check();
  await close();
  await target.call("agents.cancel", { session_id: session.id });
}

test("an overwrite shows what it takes away", async () => {
  const lines = numbered(40);
  const opened = await openChange("overwrite", lines, "Write", { content: `${lines.with(19, "another").join("\n")}\n` });
  await opened.page.getByText("replaces the file").waitFor();
  const text = await opened.diff.innerText();
  assert.match(text, /removed:\s*line 20[\s\S]*added:\s*another/);
  assert.match(text, /unchanged lines/, "what stays is folded");
  assert.doesNotMatch(text, /added:\s*line 1\b/, "what stays is not shown as new");
  await done(opened);
});

test("a new file says that it is new", async () => {
  const opened = await openChange("created", null, "Write", { content: "one\n" });
  await opened.page.getByText("new file").waitFor();
  await done(opened);
});

test("an edit shows the numbers of its lines and what is around them", async () => {
  const opened = await openChange("edited", numbered(200), "Edit", { old_string: "line 120\n", new_string: "changed\n" });
  const row = (text) => opened.diff.locator(".line", { hasText: text });
  await row("line 119").waitFor();
  assert.deepEqual(await row("changed").locator(".no").allInnerTexts(), ["", "120"]);
  assert.deepEqual(await row("line 119").locator(".no").allInnerTexts(), ["119", "119"]);
  assert.equal(await row("line 100").count(), 0);
  await done(opened);
});

test("a file outside of the session's directory is not shown, and that is said", async () => {
  const path = join(target.folder, "..", `outside-${process.pid}.txt`);
  const session = await target.run("outside", [`tool Write ${JSON.stringify({ file_path: path, content: "x\n" })}`]);
  const [approval] = await target.pending(session.id);
  const opened = await target.page(`/queue/${approval.id}`);
  await opened.page.getByText("what is there now is not shown").waitFor();
  await done({ ...opened, session });
});

test("the queue tells what the agent said before", async () => {
  const session = await target.run("explains", ["say I clean up **first**, because the cache is stale.", 'tool Bash {"command":"touch explains"}']);
  const [approval] = await target.pending(session.id);
  const opened = await target.page(`/queue/${approval.id}`);
  await opened.page.getByRole("article").getByText("because the cache is stale").waitFor();
  await done({ ...opened, session });
});

test("a session that waits is answered in its timeline", async () => {
  const session = await target.run("here", ["say first", 'tool Bash {"command":"touch here-one"}', "say between", 'tool Bash {"command":"touch here-two"}', "say the end"]);
  const [first] = await target.pending(session.id);
  const { page, check, close } = await target.page(`/sessions/${session.id}`);
  const here = page.getByRole("region", { name: "Waits for your answer" });
  await here.getByText("touch here-one").waitFor();
  await page.locator(".row.content").getByText("first").waitFor();
  await here.getByRole("button", { name: /^Allow/ }).click();
  assert.equal((await target.decision(first.id)).status, "allowed");
  await page.locator(".row.content").getByText("between").waitFor();
  await here.getByText("touch here-two").waitFor();
  const [second] = await target.pending(session.id);
  await here.getByRole("button", { name: /^Deny/ }).click();
  await here.getByLabel(/Why not/).fill("enough");
  // A call that has just come up takes no answer for a moment; a click waits until it does.
  await here.getByRole("button", { name: /^Deny/ }).click();
  assert.equal((await target.decision(second.id)).message, "enough");
  await page.locator(".row.complete").waitFor();
  await here.waitFor({ state: "detached" });
  assert.equal(await page.evaluate(() => document.documentElement.scrollHeight - window.innerHeight), 0);
  check();
  await close();
});

test("a call of Codex is shown by what it would do, and cannot be edited", standInOnly, async () => {
  const id = target.world.createSession({ name: "codex-patch", working_dir: target.folder, agent: "codex" });
  const session = target.world.sessions.get(id);
  const chat = target.world.startChat(session, "go");
  const input = { changes: [{ path: join(target.folder, "p.rs"), kind: { type: "update" }, diff: "@@ -41,3 +41,3 @@\n fn a() {\n-    old();\n+    new();\n }" }] };
  void target.world.ask(session, chat, "apply_patch", "c1", input);
  const [approval] = await target.pending(id);
  const { page, check, close } = await target.page(`/queue/${approval.id}`);
  const diff = page.getByRole("group", { name: /p\.rs/ });
  assert.match(await diff.innerText(), /removed:\s*old\(\);[\s\S]*added:\s*new\(\);/);
  assert.deepEqual(await diff.locator(".line", { hasText: "new();" }).locator(".no").allInnerTexts(), ["", "42"]);
  await until("the powers of the agent to be known", async () => (await page.getByRole("button", { name: /^Edit/ }).count()) === 0);
  await page.getByRole("button", { name: /^Remember/ }).waitFor();
  check();
  await close();
});

test("a call of unknown shape and unknown risk is shown as that", standInOnly, async () => {
  const id = target.world.createSession({ name: "unknown-call", working_dir: target.folder });
  const session = target.world.sessions.get(id);
  const input = { command: "ping", query: "DROP TABLE x" };
  void target.world.ask(session, target.world.startChat(session, "go"), "mcp__db__run", "c1", input);
  const [approval] = await target.pending(id);
  target.world.approvals.get(approval.id).risk = null;
  const { page, check, close } = await target.page(`/queue/${approval.id}`);
  const row = await page.getByRole("option", { name: /unknown-call/ }).innerText();
  assert(row.includes(JSON.stringify(input)) && row.includes("risk unknown"), row);
  await page.getByRole("article").getByText("risk unknown").waitFor();
  check();
  await close();
  await target.call("agents.cancel", { session_id: id });
});

test("a request of a child is told in its parent's timeline by what it acts on", standInOnly, async () => {
  const { world, folder } = target;
  const [parent, child] = ["parent", "child"].map((name) => world.sessions.get(world.createSession({ name, working_dir: folder, agent: "codex" })));
  const [chat, asking] = [parent, child].map((session) => world.startChat(session, "go"));
  const input = { changes: [{ path: `${folder}/p.rs`, kind: { type: "delete" } }] };
  void world.ask(child, asking, "apply_patch", "c1", input);
  const [{ id, tool_name, tool_use_id }] = await target.pending(child.id);
  world.emit(parent, chat, { type: "tool_request", approval_id: id, session_id: child.id, session_name: child.name, tool_name, tool_use_id, input });
  const { page, check, close } = await target.page(`/sessions/${parent.id}`);
  await page.getByRole("link", { name: "Review" }).waitFor();
  assert.equal(await page.locator(".row.tool_request .mono").innerText(), `${folder}/p.rs`);
  check();
  await close();
  for (const session_id of [parent.id, child.id]) await target.call("agents.cancel", { session_id });
});
