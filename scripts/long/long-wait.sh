#!/usr/bin/env bash
# Permission requests of the real CLIs that wait two hours by the clock on the wall, all at once: Claude Code unparked on the control channel and over MCP,
# Claude Code parked, Codex, and an agent of the Agent Client Protocol. Nothing has a deadline. Then each is allowed, and must have run exactly once.
# It prints what it saw.
# `bash scripts/long/long-wait.sh --minutes 10` waits shorter; `--until 07:45` waits until a time of today; `--jump` moves the clocks of servers, shims and
# agents instead, but not that of Codex, which is linked statically, and takes two minutes.
# PLEXUS_BIN, PLEXUS_REAL_CLAUDE, PLEXUS_REAL_CODEX, PLEXUS_REAL_CLAUDE_AGENT_ACP, MESSAGES_API and RESPONSES_API (commands that print the address of a
# stand-in and stay), LONG_WAIT_DIR and LONG_WAIT_CASES ("control mcp parked codex acp") override what is used.
set -euo pipefail
cd "$(dirname "$0")/../.."
root=$PWD
seconds=7200 until='' jump=''
# After a jump, every timer that is due by then must have had the time to fire.
settle=60
while [ $# -gt 0 ]; do
  case $1 in
    --minutes) seconds=$((${2:?how many} * 60)) && shift 2 ;;
    --jump) jump=1 && shift ;;
    --until) until=$(date --date "${2:?when}" +%s) && shift 2 ;;
    *) echo "what is $1?" >&2 && exit 2 ;;
  esac
done

if [ -z "${LONG_WAIT_INSIDE:-}" ]; then
  if [ -z "${PLEXUS_BIN:-}" ]; then
    cargo build --quiet --release --package plexus
    export PLEXUS_BIN=$root/target/release/plexus
  fi
  if [ -z "${PLEXUS_REAL_CLAUDE:-}" ]; then
    bash scripts/install-claude-cli.sh
    export PLEXUS_REAL_CLAUDE=$root/.cache/claude-cli/node_modules/.bin/claude
  fi
  if [ -z "${PLEXUS_REAL_CODEX:-}" ]; then
    bash scripts/install-codex-cli.sh
    export PLEXUS_REAL_CODEX=$root/.cache/codex-cli/codex
  fi
  if [ -z "${PLEXUS_REAL_CLAUDE_AGENT_ACP:-}" ]; then
    bash scripts/install-acp-agents.sh
    export PLEXUS_REAL_CLAUDE_AGENT_ACP=$root/.cache/acp-agents/claude-agent-acp
  fi
  if [ -z "${MESSAGES_API:-}" ]; then
    cargo build --quiet --package testkit --examples
    export MESSAGES_API=$root/target/debug/examples/messages_api RESPONSES_API=$root/target/debug/examples/responses_api
  fi
  # No network but its own loopback: the CLI can reach nothing but the stand-in.
  export LONG_WAIT_INSIDE=1
  options=(--net)
  [ "$(id -u)" = 0 ] || options=(--user --map-root-user --net)
  if [ -n "$until" ]; then set -- --until "@$until"; else set -- --minutes $((seconds / 60)); fi
  [ -z "$jump" ] || set -- "$@" --jump
  exec unshare "${options[@]}" bash "$root/scripts/long/long-wait.sh" "$@"
fi
ip link set lo up

folder=${LONG_WAIT_DIR:-}
# Codex hides /tmp from its commands.
if [ -n "$folder" ]; then mkdir -p "$folder"; else folder=$(mktemp -d /var/tmp/plexus-long-wait-XXXXXX); fi
mkdir -p "$folder"/{home,codex,work,tmp,waiting,parked}
# All processes of the agents: they have the home directory that we gave them, and are not the servers.
processes() {
  local pid found=
  for pid in /proc/[0-9]*; do
    { tr '\0' '\n' <"$pid/environ" | grep -qx "HOME=$folder/home"; } 2>/dev/null || continue
    case $({ tr '\0' ' ' <"$pid/cmdline"; } 2>/dev/null) in *" serve "*|"") ;; *) found+="${pid#/proc/} " ;; esac
  done
  echo "$found"
}
pids=()
stop() {
  for name in waiting parked; do "$PLEXUS_BIN" stop --data-dir "$folder/$name" >/dev/null 2>&1 || true; done
  # An agent that is left alone would live on for minutes.
  for pid in "${pids[@]}" $(processes); do kill "$pid" 2>/dev/null || true; done
}
trap stop EXIT

