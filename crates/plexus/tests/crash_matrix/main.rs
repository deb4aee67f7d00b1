//! The crash matrix: a real server, its shim, its simulated child and its PostgreSQL, one of them
//! killed or frozen at every named point of both flows, and an oracle that looks from outside.
//!
//! Each case plays the same story ([`story`]) in a place of its own ([`place`]), has one process
//! struck at one point ([`points`]), and is judged by what the callers were told, what the child
//! really did and what the store says ([`oracle`]). A point that is not reached fails its case: it
//! would prove nothing.
//!
//! Without `PLEXUS_FULL=1` every point is struck once and the server comes back at once, in about
//! two minutes; with it, also frozen, also with outages of 3 and 30 s (10 s on the MCP channel).
//! Where PostgreSQL is not installed its own cases ([`database`]) say so and show nothing.
//! `scripts/long/crash-matrix.sh` runs the whole. One case is run by a part of its name:
//!
//! ```sh
//! cargo test -p plexus --all-features --test crash_matrix -- decision.committed
//! ```

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "in a test, a panic is the answer")]

mod database;
mod oracle;
mod place;
mod points;
mod story;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

/// Cases at a time: most of each is waiting.
const ABREAST: usize = 12;

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(ABREAST);
    let full = std::env::var_os("PLEXUS_FULL").is_some_and(|value| value == "1");
    let cases = points::cases(full);
    let without_database = testkit::postgres::is_missing_and_not_required();
    let trials = cases.into_iter().map(|case| {
        let ignored = case.victim == points::Victim::Database && without_database;
        Trial::test(case.to_string(), move || play(&case)).with_ignored_flag(ignored)
    });
    let trials = trials.collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn play(case: &points::Case) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(story::play(case)).map_err(|error| Failed::from(error.to_string()))
}
