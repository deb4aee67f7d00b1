#!/usr/bin/env python3
"""Makes the types of the Python SDK and the OpenRPC document out of `schemas/`.

`python3 sdk/generate.py` writes both files; with `--check` it fails when one of them is stale. A
schema that it does not understand is an error, so that nothing becomes `Any` unnoticed. The types of
the TypeScript SDK are made by web/scripts/wire.mjs, beside those of the dashboard.
"""

import json
import keyword
import pathlib
import re
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parent.parent
SCHEMAS = ROOT / "schemas"
PYTHON = ROOT / "sdk/python/src/plexus_sdk/wire.py"
OPENRPC = SCHEMAS / "openrpc.json"

HEAD = '''"""Every shape of the wire. Made from schemas/wire.json by sdk/generate.py; do not edit."""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypeAlias, TypedDict

Json: TypeAlias = Any
'''

# What a schema may say without changing its type.
SILENT = {"description", "format", "minimum", "maximum", "minLength", "maxLength", "minItems",
          "maxItems", "title", "default"}
KNOWN = {"$ref", "const", "enum", "oneOf", "anyOf", "type", "properties", "required",
         "additionalProperties", "items"}
PLAIN = {"string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None"}


class Types:
    """Turns schemas into Python, one class for each object with fields."""

    def __init__(self, defs):
        self.defs = defs
        self.classes = []
        self.aliases = {}
        self.made = set()

    def of(self, schema, name):
        """Returns the type of a schema; objects inside it get classes named after `name`."""
        says = {key for key in schema if key not in SILENT}
        if says - KNOWN:
            raise SystemExit(f"{name}: a schema says {says - KNOWN}, which has no Python yet")
        if not says:
            return "Json"
        if "const" in schema:
            return f"Literal[{schema['const']!r}]"
        if "enum" in schema:
            return f"Literal[{', '.join(map(repr, schema['enum']))}]"
        branches = schema.get("oneOf") or schema.get("anyOf")
        fields = schema.get("properties")
        if fields and (branches or "$ref" in schema):
            # Fields beside a reference or branches belong to each of what those name.
            shapes = self.shapes(schema)
            names = [f"{name}{tag(shape, index)}" if len(shapes) > 1 else name
                     for index, shape in enumerate(shapes)]
            return union([self.record(shape, one) for shape, one in zip(shapes, names)])
        if "$ref" in schema:
            return schema["$ref"].removeprefix("#/$defs/")
        if branches:
            several = [branch for branch in branches if branch.get("type") != "null"]
            named = len(several) > 1
            return union([self.of(branch, f"{name}{tag(branch, index)}" if named else name)
                          for index, branch in enumerate(branches)])
        kind = schema["type"]
        if kind == "array":
            return f"list[{self.of(schema.get('items', {}), f'{name}Item')}]"
        if kind != "object":
            return PLAIN[kind]
        if fields:
            return self.record(schema, name)
        more = schema.get("additionalProperties", True)
        return "dict[str, Any]" if isinstance(more, bool) else f"dict[str, {self.of(more, name)}]"

    def shapes(self, schema):
        """Lists the objects that a schema admits, each with all of its fields."""
        found = [{"properties": {}, "required": []}]
        if "$ref" in schema:
            found = self.shapes(self.defs[schema["$ref"].removeprefix("#/$defs/")])
        branches = schema.get("oneOf") or schema.get("anyOf")
        if branches:
            found = [merged(one, other) for one in found for branch in branches
                     for other in self.shapes(branch)]
        return [merged(one, schema) for one in found]

    def record(self, schema, name):
        """Writes an object with fields as a class, and returns its name."""
        if name in self.made:
            raise SystemExit(f"{name}: two objects would have this name")
        self.made.add(name)
        required = set(schema.get("required", []))
        # The tag that tells variants apart comes first.
        fields = sorted(schema["properties"].items(), key=lambda field: field[0] != "type")
        lines, simple = [], True
        for field, inner in fields:
            kind = self.of(inner, f"{name}{camel(field)}")
            if field not in required:
                kind = f"NotRequired[{kind}]"
            simple &= field.isidentifier() and not keyword.iskeyword(field)
            lines.append((field, kind, inner.get("description")))
        if not simple:
            entries = "".join(f"    {field!r}: {kind!r},\n" for field, kind, _ in lines)
            self.classes.append(f"{name} = TypedDict({name!r}, {{\n{entries}}})\n")
            return name
        text = f"class {name}(TypedDict):\n{doc(schema.get('description'))}"
        for field, kind, said in lines:
            text += f"    {field}: {kind}\n{doc(said)}"
        self.classes.append(text)
        return name

    def add(self, name, schema):
        """Adds a named shape."""
        kind = self.of(schema, name)
        if kind == name:
            return
        self.aliases[name] = (kind, doc(schema.get("description"), ""))

    def written(self):
        """Lists the classes, then the aliases, each after those that it names."""
        texts, done = list(self.classes), set()

        def write(name):
            if name in done or name not in self.aliases:
                return
            done.add(name)
            kind, said = self.aliases[name]
            for part in re.findall(r"\w+", kind):
                write(part)
            members = kind.split(" | ")
            if len(f"{name}: TypeAlias = {kind}") > 100 and len(members) > 1:
                kind = "(\n    " + "\n    | ".join(members) + "\n)"
            texts.append(f"{name}: TypeAlias = {kind}\n{said}")

        for name in self.aliases:
            write(name)
        return texts


