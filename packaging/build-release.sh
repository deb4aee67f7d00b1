#!/usr/bin/env bash
# Builds what a release ships: one binary with the licences, the unit and a checksum, as dist/plexus-VERSION-TARGET.tar.gz.
#
# Usage: packaging/build-release.sh [TARGET]
# Without a target it takes the static one of this machine (…-unknown-linux-musl) when rustup has it and there is a musl-gcc for the C parts,
# and else the machine's own, whose binary needs the C library of this system or a newer one.
set -euo pipefail
cd "$(dirname "$0")/.."

host=$(rustc -vV | sed -n 's/^host: //p')
static=${host%%-*}-unknown-linux-musl
if [ $# -gt 0 ]; then
  target=$1
elif rustup target list --installed 2>/dev/null | grep -qx "$static" && command -v musl-gcc >/dev/null; then
  target=$static
else
  target=$host
  echo "not static: for that, rustup target add $static, and install musl-tools" >&2
fi

cargo build --locked --profile dist -p plexus --bin plexus --target "$target"
built=$(cargo metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/')/$target/dist/plexus
version=$("$built" --version | cut -d' ' -f2)
# What it needs of the machine, as the linker wrote it down: a static one may not name any library.
libraries=$(readelf -d "$built" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | xargs)
if [ "$target" = "$static" ] && [ -n "$libraries" ]; then
  echo "$built should be static and needs $libraries" >&2
  exit 1
fi
needs="static"
[ -z "$libraries" ] || needs="needs $libraries"
name=plexus-$version-$target
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir "$folder/$name"
cp "$built" README.md CHANGELOG.md LICENSE-MIT LICENSE-APACHE packaging/plexus.service "$folder/$name/"
mkdir -p dist
tar -C "$folder" -czf "dist/$name.tar.gz" --owner=0 --group=0 --sort=name "$name"
(cd dist && sha256sum "$name.tar.gz" >"$name.tar.gz.sha256")
echo "the binary: $(stat -c %s "$built") bytes, $needs; packed: $(stat -c %s "dist/$name.tar.gz") bytes"
echo "dist/$name.tar.gz"
