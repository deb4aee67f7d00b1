// The small parts that know no page: sums of heights, differences, the stream's parser, text made visible, patterns.

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { readTarget } from "../mock/targets.mjs";
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

test("a call is shown by its target, whatever its agent calls the tool", async () => {
  const { shownFields, summarize } = await load("lib/tools.ts");
  const { fileChanges } = await load("lib/changes.ts");
  const shell = { kind: "shell", command: "make all", cwd: "/p" };
  assert.equal(summarize({ argv: ["sh"] }, shell), "make all");
  const input = { changes: { "a/b": { diff: "--- a\n+++ b\n@@ -1,2 +1,2 @@\n one\n-two\n+three" } }, reason: "why" };
  const patch = { kind: "write", changes: [{ path: "/p/x", edit: "diff", diff: "/changes/a~1b/diff" }, { path: "/p/y", edit: "delete" }] };
  assert.equal(summarize(input, patch), "/p/x, /p/y");
  assert.deepEqual(fileChanges(input, patch), [
    { path: "/p/x", before: "one\ntwo", after: "one\nthree", from: [1, 1], note: "" },
    { path: "/p/y", before: "", after: "", note: "deletes the file" },
  ]);
  assert.deepEqual([...shownFields(input, patch)], ["changes"]);

  const edit = { file_path: "/p/a", old_string: "one", new_string: "two", replace_all: true, more: 1 };
  const read = readTarget("Edit", edit);
  assert.deepEqual(fileChanges(edit, read), [{ path: "/p/a", before: "one", after: "two", note: "every occurrence" }]);
  assert.deepEqual([...shownFields(edit, read)], ["file_path", "old_string", "new_string", "replace_all"]);
  const odd = { file_path: "/p/a", old_string: { hidden: "text" }, new_string: "two" };
  assert(!shownFields(odd, readTarget("Edit", odd)).has("old_string"), "what is no text is listed");
});

test("a call is told by one part of its input only where its target says what that part is", async () => {
  const { summarize } = await load("lib/tools.ts");
  const input = { command: "ping", query: "DROP TABLE x" };
  for (const target of [{ kind: "mcp", server: "db", tool: "run" }, { kind: "other" }, { kind: "think" }, { kind: "agent" }]) {
    assert.equal(summarize(input, target), JSON.stringify(input), target.kind);
  }
  assert.equal(summarize(input, { kind: "fetch", url: null }), "DROP TABLE x");
  assert.equal(summarize({ description: "look", prompt: "long" }, { kind: "agent" }), "look");
  const search = { path: "/p", pattern: "fn main" };
  assert.equal(summarize(search, { kind: "read", path: "/p", tree: true }), "fn main");
  assert.equal(summarize({ path: "/p" }, { kind: "read", path: "/p", tree: true }), "/p");
  assert.equal(summarize(search, { kind: "read", path: "/p", tree: false }), "/p");
});

test("the description of a request is told beside its call only where the call does not show it", async () => {
  const { descriptionOf } = await load("lib/tools.ts");
  const shell = { kind: "shell", command: "make all" };
  const input = { command: "make all", description: "Build it" };
  assert.equal(descriptionOf({ description: "Build it", input, target: shell }), null);
  assert.equal(descriptionOf({ description: "Build something else", input, target: shell }), "Build something else");
  assert.equal(descriptionOf({ description: "Build it", input: { command: "make all" }, target: shell }), "Build it");
  assert.equal(descriptionOf({ description: "Build it", input, target: { kind: "other" } }), "Build it");
  assert.equal(descriptionOf({ description: null, input, target: shell }), null);
});