# The address of a stand-in, once it has started.
address_of() { # NAME COMMAND…
  : >"$folder/$1.log"
  "${@:2}" >"$folder/$1.log" 2>&1 &
  pids+=($!)
  for _ in $(seq 300); do
    address=$(head -n 1 "$folder/$1.log")
    [ -z "$address" ] || return 0
    sleep 0.2
  done
  echo "the stand-in did not start: see $folder/$1.log" >&2
  exit 1
}
# shellcheck disable=SC2086 # they are commands with arguments
address_of responses $RESPONSES_API
cat >"$folder/codex/config.toml" <<CONFIG
model = "gpt-5.5"
model_provider = "stand_in"
[model_providers.stand_in]
name = "stand-in"
base_url = "$address/v1"
wire_api = "responses"
env_key = "STAND_IN_KEY"
CONFIG
printf '[agents.claude_acp]\nprogram = "%s"\n' "$PLEXUS_REAL_CLAUDE_AGENT_ACP" >"$folder/plexus.toml"
# shellcheck disable=SC2086
address_of messages $MESSAGES_API

environment=(PATH=/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8 HOME="$folder/home" TMPDIR="$folder/tmp"
  ANTHROPIC_API_KEY=dummy-key-of-a-test ANTHROPIC_BASE_URL="$address" STAND_IN_KEY=dummy-key-of-a-test
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 DISABLE_TELEMETRY=1 DISABLE_AUTOUPDATER=1)
# Written in place: the programs have mapped the file.
move_clocks() { # SECONDS
  python3 -c 'import os, struct, sys; os.pwrite(os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT, 0o644), struct.pack("l", int(sys.argv[2])), 0)' "$folder/work/clock" "$1"
}
if [ -n "$jump" ]; then
  # In the directory that agents work in, because their walls hide others.
  cc -O2 -shared -fPIC -o "$folder/work/jump.so" scripts/long/jump.c
  move_clocks 0
  environment+=(LD_PRELOAD="$folder/work/jump.so" JUMP_FILE="$folder/work/clock")
fi
# One server parks nobody, the other parks soon.
serve() { # NAME SECONDS
  env -i "${environment[@]}" "$PLEXUS_BIN" serve --data-dir "$folder/$1" --config "$folder/plexus.toml" --listen 127.0.0.1:0 \
    --claude-bin "$PLEXUS_REAL_CLAUDE" --codex-bin "$PLEXUS_REAL_CODEX" --set "codex.home=$folder/codex" --set "park_after_secs=$2" \
    >"$folder/$1.log" 2>&1 &
  pids+=($!)
  for _ in $(seq 300); do
    call "$1" health.state >/dev/null 2>&1 && return
    sleep 0.2
  done
  echo "the server did not start: see $folder/$1.log" >&2
  exit 1
}
call() { "$PLEXUS_BIN" call --data-dir "$folder/$1" "$2" "${3:-{\}}"; }
serve waiting 0
serve parked 5

say() { echo "$(date '+%F %T') $*"; }
names=${LONG_WAIT_CASES:-control mcp parked codex acp}
declare -A server session approval asked
for name in $names; do
  server[$name]=waiting
  command="date +%s >> made-$name"
  more='{}'
  steps=$(jq -cn --arg command "$command" '[{tools: [["Bash", {command: $command}]]}, {text: "done"}]')
  case $name in
    parked) server[$name]=parked ;;
    mcp) more='{"channel": "mcp"}' ;;
    codex)
      more='{"agent": "codex", "supervise": "all", "confine": "none"}'
      steps=$(jq -cn --arg command "$command" '[{calls: [{shell: [$command, {}]}]}, {texts: ["done"]}]')
      ;;
    acp) more='{"agent": "claude_acp", "confine": "none"}' ;;
  esac
  session[$name]=$(call "${server[$name]}" agents.create \
    "$(jq -cn --arg name "$name" --arg dir "$folder/work" --argjson more "$more" \
      '{name: $name, working_dir: $dir, loopback_timeout_secs: 0} + $more
      + if $more.agent then {env: ($ARGS.positional | map(split("=") | {key: .[0], value: .[1]}) | from_entries)} else {} end' \
      --args "${environment[@]}")" | jq -er .id)
  call "${server[$name]}" agents.chat_async \
    "$(jq -cn --arg id "${session[$name]}" --arg prompt "@@$steps@@" '{session_id: $id, prompt: $prompt}')" >/dev/null
  if ! approval[$name]=$(call "${server[$name]}" loopback.wait_for_approval \
    "$(jq -cn --arg id "${session[$name]}" '{session_id: $id, wait_ms: 60000}')" | jq -er '.approvals[0].id'); then
    say "$name: FAILED: it asked nothing"
    call "${server[$name]}" agents.poll "$(jq -cn --arg id "${session[$name]}" '{session_id: $id, from_seq: 0}')"
    exit 1
  fi
  asked[$name]=$(date +%s)
done

# What a session asks.
pending() { call "${server[$1]}" loopback.pending "$(jq -cn --arg id "${session[$1]}" '{session_id: $id}')"; }
for _ in $(seq 300); do
  case " $names " in *" parked "*) ;; *) break ;; esac
  [ "$(pending parked | jq '.approvals[0].parked')" != true ] || break
  sleep 0.2
