// Rules that one's own decisions speak for.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { until } from "./browser.mjs";
import { startTarget } from "./target.mjs";

const realOnly = process.env["PLEXUS_BIN"] ? {} : { skip: "needs the real server: the stand-in judges no rules" };

let target;
before(async () => (target = await startTarget()));
after(() => target.close());

const decide = async (name, command, approve) => {
  const session = await target.run(name, [`tool Bash ${JSON.stringify({ command })}`, "say done"], { supervise: "all" });
  const [approval] = await target.pending(session.id);
  await target.call("loopback.respond", { approval_id: approval.id, approve, ...(approve ? {} : { message: "no" }) });
  await target.decision(approval.id);
};

test("a suggestion shows its evidence and is accepted by itself", realOnly, async () => {
  for (const [n, command] of ["git diff --stat", "git diff HEAD"].entries()) await decide(`allowed-${n}`, command, true);
  await decide("denied", "rm -rf elsewhere", false);
  const { page, check, close } = await target.page("/rules");
  await page.getByRole("link", { name: "Suggestions" }).click();
  await page.getByRole("heading", { name: "Suggested rules" }).waitFor();
  const first = page.getByRole("article").first();
  await first.getByText(/of your last/).waitFor();
  await first.getByText(/none that you denied/).waitFor();
  const before = await page.getByRole("article").count();
  await first.getByText("The newest of them").click();
  await first.getByText(/git (status|diff)/).last().waitFor();
  assert.equal((await target.call("loopback.rules", {})).rules.length, 0, "nothing is accepted by itself");
  const pattern = await first.locator("code").innerText();
  await first.getByRole("button", { name: /^Accept/ }).click();
  await until("the rule to be there", async () => (await target.call("loopback.rules", {})).rules.some((rule) => rule.pattern === pattern && rule.decision === "allow"));
  await until("its suggestion to go", async () => (await page.getByRole("article").count()) < before);
  assert.equal((await target.call("loopback.rules", {})).rules.length, 1, "one press, one rule");
  check();
  await close();
});
