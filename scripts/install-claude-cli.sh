#!/bin/sh
# Installs the real Claude Code CLI from npm into the project's cache, for the tests that hold us against it.
#
# Usage: scripts/install-claude-cli.sh [VERSION]
# Nothing outside of .cache/claude-cli (or CLAUDE_CLI_FOLDER, from the project's root) is touched, and nothing happens when that version is there already.
set -eu

# The version that the tests run. The recordings in fixtures/ are of 2.1.325.
DEFAULT_VERSION=2.1.328

version=${1:-${CLAUDE_CLI_VERSION:-$DEFAULT_VERSION}}
root=$(cd "$(dirname "$0")/.." && pwd)
folder=$root/${CLAUDE_CLI_FOLDER:-.cache/claude-cli}
claude=$folder/node_modules/.bin/claude

if [ -x "$claude" ] && [ "$("$claude" --version 2>/dev/null | cut -d' ' -f1)" = "$version" ]; then
    echo "Claude Code $version is in $folder already."
    exit 0
fi
command -v npm >/dev/null || { echo "npm is needed to install the Claude Code CLI; it comes with Node.js." >&2; exit 1; }

mkdir -p "$folder"
npm install --prefix "$folder" --no-save --no-audit --no-fund "@anthropic-ai/claude-code@$version"
echo "Installed $("$claude" --version) in $folder."
