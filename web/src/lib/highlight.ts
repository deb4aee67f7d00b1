// Code with its words set apart: `lowlight` (the grammars of highlight.js) gives a tree, of which only texts and known names of
// classes are taken.

import bash from "highlight.js/lib/languages/bash";
import c from "highlight.js/lib/languages/c";
import cpp from "highlight.js/lib/languages/cpp";
import css from "highlight.js/lib/languages/css";
import diff from "highlight.js/lib/languages/diff";
import go from "highlight.js/lib/languages/go";
import ini from "highlight.js/lib/languages/ini";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import python from "highlight.js/lib/languages/python";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";
import { createLowlight } from "lowlight";

/** Longer code is shown plain: colours are not worth a page that stands still. */
const MAX_CHARS = 20_000;

export type Ink = "keyword" | "string" | "number" | "comment" | "title" | "added" | "removed" | null;
export type Piece = { text: string; ink: Ink };

const INKS: Record<string, Ink> = {
  "hljs-keyword": "keyword",
  "hljs-selector-tag": "keyword",
  "hljs-built_in": "keyword",
  "hljs-literal": "number",
  "hljs-number": "number",
  "hljs-string": "string",
  "hljs-regexp": "string",
  "hljs-char": "string",
  "hljs-comment": "comment",
  "hljs-doctag": "comment",
  "hljs-meta": "comment",
  "hljs-title": "title",
  "hljs-section": "title",
  "hljs-name": "title",
  "hljs-attr": "title",
  "hljs-attribute": "title",
  "hljs-type": "title",
  "hljs-addition": "added",
  "hljs-deletion": "removed",
};

const grammars = createLowlight({ bash, c, cpp, css, diff, go, ini, java, javascript, json, python, rust, sql, typescript, xml, yaml });
grammars.registerAlias({ bash: ["console", "shell", "shell-session", "zsh"], ini: ["toml"], typescript: ["svelte", "tsx"], json: ["jsonc", "jsonl"] });

/** Cuts code into pieces. Of a language that is not known there is one. */
export function highlight(text: string, language: string | undefined): Piece[] {
  const name = language?.trim().toLowerCase().split(/[\s,{]/)[0] ?? "";
  if (text.length > MAX_CHARS || !grammars.registered(name)) return [{ text, ink: null }];
  const pieces: Piece[] = [];
  take(grammars.highlight(name, text).children, null, pieces);
  return pieces;
}

type Node = { type: string; value?: string; properties?: { className?: unknown }; children?: Node[] };

function take(nodes: readonly unknown[], ink: Ink, into: Piece[]): void {
  for (const node of nodes as readonly Node[]) {
    if (node.type === "text" && node.value) into.push({ text: node.value, ink });
    const names = Array.isArray(node.properties?.className) ? node.properties.className : [];
    const own = names.map((each) => INKS[String(each)]).find(Boolean);
    if (node.children) take(node.children, own ?? ink, into);
  }
}
