// Questions of an agent to its user: whether they can be answered here, and what is sent for what was chosen.

import type { Approval, Question, QuestionPart } from "./wire.ts";

/** What is chosen and written for one part of a question. */
export type Choice = { labels: string[]; words: string };

/** The question of an approval or of its event, when it is one that this page knows how to show. */
export function questionOf(asked: Pick<Approval, "question">): Question | null {
  const question = asked.question as Question | null | undefined;
  return question?.kind === "choices" || question?.kind === "plan" ? question : null;
}

/** Whether a part is answered in words, alone or beside its options. */
export const takesWords = (part: QuestionPart): boolean => part.free_text === true || (part.options ?? []).length === 0;

/** The answers to send, or null while a part has none. */
export function answersOf(parts: readonly QuestionPart[], choices: ReadonlyMap<string, Choice>): Record<string, string[]> | null {
  const answers: Record<string, string[]> = {};
  for (const part of parts) {
    const { labels, words } = choices.get(part.id) ?? { labels: [], words: "" };
    const own = takesWords(part) ? words.trim() : "";
    const given = [...new Set([...labels, ...(own === "" ? [] : [own])])];
    if (given.length === 0 || (given.length > 1 && !part.multiple)) return null;
    answers[part.id] = given;
  }
  return answers;
}

/** A question in one line, for lists. */
export function questionLine(question: Question): string {
  if (question.kind === "choices") return question.questions.map((part) => part.text).join(" / ");
  const first = question.plan.split("\n").find((line) => line.trim() !== "") ?? "";
  return first.replace(/^#+\s*/, "");
}
