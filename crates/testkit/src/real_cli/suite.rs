//! A test program that reports *ignored* where the CLI, or the network namespace it needs, is not
//! available.
//!
//! Cargo's own harness cannot ignore a test at run time, so such a suite has `harness = false` and
//! a `main` that calls [`Suite::run`].

use std::future::Future;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};

use super::RealCli;
use crate::{netns, real_claude};

/// How many cases run at a time. Each child needs about a second of CPU to start, and 200 MB; after
/// that a case mostly waits.
const CASES_AT_A_TIME: usize = 4;

/// The deadline of one case. Most take a few seconds on an idle machine; the slowest wait half a
/// minute for a client to reconnect.
const CASE_DEADLINE: Duration = Duration::from_secs(240);

/// The deadline of a slow case.
const SLOW_CASE_DEADLINE: Duration = Duration::from_secs(15 * 60);

/// The function of a case, which takes the path of the CLI.
type Case = Box<dyn FnOnce(PathBuf) -> Result<(), Failed> + Send>;

/// Whether a case runs by default.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pace {
    Quick,
    /// Only when requested with `--ignored`.
    Slow,
}

/// The cases of a suite, each a name and a function that takes the path of the CLI.
pub struct Suite {
    /// The CLI for the cases added next.
    cli: RealCli,
    /// Why the cases added next cannot run, whichever CLI they need.
    lacking: Option<Lacking>,
    cases: Vec<(&'static str, Pace, Needs, Case)>,
    at_a_time: usize,
}

/// What this machine lacks for a case, and whether that fails the suite.
#[derive(Clone)]
struct Lacking {
    reason: String,
    is_required: bool,
}

/// The requirements of a case.
struct Needs {
    cli: RealCli,
    lacking: Option<Lacking>,
}

impl Needs {
    fn find(&self) -> Result<PathBuf, Lacking> {
        let cli = self.cli.find();
        let lacking = |reason| Lacking { reason, is_required: self.cli.is_required() };
        self.lacking.clone().map_or_else(|| cli.map_err(lacking), Err)
    }
}

impl Default for Suite {
    fn default() -> Self {
        Self::of(real_claude::CLI)
    }
}

impl Suite {
    /// Makes an empty suite for the Claude Code CLI.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes an empty suite for this CLI.
    #[must_use]
    pub fn of(cli: RealCli) -> Self {
        Self { cli, lacking: None, cases: Vec::new(), at_a_time: CASES_AT_A_TIME }
    }

    /// Ignores the cases added after this when there is a reason, or fails them when the variable
    /// `required` is set.
    #[must_use]
    pub fn unless(mut self, reason: Option<String>, required: &str) -> Self {
        let is_required = std::env::var_os(required).is_some();
        self.lacking = reason.map(|reason| Lacking { reason, is_required });
        self
    }

    /// Makes the cases added after this need this CLI.
    #[must_use]
    pub fn with(mut self, cli: RealCli) -> Self {
        self.cli = cli;
        self
    }

    /// Runs this many cases at a time, for a suite whose cases mostly wait.
    #[must_use]
    pub fn at_a_time(mut self, cases: usize) -> Self {
        self.at_a_time = cases;
        self
    }

    /// Adds a case; its name is a claim. It runs on its own runtime, with a deadline.
    #[must_use]
    pub fn case<F>(
        self,
        name: &'static str,
        case: impl FnOnce(PathBuf) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = anyhow::Result<()>> + 'static,
    {
        self.add(name, Pace::Quick, CASE_DEADLINE, case)
    }

    /// Adds a case that takes minutes: it is ignored unless `--ignored` is given.
    #[must_use]
    pub fn slow_case<F>(
        self,
        name: &'static str,
        case: impl FnOnce(PathBuf) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = anyhow::Result<()>> + 'static,
    {
        self.add(name, Pace::Slow, SLOW_CASE_DEADLINE, case)
    }

    fn add<F>(
        mut self,
        name: &'static str,
        pace: Pace,
        deadline: Duration,
        case: impl FnOnce(PathBuf) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = anyhow::Result<()>> + 'static,
    {
        let run = move |cli: PathBuf| -> Result<(), Failed> {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let outcome =
                runtime.block_on(async { tokio::time::timeout(deadline, case(cli)).await });
            match outcome {
                Ok(Ok(())) => Ok(()),
                Ok(Err(error)) => Err(format!("{error:#}").into()),
                Err(_elapsed) => Err(format!("the case did not end within {deadline:?}").into()),
            }
        };
        let needs = Needs { cli: self.cli, lacking: self.lacking.clone() };
        self.cases.push((name, pace, needs, Box::new(run)));
        self
    }

    /// Runs the suite and returns the program's exit code; call it at the start of `main`.
    ///
    /// The program is restarted inside a network namespace with only loopback. Where that or the
    /// CLI is missing, every case is ignored and the reason is printed; where the CLI is required,
    /// one more case fails with the reason.
    #[must_use]
    pub fn run(self) -> ExitCode {
        // Without any CLI, nothing has to be kept away from real hosts.
        let is_any_found = self.cases.iter().any(|(_, _, needs, _)| needs.find().is_ok());
        let inside = if is_any_found { netns::enter_or_explain() } else { Ok(()) };
        let mut arguments = Arguments::from_args();
        arguments.test_threads = Some(arguments.test_threads.unwrap_or(self.at_a_time));
        let mut missing = Missing::default();
        let trials = self.trials(&inside, &mut missing);
        let conclusion = libtest_mimic::run(&arguments, trials);
        missing.reasons.iter().for_each(|reason| explain(reason));
        conclusion.exit_code()
    }

    fn trials(self, inside: &Result<(), String>, missing: &mut Missing) -> Vec<Trial> {
        let mut trials = Vec::new();
        for (name, pace, needs, case) in self.cases {
            let is_required = needs.cli.is_required();
            let outside = |reason: &String| Lacking { reason: reason.clone(), is_required };
            let inside = inside.as_ref().map_err(outside);
            let found = needs.find().and_then(|path| inside.map(|()| path));
            if let Err(lacking) = &found {
                missing.note(&lacking.reason, lacking.is_required);
            }
            let ignored = found.is_err() || pace == Pace::Slow;
            let run = move || case(found.map_err(|lacking| lacking.reason)?);
            let trial = Trial::test(name, run).with_ignored_flag(ignored);
            trials.push(trial);
        }
        if !missing.required.is_empty() {
            let reason = missing.required.join("; ");
            trials.push(Trial::test("the_real_cli_can_be_run_here", move || Err(reason.into())));
        }
        trials
    }
}

/// Why cases cannot run, without duplicates.
#[derive(Default)]
struct Missing {
    reasons: Vec<String>,
    /// The reasons that must fail the suite.
    required: Vec<String>,
}

impl Missing {
    fn note(&mut self, reason: &str, is_required: bool) {
        if self.reasons.iter().any(|known| known == reason) {
            return;
        }
        self.reasons.push(reason.to_owned());
        if is_required {
            self.required.push(reason.to_owned());
        }
    }
}

impl std::fmt::Debug for Suite {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.cases.iter().map(|(name, ..)| name)).finish()
    }
}

#[expect(
    clippy::print_stderr,
    reason = "whoever runs the suite must see why its cases were ignored"
)]
fn explain(reason: &str) {
    eprintln!("the cases with the real CLI were ignored: {reason}");
}

/// Returns the text of a file, or an empty string while it does not exist.
#[must_use]
pub fn text_of(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_default()
}
