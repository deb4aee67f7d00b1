// The other views: rules, decisions, spend; and what tells a person that something waits.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { chord, message, until } from "./browser.mjs";
import { startTarget } from "./target.mjs";

let target;
before(async () => (target = await startTarget({ preview: true })));
after(() => target.close());

const ask = (command) => `tool Bash ${JSON.stringify({ command })}`;

test("a rule is added, tested and removed", async () => {
  // A call is tested as some session would make it, so there must be one.
  await target.run("tester", ["say hello"]);
  const { page, check, close } = await target.page("/rules");
  await page.getByRole("button", { name: "New rule" }).click();
  const dialog = page.getByRole("dialog", { name: "New rule" });
  await dialog.getByLabel("Pattern").fill("Bash(views-test:*)");
  await dialog.getByRole("combobox", { name: "Decision" }).selectOption("deny");
  await dialog.getByLabel("Reason").fill("for a test");
  await dialog.getByRole("button", { name: "Add rule" }).click();
  const row = page.getByRole("row", { name: /views-test/ });
  await row.getByText("for a test").waitFor();

  const tester = page.getByRole("form", { name: "Test a call" });
  await tester.getByLabel("Input").fill('{ "command": "views-test now" }');
  await tester.getByRole("button", { name: "Test" }).click();
  await tester.getByText("deny", { exact: true }).waitFor();
  await tester.getByLabel("Input").fill("{ broken");
  await tester.getByRole("button", { name: "Test" }).click();
  await tester.getByText(/not JSON/).waitFor();

  await row.getByRole("button", { name: /^Remove/ }).click();
  assert.equal(await row.count(), 1, "the first press only asks");
  await row.getByRole("button", { name: /Really remove/ }).click();
  await row.waitFor({ state: "detached" });
  check();
  await close();
});

test("a rule that the server refuses says why", async () => {
  const { page, check, close } = await target.page("/rules");
  await page.keyboard.press("c");
  const dialog = page.getByRole("dialog", { name: "New rule" });
  await dialog.getByLabel("Pattern").fill("Bash(((");
  await dialog.getByRole("button", { name: "Add rule" }).click();
  await dialog.getByRole("alert").waitFor();
  check();
  await close();
});

test("the decisions tell who, why and what ran instead", async () => {
  const session = await target.run("told", [ask("touch told")]);
  const [approval] = await target.pending(session.id);
  await target.call("loopback.respond", { approval_id: approval.id, approve: true, message: "changed the name", updated_input: { command: "touch other" } });
  const { page, check, close } = await target.page("/history");
  const row = page.getByRole("button", { name: new RegExp(session.name) });
  await row.waitFor();
  assert.match(await row.innerText(), /allowed[\s\S]*operator/);
  await row.click();
  await page.getByText("changed the name").waitFor();
  await page.getByText("touch other").waitFor();
  await page.getByText(approval.input_digest).waitFor();
  check();
  await close();
});

test("a rule with several lines is shown on one, as the terminal shows it", async () => {
  const { rule_id } = await target.call("loopback.rule_add", { decision: "deny", pattern: "Bash(first-line\nsecond-line)" });
  const { page, check, close } = await target.page("/rules");
  await page.getByRole("row", { name: /first-line/ }).getByText("first-line␊second-line").waitFor();
  check();
  await close();
  await target.call("loopback.rule_remove", { rule_id });
});

test("the decision that was made last stands first", async () => {
  const asked = [await target.run("asked-first", [ask("touch asked-first")]), await target.run("asked-second", [ask("touch asked-second")])];
  const [[first], [second]] = [await target.pending(asked[0].id), await target.pending(asked[1].id)];
  const respond = (approval) => target.call("loopback.respond", { approval_id: approval.id, approve: true });
  await respond(second);
  // Decisions are told to the second.
  const decided = (await target.decision(second.id)).decided_at;
  await until("the next second", async () => Math.floor(Date.now() / 1_000) > decided);
  await respond(first);
  await target.decision(first.id);
  const { page, check, close } = await target.page("/history");
  const rows = page.locator(".item", { hasText: "asked-" });
  await until("both rows", async () => (await rows.count()) === 2);
  assert.match(await rows.first().innerText(), /asked-first/, "it was asked first and decided last");
  check();
  await close();
});

test("a session is created with a budget, and its use is drawn", async () => {
  const { page, check, close } = await target.page("/sessions");
  const name = `budget-${Date.now()}`;
  await page.getByRole("button", { name: "New session" }).click();
  const dialog = page.getByRole("dialog", { name: "New session" });
  await dialog.getByLabel("Working directory").fill(process.cwd());
  await dialog.getByText("More options").click();
  await dialog.getByLabel("Name").fill(name);
  await dialog.getByLabel("Budget in USD").fill("2.50");
  await dialog.getByLabel("Budget in tokens").fill("40000");
  await dialog.getByLabel("Budget in minutes").fill("90");
  await dialog.getByLabel("What should it do?").fill("sim:\nsay hello");
  await dialog.getByRole("button", { name: "Start" }).click();
  await page.getByRole("heading", { name }).waitFor();
  await page.locator(".row.content").getByText("hello").waitFor();
  await chord(page, "g", "b");
  await page.getByRole("img", { name: new RegExp(`${name}: .* of \\$2\\.50`) }).waitFor();
  await page.getByRole("img", { name: new RegExp(`${name}: .* of 40K tokens`) }).waitFor();
  await page.getByRole("img", { name: new RegExp(`${name}: .* of 1h at work`) }).waitFor();
  check();
  await close();
});

