//! The `plexus-thousand` program.

use std::process::ExitCode;

use clap::Parser;
use plexus_bench::thousand::{self, Options};

/// Has a thousand agents ask and be parked, restarts the machine as far as they can tell, answers
/// all of them, and looks whether each call ran exactly once.
#[derive(Parser, Debug)]
#[command(name = "plexus-thousand", version, max_term_width = 100)]
struct Arguments {
    /// How many agents wait.
    #[arg(long, value_name = "N", default_value_t = 1_000)]
    agents: usize,
    /// How many of them are the real Claude Code CLI; the others are simulated.
    #[arg(long, value_name = "N", default_value_t = 20)]
    real: usize,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match played(&arguments) {
        Ok(report) => {
            print(&report.to_string());
            if report.wrong.is_empty() && report.missed().is_empty() {
                ExitCode::SUCCESS
            } else {
                ExitCode::FAILURE
            }
        }
        Err(error) => {
            print(&format!("it could not be run to its end: {error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn played(arguments: &Arguments) -> anyhow::Result<thousand::Report> {
    anyhow::ensure!(
        arguments.agents > 0 && arguments.real <= arguments.agents,
        "there cannot be {} real agents among {}",
        arguments.real,
        arguments.agents
    );
    let cli = if arguments.real > 0 {
        // The real CLI may reach nothing but its stand-in; this begins the program anew, inside.
        testkit::netns::enter_or_explain().map_err(anyhow::Error::msg)?;
        Some(testkit::real_claude::CLI.find().map_err(anyhow::Error::msg)?)
    } else {
        None
    };
    let options = Options { agents: arguments.agents, real: arguments.real, cli };
    tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?
        .block_on(thousand::run(&options))
}

#[expect(clippy::print_stdout, reason = "this is what the program prints")]
fn print(text: &str) {
    println!("{text}");
}
