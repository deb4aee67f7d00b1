//! The `plexus` program.

use std::process::ExitCode;

/// Halves what JSON trees cost.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1).peekable();
    // A shim holds one child for hours: it starts before anything else exists in this process, no runtime, no thread, no parser of arguments.
    match args.next() {
        Some(word) if word == "shim" => ExitCode::from(plexus_shim::run(args)),
        // A stage becomes the confined program: user namespaces and Landlock want one thread.
        Some(word) if word == "confine" && args.next_if(|next| next == "--stage").is_some() => {
            ExitCode::from(plexus_confine::main(args))
        }
        Some(word) if word == "sim" => plexus_sim::main_with_args(args),
        Some(_) | None => plexus::cli::main(),
    }
}
