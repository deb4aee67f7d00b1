// A transcript that attacks its reader is text, and slows nothing.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { until } from "./browser.mjs";
import { startTarget } from "./target.mjs";

let target;
before(async () => (target = await startTarget()));
after(() => target.close());

const SCRIPT = '<script>window.pwned = 1</script><img src=x onerror="window.pwned = 1">';

test("script tags and terminal escapes are shown as text", async () => {
  const session = await target.run("hostile", [`say ${SCRIPT} **<svg onload=window.pwned=1>**`, "say \u001b]0;owned\u0007\u001b[2J\u001b[31mred\u001b[0m \u202egnp.exe", `think ${SCRIPT}`, `tool Bash ${JSON.stringify({ command: `touch '${SCRIPT}'; true \u202e# harmless` })}`]);
  const [approval] = await target.pending(session.id);
  const { page, check, close } = await target.page(`/sessions/${session.id}`);
  await page.getByText(SCRIPT, { exact: false }).first().waitFor();
  const escaped = await page.locator(".row.content").nth(1).innerText();
  assert.match(escaped, /␛\]0;owned␇␛\[2Jred ⟨U\+202E⟩gnp\.exe/);

  await page.goto(`${target.url}/#/queue/${approval.id}`);
  const article = page.getByRole("article");
  await article.waitFor();
  assert.match(await article.innerText(), /⟨U\+202E⟩# harmless/, "what is approved hides nothing");
  assert.match(await article.innerText(), /invisible or direction-changing/);
  assert.equal(await page.evaluate(() => window.pwned), undefined);
  assert.equal(await page.locator("main script, main img, main svg[onload], main iframe").count(), 0);
  check();
  await close();
  await target.call("agents.cancel", { session_id: session.id });
});

test("five megabytes in one line are folded and open in steps", async (t) => {
  const session = await target.run("huge", ["burst 1 5242880", "say after the flood"]);
  await until("the flood to be stored", async () => (await target.call("agents.get", { session_id: session.id })).session.status === "complete", 60_000);
  const { page, check, close } = await target.page("/sessions");
  await page.getByRole("treeitem", { name: session.name }).waitFor();
  const opened = await page.evaluate(async (id) => {
    const start = performance.now();
    location.hash = `/sessions/${id}`;
    while (!document.querySelector(".row.complete")) await new Promise((resolve) => requestAnimationFrame(resolve));
    return performance.now() - start;
  }, session.id);
  t.diagnostic(`a timeline with 5 MB of text in one event opened in ${opened.toFixed(0)} ms`);
  const drawn = () => page.locator(".viewport").evaluate((node) => node.textContent.length);
  assert((await drawn()) < 20_000, "only the head of the text is drawn");
  await page.getByRole("button", { name: /^Show .* more$/ }).click();
  await until("another step of it", async () => (await drawn()) > 30_000);
  assert((await drawn()) < 80_000, "a step is bounded");
  check();
  await close();
});
