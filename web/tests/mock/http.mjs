// The HTTP side of the stand-in server: the built page with its Content-Security-Policy, JSON-RPC, the event stream, signing in.

import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { extname } from "node:path";
import { fileURLToPath } from "node:url";
import { methods } from "./methods.mjs";
import { Failure } from "./world.mjs";

const DIST = new URL("../../dist/", import.meta.url);
const TYPES = { ".html": "text/html; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml" };
export const CSP =
  "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/** Starts the server. `close` also cuts what is open, as a killed server would. */
export async function serve(world, { port = 0, token, codes = new Set(), preview = false, heartbeatMs = 15_000 }) {
  const table = methods(world, { preview });
  const sockets = new Set();
  const server = createServer((request, response) => {
    handle(request, response).catch((error) => {
      response.writeHead(500).end(String(error));
    });
  });
  server.on("connection", (socket) => {
    sockets.add(socket);
    socket.on("close", () => sockets.delete(socket));
  });

  async function handle(request, response) {
    const url = new URL(request.url, "http://localhost");
    // As the real server: an Origin must be exactly ours, and `null` is not.
    if (request.headers.origin !== undefined && request.headers.origin !== `http://${request.headers.host}`) return response.writeHead(403).end();
    if (url.pathname === "/auth/exchange") return exchange(request, response);
    if (url.pathname === "/rpc" || url.pathname === "/events") {
      if (request.headers.authorization !== `Bearer ${token}`) return response.writeHead(401).end();
      return url.pathname === "/rpc" ? rpc(request, response) : events(request, response, url);
    }
    return file(url.pathname, response);
  }

  async function exchange(request, response) {
    const { code } = JSON.parse(await body(request));
    if (!codes.delete(code)) return response.writeHead(403, { "Content-Type": "application/json" }).end("{}");
    response.writeHead(200, { "Content-Type": "application/json" }).end(JSON.stringify({ token }));
  }

  async function rpc(request, response) {
    const message = JSON.parse(await body(request));
    const answers = (Array.isArray(message) ? message : [message]).map(answer);
    response.writeHead(200, { "Content-Type": "application/json" }).end(JSON.stringify(Array.isArray(message) ? answers : answers[0]));
  }

  function answer({ id, method, params = {} }) {
    const found = table[method];
    if (!found) return { jsonrpc: "2.0", id, error: { code: -32601, message: `no method ${method}` } };
    try {
      const unknown = Object.keys(params).find((name) => !found[0].includes(name));
      if (unknown) throw new Failure("invalid", `unknown parameter ${unknown}`);
      return { jsonrpc: "2.0", id, result: found[1](params) };
    } catch (error) {
      const kind = error instanceof Failure ? error.kind : "internal";
      return { jsonrpc: "2.0", id, error: { code: kind === "invalid" ? -32602 : -32000, message: error.message, data: { kind, message: error.message, ...(error.extra ?? {}) } } };
    }
  }

  function events(request, response, url) {
    const only = url.searchParams.get("session_id");
    if (!only) world.streams.push(request.headers["last-event-id"] ?? null);
    // The cursor of a page of one session is no place in the log of all: such a stream begins at now.
    const given = Number(request.headers["last-event-id"] ?? NaN);
    let position = Number.isInteger(given) ? given : world.log.length;
    response.writeHead(200, { "Content-Type": "text/event-stream", "Cache-Control": "no-store" });
    response.write(": open\n\n");
    const send = () => {
      while (position < world.log.length) {
        const event = world.log[position++];
        if (!only || event.session_id === only) response.write(`id: ${position}\nevent: message\ndata: ${JSON.stringify(event)}\n\n`);
      }
    };
    send();
    world.listeners.add(send);
    // Live pieces of text have no id: they are never stored.
    const speak = (sessionId, event) => sessionId === only && response.write(`data: ${JSON.stringify({ session_id: sessionId, event })}\n\n`);
    if (url.searchParams.get("deltas") === "true") {
      world.hearers.add(speak);
      // Whoever comes in the middle of a text gets its beginning.
      const { soFar } = world.sessions.get(only) ?? {};
      if (soFar) for (const event of [{ type: "delta_start" }, { type: "delta", text: soFar }]) speak(only, event);
    }
    const beat = setInterval(() => response.write(": beat\n\n"), heartbeatMs);
    response.on("close", () => {
      world.listeners.delete(send);
      world.hearers.delete(speak);
      clearInterval(beat);
    });
  }

  async function file(path, response) {
    const name = path === "/" ? "index.html" : path.slice(1);
    const target = new URL(name, DIST);
    const content = target.href.startsWith(DIST.href) ? await readFile(fileURLToPath(target)).catch(() => null) : null;
    if (!content) return response.writeHead(404).end();
    response.writeHead(200, { "Content-Type": TYPES[extname(name)] ?? "application/octet-stream", "Content-Security-Policy": CSP, "X-Content-Type-Options": "nosniff" }).end(content);
  }

  await new Promise((resolve) => server.listen(port, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${server.address().port}`,
    port: server.address().port,
    close: () =>
      new Promise((resolve) => {
        server.close(resolve);
        for (const socket of sockets) socket.destroy();
      }),
  };
}

async function body(request) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  return Buffer.concat(chunks).toString("utf8");
}
