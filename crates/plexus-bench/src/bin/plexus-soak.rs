//! The `plexus-soak` program.

use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use clap::Parser;
use plexus_bench::soak::soak_server::Store;
use plexus_bench::soak::{self, Options};
use tokio::signal::unix::{SignalKind, signal};

/// Keeps servers with many agents of every kind busy, kills whatever can be killed, and looks
/// whether anything was lost or left behind.
#[derive(Parser, Debug)]
#[command(name = "plexus-soak", version, max_term_width = 100)]
struct Arguments {
    /// How long.
    #[arg(long, value_name = "N", default_value_t = 60)]
    minutes: u64,
    /// Seconds in place of minutes, to try it.
    #[arg(long, value_name = "N", conflicts_with = "minutes")]
    seconds: Option<u64>,
    /// How many sessions are at work at the same time, over all servers.
    #[arg(long, value_name = "N", default_value_t = 50)]
    children: usize,
    /// How many sessions with the real CLIs are at work beside them, against stand-ins for their
    /// models; 8, which are agents of every kind with and without a wall, when no number is given.
    /// All of this program then runs in a network of its own.
    #[arg(
        long,
        value_name = "N",
        num_args = 0..=1,
        default_value_t = 0,
        default_missing_value = "8"
    )]
    real: usize,
    /// Where the servers keep everything, one server for each.
    #[arg(long, value_enum, value_delimiter = ',', default_values = ["sqlite", "postgres"])]
    store: Vec<Store>,
    /// Plays the same choices again; a number of its own when absent.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    // A real CLI must never reach a real host.
    if arguments.real > 0
        && let Err(why) = testkit::netns::enter_or_explain()
    {
        print(&format!("the real CLIs need a network of their own: {why}"));
        return ExitCode::FAILURE;
    }
    match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime.block_on(soak_and_print(arguments)),
        Err(error) => {
            print(&format!("there is no runtime: {error}"));
            ExitCode::FAILURE
        }
    }
}

async fn soak_and_print(arguments: Arguments) -> ExitCode {
    let options = Options {
        time: Duration::from_secs(arguments.seconds.unwrap_or(arguments.minutes * 60)),
        children: arguments.children,
        real: arguments.real,
        stores: arguments.store,
        seed: arguments.seed.unwrap_or_else(|| u64::from(std::process::id())),
    };
    // Whoever ends the soak ends what it started: its servers and their children go with it.
    let soaked = tokio::select! {
        soaked = soak::run(&options) => soaked,
        stopped = told_to_stop() => stopped,
    };
    match soaked {
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

/// Returns once this program is told to stop.
async fn told_to_stop() -> Result<soak::Report> {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        _ = terminate.recv() => {}
        interrupted = tokio::signal::ctrl_c() => interrupted?,
    }
    bail!("it was told to stop")
}

#[expect(clippy::print_stdout, reason = "this is what the program prints")]
fn print(text: &str) {
    println!("{text}");
}
