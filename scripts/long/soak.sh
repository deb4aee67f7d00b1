#!/usr/bin/env bash
# Keeps a server with 50 children busy for an hour while processes are killed, readers are slow and clients misbehave; then compares everything with
# everything and counts what is left. CI runs it for one minute with 20 children. Further words go to the program: `bash scripts/long/soak.sh --minutes 5 --seed 7`.
set -euo pipefail
cd "$(dirname "$0")/../.."
export CARGO_TERM_COLOR=never
# `.ci/run` has built it and says so by naming the program.
[ -n "${PLEXUS_BIN:-}" ] || cargo build --quiet --workspace --bins --all-features
exec target/debug/plexus-soak "$@"
