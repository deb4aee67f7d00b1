#!/usr/bin/env bash
# Runs the commands of the documents. A block that begins with ```sh run is run here, each in an empty directory with an empty home, beside a
# server whose agent is the simulator; in ```sh run answered somebody else allows whatever the agent asks. A block that begins with ```sh example
# is not run. In both, and in `plexus …` between backticks, every command and option of plexus must exist. (`cargo …` is checked by the test
# `commands` of testkit, and scripts/check-docs.sh holds every block to one of the marks.) Needs curl, jq, openssl and python3.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
source scripts/built.sh
plexus=$(built_plexus)

# How long one block may take on a busy machine.
deadline=300

folder=$(mktemp -d)
mkdir -p "$folder/bin" "$folder/home" "$folder/blocks"
ln -s "$plexus" "$folder/bin/plexus"
ln -s "$(dirname "$plexus")/plexus-sim" "$folder/bin/plexus-sim"
# No page is opened.
printf '#!/bin/sh\n' >"$folder/bin/xdg-open"
chmod +x "$folder/bin/xdg-open"
# An agent that takes its time: a call that follows too soon on a faster one would not be noticed.
cat >"$folder/bin/slow-agent" <<'END'
#!/bin/bash
[ "${1:-}" = --version ] && exec plexus sim "$@"
exec plexus sim "$@" > >(while IFS= read -r line; do sleep 0.2; printf '%s\n' "$line"; done)
END
chmod +x "$folder/bin/slow-agent"
for name in curl jq openssl python3; do
  command -v "$name" >/dev/null || { echo "$name is missing" >&2; exit 1; }
done
# Itself, not a wrapper that chooses one.
ln -s "$(python3 -c 'import sys; print(sys.executable)')" "$folder/bin/python3"
inside() { env -i HOME="$folder/home" PATH="$folder/bin:/usr/local/bin:/usr/bin:/bin" TERM=dumb LANG=C.UTF-8 "$@"; }

server= helper=
end() {
  [ -z "$helper" ] || kill "$helper" 2>/dev/null || true
  if [ -n "$server" ]; then
    inside plexus stop --children >/dev/null 2>&1 || kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
  fi
  rm -rf "$folder"
}
trap end EXIT

documents=$(git ls-files '*.md' | grep -v '\(^\|/\)fixtures/')

# Every command and option of plexus that a document names.
declare -A helps
help_of() {
  local key=$1
  shift
  [ -n "${helps[$key]+known}" ] || helps[$key]=$(inside plexus "$@" --help 2>&1 || echo none)
}
wrong=0 named=0
help_of plexus
commands=$(sed -n '/^Commands:/,/^$/s/^  \([a-z-]*\).*/\1/p' <<<"${helps[plexus]}")
while IFS= read -r line; do
  # What stands after `--`, after a pipe and in quotes is not for plexus.
  words=$(sed -E "s/ -- .*//; s/ [|&;#>].*//; s/'[^']*'//g; s/\"[^\"]*\"//g; s/[][…]//g; s/=[^ ]*//g" <<<"$line")
  read -r _ command rest <<<"$words" || true
  # `cone`, `shim` and `sim` are programs of their own inside plexus, with arguments of others.
  case ${command:-} in '' | [A-Z]* | -* | help | cone | shim | sim) continue ;; esac
  named=$((named + 1))
  if ! grep -qx -- "$command" <<<"$commands"; then
    # Commands that the short help leaves out have a help of their own.
    help_of "$command" "$command"
    case ${helps[$command]} in
      *"Usage: plexus $command"*) ;;
      *)
        echo "no command: $line" >&2
        wrong=1
        continue
        ;;
    esac
  fi
  help_of "$command" "$command"
  text=${helps[$command]}
  read -r second _ <<<"$rest" || true
  if grep -qE "^  ${second:-none} " <<<"$text"; then
    help_of "$command $second" "$command" "$second"
    text+=${helps["$command $second"]}
  fi
  # `confine --stage` is how plexus starts itself inside a wall; no help mentions it.
  for option in $(sed 's/--stage//' <<<"$rest" | grep -oE -- '(^| )--?[a-z][a-z-]*' || true); do
    grep -qE -- "(^|[ ,])$option([ ,=<[]|$)" <<<"$text" || { echo "no option $option: $line" >&2; wrong=1; }
  done
done < <(
  {
    grep -ohE '`plexus [^`]+`' $documents | tr -d '`'
    awk '/^ *```/ { sh = !open && /^ *```sh/; open = !open; next } open && sh' $documents | grep -oE '^ *plexus .*' | sed 's/^ *//'
  } | sort -u
)
[ "$wrong" = 0 ] || exit 1
echo "$named forms of commands of plexus exist"

# The blocks that run: a file of each, named by its place.
awk -v folder="$folder/blocks" '
  /^ *```/ {
    if (open) { open = 0; if (file) close(file); file = ""; next }
    open = 1
    if ($0 ~ /^ *```sh run/) {
      place = FILENAME; gsub("/", "~", place)
      file = folder "/" place ":" FNR ($0 ~ /answered/ ? ":answered" : "")
      printf "" > file
    }
    next
  }
  file { print > file }' $documents

# As the tutorial for a program starts it, but for the wall: it would hide the agent of this script.
inside plexus serve --listen 127.0.0.1:0 --claude-bin "$folder/bin/slow-agent" --set confine.profile=none >"$folder/log" 2>&1 &
server=$!
for _ in $(seq 600); do
  [ ! -e "$folder/home/.local/state/plexus/server.json" ] || break
  kill -0 "$server" 2>/dev/null || { cat "$folder/log" >&2; exit 1; }
  sleep 0.1
done

allow_everything() {
  while :; do
    for id in $(inside plexus pending --json | jq -r '.. | .id? // empty'); do inside plexus approve "$id" || true; done
    sleep 0.3
  done >"$folder/allowed" 2>&1
}

ran=0
for block in "$folder"/blocks/*; do
  place=$(basename "$block" | tr '~' '/')
  work=$(mktemp -d "$folder/work.XXXXXX")
  # Programs that a document names by their place in the tree.
  ln -s "$root/docs" "$work/docs"
  case $place in
    *:answered)
      allow_everything &
      helper=$!
      ;;
  esac
  begun=$SECONDS
  if ! (cd "$work" && inside timeout "$deadline" bash -euo pipefail "$block" </dev/null >"$folder/shown" 2>&1); then
    echo "$place failed:" >&2
    cat "$block" "$folder/shown" >&2
    exit 1
  fi
  if grep -q '"error":' "$folder/shown"; then
    echo "$place was refused:" >&2
    cat "$folder/shown" >&2
    exit 1
  fi
  echo "$place runs ($((SECONDS - begun)) s)"
  [ -z "$helper" ] || { kill "$helper"; wait "$helper" 2>/dev/null || true; helper=; }
  ran=$((ran + 1))
done
[ "$ran" -ge 8 ] || { echo "only $ran blocks are marked as run" >&2; exit 1; }
echo "$ran blocks of the documents run"
