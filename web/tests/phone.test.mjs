// A phone: everything fits 360 pixels, and an approval can be answered with a thumb.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { startTarget } from "./target.mjs";

let target;
before(async () => (target = await startTarget()));
after(() => target.close());

const PHONE = { viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true, deviceScaleFactor: 2 };

test("an approval is opened and answered on a small screen", async () => {
  const session = await target.run("phone", [`tool Bash ${JSON.stringify({ command: "touch phone" })}`]);
  const [approval] = await target.pending(session.id);
  const { page, check, close } = await target.page("/queue", PHONE);
  await page.getByRole("option", { name: new RegExp(session.name) }).tap();
  await page.getByRole("button", { name: "All approvals" }).waitFor();
  const allow = page.getByRole("button", { name: /^Allow/ });
  const box = await allow.boundingBox();
  assert(box.y + box.height <= 740 && box.height >= 32, "the button is on the screen and large enough");
  await allow.tap();
  assert.equal((await target.decision(approval.id)).status, "allowed");
  check();
  await close();
});

test("no view is wider than the screen", async () => {
  const session = await target.run("wide-name-".repeat(8), [`say ${"unbreakable".repeat(60)}`, `tool Write ${JSON.stringify({ file_path: `deep/${"folder/".repeat(30)}file.txt`, content: "x".repeat(400) })}`]);
  const [approval] = await target.pending(session.id);
  for (const route of ["/queue", `/queue/${approval.id}`, "/sessions", `/sessions/${session.id}`, "/rules", "/history", "/spend"]) {
    const { page, check, close } = await target.page(route, PHONE);
    await page.locator(".connection.live").waitFor();
    await page.locator("h1:visible").first().waitFor();
    const widest = await page.evaluate(() => Math.max(document.documentElement.scrollWidth, document.querySelector("main").scrollWidth));
    assert(widest <= 360, `${route} is ${widest} pixels wide`);
    check();
    await close();
  }
  await target.call("agents.cancel", { session_id: session.id });
});
