//! The `plexus-soak` program.

use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use plexus_bench::soak::{self, Options};

/// Keeps a server with many children busy, kills whatever can be killed, and looks whether anything
/// was lost or left behind.
#[derive(Parser, Debug)]
#[command(name = "plexus-soak", version, max_term_width = 100)]
struct Arguments {
    /// How long.
    #[arg(long, value_name = "N", default_value_t = 60)]
    minutes: u64,
    /// Seconds in place of minutes, to try it.
    #[arg(long, value_name = "N", conflicts_with = "minutes")]
    seconds: Option<u64>,
    /// How many sessions are at work at the same time.
    #[arg(long, value_name = "N", default_value_t = 50)]
    children: usize,
    /// Plays the same choices again; a number of its own when absent.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let options = Options {
        time: Duration::from_secs(arguments.seconds.unwrap_or(arguments.minutes * 60)),
        children: arguments.children,
        seed: arguments.seed.unwrap_or_else(|| u64::from(std::process::id())),
    };
    match soak::run(&options).await {
        Ok(report) => {
            print(&report.to_string());
            if report.wrong.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(error) => {
            print(&format!("the soak could not be run to its end: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stdout, reason = "this is what the program prints")]
fn print(text: &str) {
    println!("{text}");
}
