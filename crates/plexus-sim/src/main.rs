//! The `plexus-sim` program: the simulator as a separate program, for a `--claude-bin` that takes
//! no subcommand.

use std::process::ExitCode;

fn main() -> ExitCode {
    plexus_sim::main_with_args(std::env::args_os().skip(1))
}
