#!/usr/bin/env bash
# The whole crash matrix: every named point that an agent reaches, with Claude Code, Codex and an agent of the Agent Client Protocol, killed and frozen, with outages of 0, 3 and 30 s (10 s on the MCP channel); PostgreSQL with 0 and 3 s. About an hour on two cores. Names begin with the agent: `Codex/` runs its cases.
# `bash scripts/long/crash-matrix.sh NAME` runs the cases whose name contains NAME; ABREAST=N runs N cases at a time (16: most of each is waiting).
set -euo pipefail
cd "$(dirname "$0")/../.."
export CARGO_TERM_COLOR=never RUST_BACKTRACE=1
PLEXUS_FULL=1 exec cargo test --package plexus --features faults --test crash_matrix -- --test-threads "${ABREAST:-16}" "$@"
