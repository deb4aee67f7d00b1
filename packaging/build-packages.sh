#!/usr/bin/env bash
# Builds the packages that install without Rust out of one binary: npm (a small package and one with the binary), a wheel, and a .deb with the
# unit, manual pages and completions.
#
# Usage: packaging/build-packages.sh [--binary FILE] [--out FOLDER] [--fast]
# Without --binary it is built with the dist profile, static where this machine can (packaging/build-release.sh says when). --fast
# compresses little, for a check. Needs python3 and dpkg-deb.
set -euo pipefail
cd "$(dirname "$0")/.."

binary= out=dist level=9 deb_compression=(-Zxz)
while [ $# -gt 0 ]; do
  case $1 in
    --binary) binary=$2 && shift 2 ;;
    --out) out=$2 && shift 2 ;;
    --fast) level=1 deb_compression=(-Zgzip -z1) && shift ;;
    *) echo "usage: packaging/build-packages.sh [--binary FILE] [--out FOLDER] [--fast]" >&2 && exit 2 ;;
  esac
done

folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$out"
out=$(cd "$out" && pwd)
if [ -z "$binary" ]; then
  release=$(bash packaging/build-release.sh | tail -n 1)
  tar -C "$folder" -xzf "$release"
  binary=$(echo "$folder"/plexus-*/plexus)
fi
version=$("$binary" --version | cut -d' ' -f2)

# What the binary needs of the machine: the newest symbol version of the C library that it names, or nothing when it is static.
machine=$(uname -m)
glibc=$(grep -aoE 'GLIBC_2\.[0-9]+' "$binary" | sort -t. -k2 -n | tail -n 1 | cut -d. -f2 || true)
case $machine in
  x86_64) node_arch=x64 deb_arch=amd64 ;;
  aarch64) node_arch=arm64 deb_arch=arm64 ;;
  *) echo "there is no package for $machine" >&2 && exit 1 ;;
esac
if [ -n "$glibc" ]; then
  wheel=manylinux_2_${glibc}_$machine depends="libc6 (>= 2.$glibc), libgcc-s1"
else
  wheel=manylinux2014_$machine.musllinux_1_1_$machine depends=
fi

# npm: as the agents themselves do it, a package for each platform and one that picks.
platforms='"plexus-agents-linux-x64": "'$version'", "plexus-agents-linux-arm64": "'$version'"'
about='"license": "MIT OR Apache-2.0", "repository": "github:plexus-agents/plexus"'
mkdir -p "$folder/npm/bin" "$folder/platform/bin"
cp packaging/npm/plexus.js "$folder/npm/bin/plexus.js"
cp README.md LICENSE-MIT LICENSE-APACHE "$folder/npm/"
cat >"$folder/npm/package.json" <<JSON
{"name": "plexus-agents", "version": "$version", "description": "Supervises coding agents: you, a program or another agent answers what they ask.",
 $about, "bin": {"plexus": "bin/plexus.js"}, "engines": {"node": ">=18"}, "optionalDependencies": {$platforms}}
JSON
cp "$binary" "$folder/platform/bin/plexus"
cat >"$folder/platform/package.json" <<JSON
{"name": "plexus-agents-linux-$node_arch", "version": "$version", "description": "The binary of plexus-agents for this platform.",
 $about, "os": ["linux"], "cpu": ["$node_arch"]}
JSON
pack() { tar -C "$folder/$1" --transform 's|^\.|package|' --owner=0 --group=0 --sort=name -c . | gzip -n "-$level" >"$out/$2-$version.tgz"; }
pack npm plexus-agents
pack platform "plexus-agents-linux-$node_arch"

python3 packaging/pypi/build_wheel.py "$binary" "$version" "$wheel" "$out" "$level" >/dev/null

# .deb
root=$folder/deb
mkdir -p "$root/DEBIAN" "$root/usr/bin" "$root/usr/lib/systemd/user" "$root/usr/share/man/man1" "$root/usr/share/doc/plexus" \
  "$root/usr/share/bash-completion/completions" "$root/usr/share/zsh/vendor-completions" "$root/usr/share/fish/vendor_completions.d"
install -m 755 "$binary" "$root/usr/bin/plexus"
sed -e 's|%h/.cargo/bin/plexus|/usr/bin/plexus|' -e '1s|.*|# A systemd user unit: systemctl --user enable --now plexus|' packaging/plexus.service >"$root/usr/lib/systemd/user/plexus.service"
"$binary" man "$root/usr/share/man/man1" >/dev/null
gzip -9n "$root"/usr/share/man/man1/*.1
"$binary" completions bash >"$root/usr/share/bash-completion/completions/plexus"
"$binary" completions zsh >"$root/usr/share/zsh/vendor-completions/_plexus"
"$binary" completions fish >"$root/usr/share/fish/vendor_completions.d/plexus.fish"
cat LICENSE-MIT LICENSE-APACHE >"$root/usr/share/doc/plexus/copyright"
gzip -9nc CHANGELOG.md >"$root/usr/share/doc/plexus/changelog.gz"
{
  printf 'Package: plexus\nVersion: %s\nArchitecture: %s\nSection: devel\nPriority: optional\n' "$version" "$deb_arch"
  printf 'Maintainer: Plexus <plexus@users.noreply.github.com>\nHomepage: https://github.com/plexus-agents/plexus\n'
  printf 'Installed-Size: %s\n' "$(du -sk "$root/usr" | cut -f1)"
  [ -z "$depends" ] || printf 'Depends: %s\n' "$depends"
  printf 'Description: supervises coding agents\n You, a program or another agent answers what they ask.\n'
} >"$root/DEBIAN/control"
dpkg-deb --root-owner-group "${deb_compression[@]}" --build "$root" "$out/plexus_${version}_$deb_arch.deb" >/dev/null

echo "the binary in them: $(stat -c %s "$binary") bytes, $([ -n "$glibc" ] && echo "needs glibc 2.$glibc" || echo static)"
ls -1s --block-size=KiB "$out" | tail -n +2
