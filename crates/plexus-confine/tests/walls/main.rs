//! Walls around real programs: work that must succeed, doors that open and stay shut, dry runs, and
//! walls that cannot be built.
//!
//! This program is the suite, the stage, the shell of the second ring, an egress process that a
//! stage starts, and a small client of the proxy for inside. Where this machine cannot build a
//! wall, its cases are ignored with the reason; with `PLEXUS_REQUIRE_WALL=1` they fail.

#![allow(
    clippy::expect_used,
    clippy::print_stderr,
    clippy::print_stdout,
    reason = "a suite with a `main` of its own says what it does"
)]

mod apart;
mod closed;
mod doors;
mod dry;
mod inside;
mod planted;
mod started;
mod work;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};
use plexus_confine::{Machine, StageProgram, Tier};

use inside::Inside;

/// The cases of a wall fail instead of being ignored.
const REQUIRED: &str = "PLEXUS_REQUIRE_WALL";

type Case = fn(&Inside) -> anyhow::Result<()>;

fn main() -> ExitCode {
    if std::env::args_os().next().is_some_and(|name| plexus_confine::is_shell(&name)) {
        return ExitCode::from(plexus_confine::shell_main(std::env::args_os()));
    }
    let mut args = std::env::args_os().skip(1).peekable();
    if args.next_if(|word| word == "confine").is_some() {
        return ExitCode::from(plexus_confine::main(args.skip(1)));
    }
    if args.next_if(|word| word == "fetch").is_some() {
        return doors::fetch(args);
    }
    if args.next_if(|word| word == started::WORD).is_some() {
        return started::main(args);
    }
    let arguments = Arguments::from_args();
    let stage = StageProgram::this().expect("the program of the suite has a path");
    let machine = plexus_confine::probe(&stage).expect("the suite can start its stage");
    let mut trials = Vec::new();
    let cases = [work::CASES, doors::CASES, started::CASES, closed::CASES, apart::CASES].concat();
    for tier in [Tier::Full, Tier::Landlock] {
        for (name, case) in &cases {
            trials.push(trial(&format!("{name}_in_{tier}"), tier, *case, &stage, &machine));
        }
    }
    // The landlock tier cannot hold what the full tier mounts.
    for (name, case) in dry::CASES.iter().chain(planted::CASES) {
        trials.push(trial(name, Tier::Full, *case, &stage, &machine));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trial(name: &str, tier: Tier, case: Case, stage: &StageProgram, machine: &Machine) -> Trial {
    let refusal = match tier {
        Tier::Full => machine.full.clone(),
        Tier::Landlock => machine.landlock.clone(),
    };
    let missing = work::missing_tool(name);
    if let Some(why) = refusal.as_ref().map(ToString::to_string).or(missing.clone()) {
        eprintln!("ignored: {name}: {why}");
    }
    let must_run = std::env::var_os(REQUIRED).is_some() && missing.is_none();
    let is_ignored = (refusal.is_some() && !must_run) || missing.is_some();
    let (stage, machine) = (stage.clone(), machine.clone());
    let run = move || {
        if let Some(why) = refusal {
            return Err(Failed::from(why.to_string()));
        }
        let inside = Inside::new(tier, stage, machine)?;
        case(&inside).map_err(|error| Failed::from(format!("{error:#}")))
    };
    Trial::test(name, run).with_ignored_flag(is_ignored)
}
