// A stand-in for `plexus serve` with made-up data, for working on the page: `npm run mock`, then open the printed address.

import { randomUUID } from "node:crypto";
import { parseArgs } from "node:util";
import { demo, live } from "./mock/demo.mjs";
import { serve } from "./mock/http.mjs";
import { World } from "./mock/world.mjs";

const { values } = parseArgs({ options: { port: { type: "string", default: "0" }, demo: { type: "boolean" }, preview: { type: "boolean" } } });
const world = new World();
if (values.demo) {
  demo(world);
  live(world);
}
const code = randomUUID();
const token = `mock_${randomUUID()}`;
const server = await serve(world, { port: Number(values.port), token, codes: new Set([code]), preview: values.preview });
console.log(`${server.url}/#code=${code}`);
console.log(`token ${token}`);
