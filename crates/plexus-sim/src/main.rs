//! The `plexus-sim` program: the simulator under a name of its own, for a `--claude-bin` that takes
//! no subcommand.

use std::process::ExitCode;

fn main() -> ExitCode {
    plexus_sim::main_with_args(std::env::args_os().skip(1))
}
