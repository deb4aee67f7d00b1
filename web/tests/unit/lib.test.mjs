// The small parts that know no page: sums of heights, differences, the stream's parser, text made visible, risk, patterns.

import assert from "node:assert/strict";
import { test } from "node:test";
import { load } from "./load.mjs";

/** Numbers that look random and are the same in every run. */
function* numbers(seed = 7) {
  for (let x = seed; ; ) {
    x = (x * 1_103_515_245 + 12_345) % 2_147_483_648;
    yield x / 2_147_483_648;
  }
}
const random = numbers();
const pick = (below) => Math.floor(random.next().value * below);

test("live text is shown once, whoever is ahead, its pieces or its event", async () => {
  const { LiveText } = await load("lib/live.ts");
  /** Plays pieces (`p`), whole texts (`w`), starts (`s`) and ends (`e`); returns what is shown after each. */
  const shown = (...steps) => {
    const live = new LiveText();
    return steps.map((step) => {
      const text = step.slice(2);
      ({ p: () => live.piece(text), w: () => live.whole(text), s: () => live.messageStarts(), e: () => live.ended() })[step[0]]();
      return live.text;
    });
  };
  assert.deepEqual(shown("s", "p:one ", "p:two", "w:one two"), ["", "one ", "one two", ""]);
  assert.deepEqual(shown("w:one two", "s", "p:one ", "p:two", "p:next"), ["", "", "", "", "next"], "the event was ahead");
  assert.deepEqual(shown("s", "p:one ", "w:one two", "p:twonext"), ["", "one ", "", "next"], "the event came in between");
  assert.deepEqual(shown("w:a", "w:b", "e", "s", "p:a", "s", "p:b"), ["", "", "", "", "", "", ""], "everything was ahead");
  assert.deepEqual(shown("s", "p:half", "s", "p:half a", "w:half a"), ["", "half", "", "half a", ""], "the message was begun anew");
  assert.deepEqual(shown("s", "p:one", "p: two", "w:one"), ["", "one", "one two", " two"], "the next block has begun");
  assert.deepEqual(shown("p:tail of something", "s", "p:new"), ["", "", "new"], "the start was missed");
  assert.deepEqual(shown("w:lost", "s", "p:other", "w:other"), ["", "", "other", ""], "pieces were missed");
});

test("heights add up like a plain list of numbers", async () => {
  const { Heights } = await load("lib/heights.ts");
  const heights = new Heights(4);
  const plain = [];
  for (let step = 0; step < 3_000; step++) {
    if (plain.length === 0 || pick(3) > 0) {
      const px = pick(4) === 0 ? 0 : pick(90);
      heights.push(px);
      plain.push(px);
    } else {
      const index = pick(plain.length);
      plain[index] = pick(5) === 0 ? 0 : pick(200);
      heights.set(index, plain[index]);
    }
  }
  let sum = 0;
  for (const [i, px] of plain.entries()) {
    assert.equal(heights.before(i), sum);
    if (px > 0) assert.equal(heights.at(sum + px / 2), i);
    sum += px;
  }
  assert.equal(heights.total(), sum);
  assert.equal(heights.at(sum + 1_000), plain.length - 1);
});

test("a difference leads from the old text to the new one", async () => {
  const { diffLines } = await load("lib/diff.ts");
  for (let round = 0; round < 200; round++) {
    const word = () => ["a", "b", "c", "d"][pick(4)];
    const before = Array.from({ length: pick(30) }, word);
    const after = before.flatMap((line) => (pick(4) === 0 ? [] : pick(4) === 0 ? [line, word()] : [line]));
    const lines = diffLines(before.join("\n"), after.join("\n"));
    const kept = (kind) => lines.filter((line) => line.kind !== kind).map((line) => line.text);
    assert.deepEqual(kept("add"), before);
    assert.deepEqual(kept("del"), after);
  }
});

test("a difference is small, numbered, and marks what changed within a line", async () => {
  const { diffLines } = await load("lib/diff.ts");
  assert.deepEqual(diffLines("one\nlet x = 1;\nend\n", "one\nlet x = 22;\nend\n"), [
    { kind: "same", text: "one", oldNo: 1, newNo: 1 },
    { kind: "del", text: "let x = 1;", oldNo: 2, newNo: null, mark: [8, 9] },
    { kind: "add", text: "let x = 22;", oldNo: null, newNo: 2, mark: [8, 10] },
    { kind: "same", text: "end", oldNo: 3, newNo: 3 },
  ]);
  assert.deepEqual(diffLines("", ""), []);
});

