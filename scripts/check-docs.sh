#!/usr/bin/env bash
# Checks what the documents say about the tree: every relative link leads somewhere, every script and every test that a document names exists,
# every method of the protocol is on its page, every block of commands says whether CI runs it, no document names a path of somebody's machine,
# a sentence is a line, and comments wrap at 100 columns. Needs only bash, grep, sed and awk.
set -euo pipefail
cd "$(dirname "$0")/.."
wrong=0
complain() {
  echo "$1" >&2
  wrong=1
}

documents=$(git ls-files '*.md' | grep -v '\(^\|/\)fixtures/')
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

# [`name`](../file) in the tables of the promises and of the agents.
for page in promises agents; do
  while IFS=$'\t' read -r name file; do
    grep -qE "\b$name\b" "docs/$file" || complain "docs/$page.md: there is no $name in $file"
  done < <(grep -oE '\[`[a-z0-9_]+`\]\([^)]+\.rs\)' "docs/$page.md" | sed -E 's/^\[`([^`]+)`\]\((.*)\)$/\1\t\2/')
done

# Every method has a schema (a test holds them to the code), so each of those must be on the page; what is listed nowhere has none.
for schema in schemas/*.*.json; do
  method=$(basename "$schema" .json)
  # The same methods under the name of the first stage.
  method=${method/#claudecode./agents.}
  grep -qxF "### $method" docs/protocol.md || complain "docs/protocol.md: $method is missing"
done

# Every block of commands says whether scripts/check-commands.sh runs it. A command that stands indented is one of the two that the README
# names, which .ci/run and scripts/check-readme.sh run.
unmarked=$(awk '
  FNR == 1 { open = 0 }
  /^ *```/ {
    open = !open
    bare = open && /^ *```$/
    if (open && /^ *```(sh|bash|shell|console)/ && !/^ *```sh (run|run answered|example)$/) print FILENAME ":" FNR ": say `sh run` or `sh example`"
    next
  }
  bare && /^ *(\$ )?(plexus|cargo|npm|npx|pip|bash|sh|curl|python3|docker|git|scripts\/[a-z\/.-]+) [a-z.\/-]/ && !/^\$ plexus run/ {
    print FILENAME ":" FNR ": a command in a block without `sh run` or `sh example`"
    bare = 0
  }' $documents)
[ -z "$unmarked" ] || complain "$unmarked"
for document in $documents; do
  while IFS= read -r command; do
    grep -qxF "    $command" README.md || complain "$document: \`$command\` stands indented and is not one of the README's"
  done < <(awk '/^ *```/ { open = !open } !open' "$document" | sed -nE 's/^    ((cargo|plexus|npm|bash|scripts)[ /].*)$/\1/p')
done

# The index of the documents.
for page in docs/*.md; do
  page=$(basename "$page")
  [ "$page" = README.md ] || grep -qF "]($page)" docs/README.md || complain "docs/README.md does not list $page"
done

# Scripts that a document names.
while IFS=: read -r document script; do
  [ -e "$script" ] || complain "$document: there is no $script"
done < <(grep -oHE '(^|[^a-z/])scripts/[a-z0-9/-]+\.(sh|mjs|ps1|py)' $documents | sed -E 's/:[^s]?scripts/:scripts/' | sort -u)

# A test program without cargo's harness would leave out whatever is marked as a test.
for manifest in crates/*/Cargo.toml; do
  crate=$(dirname "$manifest")
  for program in $(awk '/^\[\[test\]\]/ { test = 1; name = "" } /^\[/ && !/^\[\[test\]\]/ { test = 0 } test && /^name/ { gsub(/[" ]/, ""); sub(/^name=/, ""); name = $0 } test && /^harness *= *false/ { print name }' "$manifest"); do
    lost=$(grep -rlE '^ *#\[(tokio::)?test' "$crate/tests/$program" "$crate/tests/$program.rs" 2>/dev/null || true)
    [ -z "$lost" ] || complain "$program of $crate lists its cases itself: a #[test] in it never runs: $lost"
  done
done

if grep -nE '(^|[^a-z.~/])/(work|root|tmp)/' $documents; then complain "a document names a path of one machine"; fi

# One sentence a line: a line of prose in which another sentence begins is named. Code, tables, quotations and what stands in brackets are left out.
several=$(awk '
  FNR == 1 { fence = 0 }
  /^ *(```|~~~)/ { fence = !fence; next }
  fence || /^ *[|#<>]/ { next }
  {
    text = $0
    sub(/^ *([0-9]+\.|[-*]) /, "", text)
    gsub(/`[^`]*`/, "code", text)
    gsub(/\([^()]*\)/, "", text)
    gsub(/"[^"]*"/, "quoted", text)
    if (text ~ /[a-z0-9)\]*][.!?][*_]* [A-Z]/) print FILENAME ":" FNR ": more than one sentence in a line"
  }' $documents)
[ -z "$several" ] || complain "$several"

# Comments wrap at 100 columns, except tables and what is drawn. rustfmt holds the code to that.
wide=$(git ls-files 'crates/*.rs' | xargs grep -nE '^ *//.{98,}$' | LC_ALL=C.UTF-8 grep -E '^[^:]+:[0-9]+:.{101,}$' | grep -vE ':[0-9]+: *//[/!]? *(\||[a-z./]+  +|go @@)' || true)
[ -z "$wide" ] || complain "comments wider than 100 columns:
$wide"

[ $wrong = 0 ] && echo "the documents agree with the tree"
exit $wrong