test("a call of an older server, which says no target, is shown by its input", async () => {
  const { shownFields, summarize } = await load("lib/tools.ts");
  const { targetOf } = await load("lib/targets.ts");
  const edit = { file_path: "/p/a", old_string: "one", new_string: "two" };
  assert.equal(summarize(edit), "/p/a");
  assert.equal(summarize({ argv: ["ls"] }, null), '{"argv":["ls"]}');
  assert.deepEqual([...shownFields(edit, targetOf(undefined))], [], "every field is listed");
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

test("Markdown becomes blocks, and what looks like markup stays text", async () => {
  const { blocksOf, followable } = await load("lib/markdown.ts");
  const kinds = (text) => blocksOf(text).filter((block) => block.type !== "space").map((block) => block.type);
  assert.deepEqual(kinds("# Title\nuse `x` and **b**\n\n- one\n- two\n\n> quoted\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```ts\n<b>1</b>\n```\nend"), ["heading", "paragraph", "list", "blockquote", "table", "code", "paragraph"]);
  const [html] = blocksOf("<script>alert(1)</script>");
  assert.equal(html.type, "html");
  assert.equal(html.raw, "<script>alert(1)</script>", "it is kept as it was written");
  assert.equal(blocksOf(`${">".repeat(5_000)} deep`), null, "what is nested without end is shown plain");
  assert.equal(blocksOf(`${"- ".repeat(5_000)}deep`), null);
  for (const href of ["https://example.org/a?b", "http://x", "mailto:a@b.example"]) assert.equal(followable(href), href);
  for (const href of ["javascript:alert(1)", "data:text/html,x", "file:///etc/passwd", "/relative", "vbscript:x", " javascript:alert(1)"]) assert.equal(followable(href), null, href);
});

test("the last sentence is what a list says of a session", async () => {
  const { lastSentence } = await load("lib/markdown.ts");
  assert.equal(lastSentence("I look first. Then **I change** `a.ts`."), "Then I change a.ts.");
  assert.equal(lastSentence("Done:\n\n- one\n- two of them"), "two of them");
  assert.equal(lastSentence("See v1.2 of it\n\n```ts\nlet x;\n```\n"), "See v1.2 of it");
  assert.equal(lastSentence(""), "");
});

test("code is cut into pieces that join to what it was", async () => {
  const { highlight } = await load("lib/highlight.ts");
  const code = 'const x = "a"; // why\nfn <b>() {}';
  for (const language of ["ts", "rust", "sh", "nonsense", "", undefined, "ts {1,2}", "constructor"]) {
    assert.equal(highlight(code, language).map((piece) => piece.text).join(""), code, language);
  }
  assert.deepEqual(highlight("const x = 1;", "ts")[0], { text: "const", ink: "keyword" });
  assert.deepEqual(highlight(code, "nonsense"), [{ text: code, ink: null }]);
});

test("a change is shown as the difference of its whole file", async () => {
  const { fileChanges } = await load("lib/changes.ts");
  const shown = (tool, input, now) => fileChanges(input, readTarget(tool, input), now ? [{ path: input.file_path, ...now }] : []);
  const path = "/p/a";
  const write = { file_path: path, content: "one\n2\n" };
  assert.deepEqual(shown("Write", write, { is: "text", text: "one\ntwo\n" }), [{ path, before: "one\ntwo\n", after: "one\n2\n", note: "replaces the file" }]);
  assert.deepEqual(shown("Write", write, { is: "absent" }), [{ path, before: "", after: "one\n2\n", note: "new file" }]);
  assert.deepEqual(shown("Write", write, { is: "unread", why: "it is not text" }), [{ path, before: "", after: "one\n2\n", note: "whole file, what is there now is not shown: it is not text" }]);
  assert.deepEqual(shown("Write", write), [{ path, before: "", after: "one\n2\n", note: "whole file" }]);

  const edit = { file_path: path, old_string: "$1", new_string: "$&$2" };
  assert.deepEqual(shown("Edit", edit, { is: "text", text: "a\n$1\n$1\n" }), [{ path, before: "a\n$1\n$1\n", after: "a\n$&$2\n$1\n", note: "" }], "patterns of replacement mean nothing");
  assert.deepEqual(shown("Edit", { ...edit, replace_all: true }, { is: "text", text: "$1 $1" }), [{ path, before: "$1 $1", after: "$&$2 $&$2", note: "every occurrence" }]);
  assert.deepEqual(shown("Edit", edit, { is: "text", text: "changed since" }), [{ path, before: "$1", after: "$&$2", note: "the file does not hold this text now" }]);
  const edits = { file_path: path, edits: [{ old_string: "a", new_string: "b" }, { old_string: "b", new_string: "c" }] };
  assert.deepEqual(shown("MultiEdit", edits, { is: "text", text: "a" }), [{ path, before: "a", after: "c", note: "" }], "one edit builds on another");

  const patch = { changes: [{ path, kind: { type: "update" }, diff: "@@ -7,2 +8,2 @@\n one\n-two\n+three\n@@ -20 +21 @@\n-x\n+y" }] };
  assert.deepEqual(fileChanges(patch, readTarget("apply_patch", patch)), [
    { path, before: "one\ntwo", after: "one\nthree", from: [7, 8], note: "part 1 of 2" },
    { path, before: "x", after: "y", from: [20, 21], note: "part 2 of 2" },
  ]);
});

test("what was said before a call is the last text before it", async () => {
  const { saidBefore } = await load("lib/said.ts");
  const events = [{ type: "start" }, { type: "content", text: "first" }, { type: "content", text: "why" }, { type: "tool_use", tool_use_id: "t" }, { type: "content", text: "after" }].map((event, seq) => ({ seq, event }));
  assert.equal(saidBefore(events, "t"), "why");
  assert.equal(saidBefore(events, "unknown"), "after");
  assert.equal(saidBefore([{ event: { type: "content", text: "old" } }, { event: { type: "steered", text: "other" } }, { event: { type: "tool_use", tool_use_id: "t" } }], "t"), null);
});

test("a new session takes over a directory and a free name", async () => {
  const { freeName, recentDirectories } = await load("lib/recent.ts");
  const session = (name, working_dir, updated_at) => ({ name, working_dir, updated_at });
  const all = [session("shop", "/w/shop", 1), session("shop-2", "/w/shop", 3), session("x", "/w/x", 2)];
  assert.deepEqual(recentDirectories(all), ["/w/shop", "/w/x"]);
  assert.equal(freeName("/w/shop/", all), "shop-3");
  assert.equal(freeName("~", all), "session");
});

test("the digest of an input is the one that the server makes", async () => {
  const { canonical, inputDigest, isConfirmed } = await load("lib/digest.ts");
  const { readExact } = await load("lib/exact.ts");
  const text = String.raw`{"numbers":[333333333.33333329,1E30,4.50,2e-3,0.000000000000000000000000001],"string":"\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/","literals":[null,true,false]}`;
  for (const read of [JSON.parse, readExact]) assert.equal(canonical(read(text)), String.raw`{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],"string":"€$\u000f\nA'B\"\\\\\"/"}`);
  assert.equal(canonical({ "\ufb33": 1, "\u{1f600}": 2 }), '{"\u{1f600}":2,"\ufb33":1}');
  assert.equal(inputDigest({}), "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a");
  // As `write_number` of crates/plexus-core/src/digest.rs: integers of 64 bits keep their digits, all else is a double.
  const numbers = "[1234567890123456789,18446744073709551615,-9223372036854775808,9007199254740993.0,18446744073709551617,1.0,-0,-0.0,1E2,1e21]";
  assert.equal(canonical(readExact(numbers)), "[1234567890123456789,18446744073709551615,-9223372036854775808,9007199254740992,18446744073709552000,1,0,0,100,1e+21]");
  const input_digest = createHash("sha256").update('{"id":1234567890123456789}').digest("hex");
  assert(isConfirmed({ input: readExact('{"id":1234567890123456789}'), input_digest }));
  assert(!isConfirmed({ input: JSON.parse('{"id":1234567890123456789}'), input_digest }), "a number that was rounded is not confirmed");
});

test("SHA-256 is that of everybody else, whatever the length", async () => {
  const { sha256 } = await load("lib/sha256.ts");
  for (const length of [0, 1, 54, 55, 56, 57, 63, 64, 65, 119, 120, 1_000, 100_003]) {
    const bytes = Uint8Array.from({ length }, () => pick(256));
    assert.equal(sha256(bytes), createHash("sha256").update(bytes).digest("hex"), `${length} bytes`);
  }
});

test("a number keeps its digits from the server's answer to what is shown and sent", async () => {
  const { ExactNumber, readExact, readWire, write } = await load("lib/exact.ts");
  const answer = String.raw`{"cost":1.0,"approvals":[{"created_at":1700000000.5,"input":{"message_id":1234567890123456789,"least":-9223372036854775808,"ratio":1.0,"small":1e-7,"plain":[1,-2.5,0],"zero":-0,"__proto__":"seen","say":"1234567890123456789, [1.0] \" \\","deep":{"output":[18446744073709551615,{}]},"none":[]}}]}`;
  const read = readWire(answer);
  assert.equal(read.cost, 1, "the page counts with the server's own numbers");
  assert.equal(read.approvals[0].created_at, 1_700_000_000.5);
  const { input } = read.approvals[0];
  assert(input.message_id instanceof ExactNumber);
  assert.deepEqual(input.plain, [1, -2.5, 0], "a number that a double prints alike stays a number");
  assert.deepEqual(Object.getOwnPropertyDescriptor(input, "__proto__").value, "seen");
  assert.equal(write(read), answer.replace("1.0", "1"));
  assert.equal(JSON.stringify(input.message_id), '"1234567890123456789"', "whoever forgets to write it exactly sends no other number");

  for (const text of ["1234567890123456789", " 1.50 ", "-0", "[1E2, 2]", '{"a": 0.1}', "12", '"1.0"', "null"]) assert.equal(write(readExact(text)), text.trim().replace(", ", ",").replace(": ", ":"), text);
  for (const broken of ["", "1.", "{1234567890123456789}", "[1.0", '{"a":1.0}}']) assert.throws(() => readExact(broken), SyntaxError, broken);
  const plain = { a: [1, "x\n\u0001", null, true, { b: [] }, {}], c: undefined, d: [undefined] };
  for (const indent of [0, 2]) assert.equal(write(plain, indent), JSON.stringify(plain, null, indent));
  assert.equal(write(readExact('{"a":[1.0]}'), 2), '{\n  "a": [\n    1.0\n  ]\n}');
});

test("a number that the server would change is found", async () => {
  const { readExact, unkept } = await load("lib/exact.ts");
  for (const kept of ["1234567890123456789", "18446744073709551615", "-9223372036854775808", "1.0", "0.1", "1.50e1", "1e22", "-0", "123456789012345680000", "5e-324"]) assert.deepEqual(unkept(readExact(`{"a":[${kept}]}`)), [], kept);
  for (const changed of ["18446744073709551617", "-9223372036854775809", "0.12345678901234567890", "1e400", "12345678901234567.5"]) assert.deepEqual(unkept(readExact(`{"a":[${changed}]}`)), [changed]);
});
