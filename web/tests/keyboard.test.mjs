// Everything by keyboard: from sign-in to a decision without a pointer.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { chord, until } from "./browser.mjs";
import { startTarget } from "./target.mjs";

let target;
before(async () => (target = await startTarget()));
after(() => target.close());

const ask = (command) => `tool Bash ${JSON.stringify({ command })}`;

test("move, allow, deny, edit and remember with keys alone", async () => {
  const byName = new Map();
  for (const name of ["key-a", "key-b", "key-c", "key-d"]) {
    const session = await target.run(name, [ask(`touch ${name}`)]);
    byName.set(name, (await target.pending(session.id))[0]);
  }
  const { page, check, close } = await target.page("/queue");
  const press = (...keys) => keys.reduce((before, key) => before.then(() => page.keyboard.press(key)), Promise.resolve());
  const title = () => page.locator("article .path").innerText();
  await page.getByRole("article").waitFor();

  await press("/");
  await page.keyboard.type("touch key-");
  await press("Escape");
  await until("four rows", async () => (await page.getByRole("option").count()) === 4);
  await press("j", "k", "k");
  await until("the first is selected", async () => (await page.getByRole("option").first().getAttribute("aria-selected")) === "true");
  // Asked within one second, they have no order that a test could foresee: the page tells it.
  const order = (await page.getByRole("option").allInnerTexts()).map((text) => /key-[a-d]/.exec(text)[0]);
  const approvals = order.map((name) => byName.get(name));
  assert.match(await title(), new RegExp(order[0]));

  await press("y");
  assert.equal((await target.decision(approvals[0].id)).status, "allowed");
  await until("the next comes up", async () => (await title()).includes(order[1]));
  await until("answers are heard again", async () => await page.getByRole("button", { name: /^Allow/ }).isEnabled());

  await press("n");
  await page.getByLabel(/Why not/).waitFor();
  await press("Escape");
  await page.getByLabel(/Why not/).waitFor({ state: "detached" });
  await press("n");
  await page.keyboard.type("no");
  await press("Enter");
  assert.equal((await target.decision(approvals[1].id)).message, "no");
  await until("the next comes up", async () => (await title()).includes(order[2]));
  await until("answers are heard again", async () => await page.getByRole("button", { name: /^Allow/ }).isEnabled());

  await press("e", "ControlOrMeta+A");
  await page.keyboard.type("touch edited-by-key");
  await press("ControlOrMeta+Enter");
  assert.deepEqual((await target.decision(approvals[2].id)).updated_input, { command: "touch edited-by-key" });
  await until("the next comes up", async () => (await title()).includes(order[3]));
  await until("answers are heard again", async () => await page.getByRole("button", { name: /^Allow/ }).isEnabled());

  await press("r");
  await page.getByText("Remember for calls like").waitFor();
  await press("Escape");
  await page.getByText("Remember for calls like").waitFor({ state: "detached" });
  await press("r");
  const choices = page.getByRole("radio");
  await page.keyboard.press("ArrowDown");
  assert(await choices.nth(1).isChecked(), "arrows choose among the patterns");
  await page.keyboard.press("ArrowUp");
  assert(await choices.nth(0).isChecked());
  await press("y");
  assert.equal((await target.decision(approvals[3].id)).status, "allowed");
  const { rules } = await target.call("loopback.rules");
  const rule = rules.find((each) => each.pattern.includes(`touch ${order[3]}`));
  assert(rule, "the suggested rule was remembered");
  await target.call("loopback.rule_remove", { rule_id: rule.id });
  check();
  await close();
});

