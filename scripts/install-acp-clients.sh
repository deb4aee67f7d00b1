#!/bin/sh
# Installs real clients of the Agent Client Protocol from npm and PyPI into the project's cache, for the tests that hold `plexus acp` against them.
#
# Usage: scripts/install-acp-clients.sh
# Nothing outside of .cache/acp-clients (or ACP_CLIENTS_FOLDER, from the project's root) is touched, and nothing happens when all of them are there already in their versions.
set -eu

# The versions that docs/acp.md speaks of. The one place that pins them.
ACPX=0.19.1
SDK_TYPESCRIPT=2.4.0
SDK_PYTHON=0.12.1
# acpx wants a newer Node than distributions have.
NODE=22.23.3

root=$(cd "$(dirname "$0")/.." && pwd)
folder=$root/${ACP_CLIENTS_FOLDER:-.cache/acp-clients}
wanted="acpx $ACPX, sdk $SDK_TYPESCRIPT, python $SDK_PYTHON, node $NODE"
if [ "$(cat "$folder/installed" 2>/dev/null)" = "$wanted" ]; then
    echo "The clients are in $folder already ($wanted)."
    exit 0
fi
command -v npm >/dev/null || { echo "npm is needed to install the clients; it comes with Node.js." >&2; exit 1; }
python3 -m pip --version >/dev/null 2>&1 || { echo "pip for python3 is needed to install the clients." >&2; exit 1; }

mkdir -p "$folder/npm"
npm install --prefix "$folder/npm" --no-save --no-audit --no-fund --loglevel=error \
    "node@$NODE" "acpx@$ACPX" "@agentclientprotocol/sdk@$SDK_TYPESCRIPT"
# Beside what is there, a changed version would leave files of the old one.
rm -rf "$folder/python"
python3 -m pip install --quiet --disable-pip-version-check --no-compile --root-user-action=ignore \
    --target "$folder/python" "agent-client-protocol==$SDK_PYTHON"
echo "$wanted" >"$folder/installed"
echo "Installed in $folder: $wanted."
