// Builds the page anew beside `dist/` and fails when the two differ: what is committed must be what the sources say.

import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build } from "vite";

const root = new URL("..", import.meta.url).pathname;
const fresh = await mkdtemp(join(tmpdir(), "plexus-dist-"));

async function contents(folder) {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile()).map((entry) => join(entry.parentPath, entry.name));
  return new Map(await Promise.all(files.map(async (file) => [file.slice(folder.length + 1), await readFile(file)])));
}

try {
  await build({ root, logLevel: "error", build: { outDir: fresh, emptyOutDir: true } });
  await build({ root, logLevel: "error", configFile: join(root, "vite.phone.config.ts"), build: { outDir: fresh, emptyOutDir: false } });
  const [built, committed] = [await contents(fresh), await contents(join(root, "dist"))];
  const names = [...new Set([...built.keys(), ...committed.keys()])].sort();
  const different = names.filter((name) => !built.get(name)?.equals(committed.get(name) ?? Buffer.alloc(0)));
  if (different.length > 0) {
    console.error(`dist/ is not what the sources build; run "npm run build". Different: ${different.join(", ")}`);
    process.exitCode = 1;
  } else {
    console.log(`dist/ is what the sources build (${names.length} files)`);
  }
} finally {
  await rm(fresh, { recursive: true, force: true });
}
