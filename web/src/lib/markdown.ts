// Markdown as a tree, for what agents say. The parser is `marked`; only its tokens are used, never its HTML, so whatever an agent
// writes becomes elements that this page chooses and text inside of them.

import { marked, type MarkedToken, type Token } from "marked";

/** Quotes and lists inside of each other; what lies deeper is shown as it was written. */
export const MAX_DEPTH = 8;

/** Marks of quotes and lists at the start of one line: more is no text, and would cost the parser its stack. */
const TOO_DEEP = /^(?:[ \t]*(?:>|[-+*]|\d{1,9}[.)])){24}/m;

/** Returns the blocks of a text, or null for a text that is better shown as it is. */
export function blocksOf(text: string): MarkedToken[] | null {
  if (TOO_DEEP.test(text)) return null;
  try {
    return known(marked.lexer(text, { gfm: true }));
  } catch {
    return null;
  }
}

/** Tokens that the page knows how to draw. No extension is installed, so there are no others. */
export const known = (tokens: readonly Token[] | undefined): MarkedToken[] => (tokens ?? []) as MarkedToken[];

/** The address of a link that may be followed: of a web page or a mailbox, and nothing that the browser would run. */
export function followable(href: string): string | null {
  if (!URL.canParse(href)) return null;
  return ["http:", "https:", "mailto:"].includes(new URL(href).protocol) ? href : null;
}

/** The last sentence of a text, without its marks: what a list of sessions says of each. */
export function lastSentence(text: string, max = 200): string {
  const plain = plainText(blocksOf(text.slice(-4_000)) ?? []);
  const line = plain.split("\n").map((each) => each.trim()).filter(Boolean).at(-1) ?? "";
  const sentences = line.split(/(?<=[.!?…])\s+(?=\p{Lu})/u);
  const last = sentences.at(-1) ?? line;
  return last.length > max ? `${last.slice(0, max)}…` : last;
}

function plainText(tokens: readonly MarkedToken[]): string {
  const parts = tokens.map((token): string => {
    switch (token.type) {
      case "paragraph":
      case "heading":
      case "blockquote":
        return `${plainText(known(token.tokens))}\n`;
      case "list":
        return token.items.map((item) => `${plainText(known(item.tokens))}\n`).join("");
      case "text":
      case "strong":
      case "em":
      case "del":
      case "link":
        return "tokens" in token && token.tokens ? plainText(known(token.tokens)) : token.text;
      case "codespan":
      case "escape":
        return token.text;
      case "br":
        return "\n";
      // Code and tables are no sentences.
      case "code":
      case "table":
      case "hr":
      case "space":
      case "checkbox":
        return "\n";
      default:
        return token.raw;
    }
  });
  return parts.join("");
}
