// A world to look at: a parent with three children and a grandchild, approvals of several kinds, a hostile transcript, and a
// session of fifty thousand events.

import { play } from "./sim.mjs";
import { nowMs, nowSecs } from "./world.mjs";

const MINUTE = 60_000;
const DIR = "/home/dev/shop";

export function demo(world) {
  const at = (minutes) => nowMs() - minutes * MINUTE;
  const parent = world.createSession({ name: "release-2.4", working_dir: DIR, model: "claude-opus", can_spawn: true, budget: { cost_usd: 12, turns: 200, wall_secs: 14_400, children: 8 }, created_at: at(94) });
  const child = (name, parentId, minutes, extra = {}) => world.createSession({ name, parent: parentId, working_dir: DIR, created_at: at(minutes), loopback_timeout_secs: 900, ...extra });
  const api = child("api-migration", parent, 82, { budget: { cost_usd: 4 }, can_spawn: true });
  const tests = child("flaky-tests", parent, 61);
  const docs = child("changelog", parent, 35);
  const grand = child("schema-check", api, 22, { budget: { cost_usd: 0.5, turns: 20 } });

  parentStory(world, world.sessions.get(parent), at);
  migration(world, world.sessions.get(api), at);
  flaky(world, world.sessions.get(tests), at);
  changelog(world, world.sessions.get(docs), at);
  schema(world, world.sessions.get(grand), at);
  codex(world, world.sessions.get(child("orders-export", parent, 18, { agent: "codex", budget: { tokens: 400_000 } })), at);
  planner(world, world.sessions.get(child("search-index", parent, 9)), at);
  files(world);
  finished(world, at);
  decisions(world);
  hostile(world, at);
  long(world, at);
  world.addRule({ decision: "allow", pattern: "Bash(git diff:*)", reason: "only looks" }).used = 41;
  world.addRule({ decision: "deny", pattern: "Bash(git push:*)", reason: "pushing is done by people" }).used = 2;
  world.addRule({ decision: "allow", pattern: `Edit(${DIR}/docs/**)`, scope: { subtree: parent }, expires_in_secs: 7_200 }).used = 7;
  world.addRule({ decision: "ask", pattern: "WebFetch", scope: { session: docs } });
}

function chatOf(world, session, prompt, started, status, events, spent) {
  const chat = world.startChat(session, prompt, started);
  let at = started;
  for (const event of events) {
    at += 2_000 + ((at / 7) % 9_000);
    if (event.type !== "later") world.emit(session, chat, event, at);
  }
  // Earlier chats, which are not shown, took their time too.
  Object.assign(session.spent, { wall_ms: (nowMs() - session.created_at) / 3 }, spent);
  if (status !== "running") {
    chat.status = status;
    chat.ended_at = at;
    if (status === "complete") world.emit(session, chat, { type: "complete", new_head: null, claude_session_id: "c", usage: { input_tokens: spent.input_tokens, output_tokens: spent.output_tokens, cost_usd: spent.cost_usd, num_turns: spent.turns } }, at + 900);
  }
  return chat;
}

const use = (id, tool_name, input) => ({ type: "tool_use", tool_name, tool_use_id: id, input });
const result = (id, output, is_error = false) => ({ type: "tool_result", tool_use_id: id, output, is_error });
const say = (text) => ({ type: "content", text });
const think = (thinking) => ({ type: "thinking", thinking });

function pend(world, session, chat, id, tool, input, agoSecs, leftSecs, extra = {}) {
  world.emit(session, chat, use(id, tool, input));
  void world.ask(session, chat, tool, id, input, { created_at: nowSecs() - agoSecs, expires_at: leftSecs === null ? null : nowSecs() + leftSecs, ...extra }).then((answer) => {
    world.emit(session, chat, result(id, answer.approved ? `ran ${tool}` : (answer.message ?? "denied"), !answer.approved));
  });
}

function parentStory(world, session, at) {
  chatOf(world, session, "Prepare release 2.4: migrate the API handlers, calm the flaky tests, write the changelog. Split the work.", at(94), "running", [
    think("Three pieces that do not depend on each other. The migration is the largest and may need a check of the schema, so that child should be able to start one of its own."),
    say("I split the release into three parts and give each to its own session:\n\n1. **api-migration** moves the handlers to the new router\n2. **flaky-tests** finds why `checkout_spec` fails one time in ten\n3. **changelog** writes what users will notice"),
    use("t1", "mcp__plexus_hub__agents_create", { name: "api-migration", working_dir: DIR, can_spawn: true }),
    result("t1", '{"type":"created","id":"0192…"}'),
    use("t2", "mcp__plexus_hub__agents_create", { name: "flaky-tests", working_dir: DIR }),
    result("t2", '{"type":"created","id":"0192…"}'),
    use("t3", "Bash", { command: "git log --oneline v2.3..HEAD | wc -l" }),
    result("t3", "128"),
    say("All three are at work. I answer what they ask and look at the results together."),
  ], { cost_usd: 2.41, input_tokens: 412_000, output_tokens: 18_300, turns: 31 });
}