done
for name in $names; do
  say "$name: asked at $(date --date "@${asked[$name]}" '+%T'), parked: $(pending "$name" | jq '.approvals[0].parked // false')"
done
say "processes of the agents while they wait: $(processes)"
for pid in $(processes); do
  say "  $pid $(tr '\0' ' ' <"/proc/$pid/cmdline" | cut -c 1-90) $(grep VmRSS "/proc/$pid/status" | tr -s '\t ' ' ')"
done

now=$(date +%s)
if [ -n "$jump" ]; then
  move_clocks "$seconds"
  say "the clocks of servers and agents have jumped by $seconds s; answering in $settle s"
  sleep "$settle"
else
  [ -n "$until" ] || until=$((now + seconds))
  say "waiting $((until - now)) s, until $(date --date "@$until" '+%T')"
  [ "$until" -le "$now" ] || sleep $((until - now))
fi

say "processes of the agents before the answers: $(processes)"
failed=0
for name in $names; do
  now=$(date +%s)
  again=$(pending "$name" | jq -r '[.approvals[].id] | join(" ")')
  [ "$again" = "${approval[$name]}" ] || { say "$name: FAILED: what is pending is not what was asked: $again"; failed=1; }
  [ ! -e "$folder/work/made-$name" ] || { say "$name: FAILED: it ran before it was allowed"; failed=1; }
  call "${server[$name]}" loopback.respond "$(jq -cn --arg id "${approval[$name]}" '{approval_id: $id, approve: true}')" >/dev/null || failed=1
  say "$name: answered after $((now - asked[$name])) s"
done
for name in $names; do
  for _ in $(seq 600); do
    found=$(call "${server[$name]}" agents.poll "$(jq -cn --arg id "${session[$name]}" '{session_id: $id, from_seq: 0, limit: 1000}')")
    status=$(jq -r .status <<<"$found")
    case $status in running | awaiting_permission) sleep 0.2 ;; *) break ;; esac
  done
  lines=$([ ! -e "$folder/work/made-$name" ] || wc -l <"$folder/work/made-$name")
  kinds=$(jq -r '[.events[].event.type] | group_by(.) | map("\(.[0]) \(length)") | join(", ")' <<<"$found")
  say "$name: the chat is $status $(($(date +%s) - now)) s after the last answer; the call ran ${lines:-0} times; events: $kinds"
  if [ "$status" != complete ] || [ "$lines" != 1 ]; then
    failed=1
    continue
  fi
  # How long the wait was by the clock of the server, and by the one that the agent's own command read.
  by_server=$(jq '[.events[] | select(.event.type | IN("awaiting_approval", "approval_resolved")) | .timestamp] | (.[1] - .[0]) / 1000 | floor' <<<"$found")
  by_agent=$(($(cat "$folder/work/made-$name") - asked[$name]))
  say "$name: it waited $by_server s by the clock of the server, $by_agent s by that of the agent"
  if [ -n "$jump" ] && { [ "$by_server" -lt "$seconds" ] || [ "$by_agent" -lt "$seconds" ]; }; then
    say "$name: FAILED: its clocks have not jumped"
    failed=1
  fi
done
say "exit code $failed; everything is in $folder"
exit $failed
