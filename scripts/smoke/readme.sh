#!/usr/bin/env bash
# Runs the two commands of the README, word for word, as somebody would who has only Rust and a C compiler: an empty HOME, an empty environment,
# and a PATH with nothing in it but Rust, the C compiler and what every Debian has (the packages marked essential). No git, no claude, no python.
#
# Then it types the short tour of the README (scripts/smoke/tour.sh), which needs curl and jq.
#
# Usage: scripts/smoke/readme.sh [here|clone]
# `here` (CI) runs the first command in this tree, with what is built already. `clone` makes a fresh clone, builds it from nothing and runs both.
set -euo pipefail
cd "$(dirname "$0")/../.."
extent=${1:-here}

folder=$(mktemp -d)
tree=$PWD
target=
run=
finish() {
  [ -z "$run" ] || kill "$run" 2>/dev/null || true
  [ ! -e "$folder/home/.local/state/plexus/server.json" ] || plexus stop --children || true
  [ "$extent" = clone ] || rm -f "$tree/plexus-sim.txt"
  rm -rf "$folder"
}
trap finish EXIT

# The PATH of a bare machine.
mkdir "$folder/bin" "$folder/home"
link() { [ ! -x "$1" ] || ln -sf "$1" "$folder/bin/"; }
if command -v dpkg-query >/dev/null; then
  for package in $(dpkg-query -Wf '${Package} ${Essential}\n' | sed -n 's/ yes$//p'); do
    for file in $(dpkg-query -L "$package" | grep -E '^(/usr)?/s?bin/[^/]+$'); do link "$file"; done
  done
else
  for name in sh bash grep sed awk cat cp mv rm mkdir mktemp chmod env sleep touch ls tr cut head tail kill; do link "$(command -v $name || true)"; done
fi
for name in cargo rustc rustup cc gcc ar as ld; do link "$(command -v $name || true)"; done
[ ! -e "$folder/bin/git" ] && [ ! -e "$folder/bin/claude" ] || { echo "the PATH has what a bare machine has not" >&2; exit 1; }

# What cargo has to know to use what is built already; none of it is needed.
kept=()
for name in CARGO_TARGET_DIR CARGO_INCREMENTAL RUSTFLAGS; do
  [ "$extent" = clone ] || [ -z "${!name:-}" ] || kept+=("$name=${!name}")
done
bare() {
  env -i HOME="$folder/home" PATH="$folder/bin" CARGO_HOME="${CARGO_HOME:-$HOME/.cargo}" RUSTUP_HOME="${RUSTUP_HOME:-$HOME/.rustup}" "${kept[@]}" "$@"
}
plexus() { bare "$target/debug/plexus" "$@"; }
# The commands stand in the README as indented lines.
command_of() { sed -n "s/^    \(cargo $1 .*\)\$/\1/p" README.md | head -n 1; }
first=$(command_of run)
second=$(command_of test)
[ -n "$first" ] && [ -n "$second" ] || { echo "the README does not name its two commands" >&2; exit 1; }

if [ "$extent" = clone ]; then
  git clone --quiet . "$folder/plexus"
  tree=$folder/plexus
fi
cd "$tree"
target=$(bare cargo metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')

echo "\$ $first"
# Nobody sits here, so the question waits for an answer from elsewhere; the output says how to give it.
bare bash -c "$first" </dev/null >"$folder/shown" 2>"$folder/errors" &
run=$!
answered=
for _ in $(seq 1800); do
  approval=$(sed -n 's/.*`plexus approve \([0-9a-f-]*\)`.*/\1/p' "$folder/shown")
  if [ -n "$approval" ] && [ -z "$answered" ]; then
    plexus pending
    plexus approve "$approval"
    answered=yes
  fi
  kill -0 "$run" 2>/dev/null || break
  sleep 1
done
code=0
wait "$run" || code=$?
run=
cat "$folder/shown"
[ "$code" = 0 ] || { echo "the first command ended with $code" >&2; tail -n 20 "$folder/errors" >&2; exit 1; }
[ -e plexus-sim.txt ] || { echo "the agent has not written what was allowed" >&2; exit 1; }
for words in "started a server" "there is no \`claude\` in PATH: the built-in simulator plays the agent" "complete in"; do
  grep -qF "$words" "$folder/shown" || { echo "it did not say: $words" >&2; exit 1; }
done
plexus stop --children
bash scripts/smoke/tour.sh "$target/debug/plexus"

if [ "$extent" = clone ]; then
  echo "\$ $second"
  bare bash -c "$second"
fi
echo "the README's commands work on a bare machine"
