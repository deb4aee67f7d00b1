#!/usr/bin/env bash
# Keeps two servers, one with a file and one with PostgreSQL, and 50 agents of every kind busy for an hour while processes are killed, readers are slow and
# clients misbehave; then compares everything with everything and counts what is left. CI runs five minutes of it with 14 agents, beside other parts.
# Further words go to the program: `bash scripts/long/soak.sh --minutes 5 --seed 7`. With `--real` the installed CLIs are at work too.
set -euo pipefail
cd "$(dirname "$0")/../.."
export CARGO_TERM_COLOR=never
# `.ci/run` has built it and says so by naming the program.
if [ -z "${PLEXUS_BIN:-}" ]; then
  cargo build --quiet --workspace --bins --all-features
  PLEXUS_BIN=target/debug/plexus
fi
# Copies: whoever builds meanwhile replaces no program of a soak that runs.
folder=$(mktemp -d "$PWD/target/soak.XXXXXX")
soak=
trap '[ -z "$soak" ] || kill "$soak" 2>/dev/null; wait; rm -rf "$folder"' EXIT
trap 'exit 143' TERM INT
cp "$PLEXUS_BIN" target/debug/plexus-soak "$folder"
PLEXUS_BIN=$folder/plexus "$folder/plexus-soak" "$@" &
soak=$!
code=0
wait "$soak" || code=$?
soak=
exit $code
