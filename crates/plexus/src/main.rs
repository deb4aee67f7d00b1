//! The `plexus` program.

use std::process::ExitCode;

/// Halves what JSON trees cost.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    plexus::main()
}
