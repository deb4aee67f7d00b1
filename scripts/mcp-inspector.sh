#!/usr/bin/env bash
# The MCP inspector's command line against a real server whose agent is the simulator: it lists our tools and calls them, over HTTP and by way of
# `plexus mcp`. The inspector is the protocol's own client for looking at servers, so what it cannot read nobody should have to.
#
# It and the Node that it needs are installed from npm into .cache/mcp-inspector, once.
set -euo pipefail
cd "$(dirname "$0")/.."

# The one place that pins them.
inspector=2.12.0
node=22.23.3

folder=$PWD/.cache/mcp-inspector
bin=$folder/node_modules/.bin
stamp=$folder/installed
if [ "$(cat "$stamp" 2>/dev/null)" != "$inspector $node" ]; then
    mkdir -p "$folder"
    npm install --prefix "$folder" --no-audit --no-fund --no-save --loglevel=error \
        "node@$node" "@modelcontextprotocol/inspector@$inspector"
    echo "$inspector $node" >"$stamp"
fi

source scripts/built.sh
plexus=$(built_plexus)

work=$(mktemp -d)
export PLEXUS_DATA_DIR=$work/data
mkdir "$work/project"
"$plexus" serve --listen 127.0.0.1:0 --claude-bin sim >"$work/log" 2>&1 &
server=$!
finish() {
    # Only the process that was started here.
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT
for _ in $(seq 1200); do
    [ ! -e "$PLEXUS_DATA_DIR/server.json" ] || break
    kill -0 "$server" 2>/dev/null || { cat "$work/log" >&2; exit 1; }
    sleep 0.1
done
url=$(sed 's/.*"url":"\([^"]*\)".*/\1/' "$PLEXUS_DATA_DIR/server.json")
token=$(cat "$PLEXUS_DATA_DIR/operator.token")

# Runs the inspector, and fails with what it said when `expected` is not in it.
expect() {
    local expected=$1
    shift
    if ! "$bin/node" "$bin/mcp-inspector" --cli "$@" >"$work/said" 2>&1 || ! grep -qF "$expected" "$work/said"; then
        echo "no $expected from: mcp-inspector --cli ${*//$token/TOKEN}" >&2
        cat "$work/said" >&2
        exit 1
    fi
}

# The token of this throw-away server may stand in an argument; a parent's configuration holds it in a file.
http=("$url/mcp" --transport http --header "Authorization: Bearer $token")
# The inspector hands its environment on only in part, and the default data directory is somebody's own.
printf '#!/bin/sh\nPLEXUS_DATA_DIR=%s exec %s mcp --as inspector\n' "$PLEXUS_DATA_DIR" "$plexus" >"$work/bridge"
chmod +x "$work/bridge"
stdio=("$work/bridge")
for way in http stdio; do
    declare -n server_of=$way
    expect '"agents_create"' "${server_of[@]}" --method tools/list --strict
    if grep -qi 'warning' <(grep -v '"description"' "$work/said"); then
        echo "the inspector warns about our tools:" >&2
        grep -i -A 3 'warning' "$work/said" | head -40 >&2
        exit 1
    fi
    expect '"plexus://approvals"' "${server_of[@]}" --method resources/list
    expect 'created' "${server_of[@]}" --method tools/call --tool-name agents_create \
        --tool-arg "name=by-$way" --tool-arg "working_dir=$work/project"
    expect "by-$way" "${server_of[@]}" --method tools/call --tool-name plexus_call --tool-arg "method=agents.list"
done
echo "the inspector lists and calls our tools over HTTP and stdio"
