// Colours of text on their backgrounds, in both themes: at least 4.5 to 1, as WCAG AA asks.

import assert from "node:assert/strict";
import { readFile } from "node:fs/promises";
import { test } from "node:test";

const css = await readFile(new URL("../../src/app.css", import.meta.url), "utf8");
const tokens = Object.fromEntries([...css.matchAll(/--([\w-]+): light-dark\((#\w{6}), (#\w{6})\);/g)].map(([, name, light, dark]) => [name, [light, dark]]));

function luminance(hex) {
  const [r, g, b] = [1, 3, 5].map((at) => {
    const value = parseInt(hex.slice(at, at + 2), 16) / 255;
    return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
}

function contrast(a, b) {
  const [high, low] = [luminance(a), luminance(b)].sort((x, y) => y - x);
  return (high + 0.05) / (low + 0.05);
}

const PLAIN = ["bg", "surface", "raised", "hover", "selected"];
const PAIRS = [
  ...["text", "muted", "accent", "ok", "warn", "bad"].flatMap((ink) => PLAIN.map((paper) => [ink, paper])),
  ...["text", "ok"].map((ink) => [ink, "ok-soft"]),
  ...["text", "warn"].map((ink) => [ink, "warn-soft"]),
  ...["text", "bad"].map((ink) => [ink, "bad-soft"]),
  ...["text", "accent"].map((ink) => [ink, "info-soft"]),
  ["text", "ok-mark"],
  ["text", "bad-mark"],
];

for (const [theme, index] of [["light", 0], ["dark", 1]]) {
  test(`text can be read in the ${theme} theme`, () => {
    const weak = PAIRS.map(([ink, paper]) => [ink, paper, contrast(tokens[ink][index], tokens[paper][index])]).filter(([, , ratio]) => ratio < 4.5);
    assert.deepEqual(weak, []);
    assert(contrast("#ffffff", tokens["accent-fill"][index]) >= 4.5, "white on the main button");
    for (const paper of PLAIN.slice(0, 2)) assert(contrast(tokens["line-strong"][index], tokens[paper][index]) >= 3, `the edge of a field on ${paper}`);
  });
}
