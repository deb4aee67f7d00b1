// A phone that was paired: from the link of `plexus pair` to an answer, its end, and a message that opens one approval. The server
// is real; the push service is not there, so Chromium's debugger delivers the message to the service worker, which shows a real
// notification. Nobody can tap in a headless browser: the tap is an event made in the worker.

import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { openPage, until } from "./browser.mjs";
import { serveReal } from "./real.mjs";
import { realOnly, startTarget } from "./target.mjs";

let target;
before(async () => (target = await startTarget()));
after(() => target.close());

const PHONE = { viewport: { width: 360, height: 740 }, hasTouch: true, isMobile: true, deviceScaleFactor: 2 };
const command = (text) => [`tool Bash ${JSON.stringify({ command: text })}`];

/** Pairs a device of this name by its link, in a browser of its own. */
async function pair(name, more = {}) {
  const { link } = await target.call("identity.pair", { name });
  const opened = await openPage(target.browser, { url: target.url, address: link, ...PHONE, ...more });
  await opened.page.getByText(`Paired as ${name}`).waitFor();
  return { link, ...opened };
}

async function allow(page) {
  const button = page.getByRole("button", { name: "Allow" });
  await until("the answer to be possible", () => button.isEnabled());
  await button.tap();
  await page.getByText("Allowed by you.").waitFor();
}

test("a link pairs a phone, which shows the whole input and both digests, and allows it", realOnly, async () => {
  const { page, check, close } = await pair("one-hand");
  assert(!page.url().includes("code="), page.url());
  await page.reload();
  await page.getByText("Paired as one-hand").waitFor();

  const text = `touch ${"long ".repeat(300)}end`;
  const session = await target.run("asks", command(text));
  const [approval] = await target.pending(session.id);
  await page.getByRole("link", { name: new RegExp(session.name) }).tap();
  await page.waitForURL(`**/phone#/approve/${approval.id}`);
  await page.getByText(text.slice(-30)).waitFor();
  for (const which of ["asked", "shown"]) await until(`the digest ${which}`, async () => (await page.locator(`[data-digest=${which}]`).textContent()) === approval.input_digest);
  const box = await page.getByRole("button", { name: "Allow" }).boundingBox();
  assert(box.y > 740 / 2 && box.y + box.height <= 740 && box.height >= 48, "a thumb reaches the answer");
  const widest = await page.evaluate(() => document.documentElement.scrollWidth);
  assert(widest <= 360, `the page is ${widest} pixels wide`);
  await allow(page);
  const decision = await target.decision(approval.id);
  assert.deepEqual([decision.status, decision.device], ["allowed", "one-hand"]);
  check();
  await close();
});

