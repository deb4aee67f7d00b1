// JSON whose numbers keep their digits. JavaScript has only doubles: JSON.parse makes 1234567890123456800 of 1234567890123456789,
// and somebody would see, approve and send another number than was asked.
//
// A number that JavaScript would print differently becomes an [`ExactNumber`], within an input also `1.0`. All others are plain
// numbers, so whoever only looks for texts and fields notices nothing. What is shown or sent is written by [`write`].

import type { Json, JsonObject } from "./wire.ts";

/** A number as it was written. It is read only by this file and by `digest.ts`; to all others it is an object without fields. */
export class ExactNumber {
  readonly #literal: string;

  constructor(literal: string) {
    this.#literal = literal;
  }

  get literal(): string {
    return this.#literal;
  }

  /** JSON.stringify cannot write a literal: it writes the digits as a text rather than other digits. */
  toJSON(): string {
    return this.#literal;
  }
}

/** Fields of the wire that hold what an agent said. Elsewhere numbers are the server's, and the page counts with them. */
const AGENTS_WORDS: ReadonlySet<string> = new Set(["input", "updated_input", "output"]);
const HAS_AGENTS_WORDS = /"(?:(?:updated_)?in|out)put"/;

/** Finds texts that may hold a number that a double prints differently. A find within a string costs only time. */
const SUSPECT = /(?:^|[:[,])\s*-?(?:\d{16}|\d+[.eE]|(?<=-)0)/;

/** Reads an answer or an event of the server. Throws as JSON.parse does. */
export function readWire(text: string): unknown {
  const plain: unknown = JSON.parse(text);
  return HAS_AGENTS_WORDS.test(text) && SUSPECT.test(text) ? new Reader(text).value(false) : plain;
}

/** Reads what somebody wrote. Throws as JSON.parse does. */
export function readExact(text: string): Json {
  const plain = JSON.parse(text) as Json;
  return SUSPECT.test(text) ? (new Reader(text).value(true) as Json) : plain;
}

/** Whether it is an object with fields; an [`ExactNumber`] is none. */
export const isObject = (value: Json): value is JsonObject => typeof value === "object" && value !== null && !Array.isArray(value) && !((value as unknown) instanceof ExactNumber);

/** Writes a value with the digits of its numbers; like JSON.stringify in everything else. */
export function write(value: unknown, indent = 0): string {
  return writeAt(value, indent, "\n") ?? "null";
}

function writeAt(value: unknown, indent: number, line: string): string | undefined {
  if (value instanceof ExactNumber) return value.literal;
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  const inner = line + " ".repeat(indent);
  const list = Array.isArray(value);
  const parts = list
    ? value.map((item) => writeAt(item, indent, inner) ?? "null")
    : Object.entries(value).flatMap(([key, item]) => {
        const written = writeAt(item, indent, inner);
        return written === undefined ? [] : [`${JSON.stringify(key)}:${indent > 0 ? " " : ""}${written}`];
      });
  const [open, close] = list ? "[]" : "{}";
  if (indent === 0 || parts.length === 0) return `${open}${parts.join(",")}${close}`;
  return `${open}${inner}${parts.join(`,${inner}`)}${line}${close}`;
}

/** Numbers of a value that the server would change, because it keeps integers of 64 bits and doubles. */
export function unkept(value: Json): string[] {
  if ((value as unknown) instanceof ExactNumber) {
    const { literal } = value as unknown as ExactNumber;
    return isWide(literal) || sameDecimal(literal, String(Number(literal))) ? [] : [literal];
  }
  if (typeof value !== "object" || value === null) return [];
  return Object.values(value).flatMap(unkept);
}

/** Whether the server keeps this literal as an integer, with all its digits. */
export function isWide(literal: string): boolean {
  if (!/^-?\d+$/.test(literal) || literal === "-0") return false;
  const n = BigInt(literal);
  return n >= -(2n ** 63n) && n < 2n ** 64n;
}

/** Compares what two literals say, whatever their form: `1.50e1` and `15`. */
function sameDecimal(a: string, b: string): boolean {
  return plainForm(a) === plainForm(b);
}

function plainForm(literal: string): string {
  const [, sign = "", whole = "", part = "", power = "0"] = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/.exec(literal) ?? [];
  const digits = (whole + part).replace(/^0+/, "");
  const kept = digits.replace(/0+$/, "");
  if (kept === "") return "0";
  return `${sign}${kept}e${BigInt(power) - BigInt(part.length) + BigInt(digits.length - kept.length)}`;
}

/** Reads text that JSON.parse has read before: it is known to be well formed. */
class Reader {
  private at = 0;

  constructor(private readonly text: string) {}

  /** Numbers are kept exactly where `exact` says so, and within the fields that hold an agent's words. */
  value(exact: boolean): unknown {
    const first = this.next();
    if (first === "{") return this.object(exact);
    if (first === "[") return this.array(exact);
    if (first === '"') return this.string();
    return this.literal(exact);
  }

  private object(exact: boolean): object {
    const object: Record<string, unknown> = {};
    this.at++;
    while (this.next() !== "}") {
      if (this.next() === ",") this.at++;
      this.next();
      const key = this.string();
      this.next();
      this.at++;
      const value = this.value(exact || AGENTS_WORDS.has(key));
      // An assignment to `__proto__` would make no field, and nobody would see what it holds.
      if (key === "__proto__") Object.defineProperty(object, key, { value, configurable: true, enumerable: true, writable: true });
      else object[key] = value;
    }
    this.at++;
    return object;
  }

  private array(exact: boolean): unknown[] {
    const array: unknown[] = [];
    this.at++;
    while (this.next() !== "]") {
      if (this.next() === ",") this.at++;
      array.push(this.value(exact));
    }
    this.at++;
    return array;
  }

  private string(): string {
    let end = this.at + 1;
    let escaped = false;
    for (let code = this.text.charCodeAt(end); code !== 0x22; code = this.text.charCodeAt(end)) {
      if (code === 0x5c) escaped = true;
      end += code === 0x5c ? 2 : 1;
    }
    const text = escaped ? (JSON.parse(this.text.slice(this.at, end + 1)) as string) : this.text.slice(this.at + 1, end);
    this.at = end + 1;
    return text;
  }

  private literal(exact: boolean): unknown {
    const found = /[^\s,\]}]+/y;
    found.lastIndex = this.at;
    const literal = found.exec(this.text)?.[0] ?? "";
    this.at += literal.length;
    const value: unknown = JSON.parse(literal);
    return exact && typeof value === "number" && String(value) !== literal ? new ExactNumber(literal) : value;
  }

  /** Goes to the next character that means something. */
  private next(): string | undefined {
    for (let char = this.text[this.at]; ; char = this.text[++this.at]) if (char !== " " && char !== "\n" && char !== "\r" && char !== "\t") return char;
  }
}
