// The queue of pending approvals: over all sessions, and every way to answer.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { message, openPage, until } from "./browser.mjs";
import { realOnly, standInOnly, startTarget } from "./target.mjs";

let target;
before(async () => (target = await startTarget()));
after(() => target.close());

const ask = (command) => `tool Bash ${JSON.stringify({ command })}`;

async function openApproval(session, count = 1) {
  const approvals = await target.pending(session.id, count);
  const opened = await target.page(`/queue/${approvals[0].id}`);
  await opened.page.getByRole("article").waitFor();
  return { ...opened, approval: approvals[0], approvals };
}

test("one queue holds the approvals of three sessions, riskiest first", async () => {
  const reads = await target.run("queue-write", [`tool Write ${JSON.stringify({ file_path: "q.txt", content: "x" })}`]);
  const removes = await target.run("queue-rm", [ask("rm -rf build-of-queue")]);
  const fetches = await target.run("queue-fetch", [`tool WebFetch ${JSON.stringify({ url: "https://example.org/queue", prompt: "what is it?" })}`]);
  for (const session of [reads, removes, fetches]) await target.pending(session.id);
  const { page, check, close } = await target.page("/queue");
  const rows = page.getByRole("option", { name: /queue-(write|rm|fetch)-/ });
  await until("three rows", async () => (await rows.count()) === 3);
  const texts = await rows.allInnerTexts();
  assert.match(texts[0], /rm -rf build-of-queue/);
  assert.match(texts[1], /q\.txt/);
  assert.match(texts[2], /example\.org\/queue/);
  await until("the title to count", async () => /^\(\d+\) Plexus$/.test(await page.title()));

  await page.getByLabel("Filter approvals").fill(fetches.name);
  await until("one row after filtering", async () => (await page.getByRole("option").count()) === 1);
  check();
  await close();
  for (const session of [reads, removes, fetches]) await target.call("agents.cancel", { session_id: session.id });
});

test("allow runs what was asked", async () => {
  const session = await target.run("allow", [ask("touch allowed"), "say went on"]);
  const { page, approval, check, close } = await openApproval(session);
  const sent = page.waitForRequest((request) => request.postData()?.includes("loopback.respond"));
  await page.getByRole("button", { name: /^Allow/ }).click();
  assert.equal((await sent).postDataJSON().params.input_digest, approval.input_digest, "the answer is bound to what was seen");
  await message(page, `Allowed: Bash of ${session.name}`);
  const decision = await target.decision(approval.id);
  assert.equal(decision.status, "allowed");
  assert.equal(decision.input_digest, approval.input_digest);
  assert.equal(await page.getByRole("option", { name: new RegExp(session.name) }).count(), 0);
  assert.equal(await page.getByText(/^Already/).count(), 0, "our own answer is not told as somebody else's");
  check();
  await close();
});

test("a command is shown with the directory that it runs in", async () => {
  const shell = await target.run("where-shell", [ask("make all")]);
  const [asked] = await target.pending(shell.id);
  assert(asked.working_dir?.startsWith("/"), "the server names a directory");
  const command = await openApproval(shell);
  const where = (page) => page.getByRole("article").getByText("runs in", { exact: false });
  assert.equal(await where(command.page).innerText(), `runs in ${asked.working_dir}`);
  // It stays in sight while the input is looked at as JSON.
  await command.page.getByRole("button", { name: "Show as JSON" }).click();
  assert.equal(await where(command.page).innerText(), `runs in ${asked.working_dir}`);

  const writes = await target.run("where-write", [`tool Write ${JSON.stringify({ file_path: "w.txt", content: "x" })}`]);
  const file = await openApproval(writes);
  await file.page.getByRole("heading", { name: "Write" }).waitFor();
  assert.equal(await where(file.page).count(), 0, "a file has its own path");
  for (const opened of [command, file]) {
    opened.check();
    await opened.close();
  }
  for (const session of [shell, writes]) await target.call("agents.cancel", { session_id: session.id });
});

