//! Matching of Bash commands: which rules cover a command line, and which rules deny it or ask
//! about it.
//!
//! An allow must cover every simple command; different rules may cover different ones. A deny needs
//! only one. An index by the words of the command finds the rules, so that the cost depends on the
//! rules that could fit and not on all of them.
//!
//! - [`cover`]: the rules that together allow a command line.
//! - [`guard`]: the rules that deny or ask, and what may be hidden from them.
//! - [`lists`]: the names that one command prints and another takes as arguments.
//! - [`named`]: the files that a command names, for rules about files.
//! - [`spelling`]: the other spellings of a command that a rule denies or asks about.

mod cover;
mod guard;
mod lists;
mod named;
mod spelling;

pub(super) use named::{Touch, files_named};

use std::collections::HashMap;
use std::path::Path;

use plexus_wire::ToolTarget;

use super::call::Call;
use super::paths::resolve;
use super::pattern::{CommandPattern, Kind};
use super::rule::{Decision, Rule};
use super::set::Findings;
use super::shell::programs;
use super::shell::{self, Word};
use spelling::Places;

/// The rules with a command pattern, indexed by their words. Values are positions in the rule set,
/// which is sorted by id.
#[derive(Debug, Default)]
pub(super) struct BashIndex {
    /// Exact rules by their whole text.
    by_text: HashMap<String, Vec<usize>>,
    /// Allows by their first word.
    allows: HashMap<String, Vec<usize>>,
    /// Denies and asks by their first word, under the keys of [`guard_keys`].
    guards: HashMap<String, Vec<usize>>,
    /// All denies and asks, for commands that cannot be parsed.
    all_guards: Vec<usize>,
}

impl BashIndex {
    pub(super) fn add(&mut self, at: usize, decision: Decision, pattern: &CommandPattern) {
        let first = match pattern {
            CommandPattern::Exact { text, words } => {
                self.by_text.entry(text.clone()).or_default().push(at);
                words.as_ref().and_then(|words| words.first())
            }
            CommandPattern::Prefix { words } => words.first(),
        };
        match decision {
            Decision::Allow => {
                if let Some(first) = first {
                    self.allows.entry(first.clone()).or_default().push(at);
                }
            }
            Decision::Deny | Decision::Ask => {
                self.all_guards.push(at);
                for key in first.into_iter().flat_map(|first| guard_keys(first)) {
                    self.guards.entry(key).or_default().push(at);
                }
            }
        }
    }

    /// Adds to `findings` what the rules say about this call. `holds` says whether a rule applies
    /// to the caller at all, and `edits` returns the rules that allow to edit a file.
    pub(super) fn find(
        &self,
        rules: &[Rule],
        call: &Call<'_>,
        holds: &dyn Fn(usize) -> bool,
        edits: &dyn Fn(&str) -> Option<Vec<usize>>,
        findings: &mut Findings<'_>,
    ) {
        let ToolTarget::Shell { command, cwd, .. } = &call.tool.target else {
            findings.doubt("the call has no command");
            self.guard_unread(holds, findings, "the call has no command");
            return;
        };
        let script = shell::read(command);
        let places = Places::new(call, named::moves(command, &script));
        let matcher = Matcher { index: self, rules, call, holds, edits, places };
        matcher.guard(&script, 0, findings);
        for at in matcher.by_text(command, Side::Guard) {
            findings.matches(at);
        }
        if let Some(doubt) = &call.tool.doubt {
            findings.doubt(doubt);
            return;
        }
        if !cwd.as_ref().is_none_or(|cwd| is_working_dir(cwd, call)) {
            findings.doubt("the command starts in another directory than the session's");
            return;
        }
        // A rule for exactly this text holds even if the text cannot be parsed.
        if let Some(at) = matcher.by_text(command, Side::Allow).next() {
            findings.allow(vec![at]);
            return;
        }
        match matcher.cover(&shell::read_unrolled(command)) {
            Ok(covering) => findings.allow(covering),
            Err(reason) => findings.doubt(reason),
        }
    }

    fn guard_unread(&self, holds: &dyn Fn(usize) -> bool, findings: &mut Findings<'_>, why: &str) {
        for &at in self.all_guards.iter().filter(|&&at| holds(at)) {
            findings.may_match(at, why);
        }
    }
}

/// Says whether this is the session's working directory, with links followed. A rule for a command
/// is made for that directory; what the command means in another one is unknown.
fn is_working_dir(dir: &Path, call: &Call<'_>) -> bool {
    let real = |dir: &Path| resolve(call.paths, dir).ok();
    let dir = call.working_dir.join(dir);
    dir == call.working_dir || real(&dir).is_some_and(|dir| real(call.working_dir) == Some(dir))
}

/// Returns the keys by which guards are found: the program, and the first part of a name with
/// hyphens, because `git-push` is `git push`.
fn guard_keys(program: &str) -> Vec<String> {
    let name = spelling::name_of(program);
    let mut keys = vec![programs::family(&name).to_owned()];
    if let Some((first, _)) = name.split_once('-').filter(|(first, _)| !first.is_empty()) {
        keys.push(programs::family(first).to_owned());
    }
    keys.dedup();
    keys
}

/// The two sides of a rule set: rules that allow, and guards, which deny or ask.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Allow,
    Guard,
}

struct Matcher<'a> {
    index: &'a BashIndex,
    rules: &'a [Rule],
    call: &'a Call<'a>,
    holds: &'a dyn Fn(usize) -> bool,
    /// Returns the rules that allow to edit a file.
    edits: &'a dyn Fn(&str) -> Option<Vec<usize>>,
    places: Places<'a>,
}

impl<'a> Matcher<'a> {
    fn pattern(&self, at: usize) -> Option<&'a CommandPattern> {
        match self.rules.get(at)?.pattern.kind() {
            Kind::Command(pattern) => Some(pattern),
            _ => None,
        }
    }

    /// Returns the rules of one side that were written for exactly this text.
    fn by_text(&self, command: &str, side: Side) -> impl Iterator<Item = usize> {
        let candidates =
            self.index.by_text.get(shell::trim(command)).into_iter().flatten().copied();
        candidates.filter(move |&at| {
            let is_allow = self.rules.get(at).is_some_and(|rule| rule.decision == Decision::Allow);
            is_allow == (side == Side::Allow) && (self.holds)(at)
        })
    }
}

fn show(words: &[Word]) -> String {
    const SHOWN: usize = 3;
    words.iter().take(SHOWN).map(Word::as_written).collect::<Vec<_>>().join(" ")
}
