#!/bin/sh
# Installs the real Codex CLI from npm into the project's cache, for the tests that hold us against it.
#
# Usage: scripts/install-codex-cli.sh [VERSION]
# Nothing outside of .cache/codex-cli (or CODEX_CLI_FOLDER, from the project's root) is touched, and nothing happens when that version is there already.
set -eu

# The version that the recorded fixtures and docs/codex-cli.md speak of. The one place that pins it.
DEFAULT_VERSION=0.169.0

version=${1:-${CODEX_CLI_VERSION:-$DEFAULT_VERSION}}
root=$(cd "$(dirname "$0")/.." && pwd)
folder=$root/${CODEX_CLI_FOLDER:-.cache/codex-cli}
codex=$folder/codex

if [ -x "$codex" ] && [ "$("$codex" --version 2>/dev/null)" = "codex-cli $version" ]; then
    echo "Codex $version is in $folder already."
    exit 0
fi
command -v npm >/dev/null || { echo "npm is needed to install the Codex CLI; it comes with Node.js." >&2; exit 1; }

mkdir -p "$folder"
npm install --prefix "$folder" --no-save --no-audit --no-fund "@openai/codex@$version"
# The package's `codex` is a script for Node.js around a static binary, and a parent more to end; the binary is used alone.
binary=$(find "$folder/node_modules/@openai" -path '*/vendor/*/bin/codex' -type f | head -n 1)
[ -n "$binary" ] || { echo "the package has no binary for this machine" >&2; exit 1; }
ln -sfn "$binary" "$codex"
echo "Installed $("$codex" --version) in $folder."
