// The search over all that agents said and did.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { randomUUID } from "node:crypto";
import { chord, until } from "./browser.mjs";
import { startTarget } from "./target.mjs";

let target;
before(async () => (target = await startTarget()));
after(() => target.close());

const word = () => `w${randomUUID().slice(0, 8)}`;
const ended = (id) => until("it to end", async () => (await target.call("agents.get", { session_id: id })).session.status === "complete");

test("a word is found in every session, and a hit leads to its place", async () => {
  const needle = word();
  const long = await target.run("long", [`say the ${needle} stands far above`, ...Array.from({ length: 120 }, (_, n) => `say filler ${n}`)]);
  const other = await target.run("other", [`think about ${needle}`, "say nothing of it"]);
  await Promise.all([ended(long.id), ended(other.id)]);
  const { page, check, close } = await target.page("/sessions");
  await chord(page, "g", "f");
  await page.getByRole("searchbox", { name: "Words" }).fill(needle);
  const hits = page.getByRole("list", { name: "Hits" }).getByRole("listitem");
  await hits.filter({ hasText: long.name }).first().waitFor();
  await hits.filter({ hasText: other.name }).first().waitFor();
  assert((await hits.locator("mark").allInnerTexts()).every((text) => text === needle));
  assert.match(page.url(), new RegExp(`#/search/.*${needle}`), "the address keeps the search");

  // Only what was said; then only one session.
  await page.getByRole("combobox", { name: "Kind" }).selectOption("said");
  await until("the thought to go", async () => (await hits.filter({ hasText: other.name }).count()) === 0);
  await page.getByRole("combobox", { name: "Kind" }).selectOption("");
  await page.getByRole("combobox", { name: "Session" }).selectOption(other.id);
  await until("the others to go", async () => (await hits.filter({ hasText: long.name }).count()) === 0);
  await page.getByRole("combobox", { name: "Session" }).selectOption("");
  await hits.filter({ hasText: long.name }).first().waitFor();

  await page.reload();
  await hits.filter({ hasText: "far above" }).first().click();
  await page.getByRole("heading", { name: long.name }).waitFor();
  const place = page.locator(".row.content", { hasText: `the ${needle} stands` });
  await place.waitFor();
  await until("it to be on the screen", () => place.evaluate((node) => { const box = node.getBoundingClientRect(); return box.top >= 0 && box.bottom <= innerHeight; }));
  check();
  await close();
});

test("what cannot be looked for is said, and hostile words stay text", async () => {
  const needle = word();
  const session = await target.run("hostile", [`say <img src=x onerror=alert(1)> ${needle} \\u202e`]);
  await ended(session.id);
  const { page, check, close } = await target.page("/search");
  const words = page.getByRole("searchbox", { name: "Words" });
  await words.fill("->");
  await page.getByRole("alert").getByText(/no letter and no digit/).waitFor();
  await words.fill(needle);
  await page.locator("li", { hasText: "<img src=x" }).first().waitFor();
  assert.equal(await page.locator("li img").count(), 0);
  await words.fill(`${needle}nowhere`);
  await page.getByText("Nothing was found").waitFor();
  check();
  await close();
});
