// Questions and plans of the real Claude Code CLI, answered on the page: what the page says about them is true of the real agent,
// and what is clicked is what the model reads.

import assert from "node:assert/strict";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { until } from "./browser.mjs";
import { realClaude, script, startModel } from "./real-claude.mjs";
import { startTarget } from "./target.mjs";

const real = realClaude();
let model, target;
before(async () => {
  if (real.skip) return;
  model = await startModel();
  target = await startTarget({ real: { agent: model.agent, env: model.env } });
});
after(async () => {
  await target?.close();
  await model?.close();
});

test("a question with two options is answered on the page", real, async () => {
  const options = [{ label: "SQLite", description: "one file" }, { label: "PostgreSQL", description: "a server" }];
  const question = { question: "Which database?", header: "DB", multiSelect: false, options };
  const session = await target.start("question", script([{ text: "I need to know something.", tools: [["AskUserQuestion", { questions: [question] }]] }, { text: "the end" }]));
  const { page, check, close } = await target.page("/queue");
  await page.getByRole("option", { name: new RegExp(session.name) }).click();
  await page.getByRole("heading", { name: "Question" }).waitFor();
  const choices = page.getByRole("group", { name: /Which database/ }).getByRole("radio");
  assert.equal(await choices.count(), 2);
  assert(!(await page.locator("main").innerText()).includes("multiSelect"), "no raw input is shown");
  await page.getByRole("radio", { name: /PostgreSQL/ }).check();
  await page.getByRole("button", { name: /^Answer/ }).click();
  await model.hasRead('"Which database?"="PostgreSQL"');
  await page.goto(`${target.url}/#/sessions/${session.id}`);
  await page.locator(".row.content").getByText("the end").waitFor();
  check();
  await close();
});

test("a plan is sent back once on the page, and the next one approved", real, async () => {
  const plan = (text) => ({ tools: [["Write", { file_path: "$PLAN_FILE", content: text }]] });
  const present = { tools: [["ExitPlanMode", {}]] };
  const session = await target.start("plan", script([
    { tools: [["EnterPlanMode", {}]] },
    plan("# First plan\n\n1. do it\n"),
    present,
    { tools: [["Read", { file_path: "$PLAN_FILE" }]] },
    plan("# Second plan\n\n1. test it\n2. do it\n"),
    present,
    { tools: [["Bash", { command: "touch made", description: "as planned" }]] },
    { text: "carried out" },
  ]));
  const { page, check, close } = await target.page(`/sessions/${session.id}`);
  const here = page.getByRole("region", { name: "Waits for your answer" });
  await here.getByText("First plan").waitFor();
  await here.getByRole("button", { name: /^Send back/ }).click();
  await here.getByLabel(/What should be different/).fill("test it first");
  await here.getByRole("button", { name: /^Send back/ }).click();
  await model.hasRead("test it first");
  await here.getByText("Second plan").waitFor();
  assert.deepEqual(await here.locator("ol > li").allInnerTexts(), ["test it", "do it"]);
  await here.getByRole("button", { name: /^Approve the plan/ }).click();
  await here.getByText("touch made").waitFor();
  assert(!existsSync(join(target.folder, "made")), "a plan that was approved allows no command");
  await here.getByRole("button", { name: /^Allow/ }).click();
  await page.locator(".row.content").getByText("carried out").waitFor();
  await until("the file of the plan", () => existsSync(join(target.folder, "made")));
  check();
  await close();
});
