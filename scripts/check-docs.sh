#!/usr/bin/env bash
# Checks what the documents say about the tree: every relative link leads somewhere, every test that docs/promises.md names exists, every
# method of the protocol is on its page, and no document names a path of somebody's machine. Needs only bash, grep and sed.
set -euo pipefail
cd "$(dirname "$0")/.."
wrong=0
complain() {
  echo "$1" >&2
  wrong=1
}

documents=$(git ls-files '*.md' | grep -v '^fixtures/')
for document in $documents; do
  folder=$(dirname "$document")
  # Links and pictures: (target) behind a bracket, and src="" or srcset="" of HTML. Code is left out.
  targets=$(sed '/^```/,/^```/d' "$document" | grep -oE '\]\([^)# ]+|src(set)?="[^"]+' | sed -E 's/^\]\(//; s/^src(set)?="//' || true)
  for target in $targets; do
    case $target in
      http://* | https://* | mailto:*) ;;
      *) [ -e "$folder/$target" ] || complain "$document: $target does not exist" ;;
    esac
  done
done

# [`name`](../file) in the tables of the promises.
while IFS=$'\t' read -r name file; do
  grep -qE "\b$name\b" "docs/$file" || complain "docs/promises.md: there is no $name in $file"
done < <(grep -oE '\[`[a-z0-9_]+`\]\([^)]+\)' docs/promises.md | sed -E 's/^\[`([^`]+)`\]\((.*)\)$/\1\t\2/')

# What the tables of methods define, namespace by namespace.
while IFS=$'\t' read -r namespace file; do
  for method in $(tr '\n' ' ' <"$file" | grep -oE '\.(unary|streaming)(::<[^(]*>)?\( *"[a-z_]+"' | grep -oE '"[a-z_]+"' | tr -d '"'); do
    case $method in permit_*) continue ;; esac
    grep -q "^### $namespace\.$method\$" docs/protocol.md || complain "docs/protocol.md: $namespace.$method of $file is missing"
  done
done < <(grep -rlE 'MethodTable::new\(' crates/*/src | while read -r file; do
  name=$(sed -nE 's/.*namespace: "([a-z]+)".*/\1/p' "$file" | head -n 1)
  [ -n "$name" ] || case $file in */claudecode/*) name=claudecode ;; *) continue ;; esac
  printf '%s\t%s\n' "$name" "$file"
done)

if grep -nE '(^|[^a-z.~/])/(work|root|tmp)/' $documents; then complain "a document names a path of one machine"; fi

[ $wrong = 0 ] && echo "the documents agree with the tree"
exit $wrong
