#!/usr/bin/env bash
# Keeps a server with 50 children busy for an hour while processes are killed, readers are slow and clients misbehave; then compares everything with
# everything and counts what is left. CI runs it for five minutes. Further words go to the program: `bash scripts/long/soak.sh --minutes 5 --seed 7`.
set -euo pipefail
cd "$(dirname "$0")/../.."
export CARGO_TERM_COLOR=never
cargo build --quiet --package plexus --package plexus-bench --bins --all-features
exec target/debug/plexus-soak "$@"