test("the description of a command is shown once, on both pages", async () => {
  const session = await target.run("described", [`tool Bash ${JSON.stringify({ command: "make all", description: "Build everything" })}`]);
  const [approval] = await target.pending(session.id);
  // Claude Code says it beside the call too, which neither stand-in plays.
  const described = (page) =>
    page.route("**/rpc", async (route) => {
      const response = await route.fetch();
      const body = await response.json();
      for (const { result } of Array.isArray(body) ? body : [body]) for (const each of result?.approvals ?? []) if (each.id === approval.id) each.description = "Build everything";
      await route.fulfill({ response, json: body });
    });
  const opened = [await target.page("/history")];
  await described(opened[0].page);
  await opened[0].page.goto(`${target.url}/#/queue/${approval.id}`);
  await opened[0].page.reload();
  if (realOnly.skip === undefined) {
    const { link } = await target.call("identity.pair", { name: "described" });
    opened.push(await openPage(target.browser, { url: target.url, address: link }));
    await opened[1].page.getByText("Paired as described").waitFor();
    await described(opened[1].page);
    await opened[1].page.goto(`${target.url}/phone#/approve/${approval.id}`);
    await opened[1].page.reload();
  }
  for (const { page, check, close } of opened) {
    await page.getByRole("article").getByText("make all").waitFor();
    assert.equal(await page.getByRole("article").getByText("Build everything").count(), 1);
    check();
    await page.unrouteAll({ behavior: "ignoreErrors" });
    await close();
  }
  await target.call("agents.cancel", { session_id: session.id });
});

test("a command within a wall is tried over a copy, and nothing is decided by it", standInOnly, async () => {
  const walled = await target.run("tried", [ask("make notes")], { confine: "workspace" });
  const { page, approval, check, close } = await openApproval(walled);
  await page.getByRole("button", { name: /^Preview/ }).click();
  const shown = page.getByRole("region", { name: "Preview" });
  await shown.getByText("2 changes, exit code 3").waitFor();
  const diff = shown.getByRole("group", { name: "modified notes.txt" });
  assert.match(await diff.innerText(), /old[\s\S]*new <b>text<\/b>/);
  for (const words of ["removed picture.png · it is not text, or larger than 64 KiB", "ran make notes", "a dry run: nothing is bound to it"]) await shown.getByText(words).waitFor();
  assert.equal((await target.pending(walled.id))[0].id, approval.id, "it still waits");
  check();
  await close();

  const failing = await target.run("not-tried", [ask("impossible")], { confine: "workspace" });
  const refused = await openApproval(failing);
  await refused.page.keyboard.press("p");
  await refused.page.getByText("No preview: ", { exact: false }).waitFor();
  refused.check();
  await refused.close();

  const open = await target.run("open", [ask("make notes")]);
  const without = await openApproval(open);
  assert.equal(await without.page.getByRole("button", { name: /^Preview/ }).count(), 0, "there is no wall to try it in");
  without.check();
  await without.close();
  for (const session of [walled, failing, open]) await target.call("agents.cancel", { session_id: session.id });
});

test("deny tells the agent why", async () => {
  const session = await target.run("deny", [ask("touch denied")]);
  const { page, approval, check, close } = await openApproval(session);
  await page.getByRole("button", { name: /^Deny/ }).click();
  await page.getByLabel(/Why not/).fill("use the other directory");
  await page.getByRole("button", { name: /^Deny/ }).click();
  const decision = await target.decision(approval.id);
  assert.equal(decision.status, "denied");
  assert.equal(decision.message, "use the other directory");
  check();
  await close();
});

test("an edit shows its difference, refuses broken JSON, and runs instead", async () => {
  const session = await target.run("edit", [`tool Write ${JSON.stringify({ file_path: "edit.txt", content: "one\ntwo\nthree\n" })}`]);
  const { page, approval, check, close } = await openApproval(session);
  await page.getByRole("button", { name: /^Edit/ }).click();
  await page.getByText("Nothing is changed yet").waitFor();
  await page.getByRole("textbox", { name: "content" }).fill("one\n2\nthree\n");
  const diff = page.getByRole("group", { name: "content" });
  assert.match(await diff.innerText(), /removed:\s*two[\s\S]*added:\s*2/);

  await page.getByRole("button", { name: "Edit as JSON" }).click();
  const json = page.getByLabel("Input as JSON");
  const good = await json.inputValue();
  await json.fill(good.replace("}", ""));
  const allow = page.getByRole("button", { name: /^Allow/ });
  await until("the broken input to be refused", async () => await allow.isDisabled());
  assert.notEqual(await page.locator("#edit-problem").innerText(), "");
  await json.fill(good);
  await page.getByRole("button", { name: /^Allow with edit/ }).click();

  const decision = await target.decision(approval.id);
  assert.equal(decision.status, "allowed");
  // An agent may make the path absolute before it asks; what was edited is the content.
  assert.deepEqual(decision.updated_input, { ...approval.input, content: "one\n2\nthree\n" });
  check();
  await close();
});

