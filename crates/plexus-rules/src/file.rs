//! `loopback.toml`: the operator's standing rules.
//!
//! ```toml
//! [[rule]]
//! decision = "allow"
//! pattern = "Bash(git status:*)"
//! reason = "shows, changes nothing"
//! matches = ["Bash(git status -s)"]
//! does_not_match = ["Bash(git stash)"]
//! ```
//!
//! One bad rule refuses the whole file, and the error names the line: the remaining rules would be
//! a set that nobody wrote.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use plexus_wire::RuleId;
use serde::Deserialize;
use toml::Spanned;
use uuid::Uuid;

use super::pattern::{Pattern, PatternError};
use super::rule::{Author, Decision, ExampleContext, ExampleError, Rule, Scope};

/// The namespace for the ids of rules from files. A rule keeps its id across reloads, so that its
/// use count and its audit go on. The namespace must never change.
const FILE_RULES: Uuid = Uuid::from_u128(0x3f0b_7a52_91c4_5d1e_8a6f_0d24_7e61_b9c8);

/// The rules of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleFile {
    /// The rules, in the order of the file.
    pub rules: Vec<Rule>,
}

/// Why a file was refused, and where.
#[derive(Debug, thiserror::Error)]
#[error("{}, line {line}: {problem}", file.display())]
pub struct RuleFileError {
    /// The file.
    pub file: PathBuf,
    /// The line, from 1.
    pub line: usize,
    /// What is wrong there.
    pub problem: RuleFileProblem,
}

/// The problems that a rule file can have.
#[derive(Debug, thiserror::Error)]
pub enum RuleFileProblem {
    /// Not TOML, or not the fields of a rule.
    #[error("{0}")]
    Syntax(String),
    /// A pattern that is not understood.
    #[error(transparent)]
    Pattern(#[from] PatternError),
    /// An example that is not a call, or contradicts the rule.
    #[error(transparent)]
    Example(#[from] ExampleError),
    /// A bound that ends the rule before it starts.
    #[error("`{0}` must be at least 1")]
    NoTime(&'static str),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFile {
    #[serde(default)]
    rule: Vec<RawRule>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRule {
    decision: Decision,
    pattern: Spanned<String>,
    scope: Option<Scope>,
    expires_in_secs: Option<Spanned<u32>>,
    uses: Option<Spanned<u32>>,
    reason: Option<String>,
    #[serde(default)]
    matches: Vec<Spanned<String>>,
    #[serde(default)]
    does_not_match: Vec<Spanned<String>>,
}

impl RuleFile {
    /// Reads the text of `file`. Expiries count from `now`, in seconds since 1970; examples are
    /// checked against `context`.
    ///
    /// # Errors
    /// With the first thing that is wrong, and its line.
    pub fn parse(
        file: &Path,
        text: &str,
        now: i64,
        context: &ExampleContext<'_>,
    ) -> Result<Self, RuleFileError> {
        let refuse = |offset: usize, problem: RuleFileProblem| RuleFileError {
            file: file.to_owned(),
            line: text.bytes().take(offset).filter(|&byte| byte == b'\n').count() + 1,
            problem,
        };
        let raw: RawFile = toml::from_str(text).map_err(|error| {
            let offset = error.span().map_or(0, |span| span.start);
            refuse(offset, RuleFileProblem::Syntax(error.message().to_owned()))
        })?;
        let mut seen: HashMap<String, u32> = HashMap::new();
        let mut rules = Vec::with_capacity(raw.rule.len());
        for raw in raw.rule {
            let at = raw.pattern.span().start;
            let pattern: Pattern = raw
                .pattern
                .get_ref()
                .parse()
                .map_err(|error: PatternError| refuse(at, error.into()))?;
            for (name, bound) in [("expires_in_secs", &raw.expires_in_secs), ("uses", &raw.uses)] {
                if let Some(bound) = bound.as_ref().filter(|bound| *bound.get_ref() == 0) {
                    return Err(refuse(bound.span().start, RuleFileProblem::NoTime(name)));
                }
            }
            let scope = raw.scope.unwrap_or(Scope::All);
            let mut rule = Rule {
                id: stable_id(&mut seen, raw.decision, &pattern, scope),
                decision: raw.decision,
                pattern,
                scope,
                author: Author::Operator,
                expires_at: raw
                    .expires_in_secs
                    .map(|secs| now.saturating_add(i64::from(secs.into_inner()))),
                uses_left: raw.uses.map(Spanned::into_inner),
                reason: raw.reason,
                matches: Vec::new(),
                does_not_match: Vec::new(),
            };
            // Examples are checked one at a time, so that the error names the line of the example.
            for example in &raw.matches {
                rule.matches = vec![example.get_ref().clone()];
                rule.check_examples(context)
                    .map_err(|error| refuse(example.span().start, error.into()))?;
            }
            rule.matches = Vec::new();
            for example in &raw.does_not_match {
                rule.does_not_match = vec![example.get_ref().clone()];
                rule.check_examples(context)
                    .map_err(|error| refuse(example.span().start, error.into()))?;
            }
            rule.matches = raw.matches.into_iter().map(Spanned::into_inner).collect();
            rule.does_not_match = raw.does_not_match.into_iter().map(Spanned::into_inner).collect();
            rules.push(rule);
        }
        Ok(Self { rules })
    }
}

/// Derives an id from the content of the rule; the second of two equal rules gets another one.
fn stable_id(
    seen: &mut HashMap<String, u32>,
    decision: Decision,
    pattern: &Pattern,
    scope: Scope,
) -> RuleId {
    let name = format!("{decision:?} {scope:?} {pattern}");
    let count = seen.entry(name.clone()).and_modify(|count| *count += 1).or_insert(0);
    RuleId::from_uuid(Uuid::new_v5(&FILE_RULES, format!("{name} {count}").as_bytes()))
}
