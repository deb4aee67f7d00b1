// Builds the dashboard into `dist/`, which is committed and embedded into the server.
//
// File names are fixed, without content hashes: the server answers with an ETag, and a stable name keeps the diff of a
// rebuild to what really changed. `npm run dev` serves the sources and passes API calls on to PLEXUS_URL.

import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

const server = process.env["PLEXUS_URL"] ?? "http://127.0.0.1:4445";

export default defineConfig({
  // Relative addresses, so that the page also works below a path of a reverse proxy.
  base: "./",
  plugins: [svelte()],
  build: {
    target: ["chrome123", "firefox121", "safari17.5"],
    // A preload polyfill would be one more script for browsers that we do not support.
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    rollupOptions: {
      output: {
        entryFileNames: "assets/app.js",
        chunkFileNames: "assets/[name].js",
        assetFileNames: "assets/app[extname]",
      },
    },
  },
  worker: { format: "es", rollupOptions: { output: { entryFileNames: "assets/hub.js" } } },
  server: { proxy: Object.fromEntries(["/rpc", "/events", "/auth"].map((path) => [path, { target: server, changeOrigin: true }])) },
});
