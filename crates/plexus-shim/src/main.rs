//! The `plexus-shim` program.

fn main() {}
