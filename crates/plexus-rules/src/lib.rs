//! Rules, which answer a permission request before anybody is asked.
//!
//! The crate is pure: no store, no clock, no async. Its only access to the file system is
//! [`PathResolver`], which follows symbolic links. The loopback activation owns the rules and their
//! use counts; it asks [`RuleSet::decide`] for live requests and for `rule_test` alike, so that the
//! two can never disagree.
//!
//! One principle holds everywhere: **an allow needs proof; in doubt, somebody is asked**. A call
//! that is not fully understood (a command that does not parse, a path that cannot be followed, a
//! URL with a user name in it) does not match an allow, and may match a deny. That is why matching
//! has three answers: yes, no and maybe.
//!
//! In reading order:
//! - `pattern`: the CLI's own notation, parsed once, with errors that name the column.
//! - `rule`: a rule, its scope, its bounds and its examples.
//! - `notation`: the tools that rules name, and what their inputs act on.
//! - `call`: one tool call as the rules see it.
//! - `set`: all rules, indexed, and the one function that decides.
//! - `shell`: what a Bash command would run, as far as it can be known.
//! - `known`: the arguments of programs that are known to be harmless, in tables.
//! - `bash`, `files`, `web`: matching for commands, paths and URLs; `target` is the path of a call,
//!   `wildcards` the end of a path pattern.
//! - `steps`: the names in a path of which only a part is known.
//! - `edits`: the edits that the mode `accept_edits` allows.
//! - `places`: which path rules may fit, found by their directory.
//! - `paths`: following `..` and symbolic links, also of files that do not exist yet.
//! - `include`: whether one pattern includes another, for grants that a session passes on.
//! - `suggest`: the rules a person may want to remember, narrow to wide.
//! - `propose`: the rules that past decisions support.
//! - `file`: the rules of `loopback.toml`.
//! - `risk`: how much harm a call could do, by its words. It decides nothing.

mod bash;
mod call;
mod edits;
mod file;
mod files;
mod include;
mod known;
pub mod notation;
mod paths;
mod pattern;
mod places;
mod propose;
mod reach;
mod risk;
mod rule;
mod set;
mod shell;
mod steps;
mod suggest;
mod target;
mod web;
mod wildcards;

pub use call::{Call, CallParseError};
pub use edits::is_edit_inside;
pub use file::{RuleFile, RuleFileError, RuleFileProblem};
pub use include::{Placed, includes};
pub use paths::{Entry, MAX_LINKS, PathResolver, RealPaths, Unresolved, resolve};
pub use pattern::{Pattern, PatternError, PatternProblem};
pub use propose::{Decided, LEAST_EVIDENCE, Proposal, propose};
pub use risk::assess;
pub use rule::{Author, Decision, ExampleContext, ExampleError, Rule, Scope};
pub use set::{RuleSet, Ruling, covers};
pub use suggest::{Suggestion, narrowest, suggest};

/// How a pattern fits a call. An allow counts only with [`Fit::Yes`]; when a deny or an ask may
/// fit, somebody is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Fit {
    /// The pattern does not describe this call.
    No,
    /// It cannot be told: part of the call is known only when it runs.
    Maybe,
    /// The pattern describes this call.
    Yes,
}
