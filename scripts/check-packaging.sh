#!/usr/bin/env bash
# Checks what a package ships beside the binary: the systemd unit, completions for the shells that are here, and the manual pages. Then
# builds the packages that need no Rust (npm, wheel, .deb), installs each from its file into an empty prefix, and runs what was installed.
# Tools that are not here are named and left out.
set -euo pipefail
cd "$(dirname "$0")/.."
source scripts/built.sh
plexus=$(built_plexus)
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
  grep -q COMPLETE "$folder/plexus.$shell" || { echo "the completions for $shell do not ask the program" >&2; exit 1; }
  if command -v "$shell" >/dev/null; then "$shell" -n "$folder/plexus.$shell" && echo "$shell reads its completions"; fi
done
# After `plexus de` bash offers the commands that begin so. The completions ask the program in PATH.
mkdir "$folder/bin"
ln -s "$plexus" "$folder/bin/plexus"
offered=$(PATH=$folder/bin:$PATH bash -c 'source "$1"; COMP_WORDS=(plexus de); COMP_CWORD=1; COMP_TYPE=9; _clap_complete_plexus plexus de 2>/dev/null
  printf "%s\n" "${COMPREPLY[@]}" | sort | xargs' bash "$folder/plexus.bash")
[ "$offered" = "demo deny devices" ] || { echo "bash offers \"$offered\" after \"plexus de\"" >&2; exit 1; }
if command -v fish >/dev/null; then
  offered=$(PATH=$folder/bin:$PATH fish --no-config -c 'source $argv[1]; complete -C "plexus de"' "$folder/plexus.fish" | cut -f1 | sort | xargs)
  [ "$offered" = "demo deny devices" ] || { echo "fish offers \"$offered\" after \"plexus de\"" >&2; exit 1; }
fi
# zsh reads the file of a package at the first Tab, as a function, and must complete with that Tab already. Its own functions around it are left out.
if command -v zsh >/dev/null; then
  mkdir "$folder/site-functions"
  cp "$folder/plexus.zsh" "$folder/site-functions/_plexus"
  offered=$(PATH=$folder/bin:$PATH zsh -f -c 'fpath=($1 $fpath); autoload -Uz _plexus; compdef() { : }; _describe() { print -rl -- ${(P)@[-1]} }
    words=(plexus de) CURRENT=2; _plexus' zsh "$folder/site-functions" | cut -d: -f1 | sort | xargs)
  [ "$offered" = "demo deny devices" ] || { echo "zsh offers \"$offered\" after \"plexus de\"" >&2; exit 1; }
fi

"$plexus" man "$folder/man" >/dev/null
for command in $("$plexus" --help | sed -n '/^Commands:/,/^$/s/^  \([a-z-]*\) .*/\1/p' | grep -v '^help$'); do
  [ -s "$folder/man/plexus-$command.1" ] || { echo "there is no manual page for $command" >&2; exit 1; }
done
if command -v groff >/dev/null; then
  warnings=$(groff -man -Tutf8 -ww -z "$folder"/man/*.1 2>&1)
  [ -z "$warnings" ] || { echo "$warnings" | head -n 20 >&2; exit 1; }
fi
echo "$(ls "$folder/man" | wc -l) manual pages"

for tool in npm python3 dpkg-deb; do
  command -v "$tool" >/dev/null || { echo "$tool is not here: no package was built"; exit 0; }
done
# The debug build, without what only a debugger reads: a build of the dist profile would take minutes.
strip -o "$folder/plexus" "$plexus"
bash packaging/build-packages.sh --fast --binary "$folder/plexus" --out "$folder/packages"
prefix=$folder/prefix
mkdir -p "$prefix/deb/var/lib/dpkg/info" "$prefix/deb/var/lib/dpkg/updates"
touch "$prefix/deb/var/lib/dpkg/status"
npm install --silent --global --offline --prefix "$prefix/npm" "$folder"/packages/plexus-agents-*.tgz
python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore --no-index --no-deps --prefix "$prefix/pip" "$folder"/packages/*.whl
# The prefix has no C library that dpkg could know of.
dpkg --root="$prefix/deb" --force-depends --force-not-root --install "$folder"/packages/*.deb >"$folder/dpkg" 2>&1 || { cat "$folder/dpkg" >&2; exit 1; }
for file in lib/systemd/user/plexus.service share/man/man1/plexus-run.1.gz share/bash-completion/completions/plexus; do
  [ -s "$prefix/deb/usr/$file" ] || { echo "the .deb lacks $file" >&2; exit 1; }
done
grep -q '^ExecStart=/usr/bin/plexus serve' "$prefix/deb/usr/lib/systemd/user/plexus.service"
# The tours wait more than they work, so they run at the same time.
tours=()
for installed in npm/bin pip/bin deb/usr/bin; do
  (
    version=$("$prefix/$installed/plexus" --version)
    [ "$version" = "$("$plexus" --version)" ] || { echo "$installed: it says it is $version" >&2; exit 1; }
    "$prefix/$installed/plexus" demo </dev/null >"$folder/tour-${installed%%/*}" 2>&1 || { cat "$folder/tour-${installed%%/*}" >&2; exit 1; }
  ) &
  tours+=($!)
done
for tour in "${tours[@]}"; do wait "$tour"; done
echo "npm, pip and dpkg install a plexus that gives its tour"
