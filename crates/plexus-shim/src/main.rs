//! The `plexus-shim` program: the same as `plexus shim`, alone.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(plexus_shim::run(std::env::args_os().skip(1)))
}