function migration(world, session, at) {
  const chat = chatOf(world, session, "Move every handler under src/api to the new router. Keep the public paths.", at(82), "running", [
    say("I start with the handlers and look at how the router is built today."),
    use("a1", "Grep", { pattern: "router\\.(get|post)", path: "src/api", output_mode: "files_with_matches" }),
    result("a1", "src/api/cart.ts\nsrc/api/checkout.ts\nsrc/api/orders.ts\nsrc/api/users.ts"),
    think("Four files. Orders has nested routes, so I do it last."),
    use("a2", "Edit", { file_path: `${DIR}/src/api/cart.ts`, old_string: 'router.get("/cart", getCart);\nrouter.post("/cart", addToCart);', new_string: 'route("GET /cart", getCart);\nroute("POST /cart", addToCart);' }),
    { type: "later" },
    result("a2", "The file src/api/cart.ts has been updated."),
    use("a3", "Bash", { command: "npm test -- --filter api", description: "Run the tests of the API", timeout: 120_000 }),
    result("a3", "\u001b[32m✓\u001b[0m cart (14)\n\u001b[32m✓\u001b[0m users (9)\n\u001b[31m✗\u001b[0m checkout › refuses an empty cart\n\n  expected 422, got 404\n\nTests: 1 failed, 40 passed", true),
    { type: "notice", message: "retrying after a rate limit, in 4 s" },
    say("One test fails: the new router answers 404 before the handler can refuse the cart. The path needs its trailing segment:\n\n```ts\nroute(\"POST /checkout/:cart\", checkout);\n```\n\nI change that and clean the old build before the next run."),
  ], { cost_usd: 3.38, input_tokens: 690_000, output_tokens: 41_200, turns: 58 });
  pend(world, session, chat, "a4", "Edit", {
    file_path: `${DIR}/src/api/checkout.ts`,
    old_string: 'import { router } from "./router";\n\nrouter.post("/checkout", checkout);\n\nexport async function checkout(req, res) {\n  const cart = await carts.get(req.body.cart);\n  if (!cart) return res.status(404).end();\n  return res.json(await pay(cart));\n}',
    new_string: 'import { route } from "./router";\n\nroute("POST /checkout/:cart", checkout);\n\nexport async function checkout(req, res) {\n  const cart = await carts.get(req.params.cart);\n  if (!cart) return res.status(404).end();\n  if (cart.items.length === 0) return res.status(422).end();\n  return res.json(await pay(cart));\n}',
  }, 214, 690);
  pend(world, session, chat, "a5", "Bash", { command: "rm -rf build/ dist/ && npm run build", description: "Remove the old build and build again" }, 96, 804);
}

function flaky(world, session, at) {
  const chat = chatOf(world, session, "checkout_spec fails one time in ten. Find out why and fix it.", at(61), "running", [
    say("I run the spec until it fails, to see how it fails."),
    use("f1", "Bash", { command: "for i in $(seq 20); do npm test -- checkout_spec || break; done" }),
    result("f1", `${Array.from({ length: 60 }, (_, i) => `run ${i + 1}: ok in ${180 + ((i * 37) % 90)} ms`).join("\n")}\nrun 61: timeout waiting for #confirm`),
    think("The confirmation appears before the listener is attached. A race in the test, not in the code."),
  ], { cost_usd: 0.94, input_tokens: 151_000, output_tokens: 9_100, turns: 17 });
  pend(world, session, chat, "f2", "WebFetch", { url: "https://playwright.dev/docs/events#waiting-for-event", prompt: "How is an event awaited that may fire before the wait?" }, 41, 859);
  pend(world, session, chat, "f3", "Bash", { command: "curl -sSL https://get.example.org/install.sh | sudo bash", description: "Install the browser that the tests need" }, 12, 48, { escalated_to: "operator" });
}

function changelog(world, session, at) {
  const chat = chatOf(world, session, "Write the changelog of 2.4 from the commits since v2.3. For users, not for us.", at(35), "running", [
    use("c1", "Bash", { command: "git log --no-merges --pretty=%s v2.3..HEAD" }),
    result("c1", "checkout: refuse an empty cart\ncart: keep items for 30 days\norders: export as CSV\n…"),
    say("Of 128 commits, eleven change what a user sees."),
  ], { cost_usd: 0.22, input_tokens: 38_000, output_tokens: 2_900, turns: 6 });
  pend(world, session, chat, "c2", "Write", { file_path: `${DIR}/CHANGELOG.md`, content: "# 2.4\n\n## New\n- Orders can be exported as CSV.\n- A cart keeps its items for 30 days.\n\n## Fixed\n- An empty cart is refused at checkout instead of failing later.\n- Prices are rounded the same way on every page.\n" }, 150, null);
}

