// Makes src/lib/wire.ts, and the same for the TypeScript SDK, out of schemas/wire.json, which holds every shape of `plexus-wire`.
//
// `node scripts/wire.mjs` writes the files; with `--check` it fails when one is stale. What it does not understand in the
// schema is an error, so that nothing becomes `any` unnoticed.

import { readFileSync, writeFileSync } from "node:fs";

const SCHEMA = new URL("../../schemas/wire.json", import.meta.url);
const TARGETS = ["src/lib/wire.ts", "../sdk/typescript/src/wire.ts"];

const HEAD = `// Every shape of the wire. Made from schemas/wire.json by \`npm run wire\`; do not edit.

export type Json = null | boolean | number | string | Json[] | JsonObject;
export type JsonObject = { [key: string]: Json };
`;

/** What a schema may say without changing its type: words for people, and what only a validator looks at. */
const SILENT = new Set(["description", "format", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems", "title", "default"]);

/** Returns the TypeScript type of a schema that stands `depth` levels deep. */
function type(schema, depth = 0) {
  const says = Object.keys(schema).filter((key) => !SILENT.has(key));
  const known = new Set(["$ref", "const", "enum", "oneOf", "anyOf", "type", "properties", "required", "additionalProperties", "items"]);
  const odd = says.filter((key) => !known.has(key));
  if (odd.length > 0) throw new Error(`a schema says ${odd.join(", ")}, which has no TypeScript yet: ${JSON.stringify(schema)}`);
  if (says.length === 0) return "Json";
  if ("const" in schema) return JSON.stringify(schema.const);
  if ("enum" in schema) return union(schema.enum.map((value) => JSON.stringify(value)), depth);
  const parts = [];
  if ("$ref" in schema) parts.push(schema.$ref.replace("#/$defs/", ""));
  const branches = schema.oneOf ?? schema.anyOf;
  if (branches) parts.push(union(branches.map((branch) => type(branch, depth + 1)), depth, branches));
  // Beside a reference or branches, an object without fields of its own only repeats what they say.
  if ("type" in schema && (parts.length === 0 || schema.properties)) parts.push(plain(schema, depth));
  return parts.length === 1 ? parts[0] : parts.map((part) => (part.includes("|") ? `(${part})` : part)).join(" & ");
}

function plain(schema, depth) {
  const kinds = [schema.type].flat();
  return union(kinds.map((kind) => named(kind, schema, depth)), depth);
}

function named(kind, schema, depth) {
  switch (kind) {
    case "integer":
      return "number";
    case "number":
    case "string":
    case "boolean":
    case "null":
      return kind;
    case "array": {
      const item = type(schema.items ?? {}, depth);
      return item.includes("|") || item.includes("&") ? `(${item})[]` : `${item}[]`;
    }
    case "object":
      return object(schema, depth);
    default:
      throw new Error(`there is no TypeScript for the type ${kind}`);
  }
}

function object(schema, depth) {
  const fields = Object.entries(schema.properties ?? {});
  const more = schema.additionalProperties;
  if (fields.length === 0) {
    if (more === true || more === undefined) return "JsonObject";
    return more === false ? "Record<string, never>" : `{ [key: string]: ${type(more, depth)} }`;
  }
  const required = new Set(schema.required ?? []);
  // The tag that tells variants apart comes first.
  fields.sort(([a], [b]) => (b === "type") - (a === "type"));
  const [[name, field]] = fields;
  if (fields.length === 1 && !field.description) return `{ ${name}${required.has(name) ? "" : "?"}: ${type(field, depth)} }`;
  const indent = "  ".repeat(depth + 1);
  const lines = fields.map(([name, field]) => {
    const key = /^[A-Za-z_]\w*$/.test(name) ? name : JSON.stringify(name);
    return `${doc(field, indent)}${indent}${key}${required.has(name) ? "" : "?"}: ${type(field, depth + 1)};`;
  });
  return `{\n${lines.join("\n")}\n${"  ".repeat(depth)}}`;
}

/** Joins types; where one of them is long, each has its own line below what its schema says of it. */
function union(types, depth, schemas = []) {
  const long = types.length > 1 && types.some((one) => one.includes("\n"));
  if (!long) return [...new Set(types)].join(" | ");
  const indent = "  ".repeat(depth + 1);
  return `\n${types.map((one, i) => `${doc(schemas[i] ?? {}, indent)}${indent}| ${one}`).join("\n")}`;
}

function doc(schema, indent = "") {
  if (!schema.description) return "";
  return `${indent}/** ${schema.description.replace(/\s*\n\s*/g, " ").replaceAll("*/", "*\\/")} */\n`;
}

function made(document) {
  const shapes = Object.entries(document.$defs).map(([name, schema]) => {
    const body = type(schema);
    return `${doc(schema)}export type ${name} =${body.startsWith("\n") ? body : ` ${body}`};\n`;
  });
  const methods = Object.entries(document.methods).map(
    ([name, { params, result }]) => `  ${JSON.stringify(name)}: { params: ${type(params)}; result: ${type(result)} };`,
  );
  const table = `/** Every method with its parameters and its result. */\nexport type Methods = {\n${methods.join("\n")}\n};\n`;
  return [HEAD, ...shapes, table].join("\n");
}

const text = made(JSON.parse(readFileSync(SCHEMA, "utf8")));
for (const name of TARGETS) {
  const target = new URL(`../${name}`, import.meta.url);
  if (!process.argv.includes("--check")) {
    writeFileSync(target, text);
  } else if (readFileSync(target, "utf8") !== text) {
    console.error(`${name} is stale: npm run wire writes it anew`);
    process.exitCode = 1;
  }
}
