//! The `plexus-bench` program.

fn main() {}
