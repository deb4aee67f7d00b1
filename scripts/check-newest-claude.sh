#!/usr/bin/env bash
# Holds us against the newest Claude Code CLI in npm: every test that talks to a real CLI, with that one. By hand and before a release; it is not
# part of .ci/run, which must not fail because somebody else published something.
#
# Usage: scripts/check-newest-claude.sh [VERSION]
# Nothing is skipped: a CLI that cannot be installed or run is a failure. A version other than the pinned one goes into a folder of its own.
set -euo pipefail
cd "$(dirname "$0")/.."

command -v npm >/dev/null || { echo "npm is needed to ask for the newest Claude Code CLI; it comes with Node.js." >&2; exit 1; }
newest=${1:-$(npm view @anthropic-ai/claude-code version)}
pinned=$(sed -n 's/^DEFAULT_VERSION=//p' scripts/install-claude-cli.sh)
echo "newest: $newest; the suites use: $pinned"

CLAUDE_CLI_FOLDER=.cache/claude-cli-$newest bash scripts/install-claude-cli.sh "$newest"
PLEXUS_REAL_CLAUDE=$PWD/.cache/claude-cli-$newest/node_modules/.bin/claude
export PLEXUS_REAL_CLAUDE PLEXUS_REQUIRE_REAL_CLAUDE=1
found=$("$PLEXUS_REAL_CLAUDE" --version | cut -d' ' -f1)
[ "$found" = "$newest" ] || { echo "asked for $newest, and it says that it is $found" >&2; exit 1; }

cargo build --workspace --bins --all-features --quiet
# Every test program that needs a real CLI has "real" in its name.
programs=$(cargo metadata --no-deps --format-version 1 |
  python3 -c 'import json,sys
for package in json.load(sys.stdin)["packages"]:
    for target in package["targets"]:
        if "test" in target["kind"] and "real" in target["name"]: print(package["name"], target["name"])')
[ -n "$programs" ] || { echo "no test program talks to a real CLI: this check would check nothing" >&2; exit 1; }

failed=()
while read -r package program; do
  printf '\n=== %s: %s\n' "$package" "$program"
  # Without a standard input: what a test starts would otherwise read the rest of this list, and the programs in it would be skipped.
  cargo test --package "$package" --all-features --test "$program" </dev/null || failed+=("$package: $program")
done <<<"$programs"

if [ ${#failed[@]} -gt 0 ]; then
  printf '\nClaude Code %s is not what we know. What failed:\n' "$newest"
  printf '  %s\n' "${failed[@]}"
  echo "Look at what it says now, bring docs/claude-cli.md and the fixtures up to date, and pin it in scripts/install-claude-cli.sh."
  exit 1
fi
printf '\nClaude Code %s: everything passed.\n' "$newest"
[ "$newest" = "$pinned" ] || echo "To make it the one that CI uses, pin it in scripts/install-claude-cli.sh and record its fixtures."
