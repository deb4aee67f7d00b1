#!/usr/bin/env bash
# Checks what a package ships beside the binary: the systemd unit, completions for the shells that are here, and the manual pages.
# Needs target/debug/plexus (cargo build -p plexus); tools that are not here are named and left out.
set -euo pipefail
cd "$(dirname "$0")/.."
plexus=$(cargo metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/debug/plexus
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# Without these two lines every restart, or one agent without memory, would take all agents along.
for line in KillMode=process OOMPolicy=continue; do
  grep -qx "$line" packaging/plexus.service || { echo "packaging/plexus.service: no $line" >&2; exit 1; }
done
if command -v systemd-analyze >/dev/null; then
  # The program of the unit is where cargo installs it, which need not exist here.
  sed "s|^ExecStart=[^ ]*|ExecStart=$plexus|" packaging/plexus.service >"$folder/plexus.service"
  mkdir -m 700 "$folder/runtime"
  complaints=$(XDG_RUNTIME_DIR=$folder/runtime systemd-analyze --user verify "$folder/plexus.service" 2>&1) || { echo "$complaints" >&2; exit 1; }
  [ -z "$complaints" ] || { echo "$complaints" >&2; exit 1; }
  echo "the unit is good"
else
  echo "systemd-analyze is not here: the unit was not verified"
fi

for shell in bash zsh fish; do
  "$plexus" completions "$shell" >"$folder/plexus.$shell"
  grep -q mcp-config "$folder/plexus.$shell" || { echo "the completions for $shell lack a command" >&2; exit 1; }
  if command -v "$shell" >/dev/null; then "$shell" -n "$folder/plexus.$shell" && echo "$shell reads its completions"; fi
done
# What bash offers behind `plexus de` are the commands that begin so.
offered=$(bash -c 'source "$1"; COMP_WORDS=(plexus de); COMP_CWORD=1; _plexus plexus de plexus; echo "${COMPREPLY[*]}"' bash "$folder/plexus.bash")
[ "$offered" = "demo deny" ] || [ "$offered" = "deny demo" ] || { echo "bash offers \"$offered\" behind \"plexus de\"" >&2; exit 1; }

"$plexus" man "$folder/man" >/dev/null
for command in $("$plexus" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z-]*\) .*/\1/p' | grep -v '^help$'); do
  [ -s "$folder/man/plexus-$command.1" ] || { echo "there is no manual page for $command" >&2; exit 1; }
done
if command -v groff >/dev/null; then
  warnings=$(groff -man -Tutf8 -ww -z "$folder"/man/*.1 2>&1)
  [ -z "$warnings" ] || { echo "$warnings" | head -n 20 >&2; exit 1; }
fi
echo "$(ls "$folder/man" | wc -l) manual pages"
