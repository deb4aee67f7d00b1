#!/usr/bin/env bash
# A thousand agents ask and are parked, 20 of them the real Claude Code CLI; the machine is restarted, as far as they can tell; all are answered, and each
# call must have run exactly once. Prints memory and times, and fails where a limit of the design was missed. A few minutes on two cores.
# Further words go to the program: `bash scripts/long/thousand.sh --agents 100 --real 5`.
set -euo pipefail
cd "$(dirname "$0")/../.."
export CARGO_TERM_COLOR=never
bash scripts/install-claude-cli.sh
cargo build --quiet --release --package plexus --package plexus-sim --package plexus-bench --bins
exec target/release/plexus-thousand "$@"
