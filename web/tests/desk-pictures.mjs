// Takes the pictures docs/pictures/desk-*.png: `PLEXUS_BIN=… node tests/desk-pictures.mjs FOLDER PREFIX`. It uses only what the first
// stage had too: a copy of this file in a checkout of 7aee2aed takes the pictures of before, there also with the stand-in server.

import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { until } from "./browser.mjs";
import { startTarget } from "./target.mjs";

const [folder = "../artifacts/desk", prefix = "desk-after"] = process.argv.slice(2);
await mkdir(folder, { recursive: true });
const work = await mkdtemp(join(tmpdir(), "shop-"));
const target = await startTarget();
const created = [];

const settings = (port, retries, last) => ["[server]", `port = ${port}`, 'host = "127.0.0.1"', "", "[payments]", 'provider = "acme"', `retries = ${retries}`, "timeout_secs = 30", "", "[mail]", 'from = "shop@example.org"', ...last, ""].join("\n");
await writeFile(join(work, "settings.toml"), settings(8080, 3, []));

async function start(name, steps) {
  const { id } = await target.call("claudecode.create", { name, working_dir: work });
  created.push(id);
  await target.call("claudecode.chat_async", { session_id: id, prompt: `sim:\n${steps.join("\n")}` });
  return id;
}
const statusOf = async (id) => (await target.call("claudecode.list", { limit: 100 })).sessions.find((session) => session.id === id).status;
const tool = (name, input) => `tool ${name} ${JSON.stringify(input)}`;
const option = (label, description) => ({ label, description });

const done = await start("readme", ["say The README now says how to start the shop, and which port it uses."]);
await until("the first to end", async () => (await statusOf(done)) === "complete");
const question = { question: "Where should the search index live?", header: "Index", multiSelect: false, options: [option("SQLite", "one file beside the shop's own, no service to run"), option("PostgreSQL", "the database that is there already")] };
const asks = await start("search-index", ["say I read the catalogue: **12,400 articles**, most of them short.", "say Both stores of this repository could hold the index. They differ in what you have to run:", tool("AskUserQuestion", { questions: [question] }), "say thanks"]);
const writes = await start("settings", ["say The provider wants more retries, and the port is taken on the new host.", tool("Write", { file_path: join(work, "settings.toml"), content: settings(8090, 5, ['reply_to = "help@example.org"']) }), "say done"]);
await start("flaky-tests", ["say The test of the checkout fails one time in twenty. I look for what it waits for.", "hang"]);
const [overwrite] = await target.pending(writes);
const [asked] = await target.pending(asks);

const views = { question: `/queue/${asked.id}`, overwrite: `/queue/${overwrite.id}`, sessions: "/sessions", session: `/sessions/${asks}` };
for (const [name, route] of Object.entries(views)) {
  const { page, close } = await target.page(route, { viewport: { width: 1000, height: 600 }, colorScheme: "light" });
  await page.getByText("Live").first().waitFor({ state: "attached" });
  // A picture has no condition to wait for: everything that moves has come to rest by then.
  await page.waitForTimeout(1_500);
  await page.screenshot({ path: join(folder, `${prefix}-${name}.png`) });
  await close();
}
// A real server would leave the agents behind.
if (process.env["PLEXUS_BIN"]) for (const id of created) await target.call("claudecode.delete", { session_id: id });
await target.close();
await rm(work, { recursive: true, force: true });
