#!/bin/sh
# Installs real agents of the Agent Client Protocol from npm into the project's cache, for the tests that hold us against them.
#
# Usage: scripts/install-acp-agents.sh
# Nothing outside of .cache/acp-agents (or ACP_AGENTS_FOLDER, from the project's root) is touched, and nothing happens to an agent that is there already in its version.
set -eu

# The versions that the recorded fixtures and docs/acp.md speak of. The one place that pins them.
OPENCODE=1.18.33
CLAUDE_AGENT_ACP=0.100.0
GEMINI=0.61.0
# The package's own number; the program in it is Goose 1.34.0.
GOOSE_PACKAGE=0.20.1

root=$(cd "$(dirname "$0")/.." && pwd)
folder=$root/${ACP_AGENTS_FOLDER:-.cache/acp-agents}
command -v npm >/dev/null || { echo "npm is needed to install the agents; it comes with Node.js." >&2; exit 1; }

# install NAME PACKAGE VERSION PROGRAM: the program's path below node_modules.
install() {
    link=$folder/$1
    if [ -x "$link" ] && [ "$(cat "$folder/$1.version" 2>/dev/null)" = "$3" ]; then
        echo "$1 $3 is in $folder already."
        return
    fi
    mkdir -p "$folder/$1.package"
    npm install --prefix "$folder/$1.package" --no-save --no-audit --no-fund "$2@$3"
    [ -x "$folder/$1.package/node_modules/$4" ] || { echo "the package of $1 has no program for this machine" >&2; exit 1; }
    ln -sfn "$1.package/node_modules/$4" "$link"
    echo "$3" >"$folder/$1.version"
    echo "Installed $1 $3 in $folder."
}

case $(uname -s) in Darwin) system=darwin ;; *) system=linux ;; esac
case $(uname -m) in arm64 | aarch64) machine=arm64 ;; *) machine=x64 ;; esac
goose=@aaif/goose-binary-$system-$machine

install opencode opencode-ai "$OPENCODE" .bin/opencode
install gemini @google/gemini-cli "$GEMINI" .bin/gemini
install claude-agent-acp @agentclientprotocol/claude-agent-acp "$CLAUDE_AGENT_ACP" .bin/claude-agent-acp
install goose "$goose" "$GOOSE_PACKAGE" "$goose/bin/goose"
