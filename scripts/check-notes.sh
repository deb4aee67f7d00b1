#!/usr/bin/env bash
# Builds and tests examples/notes as a stranger would: a workspace of its own that knows Plexus by its crates alone.
# It starts from our lock file and shares our target folder and profile, so that what both use is compiled once.
#
# Usage: scripts/check-notes.sh [build]
# `build` only compiles.
set -euo pipefail
cd "$(dirname "$0")/.."
CARGO_TARGET_DIR=$(cargo metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')
export CARGO_TARGET_DIR CARGO_PROFILE_DEV_DEBUG=line-tables-only
cp Cargo.lock examples/notes/Cargo.lock
cd examples/notes
if [ "${1:-}" = build ]; then
  cargo test --quiet --no-run
else
  cargo fmt -- --check
  cargo test --quiet
fi