// No double holds it: JavaScript's own numbers make 1234567890123456800 of it.
const MESSAGE = "1234567890123456789";
const deletes = [`tool mcp__discord__delete_message {"channel":"general","message_id":${MESSAGE},"ratio":1.0,"note":"spam"}`];

test("a number is shown and allowed as it was asked", realOnly, async () => {
  const session = await target.run("long-number", deletes);
  const { page, approval, check, close } = await openApproval(session);
  const article = page.getByRole("article");
  for (const words of [MESSAGE, "1.0"]) await article.getByText(words, { exact: true }).waitFor();
  await page.getByRole("option", { name: new RegExp(session.name) }).getByText(MESSAGE).waitFor();
  await page.keyboard.press("v");
  await article.getByText(`"message_id": ${MESSAGE},`).waitFor();
  await article.getByText(`"ratio": 1.0`).waitFor();
  await page.keyboard.press("y");
  assert.equal((await target.decision(approval.id)).status, "allowed");
  check();
  await close();
});

test("an edit of one field leaves the digits of the others, and numbers are edited digit by digit", realOnly, async () => {
  /** What ran instead, by the server's own words. */
  const ran = async (session, approval) => {
    await target.decision(approval.id);
    return /"updated_input":(\{[^}]*\})/.exec(await target.answer("loopback.history", { session_id: session.id }))?.[1];
  };
  const fields = ["channel", "message_id", "ratio", "note"];
  const part = (text, name) => new RegExp(`"${name}":([^,}]*)`).exec(text)?.[1];

  const first = await target.run("edit-note", deletes);
  const note = await openApproval(first);
  await note.page.keyboard.press("e");
  await note.page.getByRole("textbox", { name: "note" }).fill("ham");
  await note.page.getByRole("group", { name: "note" }).waitFor();
  assert.equal(await note.page.getByRole("group", { name: "message_id" }).count(), 0, "nothing else is changed");
  await note.page.getByRole("button", { name: /^Allow with edit/ }).click();
  const noteRan = await ran(first, note.approval);
  assert.deepEqual(fields.map((name) => part(noteRan, name)), ['"general"', MESSAGE, "1.0", '"ham"']);

  const second = await target.run("edit-number", deletes);
  const number = await openApproval(second);
  await number.page.keyboard.press("e");
  const field = number.page.getByRole("textbox", { name: "message_id" });
  assert.equal(await field.inputValue(), MESSAGE);
  await field.fill(`${MESSAGE}000`);
  await number.page.getByText("has more digits than the server keeps").waitFor();
  await until("it to be refused", () => number.page.getByRole("button", { name: /^Allow/ }).isDisabled());
  await field.fill("1234567890123456790");
  await number.page.getByRole("button", { name: "Edit as JSON" }).click();
  assert.match(await number.page.getByLabel("Input as JSON").inputValue(), /"message_id": 1234567890123456790,/);
  await number.page.getByRole("button", { name: /^Allow with edit/ }).click();
  const numberRan = await ran(second, number.approval);
  assert.deepEqual(fields.map((name) => part(numberRan, name)), ['"general"', "1234567890123456790", "1.0", '"spam"']);
  for (const opened of [note, number]) {
    opened.check();
    await opened.close();
  }
});

