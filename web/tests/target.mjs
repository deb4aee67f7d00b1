// The server under test: a stand-in of our own; or, with PLEXUS_BIN, a real one that is started here with the simulator as its
// agent; or the one that PLEXUS_URL and PLEXUS_TOKEN name. Tests set everything up through the API, with scripts that all
// understand, so most of them run against any.

import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { randomUUID } from "node:crypto";
import { launch, openPage, until } from "./browser.mjs";
import { serve } from "./mock/http.mjs";
import { World } from "./mock/world.mjs";
import { serveReal } from "./real.mjs";

const { PLEXUS_BIN, PLEXUS_URL, PLEXUS_TOKEN } = process.env;
/** For tests that look inside the server. `only` counts where `node --test` is asked for `--test-only`. */
export const standInOnly = PLEXUS_BIN || PLEXUS_URL ? { skip: "needs the stand-in server" } : { only: true };
/** For what the stand-in does not play. */
export const realOnly = PLEXUS_BIN ? {} : { skip: "needs a real server: PLEXUS_BIN" };
/** For tests that take the server away. */
export const ownServerOnly = PLEXUS_URL && !PLEXUS_BIN ? { skip: "needs a server of its own" } : {};

/** `real` is about a real server (see `serveReal`); the rest is about the stand-in. */
export async function startTarget({ real, ...options } = {}) {
  const browser = await launch();
  const folder = await mkdtemp(join(tmpdir(), "plexus-web-"));
  const own = PLEXUS_BIN || PLEXUS_URL ? null : { world: new World(), token: `mock_${randomUUID()}` };
  const startServer = async (port) => {
    if (own) return serve(own.world, { token: own.token, port, ...options });
    if (PLEXUS_BIN) return serveReal(PLEXUS_BIN, `${folder}-data`, port, [], real);
    return { url: PLEXUS_URL.replace(/\/$/, ""), token: PLEXUS_TOKEN, close: () => {} };
  };
  let server = await startServer();
  const { url } = server;
  const token = own?.token ?? server.token;

  /** The text of an answer, whose numbers have all their digits. */
  const answer = async (method, params = {}) => {
    const response = await fetch(`${url}/rpc`, { method: "POST", headers: { "Content-Type": "application/json", Authorization: `Bearer ${token}` }, body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }) });
    return response.text();
  };
  const call = async (method, params) => {
    const { result, error } = JSON.parse(await answer(method, params));
    assert(!error, `${method}: ${JSON.stringify(error)}`);
    return result;
  };

  const created = [];

  /** Creates a session and starts its first chat. Names get a tail, so that a real server can be used again. */
  const start = async (name, prompt, more = {}) => {
    const unique = `${name}-${randomUUID().slice(0, 6)}`;
    const { id } = await call("agents.create", { name: unique, working_dir: folder, ...more });
    created.push(id);
    await call("agents.chat_async", { session_id: id, prompt });
    return { id, name: unique };
  };

  return {
    url,
    token,
    browser,
    world: own?.world,
    folder,
    call,
    answer,
    page: (route, more = {}) => openPage(browser, { url, token, route, ...more }),

    start,

    /** The same with a chat that the simulator plays. */
    run: (name, steps, more) => start(name, `sim:\n${steps.join("\n")}`, more),

    /** Waits until a session asks for something. */
    pending: (id, count = 1) =>
      until(`${count} pending approvals of ${id}`, async () => {
        const found = (await call("loopback.pending", { limit: 500 })).approvals.filter((approval) => approval.session_id === id);
        return found.length >= count ? found : null;
      }),

    /** Waits for the decision on an approval, as the history tells it. */
    decision: (approvalId) =>
      until(`the decision on ${approvalId}`, async () => (await call("loopback.history", { limit: 100 })).decisions.find((decision) => decision.approval_id === approvalId)),

    /** Takes the server away at once; the returned function starts it again on the same port, with what it had stored. */
    async takeAway() {
      await server.close();
      return async () => {
        server = await startServer(server.port);
      };
    },

    async close() {
      await browser.close();
      // A real server keeps agents alive for the next prompt, and would leave them behind when it is killed.
      if (!own) for (const id of created) await call("agents.delete", { session_id: id });
      await server.close();
      for (const each of [folder, `${folder}-data`]) await rm(each, { recursive: true, force: true });
    },
  };
}
