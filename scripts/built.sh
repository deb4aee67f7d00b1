# Sourced by the checks that run our own programs. `.ci/run` builds them once and names the program in PLEXUS_BIN; alone, a check builds what it
# needs, always by the same choice of packages and features: another one would compile most of the workspace again.
target_folder() { cargo metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/'; }
built_plexus() {
  if [ -z "${PLEXUS_BIN:-}" ]; then
    cargo build --quiet --workspace --bins --all-features >&2
    PLEXUS_BIN=$(target_folder)/debug/plexus
  fi
  realpath "$PLEXUS_BIN"
}
built_example() {
  cargo build --quiet --workspace --examples --all-features >&2
  echo "$(target_folder)/debug/examples/$1"
}
