//! A rule: a decision, the calls it is about, the sessions it holds for, and the examples that
//! prove it means what its author thinks.

use std::path::Path;

pub use plexus_wire::{RuleDecision as Decision, RuleScope as Scope};
use plexus_wire::{RuleId, SessionId, ToolCall};
use serde::{Deserialize, Serialize};

use super::call::{Call, CallParseError, read_example};
use super::paths::PathResolver;
use super::pattern::Pattern;
use super::set::fits;

/// Who made a rule. A session's rule never holds for that session itself: nobody approves
/// themselves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Author {
    /// The operator, by a call or by `loopback.toml`.
    Operator,
    /// A session, for its strict descendants.
    Session(SessionId),
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    /// Its id; when several rules fit, the one with the smallest id is reported.
    pub id: RuleId,
    /// Its decision.
    pub decision: Decision,
    /// Which calls it is about.
    pub pattern: Pattern,
    /// Which sessions it holds for.
    pub scope: Scope,
    /// Who made it.
    pub author: Author,
    /// When it ends, in seconds since 1970; from that second on it no longer holds.
    pub expires_at: Option<i64>,
    /// How many more decisions it may make; at zero it counts as removed.
    pub uses_left: Option<u32>,
    /// Why it exists, for the person who reads the audit.
    pub reason: Option<String>,
    /// Calls it must fit, as `Tool(argument)`.
    pub matches: Vec<String>,
    /// Calls it must not fit.
    pub does_not_match: Vec<String>,
}

/// Where the relative paths of examples start.
#[derive(Clone, Copy)]
pub struct ExampleContext<'a> {
    /// Used as the session's working directory.
    pub working_dir: &'a Path,
    /// Used as the child's home directory.
    pub home: Option<&'a Path>,
    /// How symbolic links are followed.
    pub paths: &'a dyn PathResolver,
}

/// Why a rule's examples were refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExampleError {
    /// An example is not a call.
    #[error(transparent)]
    NotACall(#[from] CallParseError),
    /// An example under `matches` that the pattern does not fit.
    #[error("`{pattern}` does not match its example `{example}`: {why}")]
    DoesNotMatch {
        /// The pattern.
        pattern: String,
        /// The example.
        example: String,
        /// Why it does not fit.
        why: String,
    },
    /// An example under `does_not_match` that the pattern fits, or may fit.
    #[error("`{pattern}` matches its counterexample `{example}`")]
    Matches {
        /// The pattern.
        pattern: String,
        /// The example.
        example: String,
    },
}

impl Rule {
    /// Makes an operator's rule for all sessions, without bounds or examples.
    #[must_use]
    pub fn new(decision: Decision, pattern: Pattern) -> Self {
        Self {
            id: RuleId::generate(),
            decision,
            pattern,
            scope: Scope::All,
            author: Author::Operator,
            expires_at: None,
            uses_left: None,
            reason: None,
            matches: Vec::new(),
            does_not_match: Vec::new(),
        }
    }

    /// Says whether the rule holds for the session that calls, now.
    #[must_use]
    pub fn holds_for(&self, call: &Call<'_>) -> bool {
        self.uses_left != Some(0)
            && self.expires_at.is_none_or(|end| call.now < end)
            && match self.scope {
                Scope::All => true,
                Scope::Session(session) => session == call.session,
                Scope::Subtree(top) => top == call.session || call.ancestors.contains(&top),
            }
            && match self.author {
                Author::Operator => true,
                Author::Session(author) => {
                    author != call.session && call.ancestors.contains(&author)
                }
            }
    }

    /// Checks that the rule means what its examples say.
    ///
    /// # Errors
    /// With the first example that is not a call, or contradicts the rule.
    pub fn check_examples(&self, context: &ExampleContext<'_>) -> Result<(), ExampleError> {
        let fit = |example: &str| -> Result<_, CallParseError> {
            Ok(fits(self, &example_call(&read_example(example)?, context)))
        };
        for example in &self.matches {
            if let Err(why) = fit(example)? {
                let (pattern, example) = (self.pattern.to_string(), example.clone());
                return Err(ExampleError::DoesNotMatch { pattern, example, why });
            }
        }
        for example in &self.does_not_match {
            if fit(example)?.is_ok() {
                return Err(ExampleError::Matches {
                    pattern: self.pattern.to_string(),
                    example: example.clone(),
                });
            }
        }
        Ok(())
    }
}

fn example_call<'a>(tool: &'a ToolCall, context: &ExampleContext<'a>) -> Call<'a> {
    Call {
        tool,
        working_dir: context.working_dir,
        home: context.home,
        // Examples are independent of scope and time; `fits` looks at neither.
        session: SessionId::from_uuid(uuid::Uuid::nil()),
        ancestors: &[],
        now: 0,
        paths: context.paths,
    }
}
