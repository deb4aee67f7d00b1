//! The `plexus-bench` program.

use std::process::ExitCode;

use clap::Parser;
use plexus_bench::sizes::Sizes;
use plexus_bench::{measure, measures, report};

/// Measures a whole server with simulated children. Every figure stands beside its limit or a rival
/// from the same run.
#[derive(Parser, Debug)]
#[command(name = "plexus-bench", version, max_term_width = 100)]
struct Arguments {
    /// Under three minutes: fewer repeats, and fewer children where a thousand take long.
    #[arg(long)]
    quick: bool,
    /// A few seconds, to see that everything works; its figures mean nothing.
    #[arg(long, conflicts_with = "quick")]
    tiny: bool,
    /// Print one JSON object instead of the table.
    #[arg(long)]
    json: bool,
    /// Only the measures whose name contains this; may be given again.
    #[arg(long, value_name = "NAME")]
    only: Vec<String>,
}

#[tokio::main]
async fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let sizes = match (arguments.tiny, arguments.quick) {
        (true, _) => Sizes::tiny(),
        (false, true) => Sizes::quick(),
        (false, false) => Sizes::full(),
    };
    let chosen = measures::all()
        .into_iter()
        .filter(|measure| {
            arguments.only.is_empty()
                || arguments.only.iter().any(|part| measure.name().contains(part))
        })
        .collect::<Vec<_>>();
    let outcome = measure::run(&chosen, &sizes).await;
    print(if arguments.json {
        report::json::render(&outcome)
    } else {
        report::table::render(&outcome)
    });
    // A figure that misses its aim is still a measurement; a figure that could not be taken fails
    // the run.
    if outcome.missing.iter().any(|missing| missing.is_required) {
        ExitCode::FAILURE
    } else {
        ExitCode::SUCCESS
    }
}

#[expect(clippy::print_stdout, reason = "this is what the program prints")]
fn print(text: String) {
    println!("{text}");
}
