// Starts the browser and signs a page in. Every page fails its test when it breaks its Content-Security-Policy, throws, or asks
// another host.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { chromium } from "playwright-core";

const FLAGS = ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"];
const CANDIDATES = [process.env["CHROMIUM"], "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];

export async function launch() {
  const executablePath = CANDIDATES.find((path) => path && existsSync(path));
  assert(executablePath, "no Chromium found; install it or set CHROMIUM");
  return chromium.launch({ executablePath, args: FLAGS });
}

/**
 * A new page that is signed in by token, at `route` (such as "/queue"). `check()` tells what went wrong on it. With `beside`,
 * another opened page, it is a tab of the same browser window. `address` is another page of the server than the dashboard.
 */
export async function openPage(browser, { url, token, route = "/queue", address = `${url}/#${route}`, beside, ...contextOptions }) {
  const context = beside?.context ?? (await browser.newContext({ viewport: { width: 1280, height: 800 }, ...contextOptions }));
  const page = await context.newPage();
  page.setDefaultTimeout(60_000);
  const problems = [];
  page.on("pageerror", (error) => problems.push(`page error: ${error.message}`));
  page.on("console", (message) => {
    // A server that is away is part of some tests; the browser reports each refused connection.
    if (message.type() === "error" && !/net::ERR_|Failed to load resource/.test(message.text())) problems.push(`console: ${message.text()}`);
  });
  page.on("request", (request) => {
    if (!request.url().startsWith(url) && !request.url().startsWith("data:")) problems.push(`asked another host: ${request.url()}`);
  });
  await page.addInitScript(() => document.addEventListener("securitypolicyviolation", (event) => console.error(`CSP: ${event.violatedDirective} ${event.blockedURI}`)));
  // A message vanishes after some seconds. A slow test finds it here all the same.
  await page.addInitScript(() => {
    window.messages = [];
    const keep = (node) => node.classList?.contains("toast") && window.messages.push(node.textContent);
    new MutationObserver((changes) => changes.forEach(({ addedNodes }) => addedNodes.forEach(keep))).observe(document, { childList: true, subtree: true });
  });
  if (token) await page.addInitScript((value) => sessionStorage.getItem("signed-out") ?? sessionStorage.setItem("plexus.token", value), token);
  await page.goto(address);
  return {
    page,
    context,
    check: () => assert.deepEqual(problems, [], "the page had problems"),
    close: () => context.close(),
  };
}

/** Presses two keys one right after the other: however slow the machine is, the second one is in time. */
export function chord(page, ...keys) {
  return page.evaluate((keys) => {
    for (const key of keys) (document.activeElement ?? document.body).dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
  }, keys);
}

/** Waits until the page has shown a short message with these words, which may be gone again. */
export function message(page, words) {
  return until(`the message "${words}"`, () => page.evaluate((words) => window.messages.some((text) => text.includes(words)), words));
}

/** Waits until `read` returns something true, and names what did not come. */
export async function until(what, read, timeoutMs = 60_000) {
  const end = Date.now() + timeoutMs;
  for (;;) {
    const value = await read();
    if (value) return value;
    if (Date.now() > end) assert.fail(`did not come: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 40));
  }
}
