// The list of sessions, and what can be done with one.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { until } from "./browser.mjs";
import { startTarget } from "./target.mjs";

let target;
before(async () => (target = await startTarget()));
after(() => target.close());

const statusOf = async (id) => (await target.call("agents.get", { session_id: id })).session.status;

test("what waits stands on top, and each session tells its last sentence", async () => {
  const waits = await target.run("waits", ["say I looked around. Now I **need** a file.", 'tool Bash {"command":"touch waits"}']);
  await target.pending(waits.id);
  const later = await target.run("later", ["say Nothing is left to do."]);
  await until("the later one to end", async () => (await statusOf(later.id)) === "complete");
  const { page, check, close } = await target.page("/sessions");
  const rows = page.getByRole("treeitem");
  await rows.filter({ hasText: "Nothing is left to do." }).waitFor();
  await rows.filter({ hasText: waits.name }).getByText("Now I need a file.").waitFor();
  const names = await rows.allInnerTexts();
  const place = (name) => names.findIndex((text) => text.includes(name));
  assert(place(waits.name) < place(later.name), "the older one waits, so it stands first");

  // A sentence that is said while the page is open takes the place of the last one.
  await target.call("agents.chat_async", { session_id: later.id, prompt: "sim:\nsay One more thing." });
  await rows.filter({ hasText: later.name }).getByText("One more thing.").waitFor();
  check();
  await close();
  await target.call("agents.cancel", { session_id: waits.id });
});

test("a session is forked and deleted from its page", async () => {
  const session = await target.run("forked", ["say the beginning"]);
  await until("it to end", async () => (await statusOf(session.id)) === "complete");
  const { page, check, close } = await target.page(`/sessions/${session.id}`);
  await page.locator(".row.complete").waitFor();
  await page.getByRole("button", { name: "More…" }).click();
  const dialog = page.getByRole("dialog", { name: session.name });
  const name = `${session.name}-other`;
  await dialog.getByLabel(/Fork/).fill(name);
  await dialog.getByRole("button", { name: "Fork" }).click();
  await page.getByRole("heading", { name }).waitFor();
  const { sessions } = await target.call("agents.list", { limit: 500 });
  assert(sessions.some((each) => each.name === name));

  await page.getByRole("button", { name: "More…" }).click();
  const other = page.getByRole("dialog", { name });
  await other.getByRole("button", { name: "Delete" }).click();
  assert((await target.call("agents.list", { limit: 500 })).sessions.some((each) => each.name === name), "the first press only asks");
  await other.getByRole("button", { name: "Really delete?" }).click();
  await page.getByRole("heading", { name: "Sessions" }).waitFor();
  await until("it to be gone", async () => !(await target.call("agents.list", { limit: 500 })).sessions.some((each) => each.name === name));
  await page.getByRole("treeitem", { name: session.name }).waitFor();
  assert.equal(await page.getByRole("treeitem", { name }).count(), 0);
  check();
  await close();
});

test("a chat that was cancelled can be tried again", async () => {
  const session = await target.run("again", ["say I try", "hang"]);
  const { page, check, close } = await target.page(`/sessions/${session.id}`);
  await page.locator(".row.content").getByText("I try").waitFor();
  await target.call("agents.cancel", { session_id: session.id });
  await page.getByRole("button", { name: "Try again" }).click();
  await page.getByText("Chat 1").waitFor();
  await until("it to be said again", async () => (await page.locator(".row.content").getByText("I try").count()) === 2);
  check();
  await close();
  await target.call("agents.cancel", { session_id: session.id });
});

test("a session is renamed from its page, and a name that is taken is refused", async () => {
  const [session, other] = [await target.run("named", ["say hello"]), await target.run("taken", ["say hello"])];
  for (const { id } of [session, other]) await until("it to end", async () => (await statusOf(id)) === "complete");
  const { page, check, close } = await target.page(`/sessions/${session.id}`);
  await page.locator(".row.complete").waitFor();
  await page.getByRole("button", { name: "More…" }).click();
  const dialog = page.getByRole("dialog", { name: session.name });
  assert.equal(await dialog.getByRole("button", { name: "Rename" }).isDisabled(), true, "the name is its own");
  await dialog.getByLabel("Name", { exact: true }).fill(other.name);
  await dialog.getByRole("button", { name: "Rename" }).click();
  await page.getByText(/taken|has this name|already|another session/).first().waitFor();
  const name = `${session.name}-better`;
  await dialog.getByLabel("Name", { exact: true }).fill(name);
  await dialog.getByRole("button", { name: "Rename" }).click();
  await page.getByRole("heading", { name }).waitFor();
  assert.equal((await target.call("agents.get", { session_id: session.id })).session.name, name);
  check();
  await close();
});