def merged(one, other):
    required = [*one.get("required", []), *other.get("required", [])]
    return {"properties": {**one.get("properties", {}), **other.get("properties", {})},
            "required": list(dict.fromkeys(required)),
            "description": other.get("description") or one.get("description")}


def tag(schema, index):
    """Names a variant by its tag, its only field, or its number."""
    fields = schema.get("properties", {})
    for field in fields.values():
        if "const" in field:
            return camel(field["const"])
    if len(fields) == 1:
        return camel(next(iter(fields)))
    return camel(schema["$ref"].removeprefix("#/$defs/")) if "$ref" in schema else str(index + 1)


def union(kinds):
    return " | ".join(dict.fromkeys(kinds))


def camel(text):
    return "".join(part[:1].upper() + part[1:] for part in re.split(r"[^A-Za-z0-9]+", text))


def doc(said, indent="    "):
    if not said:
        return ""
    said = " ".join(said.split()).replace("\\", "\\\\").replace('"""', "'''")
    # A quotation mark before the closing ones would be read as one of them.
    said = f'{said} ' if said.endswith('"') else said
    lines = textwrap.wrap(f'"""{said}"""', 100 - len(indent), break_long_words=False)
    return "".join(f"{indent}{line}\n" for line in lines)


def python(document):
    types = Types(document["$defs"])
    for name, schema in document["$defs"].items():
        types.add(name, schema)
    return HEAD + "".join(f"\n\n{one}" for one in types.written())


def openrpc(document):
    """Describes every method as OpenRPC does, with the shapes as its components."""
    methods = []
    for path in sorted(SCHEMAS.glob("*.*.json")):
        told = json.loads(path.read_text())
        of = document["methods"][told["method"]]
        params = document["$defs"][of["params"]["$ref"].removeprefix("#/$defs/")]
        required = params.get("required", [])
        methods.append({
            "name": told["method"],
            "summary": told["description"],
            "paramStructure": "by-name",
            "params": [
                {"name": name, "required": name in required, "schema": schema,
                 **({"description": schema["description"]} if "description" in schema else {})}
                for name, schema in sorted(params.get("properties", {}).items(),
                                           key=lambda field: field[0] not in required)
            ],
            "result": {"name": "item" if told["shape"] == "streaming" else "result",
                       "schema": of["result"]},
            "x-shape": told["shape"],
        })
    whole = {
        "openrpc": "1.3.2",
        "info": {"title": "Plexus", "version": version(),
                 "description": "Every method of the server, at POST /rpc and over a WebSocket."},
        "methods": methods,
        "components": {"schemas": document["$defs"]},
    }
    return json.dumps(whole, indent=1).replace("#/$defs/", "#/components/schemas/") + "\n"


def version():
    text = (ROOT / "Cargo.toml").read_text()
    return re.search(r'^version = "([^"]+)"', text, re.MULTILINE).group(1)


def main():
    document = json.loads((SCHEMAS / "wire.json").read_text())
    stale = []
    for path, text in [(PYTHON, python(document)), (OPENRPC, openrpc(document))]:
        if "--check" not in sys.argv:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            stale.append(str(path.relative_to(ROOT)))
    if stale:
        raise SystemExit(f"stale: {', '.join(stale)}; python3 sdk/generate.py writes them anew")


main()
