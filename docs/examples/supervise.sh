#!/usr/bin/env bash
# Supervises one session with curl and jq:  docs/examples/supervise.sh DIRECTORY PROMPT
# Shows each request and asks on the terminal; without a terminal everything is denied. A server must run (`plexus serve`).
set -euo pipefail
[ $# -eq 2 ] || { echo "usage: supervise.sh DIRECTORY PROMPT" >&2; exit 2; }
data=${PLEXUS_DATA_DIR:-${XDG_STATE_HOME:-$HOME/.local/state}/plexus}
url=$(jq -r .url "$data/server.json")
person=no
[ ! -t 0 ] || person=yes

# The token goes in by a file descriptor: an argument would be visible to every user of this machine.
call() {
  local answer
  answer=$(jq -n --arg method "$1" --argjson params "$2" '{jsonrpc: "2.0", id: 1, $method, $params}' |
    curl -sS "$url/rpc" -H "Content-Type: application/json" -H @<(printf 'Authorization: Bearer %s' "$(cat "$data/operator.token")") --data-binary @-)
  jq -e 'if .error then error("could not " + .error.message) else .result end' <<<"$answer"
}

session=$(call claudecode.create "$(jq -n --arg dir "$(realpath "$1")" --arg name "shell-$$" '{$name, working_dir: $dir}')" | jq -r .id)
call claudecode.chat_async "$(jq -n --arg session_id "$session" --arg prompt "$2" '{$session_id, $prompt}')" >/dev/null
while :; do
  page=$(call claudecode.poll "$(jq -n --arg session_id "$session" '{$session_id, wait_ms: 30000}')")
  jq -r '.events[] | "\(.seq) \(.event.type) \(.event.text // .event.message // .event.tool_name // "")"' <<<"$page"
  while read -r approval; do
    jq '{tool_name, input}' <<<"$approval"
    answer=n
    [ $person = no ] || read -rp "allow? [y/N] " answer </dev/tty
    call loopback.respond "$(jq --arg answer "$answer" '{approval_id: .id, approve: ($answer == "y"), input_digest}' <<<"$approval")" >/dev/null
  done < <(jq -c '.pending_approvals[]' <<<"$page")
  case $(jq -r 'if .has_more then "more" else .status end' <<<"$page") in
    complete) exit 0 ;;
    failed | cancelled) exit 1 ;;
  esac
done
