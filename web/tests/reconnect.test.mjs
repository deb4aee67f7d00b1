// The server goes away and comes back: the page says so, comes back by itself, and shows every event once.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { until } from "./browser.mjs";
import { ownServerOnly, standInOnly, startTarget } from "./target.mjs";

let target;
before(async () => (target = await startTarget()));
after(() => target.close());

test("an agent that works on while its server is killed is shown whole", ownServerOnly, async () => {
  const steps = Array.from({ length: 24 }, (_, i) => [`say step ${i}`, "sleep 150"]).flat();
  const session = await target.run("killed", steps);
  const { page, check, close } = await target.page(`/sessions/${session.id}`);
  await page.locator(".row.content").getByText("step 2", { exact: true }).waitFor();
  const bringBack = await target.takeAway();
  await page.getByText("Offline, trying again").waitFor();
  await bringBack();
  await page.locator(".connection.live").waitFor();
  await page.locator(".row.complete").waitFor();
  await until("all steps", async () => (await page.locator(".row.content").count()) >= 24);
  assert.deepEqual(await page.locator(".row.content .prose").allInnerTexts(), Array.from({ length: 24 }, (_, i) => `step ${i}`));
  check();
  await close();
});

test("nothing is lost or repeated over a restart", standInOnly, async () => {
  const session = await target.run("restart", ["say number 0", "hang"]);
  const live = target.world.sessions.get(session.id);
  const say = (text) => target.world.emit(live, live.chats.at(-1), { type: "content", text });
  const { page, check, close } = await target.page(`/sessions/${session.id}`);
  await page.getByText("number 0", { exact: true }).waitFor();
  say("number 1");
  await page.getByText("number 1", { exact: true }).waitFor();

  const opened = target.world.streams.length;
  for (let round = 0; round < 3; round++) {
    const bringBack = await target.takeAway();
    await page.getByText("Offline, trying again").waitFor();
    // The agent works on while no server runs.
    for (let i = 0; i < 5; i++) say(`number ${2 + round * 6 + i}`);
    await bringBack();
    say(`number ${2 + round * 6 + 5}`);
    await page.locator(".connection.live").waitFor();
    await page.getByText(`number ${2 + round * 6 + 5}`, { exact: true }).waitFor();
  }
  const cursors = target.world.streams.slice(opened);
  assert(cursors.length > 0 && cursors.every((cursor) => Number(cursor) > 0), `the stream goes on from its cursor: ${cursors}`);
  const expected = Array.from({ length: 20 }, (_, i) => `number ${i}`);
  await until("all twenty lines", async () => (await page.locator(".row.content .prose").count()) >= 20);
  assert.deepEqual(await page.locator(".row.content .prose").allInnerTexts(), expected);
  check();
  await close();
});

test("an approval asked while the server was away is in the queue afterwards", standInOnly, async () => {
  const { page, check, close } = await target.page("/queue");
  await page.locator(".connection.live").waitFor();
  const bringBack = await target.takeAway();
  await page.getByText("Offline, trying again").waitFor();
  const id = target.world.createSession({ name: "asked-in-the-dark", working_dir: "/" });
  const dark = target.world.sessions.get(id);
  void target.world.ask(dark, target.world.startChat(dark, "go"), "Bash", "t1", { command: "touch dark" });
  await bringBack();
  await page.getByRole("option", { name: /asked-in-the-dark/ }).waitFor();
  check();
  await close();
});

test("a stream that repeats and skips changes nothing", standInOnly, async () => {
  const session = await target.run("noisy", ["say line 0", "hang"]);
  const live = target.world.sessions.get(session.id);
  const chat = live.chats.at(-1);
  const { page, check, close } = await target.page(`/sessions/${session.id}`);
  await page.getByText("line 0", { exact: true }).waitFor();
  // Three events are committed without the stream telling of them, the fourth is told twice.
  for (let i = 1; i <= 4; i++) {
    const event = { type: "content", text: `line ${i}` };
    chat.events.push({ seq: chat.events.length, event, timestamp: Date.now() });
  }
  const told = { session_id: session.id, chat: chat.chat, ...chat.events.at(-1) };
  target.world.log.push(told, told);
  for (const listener of target.world.listeners) listener();
  await until("all five lines", async () => (await page.locator(".row.content").count()) === 5);
  assert.deepEqual(await page.locator(".row.content .prose").allInnerTexts(), ["line 0", "line 1", "line 2", "line 3", "line 4"]);
  check();
  await close();
});
