// The server under test: a stand-in of our own, or the real one that PLEXUS_URL and PLEXUS_TOKEN name. Tests set everything up
// through the API, with scripts that both understand, so most of them run against either.

import assert from "node:assert/strict";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { randomUUID } from "node:crypto";
import { launch, openPage, until } from "./browser.mjs";
import { serve } from "./mock/http.mjs";
import { World } from "./mock/world.mjs";

/** For tests that must take the server away or look inside it. */
export const standInOnly = process.env["PLEXUS_URL"] ? { skip: "needs the stand-in server" } : {};

export async function startTarget(options = {}) {
  const browser = await launch();
  const folder = await mkdtemp(join(tmpdir(), "plexus-web-"));
  const own = process.env["PLEXUS_URL"] ? null : { world: new World(), token: `mock_${randomUUID()}` };
  let server = own ? await serve(own.world, { token: own.token, ...options }) : null;
  const url = server?.url ?? process.env["PLEXUS_URL"].replace(/\/$/, "");
  const token = own?.token ?? process.env["PLEXUS_TOKEN"];

  const call = async (method, params = {}) => {
    const response = await fetch(`${url}/rpc`, { method: "POST", headers: { "Content-Type": "application/json", Authorization: `Bearer ${token}` }, body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }) });
    const { result, error } = await response.json();
    assert(!error, `${method}: ${JSON.stringify(error)}`);
    return result;
  };

  return {
    url,
    token,
    browser,
    world: own?.world,
    call,
    page: (route, more = {}) => openPage(browser, { url, token, route, ...more }),

    /** Creates a session and starts a scripted chat in it. Names get a tail, so that a real server can be used again. */
    async run(name, steps, more = {}) {
      const unique = `${name}-${randomUUID().slice(0, 6)}`;
      const { id } = await call("claudecode.create", { name: unique, working_dir: folder, ...more });
      await call("claudecode.chat_async", { session_id: id, prompt: `sim:\n${steps.join("\n")}` });
      return { id, name: unique };
    },

    /** Waits until a session asks for something. */
    pending: (id, count = 1) =>
      until(`${count} pending approvals of ${id}`, async () => {
        const found = (await call("loopback.pending", { limit: 500 })).approvals.filter((approval) => approval.session_id === id);
        return found.length >= count ? found : null;
      }),

    /** Waits for the decision on an approval, as the history tells it. */
    decision: (approvalId) =>
      until(`the decision on ${approvalId}`, async () => (await call("loopback.history", { limit: 100 })).decisions.find((decision) => decision.approval_id === approvalId)),

    /** Takes the server away; `bringBack` starts it again on the same port, with the same world. */
    async takeAway() {
      const { port } = server;
      await server.close();
      return async () => {
        server = await serve(own.world, { token: own.token, port, ...options });
      };
    },

    async close() {
      await browser.close();
      await server?.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
