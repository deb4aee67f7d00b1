#!/usr/bin/env bash
# Keeps a server with 50 children busy for an hour while processes are killed, readers are slow and clients misbehave; then compares everything with
# everything and counts what is left. CI runs it for one minute. Further words go to the program: `bash scripts/long/soak.sh --minutes 5 --seed 7`.
set -euo pipefail
cd "$(dirname "$0")/../.."
export CARGO_TERM_COLOR=never
# The same command as in `.ci/run`: another choice of packages has other features, and would compile most of them again.
cargo build --quiet --workspace --bins --all-features
exec target/debug/plexus-soak "$@"
