#!/usr/bin/env bash
# Runs the official MCP conformance suite against our doors and compares with what is expected to fail.
#
# Usage: scripts/mcp-conformance.sh [SCENARIO]
# The suite and the Node that it needs are installed from npm into .cache/mcp-conformance, once. A new failure is a failure, and so is
# an expected one that no longer fails; see docs/mcp-conformance.md.
set -euo pipefail
cd "$(dirname "$0")/.."

# The one place that pins them. The suite needs Node 22, whatever the system has.
suite=0.1.16
node=22.23.3

folder=$PWD/.cache/mcp-conformance
expected=$PWD/scripts/mcp-conformance.expected.yml
bin=$folder/node_modules/.bin
stamp=$folder/installed

if [ "$(cat "$stamp" 2>/dev/null)" != "$suite $node" ]; then
    mkdir -p "$folder"
    npm install --prefix "$folder" --no-audit --no-fund --no-save --loglevel=error \
        "node@$node" "@modelcontextprotocol/conformance@$suite"
    echo "$suite $node" >"$stamp"
fi

source scripts/built.sh
conformance_server=$(built_example conformance_server)

work=$(mktemp -d)
server=
finish() {
    # Only the process that was started here.
    [ -z "$server" ] || kill "$server" 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT

"$conformance_server" >"$work/url" &
server=$!
for _ in $(seq 1200); do
    [ -s "$work/url" ] && break
    kill -0 "$server" 2>/dev/null || break
    sleep 0.1
done
url=$(head -n 1 "$work/url")
[ -n "$url" ] || { echo "the server did not say its address" >&2; exit 1; }
# The short list of tools has schemas without references, for models; the suite looks for what a tool's own schema says.
url="$url?tools=full"

arguments=(server --url "$url" --output-dir "$work/results" --expected-failures "$expected")
if [ $# -gt 0 ]; then
    arguments+=(--scenario "$1")
else
    arguments+=(--suite all)
fi
if "$bin/node" "$bin/conformance" "${arguments[@]}" >"$work/log" 2>&1; then
    # One scenario has no summary; its log is short.
    if [ $# -gt 0 ]; then cat "$work/log"; else sed -n '/=== SUMMARY ===/,$p' "$work/log"; fi
else
    cat "$work/log" >&2
    exit 1
fi