test("two long texts with nothing in common are shown as removed and added", async () => {
  const { diffLines } = await load("lib/diff.ts");
  const text = (word) => Array.from({ length: 4_000 }, (_, i) => `${word} ${i}`).join("\n");
  const lines = diffLines(text("old"), text("new"));
  assert.equal(lines.filter((line) => line.kind === "del").length, 4_000);
  assert.equal(lines.filter((line) => line.kind === "add").length, 4_000);
});

test("the stream parser gives the same messages however the text is cut", async () => {
  const { SseParser } = await load("lib/sse.ts");
  const text = ": beat\r\n\r\nid: 1\nevent: message\ndata: {\"a\":1}\n\nid: 2\rdata: one\rdata: two\r\rdata\n\nretry: 1000\n\nevent: error\ndata:no space\n\nid: 3\ndata: not ended";
  const read = (chunks) => {
    const found = [];
    const parser = new SseParser((message) => found.push(message));
    chunks.forEach((chunk) => parser.push(chunk));
    return found;
  };
  const expected = [
    { id: "1", event: "message", data: '{"a":1}' },
    { id: "2", event: "message", data: "one\ntwo" },
    { id: "2", event: "message", data: "" },
    { id: "2", event: "error", data: "no space" },
  ];
  assert.deepEqual(read([text]), expected);
  assert.deepEqual(read([...text]), expected);
  for (let round = 0; round < 50; round++) {
    const chunks = [];
    for (let at = 0; at < text.length; ) chunks.push(text.slice(at, (at += 1 + pick(9))));
    assert.deepEqual(read(chunks), expected);
  }
});

test("a transcript shows controls and drops colours; what is approved drops nothing", async () => {
  const { exactText, firstLine, safeCut, transcriptText } = await load("lib/text.ts");
  assert.equal(transcriptText("\u001b[1;31mred\u001b[0m\r\nnext\u0007"), "red\nnext␇");
  assert.equal(exactText("\u001b[31mred\r\n"), "␛[31mred␍\n");
  assert.equal(exactText("a\u202eb\u200bc\u0085d\tz"), "a⟨U+202E⟩b⟨U+200B⟩c⟨U+0085⟩d\tz");
  assert.equal(exactText("tag \u{e0041}"), "tag ⟨U+E0041⟩");
  assert.equal(firstLine("\n  first\nsecond"), "first");
  assert.equal(safeCut("a😀b", 2), 1);
});

test("a call without a risk is neither harmless nor alarming", async () => {
  const { riskOf } = await load("lib/risk.ts");
  assert.equal(riskOf({}).level, "medium");
  assert.equal(riskOf({ risk: { level: "critical", score: 95, reasons: ["deletes"] } }).level, "critical");
});

test("a call is shown by its target, whatever its agent calls the tool", async () => {
  const { fileChanges, shownFields, summarize } = await load("lib/tools.ts");
  const { targetOf } = await load("lib/targets.ts");
  const shell = { kind: "shell", command: "make all", cwd: "/p" };
  assert.equal(summarize("execute", { argv: ["sh"] }, shell), "make all");
  const input = { changes: { "a/b": { diff: "--- a\n+++ b\n@@ -1,2 +1,2 @@\n one\n-two\n+three" } }, reason: "why" };
  const patch = { kind: "write", changes: [{ path: "/p/x", edit: "diff", diff: "/changes/a~1b/diff" }, { path: "/p/y", edit: "delete" }] };
  assert.equal(summarize("apply_patch", input, patch), "/p/x, /p/y");
  assert.deepEqual(fileChanges(input, patch), [
    { path: "/p/x", before: "@@ -1,2 +1,2 @@\none\ntwo", after: "@@ -1,2 +1,2 @@\none\nthree", note: "edit 1 of 2" },
    { path: "/p/y", before: "", after: "", note: "deleted, edit 2 of 2" },
  ]);
  assert.deepEqual([...shownFields(input, patch)], ["changes"]);

  // Events of the past have no target: they are read as Claude Code names its tools.
  const edit = { file_path: "/p/a", old_string: "one", new_string: "two", replace_all: true, more: 1 };
  const read = targetOf("Edit", edit);
  assert.deepEqual(fileChanges(edit, read), [{ path: "/p/a", before: "one", after: "two", note: "every occurrence" }]);
  assert.deepEqual([...shownFields(edit, read)], ["file_path", "old_string", "new_string", "replace_all"]);
  const odd = { file_path: "/p/a", old_string: { hidden: "text" }, new_string: "two" };
  assert(!shownFields(odd, targetOf("Edit", odd)).has("old_string"), "what is no text is listed");
});

