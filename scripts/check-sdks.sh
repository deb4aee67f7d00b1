#!/usr/bin/env bash
# The SDKs for Python and TypeScript: their generated types are those of schemas/, they pass their type checkers, install as packages, and
# their suites and examples pass against a real server whose agent is the simulator. Needs python3, node and npm; mypy and tsc are installed
# into .cache/sdk and sdk/typescript/node_modules, once.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD

# The one place that pins them; tsc is pinned by its lock file.
mypy=2.4.1
setuptools=80.9.0

source scripts/built.sh
plexus=$(built_plexus)
export PLEXUS_BIN=$plexus

python3 sdk/generate.py --check
node web/scripts/wire.mjs --check
for example in sdk/python/examples/supervise.py sdk/typescript/examples/supervise.mjs; do
  python3 - "$example" <<'PYTHON'
import pathlib, sys
if pathlib.Path(sys.argv[1]).read_text() not in pathlib.Path("docs/tutorial-program.md").read_text():
    sys.exit(f"docs/tutorial-program.md does not show {sys.argv[1]} as it is")
PYTHON
done

venv=$root/.cache/sdk
if [ "$(cat "$venv/installed" 2>/dev/null)" != "$mypy $setuptools" ]; then
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check "mypy==$mypy" "setuptools==$setuptools"
  echo "$mypy $setuptools" >"$venv/installed"
fi
if ! cmp --silent sdk/typescript/package-lock.json sdk/typescript/node_modules/installed; then
  (cd sdk/typescript && npm ci --no-audit --no-fund --loglevel=error)
  cp sdk/typescript/package-lock.json sdk/typescript/node_modules/installed
fi

folder=$(mktemp -d)
server=
end() {
  # Only the process that was started here; its children end first.
  [ -z "$server" ] || "$plexus" stop --data-dir "$folder/data" --children >/dev/null 2>&1 || kill "$server" 2>/dev/null || true
  rm -rf "$folder"
}
trap end EXIT

# What is tested is what is installed: built as packages, away from the tree.
(cd sdk/python && "$venv/bin/mypy" --cache-dir "$root/.cache/sdk/mypy")
cp -r sdk/python "$folder/python"
"$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps --no-build-isolation --target "$folder/site" "$folder/python"
(cd sdk/typescript && rm -rf dist && node_modules/.bin/tsc)
tarball=$(cd sdk/typescript && npm pack --silent --pack-destination "$folder")
(cd "$folder" && npm install --silent --no-audit --no-fund --offline "./$tarball")

# As its page says it, in a fresh checkout, which holds no built files.
mkdir -p "$folder/fresh/sdk"
tar --exclude=node_modules --exclude=dist -cf - sdk/typescript | tar -xf - -C "$folder/fresh"
awk '/^```sh example$/ { inside = 1; next } /^```$/ { inside = 0 } inside' sdk/typescript/README.md >"$folder/as-documented"
grep -q '^npm install' "$folder/as-documented" || { echo "sdk/typescript/README.md does not say how to install it" >&2; exit 1; }
(cd "$folder/fresh" && export npm_config_prefer_offline=true npm_config_audit=false npm_config_fund=false npm_config_loglevel=error \
  && bash -euo pipefail "$folder/as-documented" >/dev/null \
  && node --input-type=module -e 'const { Plexus } = await import("plexus-sdk"); new Plexus({ url: "", token: "" });')

PYTHONPATH=$folder/site:sdk/python/tests python3 -m unittest discover -s sdk/python/tests
node --test --test-reporter=dot sdk/typescript/tests/*.test.mjs

export PLEXUS_DATA_DIR=$folder/data CLAUDE_CONFIG_DIR=$folder/claude
"$plexus" serve --listen 127.0.0.1:0 --claude-bin sim --log warn >"$folder/log" 2>&1 &
server=$!
for _ in $(seq 600); do
  [ ! -e "$PLEXUS_DATA_DIR/server.json" ] || break
  kill -0 "$server" 2>/dev/null || { cat "$folder/log" >&2; exit 1; }
  sleep 0.1
done
cp sdk/typescript/examples/supervise.mjs "$folder/"
mkdir "$folder/wrote-python" "$folder/wrote-node"
PYTHONPATH=$folder/site python3 sdk/python/examples/supervise.py "$folder/wrote-python" "hello"
node "$folder/supervise.mjs" "$folder/wrote-node" "hello"
for wrote in wrote-python wrote-node; do
  [ -e "$folder/$wrote/plexus-sim.txt" ] || { echo "$wrote: the example did not have the file written" >&2; exit 1; }
done
echo "both SDKs do what their pages say"
