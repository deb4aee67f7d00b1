//! The `plexus-sim` program.

fn main() {}