test("a key that follows too fast does not answer the next approval", async () => {
  const first = await target.run("fast-a", [ask("touch fast")]);
  const second = await target.run("fast-b", [ask("touch fast")]);
  const [a] = await target.pending(first.id);
  const [b] = await target.pending(second.id);
  const { page, check, close } = await target.page(`/queue/${a.id}`);
  await page.getByLabel("Filter approvals").fill("fast-");
  await page.keyboard.press("Escape");
  await page.locator("article .path").getByText(first.name).waitFor();
  await until("answers are heard", async () => await page.getByRole("button", { name: /^Allow/ }).isEnabled());
  const answers = [];
  // Calls of one moment are sent as one list.
  page.on("request", (request) => {
    const calls = request.postData()?.includes("loopback.respond") ? [request.postDataJSON()].flat() : [];
    answers.push(...calls.filter((call) => call.method === "loopback.respond").map((call) => call.params.approval_id));
  });
  // The page itself presses the second key as soon as the next approval is shown: from here it could come too late.
  await page.evaluate((next) => {
    window.pressed = false;
    const observer = new MutationObserver(() => {
      if (!document.querySelector("article .path")?.textContent.includes(next)) return;
      observer.disconnect();
      (document.activeElement ?? document.body).dispatchEvent(new KeyboardEvent("keydown", { key: "y", bubbles: true, cancelable: true }));
      window.pressed = true;
    });
    observer.observe(document.body, { childList: true, subtree: true, characterData: true });
  }, second.name);
  await page.keyboard.press("y");
  await until("the second key", () => page.evaluate(() => window.pressed));
  assert.equal((await target.decision(a.id)).status, "allowed");
  await page.locator("article .path").getByText(second.name).waitFor();
  await until("answers are heard again", async () => await page.getByRole("button", { name: /^Allow/ }).isEnabled());
  assert.deepEqual(answers, [a.id]);
  assert.deepEqual((await target.pending(second.id)).map((approval) => approval.id), [b.id]);
  check();
  await close();
  await target.call("agents.cancel", { session_id: second.id });
});

test("the views, the tree, the timeline and the help are reached with keys", async () => {
  const session = await target.run("walk", ["say walking", ask("touch walk")]);
  await target.pending(session.id);
  const { page, check, close } = await target.page("/queue");
  const press = async (...keys) => {
    for (const key of keys) await page.keyboard.press(key);
  };
  await page.getByRole("article").waitFor();
  await chord(page, "g", "r");
  await page.getByRole("heading", { name: "Rules" }).waitFor();
  await chord(page, "g", "h");
  await page.getByRole("heading", { name: "Decisions" }).waitFor();
  await chord(page, "g", "b");
  await page.getByRole("heading", { name: "Spend" }).waitFor();
  await chord(page, "g", "s");
  await page.getByRole("treeitem", { name: session.name }).waitFor();
  await press("/");
  await page.keyboard.type(session.name);
  await press("Escape", "j", "Enter");
  await page.getByRole("heading", { name: session.name }).waitFor();
  await page.locator(".row.content").getByText("walking").waitFor();
  await press("k", "Enter");
  await until("the tool call to unfold", async () => (await page.locator(".tool.open").count()) === 1);
  await press("m");
  assert.equal(await page.evaluate(() => document.activeElement?.tagName), "TEXTAREA");
  await press("Escape", "a");
  await page.getByRole("article").waitFor();
  await press("?");
  const help = page.getByRole("dialog", { name: "Keyboard" });
  await help.getByText("Deny, with a reason").waitFor();
  await press("Escape");
  await help.waitFor({ state: "detached" });
  check();
  await close();
  await target.call("agents.cancel", { session_id: session.id });
});

test("the focus is always somewhere visible", async () => {
  const { page, check, close } = await target.page("/rules");
  await page.getByRole("heading", { name: "Rules" }).waitFor();
  for (let i = 0; i < 14; i++) {
    await page.keyboard.press("Tab");
    const ring = await page.evaluate(() => {
      const style = getComputedStyle(document.activeElement);
      return document.activeElement === document.body || (style.outlineStyle !== "none" && parseFloat(style.outlineWidth) >= 2);
    });
    assert(ring, `stop ${i + 1} of the Tab key shows no focus`);
  }
  check();
  await close();
});