test("what is not shown as it was asked cannot be allowed, alone or together with others", async () => {
  const session = await target.run("other-input", [ask("touch asked-for")]);
  const [approval] = await target.pending(session.id);
  const { page, check, close } = await target.page("/history");
  const answered = [];
  await page.route("**/rpc", async (route) => {
    if (route.request().postData().includes("loopback.respond")) answered.push(route.request().postData());
    const response = await route.fetch();
    await route.fulfill({ response, body: (await response.text()).replaceAll("touch asked-for", "touch harmless") });
  });
  await page.goto(`${target.url}/#/queue/${approval.id}`);
  await page.getByRole("alert").getByText(`In a terminal, plexus approve ${approval.id} is exact.`).waitFor();
  assert(await page.getByRole("button", { name: /^Allow/ }).isDisabled());
  await page.keyboard.press("x");
  await page.getByText("1 marked").waitFor();
  await page.keyboard.press("Y");
  await message(page, "is not exactly what was asked");
  assert.deepEqual(answered, []);
  assert.equal((await target.pending(session.id))[0].id, approval.id, "it still waits");
  // Nobody needs to have read it for a no.
  await page.getByRole("button", { name: /^Deny/ }).click();
  await page.getByRole("button", { name: /^Deny/ }).click();
  assert.equal((await target.decision(approval.id)).status, "denied");
  check();
  // A call may be on its way back while the page is closed.
  await page.unrouteAll({ behavior: "ignoreErrors" });
  await close();
});

test("an unchanged edit is a plain allow", async () => {
  const session = await target.run("same", [ask("touch same")]);
  const { page, approval, check, close } = await openApproval(session);
  await page.getByRole("button", { name: /^Edit/ }).click();
  await page.getByRole("textbox", { name: "command" }).fill("touch other");
  await page.getByRole("button", { name: /^Allow with edit/ }).waitFor();
  await page.getByRole("textbox", { name: "command" }).fill("touch same");
  await page.getByRole("button", { name: "Allow y" }).click();
  const decision = await target.decision(approval.id);
  assert.equal(decision.updated_input ?? null, null);
  check();
  await close();
});

test("remember shows what else it covers, and releases it", async () => {
  const first = await target.run("remember-a", [ask("mkdir one")]);
  const second = await target.run("remember-b", [ask("mkdir two")]);
  const [other] = await target.pending(second.id);
  const { page, approval, check, close } = await openApproval(first);
  await page.getByRole("button", { name: /^Remember/ }).click();
  await page.getByLabel("Pattern", { exact: true }).fill("Bash(mkdir:*)");
  await page.getByText(/overs? no other waiting call|to cover no other/i).waitFor();
  await page.getByRole("combobox", { name: "For" }).selectOption("all");
  const preview = page.getByText(/(Probably also|Also) decides 1 other waiting call/);
  await preview.waitFor();
  await page.locator(".preview").getByText(second.name).waitFor();
  await page.getByRole("button", { name: /Allow and remember/ }).click();

  await message(page, "and remembered; 1 other waiting call decided with it");
  assert.equal((await target.decision(approval.id)).status, "allowed");
  const released = await target.decision(other.id);
  assert.equal(released.status, "allowed");
  const { rules } = await target.call("loopback.rules");
  const rule = rules.find((each) => each.pattern === "Bash(mkdir:*)");
  assert(rule, "the rule exists");
  await target.call("loopback.rule_remove", { rule_id: rule.id });
  check();
  await close();
});

test("a decision that came second is told who came first", async () => {
  const session = await target.run("conflict", [ask("touch conflict")]);
  const { page, approval, check, close } = await openApproval(session);
  // The page is held back from hearing of it, so that its own answer is the second one.
  await page.route("**/rpc", async (route) => {
    if (route.request().postData().includes("loopback.respond")) await target.call("loopback.respond", { approval_id: approval.id, approve: false, message: "first" });
    await route.continue();
  });
  await page.getByRole("button", { name: /^Allow/ }).click();
  await page.getByText(/Already denied by operator/).first().waitFor();
  assert.equal((await target.decision(approval.id)).status, "denied");
  check();
  await close();
});

test("what somebody else decides leaves the queue by itself", async () => {
  const session = await target.run("elsewhere", [ask("touch elsewhere")]);
  const { page, approval, check, close } = await openApproval(session);
  await target.call("loopback.respond", { approval_id: approval.id, approve: true });
  await page.getByRole("option", { name: new RegExp(session.name) }).waitFor({ state: "detached" });
  check();
  await close();
});

