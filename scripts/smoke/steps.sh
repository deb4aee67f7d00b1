# The steps that Linux and macOS share; sourced from the root of the workspace by linux.sh and macos.sh.

step() { printf '\n== %s\n' "$*"; }

step "build"
cargo build --quiet --package plexus --package plexus-sim
cargo build --quiet --package claude_code --example stream_stats
target=${CARGO_TARGET_DIR:-target}/debug

step "version"
for program in plexus plexus-sim; do
    "$target/$program" --version | grep . || { echo "$program does not tell its version" >&2; exit 1; }
done

step "a supervised simulated run"
# Nobody answers: the end of the input is a denial, so the run ends by itself.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
request='{"type":"user","message":{"role":"user","content":"hello"},"parent_tool_use_id":null,"session_id":"default"}'
answered=$(
    cd "$work" && printf '%s\n' "$request" | "$OLDPWD/$target/plexus-sim" --print --verbose \
        --input-format stream-json --output-format stream-json --permission-prompt-tool stdio --replay-user-messages
)
case $answered in
*'"subtype":"can_use_tool"'*) echo "it asked before it used a tool" ;;
*) echo "it did not ask before it used a tool" >&2; exit 1 ;;
esac
# And nothing may have been written.
if [ -n "$(ls -A "$work")" ]; then
    echo "a tool ran that nobody had allowed: $(ls -A "$work")" >&2
    exit 1
fi
echo "and did not run what nobody allowed"

step "a recorded log of the real CLI"
"$target/examples/stream_stats" fixtures/claude-*/control_partial.jsonl

step "all good"
