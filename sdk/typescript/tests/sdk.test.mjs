// The SDK against a real server, which is killed and started again where it hurts.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { join } from "node:path";
import { after, before, test } from "node:test";

import { Plexus, PlexusError, ServerLost } from "../dist/index.js";
import { fromDataDir } from "../dist/node.js";
import { Server } from "./server.mjs";

/** Where the server is. */
const where = async () => ({
  url: JSON.parse(await readFile(join(server.data, "server.json"), "utf8")).url,
  token: (await readFile(join(server.data, "operator.token"), "utf8")).trim(),
});

/** How long anything may take that a test waits for. */
const timeout = 120_000;

const server = new Server();
const { plexus } = server;
before(() => server.start());
after(() => server.stop());

test("events go on where they were when the server is killed", { timeout }, async () => {
  const session = await plexus.create({ name: "stream", working_dir: server.work });
  const chat = await session.chat('sim:\nburst 40 20\ntool Bash {"command":"touch half"}\nburst 40 20');
  const seen = [];
  const kinds = [];
  let killed = false;
  // In the middle of the stream: the first half is read, the second not written.
  const onPermission = async () => {
    await server.kill();
    killed = true;
    await server.start();
    return { allow: true };
  };
  for await (const { seq, event } of chat.events({ onPermission })) {
    seen.push(seq);
    kinds.push(event.type);
  }
  assert.ok(killed);
  assert.deepEqual(seen, [...seen.keys()]);
  assert.equal(kinds.at(-1), "complete");
  assert.equal(kinds.filter((kind) => kind === "content").length, 80);

  // All of the session, with a restart between two reads of one iterator.
  const again = [];
  let cursor;
  for await (const event of session.events()) {
    again.push(event.seq);
    if (event.seq === 10) {
      await server.kill();
      await server.start();
    }
    cursor = event.node_id;
    if (again.length === seen.length) break;
  }
  assert.deepEqual(again, seen);

  // A later chat is read behind the cursor.
  const later = await session.chat("sim:\nsay more");
  for await (const event of session.events(cursor)) {
    assert.equal(event.chat, later.number);
    if (event.event.type === "complete") break;
  }
});

test("a denial is read, and what nobody handles waits", { timeout }, async () => {
  const session = await plexus.create({ name: "denied", working_dir: server.work });
  const ask = 'sim:\ntool Bash {"command":"touch made"}\nsay done';
  const chat = await session.chat(ask);
  assert.equal(await chat.result({ onPermission: () => ({ allow: false, message: "not today" }) }), "done");
  assert.ok(!existsSync(join(server.work, "made")));

  await session.chat(ask);
  for await (const asked of plexus.approvals()) {
    assert.equal(asked.tool_name, "Bash");
    assert.ok(await plexus.decide(asked, { allow: true }));
    // Decided otherwise already: the second decision does not stand.
    assert.ok(!(await plexus.decide(asked, { allow: false, message: "too late" })));
    break;
  }
});

test("a question is answered by its own callback", { timeout }, async () => {
  const session = await plexus.create({ name: "question", working_dir: server.work });
  const options = ["SQLite", "PostgreSQL"].map((label) => ({ label, description: label }));
  const asked = { questions: [{ question: "Which database?", header: "DB", options, multiSelect: false }] };
  const chat = await session.chat(`sim:\ntool AskUserQuestion ${JSON.stringify(asked)}\nsay done`);
  const said = await chat.result({
    onPermission: () => assert.fail("a question is no permission"),
    onQuestion: ({ question }) => ({ answers: Object.fromEntries(question.questions.map(({ id }) => [id, ["PostgreSQL"]])) }),
  });
  assert.equal(said, "done");
  const { decisions } = await plexus.call("loopback.history", { session_id: session.id });
  assert.deepEqual(decisions[0].answers, { "Which database?": ["PostgreSQL"] });
});

test("errors say what to do", { timeout }, async () => {
  const params = { name: "taken", working_dir: server.work };
  await plexus.create(params);
  await assert.rejects(plexus.create(params), (error) => {
    assert.ok(error instanceof PlexusError);
    assert.equal(error.kind, "conflict");
    assert.match(error.hint, /choose another name/);
    return true;
  });
  await assert.rejects(plexus.session("01a1de6b-3b15-70ca-afc7-c3f165592f7c").get(), { kind: "not_found" });
  const nowhere = fromDataDir(join(server.root, "nowhere"), { patienceMs: 0 });
  await assert.rejects(nowhere.call("plexus.version", {}), ServerLost);
  const refused = new Plexus({ url: "http://127.0.0.1:1", token: "token" }, { patienceMs: 0 });
  await assert.rejects(refused.call("plexus.version", {}), ServerLost);
});

test("a second prompt while a chat runs is refused and not repeated for ever", { timeout }, async () => {
  const session = await plexus.create({ name: "busy", working_dir: server.work });
  const chat = await session.chat('sim:\ntool Bash {"command":"touch busy"}\nsay done');
  await assert.rejects(session.chat("sim:\nsay more"), (error) => {
    assert.ok(error instanceof PlexusError);
    assert.equal(error.kind, "busy");
    assert.notEqual(error.hint, "");
    return true;
  });
  // A callback that returns nothing leaves the request to somebody else.
  let asked = 0;
  const result = chat.result({ onPermission: () => { asked += 1; } });
  for await (const waiting of plexus.approvals()) {
    if (waiting.session_id !== session.id) continue;
    while (asked === 0) await new Promise((resolve) => setTimeout(resolve, 20));
    assert.ok(await plexus.decide(waiting, { allow: true }));
    break;
  }
  assert.equal(await result, "done");
  assert.equal(asked, 1);
});

test("another service at the address is said, and a slash at its end does no harm", { timeout }, async () => {
  const { url, token } = await where();
  const slash = new Plexus({ url: `${url}/`, token }, { patienceMs: 0 });
  assert.equal(typeof (await slash.call("plexus.version", {})).version, "string");
  for (const body of ["{}", "[]", "null", '"hello"', '{"error":"not found"}', "<html>"]) {
    const other = createServer((_, response) => response.writeHead(404).end(body));
    await new Promise((resolve) => other.listen(0, "127.0.0.1", resolve));
    const at = `http://127.0.0.1:${other.address().port}`;
    const wrong = new Plexus({ url: at, token }, { patienceMs: 0 });
    await assert.rejects(wrong.call("plexus.version", {}), (error) => {
      assert.ok(error instanceof ServerLost, `${body}: ${error}`);
      assert.ok(error.message.includes(at) && error.message.includes("404"), error.message);
      return true;
    });
    await new Promise((resolve) => other.close(resolve));
  }
});

test("a number that JavaScript has rounded is not sent back", { timeout }, async () => {
  const session = await plexus.create({ name: "digits", working_dir: server.work });
  const chat = await session.chat('sim:\ntool Bash {"command":"true","timeout":9007199254740993}\nsay done');
  const said = await chat.result({
    onPermission: async (asked) => {
      const updatedInput = { ...asked.input, command: "false" };
      await assert.rejects(plexus.decide(asked, { allow: true, updatedInput }), RangeError);
      return { allow: false };
    },
  });
  assert.equal(said, "done");
});
