//! The contract as a test suite for any backend.
//!
//! A backend takes part through a [`Subject`]: it creates the backend, turns a [`Scenario`] into a
//! request that makes its agent play it, and reports which processes were started and which still
//! live. [`statements`] lists all checks; each [`Statement`] is one named claim, so a test program
//! can report them one by one. A statement about something that the backend does not advertise, or
//! whose scenario its agent cannot play, [does not apply](Verdict::DoesNotApply), and says why.
//!
//! ```
//! # use agent_api::conformance::{self, Subject, Verdict};
//! async fn hold_to_the_contract(new_subject: impl Fn() -> Box<dyn Subject>) {
//!     for statement in conformance::statements() {
//!         let verdict = statement.check(&*new_subject()).await;
//!         assert!(!matches!(verdict, Verdict::Broken(_)), "{}: {verdict:?}", statement.name());
//!     }
//! }
//! ```
//!
//! In reading order: [`subject`](Subject) (the interface for a backend), then the statements by
//! number: capabilities (23), refusals (24), how the agent is started (25), events (26 to 29 and
//! 35), endings (30 to 32), sessions (33), and the external sandbox (34).

mod advertised;
mod begins;
mod ends;
mod refused;
mod sandbox;
mod started;
mod subject;
mod told;
mod tools;

use std::fmt;

use futures::future::BoxFuture;

pub use subject::{Defaults, Launch, Scenario, Subject};
use tools::Stop;

/// One claim of the contract.
#[derive(Clone, Copy)]
pub struct Statement {
    number: u8,
    name: &'static str,
    check: for<'a> fn(&'a dyn Subject) -> BoxFuture<'a, Result<(), Stop>>,
}

/// The result of checking one statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The backend keeps the statement.
    Holds,
    /// The statement does not apply, for this reason.
    DoesNotApply(String),
    /// The backend breaks the statement; the text says what happened instead.
    Broken(String),
}

impl Statement {
    /// Returns the number of the statement in the contract.
    pub fn number(&self) -> u8 {
        self.number
    }

    /// Returns the claim.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Checks the claim with a subject that no other check uses at the same time.
    pub async fn check(&self, subject: &dyn Subject) -> Verdict {
        match (self.check)(subject).await {
            Ok(()) => Verdict::Holds,
            Err(Stop::DoesNotApply(why)) => Verdict::DoesNotApply(why),
            Err(Stop::Broken(what)) => Verdict::Broken(what),
        }
    }
}

impl fmt::Debug for Statement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.number, self.name)
    }
}

/// Returns every statement, by number.
pub fn statements() -> Vec<Statement> {
    let parts: [&[Statement]; 7] = [
        advertised::STATEMENTS,
        refused::STATEMENTS,
        started::STATEMENTS,
        told::STATEMENTS,
        ends::STATEMENTS,
        begins::STATEMENTS,
        sandbox::STATEMENTS,
    ];
    let mut all = parts.concat();
    all.sort_by_key(Statement::number);
    all
}
