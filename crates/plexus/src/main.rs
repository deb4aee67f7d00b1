//! The `plexus` program.

fn main() {}
