#!/usr/bin/env bash
# Installs what `.ci/run` needs beyond Rust and a C compiler, from Debian's packages and the registries. Does nothing for what is there.
set -euo pipefail
cd "$(dirname "$0")/.."
missing=()
need() { command -v "$1" >/dev/null 2>&1 || missing+=("$2"); }
need cc gcc
need unshare util-linux
need ip iproute2
need npm npm
need git git
need chromium chromium
need python3 python3
python3 -m pip --version >/dev/null 2>&1 || missing+=(python3-pip)
need curl curl
need jq jq
# The programs of PostgreSQL are not in PATH on Debian.
ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || need initdb postgresql
if [ ${#missing[@]} -gt 0 ]; then
  echo "installing: ${missing[*]}"
  as_root=""
  [ "$(id -u)" = 0 ] || as_root=sudo
  $as_root apt-get update -qq
  # Tests make clusters of their own; the package need not start one of its own.
  if [[ " ${missing[*]} " == *" postgresql "* ]]; then
    $as_root mkdir -p /etc/postgresql-common
    echo "create_main_cluster = false" | $as_root tee /etc/postgresql-common/createcluster.conf >/dev/null
  fi
  DEBIAN_FRONTEND=noninteractive $as_root apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi
command -v cargo-deny >/dev/null 2>&1 || cargo install --quiet --locked --debug cargo-deny
bash scripts/install-claude-cli.sh
bash scripts/install-codex-cli.sh
bash scripts/install-acp-agents.sh
bash scripts/install-acp-clients.sh
