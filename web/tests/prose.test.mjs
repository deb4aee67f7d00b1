// What agents and people say is set as Markdown, and never becomes markup of this page.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { startTarget } from "./target.mjs";

let target;
before(async () => (target = await startTarget()));
after(() => target.close());

const TEXT = `## What I found

1. a list with \`code\`
2. and **weight**
   - one inside

> a quote

| file | lines |
|------|------:|
| a.ts | 12 |

- [x] done
- [ ] to do

\`\`\`ts
const answer = "<b>42</b>"; // why
\`\`\`

See [the manual](https://example.org/manual), <https://example.org/plain>, [this](javascript:window.pwned=1) and ![a picture](https://example.org/p.png).

<img src=x onerror="window.pwned=1"> <u>under</u>
`;

test("Markdown is set whole, and its links show where they lead", async () => {
  const session = await target.run("markdown", ["say hello", "hang"]);
  const { page, check, close } = await target.page(`/sessions/${session.id}`);
  await page.locator(".row.content").getByText("hello").waitFor();
  await target.call("agents.send", { session_id: session.id, text: TEXT });
  const row = page.locator(".row.steered");
  await row.getByText("What I found").waitFor();
  assert.deepEqual(await row.locator("ol > li").evaluateAll((items) => items.length), 2);
  assert.equal(await row.locator("ol ul > li").innerText(), "one inside");
  assert.equal(await row.locator("blockquote").innerText(), "a quote");
  assert.deepEqual(await row.locator("table th, table td").allInnerTexts(), ["file", "lines", "a.ts", "12"]);
  assert.equal(await row.locator("pre").innerText(), 'const answer = "<b>42</b>"; // why');
  assert.equal(await row.locator("pre .keyword").innerText(), "const");
  assert.match(await row.innerText(), /☑\s*done[\s\S]*☐\s*to do/);

  const links = await row.locator("a").evaluateAll((nodes) => nodes.map((node) => [node.getAttribute("href"), node.rel]));
  assert.deepEqual(links, [["https://example.org/manual", "noopener noreferrer nofollow"], ["https://example.org/plain", "noopener noreferrer nofollow"]]);
  assert.match(await row.innerText(), /the manual \(https:\/\/example\.org\/manual\)/, "a link shows its target");
  assert.match(await row.innerText(), /\[this\]\(javascript:window\.pwned=1\)/, "what must not be followed stays as it was written");
  assert.match(await row.innerText(), /!\[a picture\]\(https:\/\/example\.org\/p\.png\)/, "no picture is loaded");
  assert.match(await row.innerText(), /<img src=x onerror="window\.pwned=1"> <u>under<\/u>/);
  assert.equal(await row.locator("img, u, script").count(), 0);
  assert.equal(await page.evaluate(() => window.pwned), undefined);
  check();
  await close();
  await target.call("agents.cancel", { session_id: session.id });
});

test("a page that is reloaded in the middle of a text shows what was said so far", async () => {
  // The second word comes after an hour: whatever is slow, the first one alone is seen.
  const session = await target.run("reloaded", ["slowly 3600000 first second"]);
  const { page, check, close } = await target.page(`/sessions/${session.id}`);
  const speech = page.locator(".speech");
  await speech.getByText("first").waitFor();
  await page.reload();
  await speech.getByText("first").waitFor();
  assert.equal(await page.locator(".row.content").count(), 0, "its event has not come yet");
  check();
  await close();
  await target.call("agents.cancel", { session_id: session.id });
});