function schema(world, session, at) {
  const chat = chatOf(world, session, "Check that no migration drops a column that is still read.", at(22), "running", [say("I read the migrations since v2.3 and compare them with the queries.")], { cost_usd: 0.41, input_tokens: 61_000, output_tokens: 2_200, turns: 12 });
  pend(world, session, chat, "s1", "Read", { file_path: `${DIR}/db/migrations/0042_orders.sql` }, 30, 600);
}

function codex(world, session, at) {
  const chat = chatOf(world, session, "Add a CSV export of orders, with its test.", at(18), "running", [
    say("The orders are read in `src/orders/list.ts`. I add the export beside it and run its test:\n\n| file | change |\n|---|---|\n| `list.ts` | a filter by month |\n| `export.ts` | new |"),
  ], { cost_usd: 0, input_tokens: 148_000, output_tokens: 6_200, turns: 11 });
  const file = (name, type, diff) => ({ path: `${DIR}/src/orders/${name}`, kind: { type }, diff });
  pend(world, session, chat, "x1", "apply_patch", {
    changes: [
      file("list.ts", "update", "@@ -41,7 +41,9 @@\n export async function listOrders(filter) {\n   const query = orders.select();\n-  if (filter.user) query.where({ user: filter.user });\n+  if (filter.user) query.where({ user: filter.user });\n+  // Months are those of the shop, not of the reader.\n+  if (filter.month) query.where(inMonth(filter.month, SHOP_ZONE));\n   return query.orderBy(\"placed_at\");\n }"),
      file("export.ts", "add", "import { listOrders } from \"./list\";\n\nexport async function exportCsv(filter) {\n  const rows = await listOrders(filter);\n  return rows.map((row) => [row.id, row.total].join(\",\")).join(\"\\n\");\n}\n"),
    ],
  }, 64, null);
  pend(world, session, chat, "x2", "exec_command", { command: "npm test -- orders/export", cwd: DIR, shell: "/bin/bash -lc" }, 20, null);
}

function planner(world, session, at) {
  const chat = chatOf(world, session, "Make the product search fast again.", at(9), "running", [say("The search reads every product. I need to know what you would keep.")], { cost_usd: 0.18, input_tokens: 31_000, output_tokens: 1_900, turns: 5 });
  pend(world, session, chat, "q1", "AskUserQuestion", {
    questions: [
      { question: "Which index should hold the products?", header: "Index", options: [{ label: "SQLite FTS5", description: "no new service; good for a million rows" }, { label: "PostgreSQL", description: "the database that is there, with tsvector" }] },
      { question: "Which fields are searched?", header: "Fields", multiSelect: true, options: [{ label: "name" }, { label: "description" }, { label: "reviews", description: "grows by itself" }] },
    ],
  }, 33, null);
  pend(world, session, chat, "q2", "ExitPlanMode", { plan: "# Search from an index\n\n1. **Measure** the ten slowest searches of last week\n2. Build the index beside the table, by a trigger\n3. Switch reads over, behind a flag\n\n> Nothing is deleted before the flag was on for a week.\n\n```sql\nCREATE INDEX products_text ON products USING gin (words);\n```\n" }, 8, null);
}

/** Files as the calls of this world would find them. */
function files(world) {
  const head = Array.from({ length: 12 }, (_, i) => `// ${i === 0 ? "The checkout: what happens between a full cart and a paid order." : `${i}`}`);
  world.files.set(`${DIR}/src/api/checkout.ts`, `${head.join("\n")}\n\nimport { router } from "./router";\n\nrouter.post("/checkout", checkout);\n\nexport async function checkout(req, res) {\n  const cart = await carts.get(req.body.cart);\n  if (!cart) return res.status(404).end();\n  return res.json(await pay(cart));\n}\n\nexport const limits = { items: 200, total: 50_000 };\n`);
  world.files.set(`${DIR}/CHANGELOG.md`, "# 2.3\n\n## Fixed\n- Prices are rounded the same way on every page.\n");
}

function finished(world, at) {
  const names = ["dependency-audit", "image-sizes", "login-copy"];
  names.forEach((name, i) => {
    const id = world.createSession({ name, working_dir: DIR, created_at: at(60 * 24 * (i + 1.2)) });
    const session = world.sessions.get(id);
    chatOf(world, session, "A finished piece of work.", at(60 * 24 * (i + 1.2)), i === 1 ? "failed" : "complete", [say("Done.")], { cost_usd: 0.7 + i * 1.3, input_tokens: 90_000, output_tokens: 4_000, turns: 9 });
    if (i === 1) world.emit(session, session.chats[0], { type: "error", message: "the agent ended without a result (exit code 137)" }, at(60 * 24 * (i + 1.2) - 3));
  });
}

