//! The `plexus` program.

use std::process::ExitCode;

/// Halves what JSON trees cost.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let mut args = std::env::args_os().peekable();
    if args.peek().is_some_and(|name| plexus_confine::is_shell(name)) {
        return ExitCode::from(plexus_confine::shell_main(args));
    }
    args.next();
    // A shim holds one child for hours: it starts before anything else exists in this process, no
    // runtime, no thread, no parser of arguments.
    match args.next() {
        Some(word) if word == "shim" => ExitCode::from(plexus_shim::run(args)),
        // A stage becomes the confined program: user namespaces and Landlock want one thread.
        Some(word) if word == "confine" && args.next_if(|next| next == "--stage").is_some() => {
            ExitCode::from(plexus_confine::main(args))
        }
        // The egress process, which starts whenever a stage does.
        Some(word) if word == "confine" && args.peek().is_some_and(plexus::is_egress) => {
            ExitCode::from(plexus::egress(args))
        }
        Some(word) if word == "cone" => plexus::cone::main(args),
        Some(word) if word == "sim" => plexus_sim::main_with_args(args),
        Some(_) | None => plexus::cli::main(),
    }
}