test("a phone shows and allows a number with all its digits", realOnly, async () => {
  const { page, check, close } = await pair("digits");
  const session = await target.run("digits", ['tool mcp__discord__delete_message {"message_id":1234567890123456789}']);
  const [approval] = await target.pending(session.id);
  await page.getByRole("link", { name: new RegExp(session.name) }).getByText("1234567890123456789").waitFor();
  await page.goto(`${target.url}/phone#/approve/${approval.id}`);
  await page.getByText("1234567890123456789", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Show as JSON" }).tap();
  await page.getByText('"message_id": 1234567890123456789').waitFor();
  assert.equal(await page.locator("[data-digest=shown]").textContent(), approval.input_digest);
  await allow(page);
  check();
  await close();
});

test("the countdown of an approval runs on after the list was left", realOnly, async () => {
  const { page, check, close } = await pair("ages");
  const session = await target.run("ages", command("touch ages"), { loopback_timeout_secs: 3_000 });
  await target.pending(session.id);
  await page.getByRole("link", { name: new RegExp(session.name) }).tap();
  const timer = page.getByRole("timer");
  const shown = await timer.innerText();
  await until("another second to be counted", async () => (await timer.innerText()) !== shown);
  check();
  await close();
  await target.call("agents.cancel", { session_id: session.id });
});

test("everything beside a long input can be tapped", realOnly, async () => {
  const { page, check, close } = await pair("thumb", { viewport: { width: 375, height: 667 } });
  const content = Array.from({ length: 400 }, (_, i) => `line ${i} of a long file`).join("\n");
  const session = await target.run("thumb", [`tool Write ${JSON.stringify({ file_path: "long.txt", content })}`]);
  const [approval] = await target.pending(session.id);
  await page.goto(`${target.url}/phone#/approve/${approval.id}`);
  for (const name of ["Show as JSON", "All approvals", "Allow"]) {
    const box = await page.getByRole("button", { name, exact: true }).boundingBox();
    assert(box.height >= 44 && box.width >= 44, `${name} is ${box.width} by ${box.height} pixels`);
  }
  await page.getByRole("button", { name: "Show as JSON" }).tap();
  await page.getByRole("button", { name: "Show readable" }).tap();
  await page.getByRole("button", { name: "All approvals" }).tap();
  await page.getByRole("link", { name: new RegExp(session.name) }).waitFor();
  check();
  await close();
  await target.call("agents.cancel", { session_id: session.id });
});

test("the list tells a question by its words", realOnly, async () => {
  const { page, check, close } = await pair("words");
  const questions = [{ question: "Which database?", header: "DB", multiSelect: false, options: [{ label: "SQLite", description: "one file" }, { label: "PostgreSQL", description: "a server" }] }];
  const session = await target.run("words", [`tool AskUserQuestion ${JSON.stringify({ questions })}`]);
  await target.pending(session.id);
  const link = page.getByRole("link", { name: new RegExp(session.name) });
  await link.getByText("Question: Which database?", { exact: true }).waitFor();
  assert(!(await link.innerText()).includes("{"), await link.innerText());
  check();
  await close();
  await target.call("agents.cancel", { session_id: session.id });
});

test("a question that somebody else has answered says what stands", realOnly, async () => {
  const { page, check, close } = await pair("late");
  const session = await target.run("late", command("touch late"));
  const [approval] = await target.pending(session.id);
  await page.goto(`${target.url}/approve/${approval.id}`);
  await page.getByRole("button", { name: "Allow" }).waitFor();
  await target.call("loopback.respond", { approval_id: approval.id, approve: false, message: "not now" });
  await page.getByText("Already denied by operator. not now").waitFor();
  check();
  await close();
});

test("the link of a message leads to the dashboard where that is signed in and no phone is paired", realOnly, async () => {
  const session = await target.run("at-the-desk", command("touch at-the-desk"));
  const [approval] = await target.pending(session.id);
  const address = `${target.url}/approve/${approval.id}`;
  const dashboard = await target.page("/sessions");
  await dashboard.page.locator(".connection.live").waitFor();
  const link = await openPage(target.browser, { url: target.url, token: null, address, beside: dashboard });
  await link.page.waitForURL(`${target.url}/#/queue/${approval.id}`);
  await link.page.getByRole("article").getByText("touch at-the-desk").waitFor();
  link.check();
  // The tab of the dashboard itself, when the link replaces it and no other is open.
  await link.page.close();
  await dashboard.page.goto(address);
  await dashboard.page.waitForURL(`${target.url}/#/queue/${approval.id}`);
  dashboard.check();
  await dashboard.close();

  const nobody = await openPage(target.browser, { url: target.url, token: null, address });
  await nobody.page.getByText("This phone is not paired").waitFor();
  nobody.check();
  await nobody.close();

  const { page, check, close } = await pair("at-the-desk");
  await page.goto(address);
  await page.getByRole("button", { name: "Allow" }).waitFor();
  assert.equal(page.url(), `${target.url}/phone#/approve/${approval.id}`);
  check();
  await close();
  await target.call("agents.cancel", { session_id: session.id });
});

test("a link works once, and says so", realOnly, async () => {
  const { link, close } = await pair("first");
  const second = await openPage(target.browser, { url: target.url, address: link, ...PHONE });
  await second.page.getByText('this code was used already, for "first"').waitFor();
  assert.equal(await second.page.evaluate(() => localStorage.length), 0);
  second.check();
  await second.close();
  await close();
});

test("the page of a revoked phone goes dark at once", realOnly, async () => {
  const { page, check, close } = await pair("lost");
  const session = await target.run("secret-plans", command("touch secret-plans"));
  const [approval] = await target.pending(session.id);
  await page.goto(`${target.url}/phone#/approve/${approval.id}`);
  await page.getByText("touch secret-plans").waitFor();
  await target.call("identity.unpair", { name: "lost" });
  await page.getByText("This phone was taken back").waitFor();
  assert(!(await page.content()).includes("secret-plans"), "nothing is left of what it showed");
  assert.equal(await page.evaluate(() => localStorage.length), 0);
  await page.reload();
  await page.getByText("This phone is not paired").waitFor();
  await target.call("loopback.respond", { approval_id: approval.id, approve: false });
  check();
  await close();
});

test("a message shows a notification, and a tap on it opens the one approval", realOnly, async () => {
  const { page, context, check, close } = await pair("pushed", { permissions: ["notifications"] });
  const session = await target.run("pushes", command("touch pushed"));
  const [approval] = await target.pending(session.id);
  const worker = context.serviceWorkers()[0] ?? (await context.waitForEvent("serviceworker"));
  await page.evaluate(() => navigator.serviceWorker.ready.then(() => true));

  const debug = await context.newCDPSession(page);
  const registration = new Promise((resolve) => debug.on("ServiceWorker.workerRegistrationUpdated", ({ registrations }) => registrations[0] && resolve(registrations[0].registrationId)));
  await debug.send("ServiceWorker.enable");
  const deliver = async (data) => debug.send("ServiceWorker.deliverPushMessage", { origin: target.url, registrationId: await registration, data });
  await deliver(JSON.stringify({ title: "Plexus: an approval waits", body: "pushes asks for Bash", url: `${target.url}/approve/${approval.id}`, approval_id: approval.id, tag: approval.id }));
  const shown = () => worker.evaluate(async () => (await self.registration.getNotifications()).map(({ title, body, tag, data }) => ({ title, body, tag, url: data.url })));
  const [note] = await until("the notification", async () => ((await shown()).length > 0 ? shown() : null));
  assert.deepEqual(note, { title: "Plexus: an approval waits", body: "pushes asks for Bash", tag: approval.id, url: `${target.url}/phone#/approve/${approval.id}` });

  // The event is ours, so the browser refuses to keep the worker alive for it, which it says by throwing.
  await worker.evaluate(async () => {
    const [notification] = await self.registration.getNotifications();
    self.dispatchEvent(new NotificationEvent("notificationclick", { notification }));
  });
  await page.waitForURL(`**/phone#/approve/${approval.id}`);
  await until("the notification to go", async () => (await shown()).length === 0);
  await allow(page);
  assert.equal((await target.decision(approval.id)).device, "pushed");

  // What cannot be read is shown all the same, and leads to the list.
  await deliver("no JSON");
  const [strange] = await until("the second notification", async () => ((await shown()).length > 0 ? shown() : null));
  assert.deepEqual([strange.title, strange.url], ["Plexus", `${target.url}/phone`]);
  check();
  await close();
});

test("the page can be installed, and tells the server of its subscription", realOnly, async () => {
  const { page, context, check, close } = await pair("installed", { permissions: ["notifications"] });
  const debug = await context.newCDPSession(page);
  const { errors, url } = await debug.send("Page.getAppManifest");
  assert.deepEqual([errors, url], [[], `${target.url}/manifest.webmanifest`]);

  // The push service and the server's half of it are stand-ins: what is sent is what is looked at.
  const sent = [];
  await page.route("**/rpc", async (route) => {
    const body = route.request().postDataJSON();
    const calls = Array.isArray(body) ? body : [body];
    if (!calls.every(({ method }) => method.startsWith("notify."))) return route.continue();
    sent.push(...calls);
    const answers = calls.map(({ id, method }) => ({ jsonrpc: "2.0", id, result: method === "notify.push_key" ? { public_key: "BAEC_w" } : {} }));
    await route.fulfill({ json: Array.isArray(body) ? answers : answers[0] });
  });
  await page.evaluate(() => {
    PushManager.prototype.subscribe = async ({ applicationServerKey }) => {
      globalThis.keyBytes = [...new Uint8Array(applicationServerKey)];
      return { endpoint: "https://push.example/1", getKey: (which) => new Uint8Array(which === "auth" ? [251, 255] : [4, 1]).buffer };
    };
  });
  await page.getByRole("button", { name: "Tell me when something waits" }).tap();
  await page.getByRole("button", { name: "Turn messages off" }).waitFor();
  assert.deepEqual(await page.evaluate(() => globalThis.keyBytes), [4, 1, 2, 255]);
  const [, subscribe] = sent;
  assert.deepEqual([subscribe.method, subscribe.params], ["notify.push_subscribe", { endpoint: "https://push.example/1", p256dh: "BAE", auth: "-_8", name: "installed" }]);
  check();
  await close();
});

test("it all works over TLS with a certificate of the server's own", realOnly, async () => {
  const folder = await mkdtemp(join(tmpdir(), "plexus-tls-"));
  const server = await serveReal(process.env["PLEXUS_BIN"], folder, 0, ["--set", "tls.listen=127.0.0.1:0"]);
  const call = async (method, params) => {
    const body = JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
    const response = await fetch(`${server.url}/rpc`, { method: "POST", headers: { "Content-Type": "application/json", Authorization: `Bearer ${server.token}` }, body });
    return (await response.json()).result;
  };
  try {
    const pairing = await call("identity.pair", {});
    assert.match(pairing.link, /^https:\/\/127\.0\.0\.1:\d+\/phone#code=/);
    assert.match(pairing.fingerprint, /^([0-9A-F]{2}:){31}[0-9A-F]{2}$/);
    const url = new URL(pairing.link).origin;
    const { page, close } = await openPage(target.browser, { url, address: pairing.link, ...PHONE, ignoreHTTPSErrors: true });
    await page.getByText("Paired as phone").waitFor();
    await page.getByText("Live").waitFor();
    // Nothing is installed from an address whose certificate the browser does not know, and the page says so. The browser says it
    // on the console too, so the page is not checked for that.
    await page.getByText("Messages need a page that this browser trusts").waitFor();
    const { id } = await call("agents.create", { name: "tls", working_dir: target.folder });
    await call("agents.chat_async", { session_id: id, prompt: `sim:\n${command("touch tls")[0]}` });
    await page.getByRole("link", { name: /tls/ }).tap();
    await allow(page);
    const { decisions } = await call("loopback.history", {});
    assert.deepEqual([decisions[0].status, decisions[0].device], ["allowed", "phone"]);
    await call("agents.delete", { session_id: id });
    await close();
  } finally {
    await server.close();
    await rm(folder, { recursive: true, force: true });
  }
});