test("the guess at what a rule covers errs on the side of no", async () => {
  const { inScope, mayCover } = await load("lib/patterns.ts");
  const call = (tool_name, input) => ({ tool_name, input });
  const bash = (command) => call("Bash", { command });
  for (const [pattern, approval, covered] of [
    ["Bash", bash("anything"), true],
    ["Bash(git diff:*)", bash("git diff --stat"), true],
    ["Bash(git diff:*)", bash("git diff && git diff a"), true],
    ["Bash(git diff:*)", bash("git diff; rm -rf x"), false],
    ["Bash(git diff:*)", bash("git difftool"), false],
    ["Bash(git diff:*)", bash("git diff $(rm x)"), false],
    ["Bash(ls)", bash("ls"), true],
    ["Bash(ls)", bash("ls -la"), false],
    ["Write(/p/**)", call("Write", { file_path: "/p/a/b.ts" }), true],
    ["Write(/p/*)", call("Write", { file_path: "/p/a/b.ts" }), false],
    ["Write(/p/**)", call("Write", { file_path: "/p/../etc/x" }), false],
    ["WebFetch(domain:a.org)", call("WebFetch", { url: "https://a.org/x" }), true],
    ["WebFetch(domain:a.org)", call("WebFetch", { url: "https://a.org.evil.com/" }), false],
    ["mcp__github__*", call("mcp__github__search", {}), true],
    ["Bash(", bash("x"), false],
  ]) assert.equal(mayCover(pattern, approval), covered, `${pattern} on ${JSON.stringify(approval.input)}`);
  const ancestors = (id) => ({ c: ["b", "a"], b: ["a"] })[id] ?? [];
  assert.deepEqual(["all", { session: "c" }, { subtree: "a" }, { subtree: "c" }, { session: "a" }].map((scope) => inScope(scope, "c", ancestors)), [true, true, true, true, false]);
});

test("the parts of a tool call find each other in any order", async () => {
  const { ToolCalls } = await load("lib/toolcalls.ts");
  const events = [
    { type: "tool_use", tool_name: "Bash", tool_use_id: "t", input: {} },
    { type: "awaiting_approval", approval_id: "a", tool_name: "Bash", tool_use_id: "t", input: {} },
    { type: "approval_resolved", approval_id: "a", approved: true },
    { type: "tool_result", tool_use_id: "t", output: "x" },
  ];
  const orders = (list) => (list.length < 2 ? [list] : list.flatMap((each, i) => orders([...list.slice(0, i), ...list.slice(i + 1)]).map((rest) => [each, ...rest])));
  for (const order of orders([0, 1, 2, 3])) {
    const calls = new ToolCalls();
    const touched = new Set(order.flatMap((row) => calls.add(events[row], row, row)));
    assert.deepEqual(calls.get("t"), { use: events[0], asked: events[1], resolved: events[2], result: events[3], resultAt: 3 });
    assert.deepEqual([...touched].sort(), [0, 1, 2, 3]);
    assert.deepEqual(events.map((event) => calls.isTold(event)), [false, true, true, true]);
  }
});

test("prose is cut into blocks, and what looks like markup stays text", async () => {
  const { proseBlocks } = await load("lib/prose.ts");
  assert.deepEqual(proseBlocks("# Title\nuse `x` and **b**\n```ts\n<b>1</b>\n```\nend"), [
    { kind: "heading", spans: [{ kind: "text", text: "Title" }] },
    { kind: "text", spans: [{ kind: "text", text: "use " }, { kind: "code", text: "x" }, { kind: "text", text: " and " }, { kind: "strong", text: "b" }] },
    { kind: "code", text: "<b>1</b>", language: "ts" },
    { kind: "text", spans: [{ kind: "text", text: "end" }] },
  ]);
});
