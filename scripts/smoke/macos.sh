#!/bin/sh
# A short smoke test for macOS: builds, starts, supervises a simulated child, and reads a recorded log.
# Needs Rust and the Xcode command line tools, nothing else. Exits with the first failure.
set -eu
cd "$(dirname "$0")/../.."
. scripts/smoke/steps.sh
