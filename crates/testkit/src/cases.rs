//! A test program whose cases need something that a machine may lack: PostgreSQL, or a small disk.
//! Where it is missing, its cases are reported as *ignored*, not as `ok`.
//!
//! Cargo's own harness cannot ignore a test at run time, so such a program has `harness = false`
//! and a `main` that lists its cases, best with [`cases!`](crate::cases!). A case is an async
//! function without parameters that returns nothing or an `anyhow::Result<()>`; one that is not in
//! the list is dead code, which the compiler reports.

use std::collections::BTreeSet;
use std::future::Future;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

/// How many threads the runtime of a case has: enough that two tasks run at the same time.
const WORKERS: usize = 2;

/// The cases of a program.
#[derive(Default)]
pub struct Cases {
    /// Why the cases added next cannot run here.
    lacking: Option<Lacking>,
    trials: Vec<Trial>,
    ignored: BTreeSet<String>,
}

/// What this machine lacks for a case, and whether that is a failure.
#[derive(Debug, Clone)]
struct Lacking {
    reason: String,
    is_required: bool,
}

/// What a case may return.
pub trait Outcome {
    /// Makes it what the harness understands.
    ///
    /// # Errors
    /// When the case has failed.
    fn into_result(self) -> Result<(), Failed>;
}

impl Outcome for () {
    fn into_result(self) -> Result<(), Failed> {
        Ok(())
    }
}

impl Outcome for anyhow::Result<()> {
    fn into_result(self) -> Result<(), Failed> {
        self.map_err(|error| format!("{error:?}").into())
    }
}

impl Cases {
    /// Makes an empty list, whose cases run everywhere.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Ignores the cases added after this when there is a reason, or fails them when the variable
    /// `required` is `1`.
    #[must_use]
    pub fn unless(mut self, reason: Option<String>, required: &str) -> Self {
        let is_required = std::env::var_os(required).is_some_and(|value| value == "1");
        self.lacking = reason.map(|reason| Lacking { reason, is_required });
        self
    }

    /// Makes the cases added after this need PostgreSQL.
    #[cfg(target_os = "linux")]
    #[must_use]
    pub fn with_postgres(self) -> Self {
        use crate::postgres::{REQUIRED, is_installed};
        let missing = "PostgreSQL is not installed (apt-get install postgresql)";
        self.unless((!is_installed()).then(|| missing.to_owned()), REQUIRED)
    }

    /// Makes the cases added after this need a small disk.
    #[cfg(target_os = "linux")]
    #[must_use]
    pub fn with_small_disk(self) -> Self {
        use crate::small_disk::{REQUIRED, SmallDisks};
        self.unless(SmallDisks::new().err().map(|error| format!("{error:#}")), REQUIRED)
    }

    /// Adds a case; its name is a claim. It runs on its own runtime.
    #[must_use]
    pub fn case<F>(
        mut self,
        name: impl Into<String>,
        case: impl FnOnce() -> F + Send + 'static,
    ) -> Self
    where
        F: Future,
        F::Output: Outcome,
    {
        let lacking = self.lacking.clone();
        let is_ignored = lacking.as_ref().is_some_and(|lacking| !lacking.is_required);
        if let Some(lacking) = lacking.as_ref().filter(|_| is_ignored) {
            self.ignored.insert(lacking.reason.clone());
        }
        let run = move || match lacking {
            Some(lacking) => Err(lacking.reason.into()),
            None => tokio::runtime::Builder::new_multi_thread()
                .worker_threads(WORKERS)
                .enable_all()
                .build()?
                .block_on(case())
                .into_result(),
        };
        self.trials.push(Trial::test(name, run).with_ignored_flag(is_ignored));
        self
    }

    /// Runs the cases and returns the program's exit code.
    #[must_use]
    pub fn run(self) -> ExitCode {
        let mut arguments = Arguments::from_args();
        // As cargo's own harness takes it.
        let threads = std::env::var("RUST_TEST_THREADS").ok().and_then(|text| text.parse().ok());
        arguments.test_threads = arguments.test_threads.or(threads);
        let conclusion = libtest_mimic::run(&arguments, self.trials);
        self.ignored.iter().for_each(|reason| explain(reason));
        conclusion.exit_code()
    }
}

impl std::fmt::Debug for Cases {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.trials.iter().map(Trial::name)).finish()
    }
}

#[expect(
    clippy::print_stderr,
    reason = "whoever runs the program must see why its cases were ignored"
)]
fn explain(reason: &str) {
    eprintln!("cases were ignored: {reason}");
}

/// Adds cases to a [`Cases`]: `cases!(list, module { case, case, } module { case, })`. Each is
/// named `module::case`.
#[macro_export]
macro_rules! cases {
    ($cases:expr, $($module:ident { $($case:ident),* $(,)? })*) => {
        $cases$($(.case(
            concat!(stringify!($module), "::", stringify!($case)),
            $module::$case,
        ))*)*
    };
}
