#!/bin/sh
# A short smoke test for Linux: builds, starts, supervises a simulated child, and reads a recorded log.
# Needs Rust and a C compiler, nothing else. Exits with the first failure.
set -eu
cd "$(dirname "$0")/../.."
. scripts/smoke/steps.sh