test("the link of a request that is gone says so, and leads to no other request", async () => {
  const waits = await target.run("still-waits", [ask("touch still-waits")]);
  const [waiting] = await target.pending(waits.id);
  const session = await target.run("gone", [ask("touch gone")]);
  const [decided] = await target.pending(session.id);
  await target.call("loopback.respond", { approval_id: decided.id, approve: false, message: "too late" });
  const links = [
    [decided.id, "It was denied by operator: too late."],
    ["0192aaaa-0000-7000-8000-000000000000", "There is no such request here"],
  ];
  for (const screen of [{}, { viewport: { width: 400, height: 800 } }]) {
    for (const [id, words] of links) {
      const { page, check, close } = await target.page(`/queue/${id}`, screen);
      await page.getByText(words).waitFor();
      assert.equal(await page.getByRole("article").count(), 0, "nothing is there to be answered");
      assert.equal(new URL(page.url()).hash, `#/queue/${id}`);
      await page.keyboard.press("y");
      // The link of another request may be opened in the same tab.
      await page.goto(`${target.url}/#/queue/${waiting.id}`);
      await page.getByRole("article").getByText("touch still-waits").waitFor();
      await page.goto(`${target.url}/#/queue/${id}`);
      await page.getByText(words).waitFor();
      assert.equal(await page.getByRole("article").count(), 0);
      check();
      await close();
    }
  }
  assert.equal((await target.pending(waits.id))[0].id, waiting.id, "nobody answered it");

  // A link to a request that the filter hides shows it.
  const { page, check, close } = await openApproval(waits);
  const more = await target.run("beyond", [ask("touch beyond")]);
  const [beyond] = await target.pending(more.id);
  await page.getByLabel("Filter approvals").fill("still-waits");
  await page.goto(`${target.url}/#/queue/${beyond.id}`);
  await page.getByRole("article").getByText("touch beyond").waitFor();
  check();
  await close();
  for (const each of [waits, more]) await target.call("agents.cancel", { session_id: each.id });
});

test("several can be decided together", async () => {
  const sessions = [await target.run("many-a", [ask("touch many")]), await target.run("many-b", [ask("touch many")])];
  const approvals = [];
  for (const session of sessions) approvals.push(...(await target.pending(session.id)));
  const { page, check, close } = await target.page("/queue");
  await page.getByLabel("Filter approvals").fill("many-");
  await until("both rows", async () => (await page.getByRole("option").count()) === 2);
  await page.getByRole("option").first().click();
  await page.keyboard.press("x");
  await page.keyboard.press("j");
  await page.keyboard.press("x");
  await page.getByText("2 marked").waitFor();
  await page.getByRole("button", { name: "Deny all" }).waitFor();
  await page.keyboard.press("N");
  for (const approval of approvals) assert.equal((await target.decision(approval.id)).status, "denied");
  check();
  await close();
});

test("the countdown runs on after another page was left", async () => {
  const session = await target.run("ages", [ask("touch ages")], { loopback_timeout_secs: 3_000 });
  await target.pending(session.id);
  const { page, check, close } = await target.page("/sessions");
  await page.getByText(session.name).first().waitFor();
  await page.goto(`${target.url}/#/queue`);
  const timer = page.getByRole("option", { name: new RegExp(session.name) }).getByRole("timer");
  const shown = await timer.innerText();
  await until("another second to be counted", async () => (await timer.innerText()) !== shown);
  await page.goto(`${target.url}/#/sessions`);
  await timer.waitFor({ state: "detached" });
  await page.goto(`${target.url}/#/queue`);
  const again = await timer.innerText();
  await until("another second to be counted on the second visit", async () => (await timer.innerText()) !== again);
  check();
  await close();
  await target.call("agents.cancel", { session_id: session.id });
});

test("the countdown runs, and what expired is gone", standInOnly, async () => {
  const session = await target.run("expiry", [ask("touch expiry")], { loopback_timeout_secs: 600 });
  const { page, approval, check, close } = await openApproval(session);
  const shown = () => page.getByRole("article").getByRole("timer").innerText();
  assert.match(await shown(), /^(10:00|[0-9]:[0-5][0-9]) left$/);
  const first = await shown();
  await until("another second to be counted", async () => (await shown()) !== first);
  target.world.approvals.get(approval.id).expires_at = Math.floor(Date.now() / 1000) - 1;
  await until("the approval to expire", async () => {
    await target.call("loopback.pending");
    return target.world.approvals.get(approval.id).status === "expired";
  });
  await page.getByRole("option", { name: new RegExp(session.name) }).waitFor({ state: "detached" });
  check();
  await close();
});
