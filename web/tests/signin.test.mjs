// Signing in and out: the one-time code, a pasted token, a token that is no longer good.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { openPage, until } from "./browser.mjs";
import { standInOnly, startTarget } from "./target.mjs";

let target;
const codes = new Set(["once", "twice"]);
before(async () => (target = await startTarget({ codes })));
after(() => target.close());

const open = (route) => openPage(target.browser, { url: target.url, token: null, route });

test("a one-time code becomes a token and leaves the address", standInOnly, async () => {
  const { page, check, close } = await open("code=once");
  await page.locator(".connection.live").waitFor();
  assert(!page.url().includes("once"), page.url());
  assert.equal(await page.evaluate(() => sessionStorage.getItem("plexus.token")), target.token);
  assert.equal(await page.evaluate(() => document.cookie + localStorage.getItem("plexus.token")), "null");
  await page.reload();
  await page.locator(".connection.live").waitFor();
  check();
  await close();
});

test("a used code says so, and shows how to sign in", standInOnly, async () => {
  const { page, check, close } = await open("code=used-up");
  await page.getByText("was used already").waitFor();
  await page.getByText("plexus dashboard").waitFor();
  assert(!page.url().includes("used-up"));
  check();
  await close();
});

test("a pasted token signs in, a wrong one is refused, and signing out forgets it", async () => {
  const { page, check, close } = await open("/queue");
  for (const wrong of ["wrong", "plx_…", "two words"]) {
    await page.getByLabel(/paste the token/).fill(wrong);
    await page.getByRole("button", { name: "Sign in" }).click();
    await page.getByRole("alert").getByText("This is not a token of this server. In a terminal, plexus token prints it.").waitFor();
    await page.reload();
  }
  await page.getByLabel(/paste the token/).fill(target.token);
  await page.getByRole("button", { name: "Sign in" }).click();
  await page.locator(".connection.live").waitFor();
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByLabel(/paste the token/).waitFor();
  assert.equal(await page.evaluate(() => sessionStorage.getItem("plexus.token")), null);
  check();
  await close();
});

test("the theme follows the system and can be chosen", async () => {
  const { page, check, close } = await target.page("/queue", { colorScheme: "dark" });
  await page.locator(".connection.live").waitFor();
  const dark = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const system = await dark();
  await page.keyboard.press("t");
  const light = await dark();
  assert.notEqual(light, system);
  await page.reload();
  await page.locator(".connection.live").waitFor();
  await until("the choice to be kept", async () => (await dark()) === light);
  check();
  await close();
});
