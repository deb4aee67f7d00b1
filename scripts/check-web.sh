#!/usr/bin/env bash
# The dashboard: the types that are made from the wire, all types, the committed build against a fresh one, and the browser tests against the real server; those
# that look inside a server run against the stand-in. `npm test` runs all against the stand-in, and `node tests/screenshots.mjs FOLDER` takes pictures of every view.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/built.sh
plexus=$(built_plexus)
# The model of the tests with the real Claude Code CLI.
built_example messages_api >/dev/null
unset PLEXUS_BIN
cd web
# Not `npm ci`: it insists that the lock file names the packages of every platform, which a registry that holds only ours cannot fill in.
# The versions are those of the lock file all the same, and `check-dist` compares what they build.
npm install --no-save --no-audit --no-fund --loglevel=error
npm run --silent check-wire
npm run --silent check
npm run --silent check-dist
# Against the stand-in only what needs it: the real server shows the rest better.
node --test --test-only --test-concurrency=2 $(grep -l standInOnly tests/*.test.mjs)
PLEXUS_BIN=$plexus npm test --silent
