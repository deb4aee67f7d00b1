// Every view, in both themes and on a phone, through axe's rules for WCAG 2.1 A and AA.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { startTarget } from "./target.mjs";

const axe = await readFile(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const DEVICES = {
  light: { colorScheme: "light" },
  dark: { colorScheme: "dark" },
  phone: { colorScheme: "light", viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true },
};

let target;
let session;
let approval;
before(async () => {
  target = await startTarget();
  const steps = ["think hm", "say **words** and `code`", "stderr a notice", `tool Write ${JSON.stringify({ file_path: "a.txt", content: "one\ntwo\n" })}`];
  session = await target.run("accessible", steps, { budget: { cost_usd: 1 } });
  [approval] = await target.pending(session.id);
  const decided = await target.run("decided", ['tool Bash {"command":"touch decided"}']);
  const [done] = await target.pending(decided.id);
  await target.call("loopback.respond", { approval_id: done.id, approve: false, message: "no" });
});
after(() => target.close());

const VIEWS = {
  "the queue": { route: () => `/queue/${approval.id}`, ready: "article" },
  "an edit": { route: () => `/queue/${approval.id}`, ready: "article", keys: ["e"] },
  "a remembered rule": { route: () => `/queue/${approval.id}`, ready: "article", keys: ["r"] },
  "the sessions": { route: () => "/sessions", ready: "[role=treeitem]" },
  "a timeline": { route: () => `/sessions/${session.id}`, ready: ".row.tool_use" },
  "a search": { route: () => "/search/query%3Dwords", ready: "mark" },
  "the rules": { route: () => "/rules", ready: "h1" },
  "the decisions": { route: () => "/history", ready: ".item" },
  "the spend": { route: () => "/spend", ready: "h2" },
  "the help": { route: () => "/rules", ready: "h1", keys: ["?"] },
  "a new session": { route: () => "/sessions", ready: "h1", keys: ["c"] },
};

for (const [name, view] of Object.entries(VIEWS)) {
  test(`${name} can be used without seeing it`, async () => {
    for (const [device, options] of Object.entries(DEVICES)) {
      const { page, check, close } = await target.page(view.route(), { ...options, reducedMotion: "reduce" });
      await page.locator(".connection.live").waitFor();
      await page.locator(view.ready).first().waitFor();
      for (const key of view.keys ?? []) await page.keyboard.press(key);
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() => window.axe.run(document, { runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"] }));
      const found = violations.map((violation) => `${violation.id}: ${violation.nodes.map((node) => `${node.target} ${node.any[0]?.message ?? ""}`).slice(0, 3).join(" | ")}`);
      assert.deepEqual(found, [], `${name}, ${device}`);
      check();
      await close();
    }
  });
}
