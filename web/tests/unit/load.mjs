// Loads a TypeScript module of the page into Node, through the bundler that builds it.

import { after } from "node:test";
import { createServer } from "vite";

const vite = await createServer({ root: new URL("../..", import.meta.url).pathname, server: { middlewareMode: true, hmr: false, watch: null }, appType: "custom", logLevel: "error", optimizeDeps: { noDiscovery: true } });
after(() => vite.close());

export const load = (path) => vite.ssrLoadModule(`/src/${path}`);
