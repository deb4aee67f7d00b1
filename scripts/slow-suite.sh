#!/usr/bin/env bash
# What takes minutes and is therefore no part of `.ci/run`: with the real Claude Code CLI, waits of more than six minutes and outages of a minute on
# both channels (about seven minutes); waits of two hours of the real agents, parked and not, by clocks that are moved (two minutes); receivers outside that
# are down for a minute; and the races of the approvals, each tried 10,000 times. Run it before a release: `bash scripts/slow-suite.sh`;
# `bash scripts/long/long-wait.sh` waits the two hours for real.
set -euo pipefail
cd "$(dirname "$0")/.."
export PLEXUS_REQUIRE_REAL_CLAUDE=1

bash scripts/install-claude-cli.sh
cargo test -p plexus --all-features --test real_loopback -- --ignored
cargo test -p plexus --all-features --test webhooks -- --ignored
PLEXUS_BIN=$PWD/target/debug/plexus bash scripts/long/long-wait.sh --jump
PLEXUS_RACE_TRIES=10000 cargo test -p plexus-activations --all-features --test loopback races
