// No page is longer than its window: what is long scrolls inside it.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { startTarget } from "./target.mjs";

let target;
before(async () => (target = await startTarget()));
after(() => target.close());

const beyond = (page) => page.evaluate(() => document.documentElement.scrollHeight - window.innerHeight);

test("no view is longer than the window", async () => {
  const session = await target.run("layout", ["say hello", 'tool Bash {"command":"touch layout"}']);
  const [approval] = await target.pending(session.id);
  for (const route of [`/queue/${approval.id}`, "/sessions", `/sessions/${session.id}`, "/rules", "/history", "/spend"]) {
    const { page, check, close } = await target.page(route);
    await page.locator(".connection.live").waitFor();
    await page.locator("h1:visible").first().waitFor();
    assert.equal(await beyond(page), 0, route);
    check();
    await close();
  }
  await target.call("agents.cancel", { session_id: session.id });
});

test("a long edit is read to its end without leaving the page", async () => {
  const lines = Array.from({ length: 120 }, (_, i) => `line ${i}`);
  const session = await target.run("long-edit", [`tool Write ${JSON.stringify({ file_path: "long.txt", content: `${lines.join("\n")}\n` })}`]);
  const [approval] = await target.pending(session.id);
  const { page, check, close } = await target.page(`/queue/${approval.id}`);
  await page.locator(".diff .text", { hasText: "line 119" }).scrollIntoViewIfNeeded();
  assert.equal(await beyond(page), 0);
  await page.mouse.move(800, 400);
  await page.mouse.wheel(0, 10_000);
  assert.equal(await page.evaluate(() => window.scrollY), 0, "the window stays where it is");
  const allow = await page.getByRole("button", { name: /^Allow/ }).boundingBox();
  assert(allow && allow.y + allow.height <= 800, "the answer stays in sight");
  check();
  await close();
  await target.call("agents.cancel", { session_id: session.id });
});