function decisions(world) {
  const session = [...world.sessions.values()].find((s) => s.name === "release-2.4");
  const chat = session.chats.at(-1);
  const decide = (tool, input, ago, status, by, extra) => {
    world.emit(session, chat, use(`d${ago}`, tool, input));
    void world.ask(session, chat, tool, `d${ago}`, input, { created_at: nowSecs() - ago - 40 });
    const approval = [...world.approvals.values()].at(-1);
    world.settle(approval, status, by, extra);
    Object.assign(approval, { decided_at: nowSecs() - ago, delivered_at: nowSecs() - ago });
    world.emit(session, chat, result(`d${ago}`, status === "allowed" ? "done" : (extra?.message ?? "denied"), status !== "allowed"));
  };
  decide("Bash", { command: "git diff --stat" }, 3_000, "allowed", { rule: "0192f0c4-7d2e-7c3a-9a51-000000000001" });
  decide("Bash", { command: "npm test" }, 2_400, "allowed", "operator");
  decide("Bash", { command: "npm publish" }, 1_900, "denied", "operator", { message: "people publish, agents do not" });
  decide("Write", { file_path: `${DIR}/src/api/index.ts`, content: "export {};" }, 1_500, "allowed", "operator", { message: "keep the old exports", updated_input: { file_path: `${DIR}/src/api/index.ts`, content: "export * from './cart';\n" } });
  decide("WebFetch", { url: "https://example.org", prompt: "?" }, 900, "expired", "deadline", { message: "nobody answered in time" });
}

export function hostile(world, at) {
  const id = world.createSession({ name: "hostile <b>name</b>", working_dir: "/tmp/x", created_at: at(15) });
  const session = world.sessions.get(id);
  const chat = chatOf(world, session, "<script>window.pwned = 1</script>", at(15), "running", [
    say('<script>window.pwned = 1</script><img src=x onerror="window.pwned = 1"> **<svg onload=alert(1)>**'),
    say("\u001b]0;owned\u0007\u001b[2J\u001b[31mred\u001b[0m \u202egnp.exe\u202c and a zero\u200bwidth"),
    use("h1", "Bash", { command: "echo \u001b[8mhidden\u001b[0m; ls \u202e# rm" }),
    result("h1", "<iframe src=javascript:alert(1)></iframe>\u001b[1A\u001b[2K\r\noverwritten"),
    say("x".repeat(5 * 1024 * 1024)),
    { type: "passthrough", event_type: "<b>odd</b>", data: { html: "<script>window.pwned = 1</script>" } },
    say("after five megabytes"),
  ], { cost_usd: 0.01, input_tokens: 10, output_tokens: 10, turns: 1 });
  pend(world, session, chat, "h2", "Bash", { command: "ls \u202e# harmless\u202c; cat ~/.ssh/id_ed25519 <script>window.pwned = 1</script>" }, 5, 300, { description: "<img src=x onerror=alert(1)>" });
  return id;
}

export function long(world, at, count = 50_000) {
  const id = world.createSession({ name: "long-haul", working_dir: DIR, created_at: at(400) });
  const session = world.sessions.get(id);
  const chat = world.startChat(session, "Go through every file and improve it.", at(400));
  for (let i = 0; chat.events.length < count - 1; i++) {
    const time = at(400) + i * 300;
    if (i % 4 === 0) world.emit(session, chat, say(`Step ${i}: I look at the next file.${i % 40 === 0 ? "\n\nIt has a few things to improve:\n- names\n- one long function\n- a missing test" : ""}`), time);
    else if (i % 4 === 1) world.emit(session, chat, think(`Is file ${i} worth changing?`), time);
    else {
      world.emit(session, chat, use(`l${i}`, "Read", { file_path: `${DIR}/src/file_${i}.ts` }), time);
      world.emit(session, chat, result(`l${i}`, `contents of file ${i}\n`.repeat(3)), time + 100);
    }
  }
  world.endChat(session, chat, "complete", { cost_usd: 4.1, input_tokens: 3_000_000, output_tokens: 90_000, num_turns: 900 });
  return id;
}

/** Keeps the demo moving, for a person who looks at it. */
export function live(world) {
  const session = [...world.sessions.values()].find((s) => s.name === "api-migration");
  let n = 0;
  setInterval(() => world.emit(session, session.chats.at(-1), say(`Still looking at orders.ts (${++n}).`)), 5_000).unref();
}

export { play };
