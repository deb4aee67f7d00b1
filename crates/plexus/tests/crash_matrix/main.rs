//! The crash matrix: a real server, its shim, its simulated child, the egress process of a wall and
//! its PostgreSQL, one of them killed or frozen at every named point of both flows, and an oracle
//! that looks from outside. The child is Claude Code, Codex or an agent of the Agent Client
//! Protocol.
//!
//! Each case plays the same story ([`story`]) in a place of its own ([`place`]), has one process
//! struck at one point ([`points`]), and is judged by what the callers were told, what the child
//! really did and what the store says ([`oracle`]). A point that is not reached fails its case: it
//! would prove nothing. The points of receivers and phones have a story of their own ([`reach`]).
//!
//! Without `PLEXUS_FULL=1` every point is struck once and the server comes back at once, in about
//! two minutes, the other agents at a sample of them; with it, also frozen, also with outages of 3
//! and 30 s (10 s on the MCP channel), and every agent at every point that it reaches.
//! Where PostgreSQL is not installed its own cases ([`database`]) say so and show nothing.
//! `scripts/long/crash-matrix.sh` runs the whole. One case is run by a part of its name:
//!
//! ```sh
//! cargo test -p plexus --all-features --test crash_matrix -- decision.committed
//! ```

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "in a test, a panic is the answer")]
#![allow(clippy::print_stderr, reason = "a suite with a `main` of its own says what it does")]

mod case_server;
mod database;
mod oracle;
mod points;
mod reach;
mod story;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

/// Cases at a time: most of each is waiting.
const ABREAST: usize = 12;

/// A wall that cannot be built fails the cases that need one, instead of ignoring them.
const REQUIRED: &str = "PLEXUS_REQUIRE_WALL";

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    arguments.test_threads.get_or_insert(ABREAST);
    let full = std::env::var_os("PLEXUS_FULL").is_some_and(|value| value == "1");
    let cases = points::cases(full);
    count(&cases);
    let refusal = no_wall();
    let without_database = testkit::postgres::is_missing_and_not_required();
    let trials = cases.into_iter().map(|case| {
        let why = refusal.clone().filter(|_| case.victim == points::Victim::Egress);
        let is_ignored = (why.is_some() && std::env::var_os(REQUIRED).is_none())
            || (case.victim == points::Victim::Database && without_database);
        let name = case.to_string();
        let run = move || match why {
            Some(why) => Err(Failed::from(why)),
            None => play(&case),
        };
        Trial::test(name, run).with_ignored_flag(is_ignored)
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

/// Why this machine cannot build a wall, whose egress process some cases strike.
fn no_wall() -> Option<String> {
    let stage = plexus_confine::StageProgram {
        program: env!("CARGO_BIN_EXE_plexus").into(),
        arguments: ["confine", "--stage"].map(Into::into).to_vec(),
    };
    let machine = plexus_confine::probe(&stage).expect("plexus starts as a stage");
    machine.choose(None).err().map(|why| why.to_string())
}

/// Says how many cases each agent has.
fn count(cases: &[points::Case]) {
    let mut counts = std::collections::BTreeMap::new();
    for case in cases {
        let name = match case.story {
            points::Story::Work => format!("{:?}", case.agent),
            points::Story::Reach => "receivers and phones".to_owned(),
        };
        *counts.entry(name).or_insert(0) += 1;
    }
    let counts: Vec<_> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
    eprintln!("cases: {}", counts.join(", "));
}

fn play(case: &points::Case) -> Result<(), Failed> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let played = match case.story {
        points::Story::Work => runtime.block_on(story::play(case)),
        points::Story::Reach => runtime.block_on(reach::play(case)),
    };
    played.map_err(|error| Failed::from(error.to_string()))
}