test("a session gets the wall that was chosen for it, and the server's where none was", async () => {
  const { page, check, close } = await target.page("/sessions");
  const usual = await target.call("agents.create", { name: `usual-${Date.now()}`, working_dir: target.folder });
  const wallOf = async (id) => (await target.call("agents.get", { session_id: id })).session.confine.profile;
  const chosen = { none: "none", workspace: "workspace", strict: "strict", "": await wallOf(usual.id) };
  for (const [wall, expected] of Object.entries(chosen)) {
    await page.getByRole("button", { name: "New session" }).click();
    const dialog = page.getByRole("dialog", { name: "New session" });
    await dialog.getByLabel("Working directory").fill(target.folder);
    await dialog.getByText("More options").click();
    const name = `wall-${wall || "usual"}-${Date.now()}`;
    await dialog.getByLabel("Name").fill(name);
    const walls = dialog.getByLabel("Wall around its commands");
    assert.deepEqual(await walls.locator("option").evaluateAll((options) => options.map((option) => option.value)), ["", "none", "workspace", "strict"]);
    await walls.selectOption(wall);
    await dialog.getByRole("button", { name: "Create" }).click();
    await page.getByRole("heading", { name }).waitFor();
    const id = decodeURIComponent(new URL(page.url()).hash.split("/").at(-1));
    assert.equal(await wallOf(id), expected, `chosen was ${wall || "nothing"}`);
    await target.call("agents.delete", { session_id: id });
    await page.goto(`${target.url}/#/sessions`);
  }
  await target.call("agents.delete", { session_id: usual.id });
  check();
  await close();
});

test("a prompt and a directory are enough for a session, and Enter starts it", async () => {
  const before = await target.run("earlier", ["say hello"]);
  const { page, check, close } = await target.page("/sessions");
  await page.getByRole("treeitem", { name: before.name }).waitFor();
  await page.keyboard.press("c");
  const dialog = page.getByRole("dialog", { name: "New session" });
  const earlier = (await target.call("agents.get", { session_id: before.id })).session.working_dir;
  assert.equal(await dialog.getByLabel("Working directory").inputValue(), earlier, "the last directory is offered");
  assert((await dialog.locator("datalist option").evaluateAll((options) => options.map((option) => option.value))).includes(earlier));
  const agents = dialog.getByRole("combobox", { name: "Agent" });
  await until("the agents", async () => (await agents.locator("option").count()) > 0);
  const { agents: kinds } = await target.call("agents.kinds");
  assert.deepEqual(await agents.locator("option").evaluateAll((options) => options.map((option) => [option.value, !option.disabled])), kinds.map((kind) => [kind.agent, kind.usable]));
  assert.equal(await agents.inputValue(), "claude_code");

  // The prompt has the focus when the dialog opens.
  await page.keyboard.type("sim:");
  await page.keyboard.press("Shift+Enter");
  await page.keyboard.type("say started by Enter");
  await page.keyboard.press("Enter");
  await page.locator(".row.content").getByText("started by Enter").waitFor();
  const id = decodeURIComponent(new URL(page.url()).hash.split("/").at(-1));
  const { session } = await target.call("agents.get", { session_id: id });
  assert.equal(session.working_dir, earlier);
  assert.equal(session.agent, "claude_code");
  check();
  await close();
  if (!target.world) await target.call("agents.delete", { session_id: id });
});

test("what is new is told by title, by voice and, when asked for, by a notification", async () => {
  const { page, check, close } = await target.page("/spend", { permissions: ["notifications"] });
  await page.addInitScript(() => {
    window.notes = [];
    window.Notification = class {
      static permission = "default";
      static requestPermission = async () => (window.Notification.permission = "granted");
      constructor(title, options) {
        window.notes.push(`${title}: ${options.body}`);
      }
      close() {}
    };
  });
  await page.reload();
  await page.locator(".connection.live").waitFor();
  await page.getByRole("button", { name: "Desktop notifications" }).click();
  await message(page, "You will be notified");
  const session = await target.run("news", [ask("touch news")]);
  await until("a notification", async () => (await page.evaluate(() => window.notes)).some((note) => note.includes(session.name) && note.includes("touch news")));
  assert.match(await page.title(), /^\(\d+\) Plexus$/);
  assert.match(await page.locator("[aria-live=assertive]").innerText(), new RegExp(session.name));
  const [approval] = await target.pending(session.id);
  await target.call("loopback.respond", { approval_id: approval.id, approve: true });
  await until("the title to be calm again", async () => !(await page.title()).startsWith("(") || (await target.call("loopback.pending")).approvals.length > 0);
  check();
  await close();
});

test("remember shows exactly what the server says it would release", async (t) => {
  const first = await target.run("exact-a", [ask("mkdir -p exact one")]);
  const second = await target.run("exact-b", [ask("mkdir -p exact two")]);
  const [approval] = await target.pending(first.id);
  await target.pending(second.id);
  const { page, check, close } = await target.page(`/queue/${approval.id}`);
  await page.getByRole("article").waitFor();
  await page.keyboard.press("r");
  await page.getByLabel("Pattern", { exact: true }).fill("Bash(mkdir -p:*)");
  await page.getByRole("combobox", { name: "For" }).selectOption("all");
  const preview = page.getByText(/lso decides 1 other waiting call/);
  await preview.waitFor();
  t.diagnostic(`preview by ${(await preview.innerText()).startsWith("Also") ? "the server" : "the page's own guess"}`);
  check();
  await close();
  for (const session of [first, second]) await target.call("agents.cancel", { session_id: session.id });
});
