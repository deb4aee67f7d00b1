// Builds the page for phones into `dist/`, beside the dashboard: one script of its own, so that neither page loads the other's.

import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

export default defineConfig({
  base: "./",
  publicDir: false,
  plugins: [svelte()],
  build: {
    emptyOutDir: false,
    target: ["chrome123", "firefox121", "safari17.5"],
    modulePreload: { polyfill: false },
    reportCompressedSize: false,
    rollupOptions: {
      input: "phone.html",
      output: { entryFileNames: "assets/phone.js", chunkFileNames: "assets/phone-[name].js", assetFileNames: "assets/phone[extname]" },
    },
  },
});
