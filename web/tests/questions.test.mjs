// Questions and plans of an agent: shown as such, answered by choice or in words, approved or sent back.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { until } from "./browser.mjs";
import { standInOnly, startTarget } from "./target.mjs";

let target;
before(async () => (target = await startTarget()));
after(() => target.close());

const option = (label, description) => ({ label, description });
const QUESTIONS = [
  { question: "Which database?", header: "DB", multiSelect: false, options: [option("SQLite", "one file"), option("PostgreSQL", "a server")] },
  { question: "Which checks?", header: "CI", multiSelect: true, options: [option("tests", "all of them"), option("lints", "clippy"), option("docs", "links")] },
];
const asks = (questions) => `tool AskUserQuestion ${JSON.stringify({ questions })}`;

async function open(name, step) {
  const session = await target.run(name, ["say I need to know something first.", step, "say the end"]);
  const [approval] = await target.pending(session.id);
  const opened = await target.page(`/queue/${approval.id}`);
  return { ...opened, session, approval };
}

test("a question is answered with one option, several, and own words", async () => {
  const { page, approval, session, check, close } = await open("choices", asks(QUESTIONS));
  await page.getByRole("heading", { name: "Question" }).waitFor();
  await page.getByRole("option", { name: new RegExp(session.name) }).getByText("Which database?").waitFor();
  const answer = page.getByRole("button", { name: /^Answer/ });
  assert(await answer.isDisabled(), "nothing is chosen yet");
  assert.equal(await page.getByRole("button", { name: /^(Edit|Remember)/ }).count(), 0, "a question is neither edited nor remembered");
  await page.getByRole("radio", { name: /SQLite/ }).check();
  await page.getByRole("checkbox", { name: /tests/ }).check();
  await page.getByRole("checkbox", { name: /docs/ }).check();
  await page.getByRole("group", { name: /Which checks/ }).getByLabel(/own words/).fill("spelling");
  await answer.click();
  const decision = await target.decision(approval.id);
  assert.equal(decision.status, "allowed");
  // Claude Code takes several answers as one text, which is what a server tells afterwards.
  const given = Object.fromEntries(approval.question.questions.map((part) => [part.text, decision.answers[part.id].join(", ")]));
  assert.deepEqual(given, { "Which database?": "SQLite", "Which checks?": "tests, docs, spelling" });

  await page.goto(`${target.url}/#/sessions/${session.id}`);
  await page.locator(".row.content").getByText("the end").waitFor();
  await page.locator(".tool .toggle").first().click();
  await page.locator("li", { hasText: "tests, docs, spelling" }).waitFor();
  check();
  await close();
});

test("own words take the place of an option where one answer is taken", async () => {
  const { page, approval, check, close } = await open("words", asks(QUESTIONS.slice(0, 1)));
  await page.getByRole("radio", { name: /PostgreSQL/ }).check();
  const words = page.getByLabel(/own words/);
  await words.fill("DuckDB, if that is not too much");
  assert(!(await page.getByRole("radio", { name: /PostgreSQL/ }).isChecked()));
  await words.press("Enter");
  assert.deepEqual(Object.values((await target.decision(approval.id)).answers), [["DuckDB, if that is not too much"]]);
  check();
  await close();
});

test("a question that is not answered tells the agent why", async () => {
  const { page, approval, check, close } = await open("declined", asks(QUESTIONS.slice(0, 1)));
  await page.getByRole("button", { name: /^Do not answer/ }).click();
  await page.getByLabel(/Why not/).fill("decide yourself");
  await page.keyboard.press("Enter");
  const decision = await target.decision(approval.id);
  assert.deepEqual([decision.status, decision.message], ["denied", "decide yourself"]);
  check();
  await close();
});

test("a plan is sent back with a comment, and the next one approved", async () => {
  const plan = (title) => `tool ExitPlanMode ${JSON.stringify({ plan: `# ${title}\n\n1. look\n2. **change** it\n` })}`;
  const session = await target.run("plan", [plan("First plan"), plan("Second plan"), "say carried out"]);
  const [first] = await target.pending(session.id);
  const { page, check, close } = await target.page(`/sessions/${session.id}`);
  const here = page.getByRole("region", { name: "Waits for your answer" });
  await here.getByRole("heading", { name: "Plan" }).waitFor();
  assert.deepEqual(await here.locator("ol > li").allInnerTexts(), ["look", "change it"], "the plan is set as Markdown");
  await here.getByRole("button", { name: /^Send back/ }).click();
  await here.getByLabel(/What should be different/).fill("test it first");
  // A call that has just come up takes no answer for a moment; a click waits until it does.
  await here.getByRole("button", { name: /^Send back/ }).click();
  const decision = await target.decision(first.id);
  assert.deepEqual([decision.status, decision.message], ["denied", "test it first"]);
  await here.getByText("Second plan").waitFor();
  const second = await until("the second plan", async () => (await target.pending(session.id)).find((each) => each.id !== first.id));
  await here.getByRole("button", { name: /^Approve the plan/ }).click();
  assert.equal((await target.decision(second.id)).status, "allowed");
  await page.locator(".row.content").getByText("carried out").waitFor();
  check();
  await close();
});

test("a question that this page does not know can only be denied", standInOnly, async () => {
  const { page, approval, check, close } = await open("unknown", 'tool Bash {"command":"touch unknown"}');
  target.world.approvals.get(approval.id).question = { kind: "riddle" };
  await page.reload();
  await page.getByText("can only be denied here").waitFor();
  assert(await page.getByRole("button", { name: /^Allow/ }).isDisabled());
  assert(await page.getByRole("button", { name: /^Deny/ }).isEnabled());
  check();
  await close();
});
