#!/usr/bin/env bash
# The tests on a machine that stands still for moments: whatever runs in them is frozen for up to 4 s, every 2 to 8 s, while the clocks go on. A test that
# expects something short not to be over yet fails here, and not on somebody's busy machine. Needs root (a control group) and Linux.
# `bash scripts/long/stalls.sh COMMAND…` does that to another command.
set -euo pipefail
cd "$(dirname "$0")/../.."
groups=$(findmnt --noheadings --first-only --types cgroup2 --output TARGET) || { echo "there is no cgroup2 here" >&2; exit 1; }
group=$groups/plexus-stalls-$$
mkdir "$group"
thaw() { echo 0 >"$group/cgroup.freeze"; }
trap 'thaw; rmdir "$group" 2>/dev/null || echo "something still runs in $group" >&2' EXIT

if [ $# -eq 0 ]; then
  command=$(sed -n 's/^    \(cargo test .*\)$/\1/p' README.md | head -n 1)
  # What is built stands still for nobody.
  bash -c "$command --no-run --quiet"
  set -- bash -c "$command"
fi

# A pause between two numbers of milliseconds.
pause() {
  local ms=$(($1 + RANDOM * ($2 - $1) / 32768))
  sleep "$(printf "%d.%03d" $((ms / 1000)) $((ms % 1000)))"
}

(
  echo $BASHPID >"$group/cgroup.procs"
  exec "$@"
) &
work=$!
stalls=0
while kill -0 $work 2>/dev/null; do
  pause 2000 8000
  echo 1 >"$group/cgroup.freeze"
  pause 300 4000
  thaw
  stalls=$((stalls + 1))
done
status=0
wait $work || status=$?
echo "it stood still $stalls times; exit code $status"
exit $status
