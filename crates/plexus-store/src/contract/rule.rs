//! Standing rules as they are stored. Only `loopback` interprets patterns.

use plexus_core::RuleId;
pub use plexus_wire::{RuleDecision, RuleScope};
use serde::Serialize;

use super::approval::Owner;
use super::run::RunKey;
use super::time::UnixMillis;

/// One rule, as it was added.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct NewRule {
    /// Its id, made by the caller.
    pub id: RuleId,
    /// Its decision.
    pub decision: RuleDecision,
    /// Which calls it is about, in the CLI's notation.
    pub pattern: String,
    /// Which sessions it applies to. They must exist.
    pub scope: RuleScope,
    /// Who made it.
    pub author: Owner,
    /// The run with which it ends, for a session's rules. That run must not have ended.
    pub ends_with: Option<RunKey>,
    /// When it ends.
    pub expires_at: Option<UnixMillis>,
    /// How many decisions it may make; `None` for any number.
    pub uses: Option<u32>,
    /// Why it exists.
    pub reason: Option<String>,
    /// Calls that it must match.
    pub matches: Vec<String>,
    /// Calls that it must not match.
    pub does_not_match: Vec<String>,
}

/// A stored rule. It is removed with the session its scope or author names.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct StoredRule {
    /// The rule as it was added.
    pub rule: NewRule,
    /// How many decisions it has made. With `uses` set, it has `uses - used` left.
    pub used: u32,
    /// When it was added.
    pub created_at: UnixMillis,
}

impl StoredRule {
    /// Returns how many more decisions it may make; `None` for any number.
    #[must_use]
    pub fn uses_left(&self) -> Option<u32> {
        self.rule.uses.map(|uses| uses.saturating_sub(self.used))
    }
}

/// Which rules are removed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RemoveRules {
    /// This one; it must exist.
    One(RuleId),
    /// Those that end with this run; there may be none.
    EndingWith(RunKey),
    /// Those that have expired or have no uses left.
    Spent {
        /// The current time.
        now: UnixMillis,
    },
}

/// Counts one decision of a rule. A rule that is used up or expired is a conflict, so that the last
/// use cannot be taken twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UseRule {
    /// The rule.
    pub id: RuleId,
    /// The current time.
    pub now: UnixMillis,
}
