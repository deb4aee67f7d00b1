//! `confined_true_ms`: how long `true` takes to start and end, plain and within each wall, side by
//! side in one run. Medians; the walls are planned before, as the server does once for a session.
//!
//! `cargo bench -p plexus-confine --bench start`

#![allow(
    clippy::expect_used,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a suite with a `main` of its own says what it does"
)]

use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};

use plexus_confine::{Profile, RunDir, StageProgram, Tier, Wall, plan};

/// How often each is started.
const ROUNDS: usize = 100;

fn main() -> ExitCode {
    let mut args = std::env::args_os().skip(1).peekable();
    if args.next_if(|word| word == "confine").is_some() {
        return ExitCode::from(plexus_confine::main(args.skip(1)));
    }
    match measure() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error:#}");
            ExitCode::FAILURE
        }
    }
}

fn measure() -> anyhow::Result<()> {
    let stage = StageProgram::this()?;
    let machine = plexus_confine::probe(&stage)?;
    let project = tempfile::tempdir()?;
    let mut starts: Vec<(String, Box<dyn Fn() -> Command>)> =
        vec![("plain".to_owned(), Box::new(|| Command::new("true")))];
    let mut kept = Vec::new();
    for (profile, tier) in [
        (Profile::Workspace, Tier::Landlock),
        (Profile::Strict, Tier::Landlock),
        (Profile::Workspace, Tier::Full),
        (Profile::Strict, Tier::Full),
    ] {
        let run_dir = RunDir::new()?;
        let mut wall = Wall::new(profile, project.path(), run_dir.temp_dir());
        wall.tier = Some(tier);
        wall.home = std::env::var_os("HOME").map(Into::into);
        let planned = plan(&wall, &machine)?;
        let file = run_dir.put(&planned)?;
        kept.push(run_dir);
        let stage = stage.clone();
        let command = move || stage.command(&file, "true".as_ref());
        starts.push((format!("{profile}, {tier}"), Box::new(command)));
    }
    // One of each in turn, so that a busy machine is busy for all of them.
    let mut times: Vec<Vec<Duration>> = vec![Vec::new(); starts.len()];
    for _ in 0..ROUNDS {
        for ((_, start), times) in starts.iter().zip(&mut times) {
            let begun = Instant::now();
            anyhow::ensure!(start().status()?.success(), "a start failed");
            times.push(begun.elapsed());
        }
    }
    for ((name, _), times) in starts.iter().zip(&mut times) {
        times.sort();
        let median = times[times.len() / 2].as_secs_f64() * 1e3;
        let best = times[0].as_secs_f64() * 1e3;
        println!("confined_true_ms {name}: median {median:.2}, best {best:.2}");
    }
    Ok(())
}
