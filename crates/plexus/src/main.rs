//! The `plexus` program.

use std::process::ExitCode;

/// Halves what JSON trees cost.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1);
    // A shim holds one child for hours: it starts before anything else exists in this process, no runtime, no thread, no parser of arguments.
    match args.next() {
        Some(word) if word == "shim" => ExitCode::from(plexus_shim::run(args)),
        Some(word) if word == "sim" => plexus_sim::main_with_args(args),
        Some(_) | None => plexus::cli::main(),
    }
}
