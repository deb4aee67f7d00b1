#!/usr/bin/env bash
# Runs the examples of docs/examples and of plexus-client against a real server whose agent is the simulator. Needs python3, curl and jq.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/built.sh
plexus=$(built_plexus)
supervise=$(built_example supervise)

folder=$(mktemp -d)
export PLEXUS_DATA_DIR=$folder/data
"$plexus" serve --listen 127.0.0.1:0 --claude-bin sim >"$folder/log" 2>&1 &
server=$!
end() {
  # Warm children would outlive the server: they end first.
  curl -sS -o /dev/null "$(jq -r .url "$PLEXUS_DATA_DIR/server.json")/rpc" -H @<(echo "Authorization: Bearer $(cat "$PLEXUS_DATA_DIR/operator.token")") \
    -d '{"jsonrpc":"2.0","id":1,"method":"server.stop","params":{"children":true}}' || kill "$server" 2>/dev/null || true
  wait "$server" 2>/dev/null || true
  rm -rf "$folder"
}
trap end EXIT
for _ in $(seq 1200); do
  [ ! -e "$PLEXUS_DATA_DIR/server.json" ] || break
  kill -0 "$server" 2>/dev/null || { cat "$folder/log" >&2; exit 1; }
  sleep 0.1
done
[ -e "$PLEXUS_DATA_DIR/server.json" ] || { echo "the server did not announce itself within 120 s" >&2; cat "$folder/log" >&2; exit 1; }

# The Python example allows a Write in its directory, and the simulator's story is one Write.
mkdir "$folder/python" "$folder/shell" "$folder/denied" "$folder/rust"
python3 docs/examples/supervise.py "$folder/python" "hello"
[ -e "$folder/python/plexus-sim.txt" ] || { echo "supervise.py: the file was not written" >&2; exit 1; }

# It denies everything else.
python3 docs/examples/supervise.py "$folder/denied" $'sim:\ntool Bash {"command":"touch made"}'
[ ! -e "$folder/denied/made" ] || { echo "supervise.py: it allowed a command" >&2; exit 1; }

# The Rust example does the same.
"$supervise" "$folder/rust" "hello"
[ -e "$folder/rust/plexus-sim.txt" ] || { echo "supervise.rs: the file was not written" >&2; exit 1; }
"$supervise" "$folder/denied" $'sim:\ntool Bash {"command":"touch made"}'
[ ! -e "$folder/denied/made" ] || { echo "supervise.rs: it allowed a command" >&2; exit 1; }

# Without a terminal the shell example denies.
docs/examples/supervise.sh "$folder/shell" "hello" </dev/null
[ ! -e "$folder/shell/plexus-sim.txt" ] || { echo "supervise.sh: it allowed what nobody had allowed" >&2; exit 1; }
echo "the examples do what their pages say"
