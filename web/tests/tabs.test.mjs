// Many tabs of one browser: they share one connection and one sign-in.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { openPage, until } from "./browser.mjs";
import { standInOnly, startTarget } from "./target.mjs";

let target;
before(async () => (target = await startTarget({ codes: new Set(["tabs"]) })));
after(() => target.close());

/** A tab in the window of `first`, which nobody signs in. */
const tabBeside = (first, route) => openPage(target.browser, { url: target.url, token: null, route, beside: first });

test("seven tabs work as one does", async () => {
  const quiet = await target.run("quiet", ["say hello", "hang"]);
  const before = target.world?.streams.length;
  const first = await target.page(`/sessions/${quiet.id}`);
  const tabs = [first];
  for (let i = 1; i < 7; i++) tabs.push(await tabBeside(first, i % 2 ? "/queue" : `/sessions/${quiet.id}`));
  for (const { page } of tabs) await page.locator(".connection.live").waitFor();
  if (target.world) assert.equal(target.world.streams.length - before, 1, "all tabs hear one stream");

  const asks = await target.run("asks-seven", ['tool Bash {"command":"touch seven"}']);
  const [approval] = await target.pending(asks.id);
  for (const { page } of tabs) await until("the tab to count it", async () => /^\(\d+\) Plexus$/.test(await page.title()));
  const last = tabs[5];
  await last.page.getByRole("option", { name: new RegExp(asks.name) }).click();
  await last.page.getByRole("button", { name: /^Allow/ }).click();
  assert.equal((await target.decision(approval.id)).status, "allowed");
  await tabs[1].page.getByRole("option", { name: new RegExp(asks.name) }).waitFor({ state: "detached" });

  // The stream is nobody's own: it goes on when the tab that opened it is closed.
  await first.page.close();
  const later = await target.run("asks-later", ['tool Bash {"command":"touch later"}']);
  await tabs[1].page.getByRole("option", { name: new RegExp(later.name) }).waitFor();
  for (const tab of tabs.slice(1)) tab.check();
  await first.close();
  for (const session of [quiet, later]) await target.call("agents.cancel", { session_id: session.id });
});

test("a sign-in holds for the other tabs, and so does its end", async () => {
  const first = await openPage(target.browser, { url: target.url, token: null });
  const second = await tabBeside(first, "/rules");
  await second.page.getByLabel(/paste the token/).waitFor();
  await first.page.getByLabel(/paste the token/).fill(target.token);
  await first.page.getByRole("button", { name: "Sign in" }).click();
  await second.page.locator(".connection.live").waitFor();
  const third = await tabBeside(first, "/history");
  await third.page.locator(".connection.live").waitFor();
  assert.equal(await third.page.evaluate(() => document.cookie + localStorage.length), "0", "neither a cookie nor a store of all tabs");
  await third.page.getByRole("button", { name: "Sign out" }).click();
  for (const { page } of [first, second, third]) await page.getByLabel(/paste the token/).waitFor();
  for (const tab of [first, second, third]) tab.check();
  await first.close();
});

test("the newest sign-in replaces an older one in all tabs", standInOnly, async () => {
  const first = await openPage(target.browser, { url: target.url, token: "no longer good" });
  await first.page.getByText("Your sign-in has ended").waitFor();
  const second = await tabBeside(first, "code=tabs");
  for (const { page } of [first, second]) await page.locator(".connection.live").waitFor();
  await first.close();
});
