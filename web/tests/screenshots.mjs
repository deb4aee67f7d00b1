// Takes pictures of every view, dark, light and on a phone, to be looked at: `node tests/screenshots.mjs [folder]`.

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { launch, openPage } from "./browser.mjs";
import { demo } from "./mock/demo.mjs";
import { serve } from "./mock/http.mjs";
import { World } from "./mock/world.mjs";

const folder = process.argv[2] ?? "../artifacts/dashboard";
await mkdir(folder, { recursive: true });
const world = new World();
demo(world);
const server = await serve(world, { token: "t" });
const browser = await launch();
const id = (name) => [...world.sessions.values()].find((session) => session.name === name).id;
const approval = (tool, word = "") => [...world.approvals.values()].find((a) => a.tool_name === tool && JSON.stringify(a.input).includes(word)).id;

const SHOTS = {
  queue: { route: "/queue" },
  "queue-edit": { route: `/queue/${approval("Edit")}`, then: async (page) => {
    await page.keyboard.press("e");
    await page.getByRole("textbox", { name: "new_string" }).fill('import { route } from "./router";\n\nroute("POST /checkout/:cart", checkout);\n');
  } },
  "queue-diff": { route: `/queue/${approval("Edit")}` },
  "queue-write": { route: `/queue/${approval("Write")}` },
  "queue-codex": { route: `/queue/${approval("apply_patch")}` },
  "queue-codex-command": { route: `/queue/${approval("exec_command")}` },
  "queue-question": { route: `/queue/${approval("AskUserQuestion")}`, then: (page) => page.getByRole("radio").first().check() },
  "queue-plan": { route: `/queue/${approval("ExitPlanMode")}` },
  "session-question": { route: `/sessions/${id("search-index")}` },
  "queue-deny": { route: `/queue/${approval("Bash", "rm -rf")}`, then: (page) => page.keyboard.press("n") },
  "queue-remember": { route: `/queue/${approval("Bash", "rm -rf")}`, then: (page) => page.keyboard.press("r") },
  sessions: { route: "/sessions" },
  session: { route: `/sessions/${id("api-migration")}` },
  "session-open": { route: `/sessions/${id("api-migration")}`, then: async (page) => {
    await page.locator(".viewport").evaluate((node) => (node.scrollTop = 0));
    for (const name of ["Grep", "Edit"]) await page.locator(".tool .toggle", { hasText: name }).first().click();
  } },
  "session-speaking": { route: `/sessions/${id("release-2.4")}`, then: async (page) => {
    const session = world.sessions.get(id("release-2.4"));
    await page.waitForTimeout(300);
    world.speak(session, { type: "delta_start" });
    world.speak(session, { type: "delta", text: "Three of the four parts are under way. `api-migration` waits for your answer about the build folder, and **flaky-tests** has found" });
    await page.locator(".speech").waitFor();
  } },
  hostile: { route: `/sessions/${id("hostile <b>name</b>")}` },
  long: { route: `/sessions/${id("long-haul")}` },
  rules: { route: "/rules" },
  history: { route: "/history" },
  spend: { route: "/spend" },
  help: { route: "/queue", then: (page) => page.keyboard.press("?") },
  new: { route: "/sessions", then: (page) => page.keyboard.press("c") },
};
const DEVICES = {
  dark: { colorScheme: "dark" },
  light: { colorScheme: "light" },
  phone: { colorScheme: "light", viewport: { width: 360, height: 740 }, deviceScaleFactor: 2, hasTouch: true, isMobile: true },
};
const wanted = process.argv.slice(3);
for (const [device, options] of Object.entries(DEVICES)) {
  for (const [name, shot] of Object.entries(SHOTS)) {
    if (wanted.length > 0 && !wanted.some((w) => `${name}-${device}`.includes(w))) continue;
    const { page, check, close } = await openPage(browser, { url: server.url, token: "t", route: shot.route, ...options });
    await page.getByText("Live").waitFor({ state: "attached" });
    await page.waitForTimeout(500);
    await shot.then?.(page);
    await page.waitForTimeout(350);
    await page.screenshot({ path: join(folder, `${name}-${device}.png`) });
    check();
    await close();
  }
}
const { page, close } = await openPage(browser, { url: server.url, token: null });
await page.screenshot({ path: join(folder, "sign-in.png") });
await close();
await browser.close();
await server.close();
