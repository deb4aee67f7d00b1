#!/usr/bin/env bash
# Types the short tour of the README: each command of its first block, then its calls with curl and jq. The words are the README's, but for the
# two ids that it leaves out (`…`). The agent is the simulator with a pause before each of its lines, because a call that follows too soon on a
# faster one would not be noticed.
#
# Usage: scripts/smoke/tour.sh PLEXUS
set -euo pipefail
cd "$(dirname "$0")/../.."
readme=$PWD/README.md
folder=$(mktemp -d)
mkdir "$folder/bin" "$folder/home" "$folder/project"
ln -s "$(realpath "$1")" "$folder/bin/plexus"
cat >"$folder/bin/slow" <<'END'
#!/bin/bash
[ "${1:-}" = --version ] && exec plexus sim "$@"
exec plexus sim "$@" > >(while IFS= read -r line; do sleep 0.2; printf '%s\n' "$line"; done)
END
chmod 755 "$folder/bin/slow"

# Runs a line as somebody would who has just installed the program.
typed() {
  (cd "$folder/project" && env -i HOME="$folder/home" PATH="$folder/bin:$PATH" PLEXUS_CLAUDE_BIN="$folder/bin/slow" PLEXUS_LISTEN=127.0.0.1:0 \
    PLEXUS_CONFINE_PROFILE=none bash -c "$1" </dev/null)
}
finish() {
  typed 'plexus stop --children' >/dev/null 2>&1 || true
  rm -rf "$folder"
}
trap finish EXIT
fail() {
  echo "$1" >&2
  exit 1
}

# The n-th block of shell commands of the tour.
block() {
  awk -v wanted="$1" '/^## A short tour/ { tour = 1 } /^## Promises/ { tour = 0 }
    tour && /^```sh/ { inside = (++n == wanted); next } /^```/ { inside = 0 } inside' "$readme"
}

commands=0
while IFS= read -r line; do
  command=${line%%#*}
  echo "\$ $command"
  case $command in
    'plexus run '*)
      typed "$command" >"$folder/shown" &
      run=$!
      for _ in $(seq 600); do
        approval=$(sed -n 's/.*`plexus approve \([0-9a-f-]*\)`.*/\1/p' "$folder/shown")
        [ -z "$approval" ] || break
        sleep 0.2
      done
      [ -n "$approval" ] || fail "the agent has not asked"
      typed "plexus pending" | grep -qF Write || fail "nothing waits"
      typed "plexus approve $approval" >/dev/null
      wait "$run" || fail "plexus run ended with $?: $(cat "$folder/shown")"
      ;;
    # It looks for a real agent, and there is none.
    'plexus doctor'*) typed "$command" >"$folder/shown" || true ;;
    *) typed "$command" >"$folder/shown" || fail "$command ended with $?" ;;
  esac
  [ -s "$folder/shown" ] || fail "$command said nothing"
  commands=$((commands + 1))
done < <(block 1)
[ "$commands" -ge 8 ] || fail "the tour has only $commands commands"

for name in curl jq; do command -v $name >/dev/null || fail "the calls of the tour need $name"; done
prelude=$(block 2 | sed '/^rpc [a-z]/,$d')
answer=
while IFS= read -r line; do
  call=${line%% # *}
  echo "\$ $call"
  id=$(jq -r '.result.approvals[0].id? // empty' <<<"$answer")
  digest=$(jq -r '.result.approvals[0].input_digest? // empty' <<<"$answer")
  call=${call/…/$id}
  call=${call/…/$digest}
  answer=$(typed "$prelude
$call")
  [ "$(jq -r 'has("result")' <<<"$answer")" = true ] || fail "$call answered $answer"
done < <(block 2 | grep '^rpc [a-z]')
[ "$(jq -r '.result.type' <<<"$answer")" != null ] || fail "the last call answered $answer"
echo "the tour of the README works as it stands there"
