//! Matching of Bash commands: which rules cover a command line, and which rules that deny or ask find something in it.
//!
//! An allow must cover every simple command; different rules may cover different ones. A deny needs only one. Rules are
//! found by the words of the command, so that a thousand of them cost as much as those that could fit.

use std::collections::HashMap;

use serde_json::Value;

use super::pattern::{CommandPattern, Kind};
use super::rule::{Decision, Rule};
use super::set::Findings;
use super::shell::programs::{self, Nature};
use super::shell::{self, MAX_DEPTH, Script, Word};

/// What a Bash call may carry beside its command. Anything else, such as a switch that turns the sandbox off, is asked.
const KNOWN_FIELDS: &[&str] = &["command", "description", "timeout", "run_in_background"];

/// The rules with a command pattern, by what finds them. Values are positions in the rule set, which is sorted by id.
#[derive(Debug, Default)]
pub(super) struct BashIndex {
    /// Exact rules by their whole text.
    by_text: HashMap<String, Vec<usize>>,
    /// Allows by their first word.
    allows: HashMap<String, Vec<usize>>,
    /// Denies and asks by their first word, in lower case: some file systems ignore it.
    guards: HashMap<String, Vec<usize>>,
    /// All denies and asks, for commands that cannot be read.
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
                if let Some(first) = first {
                    self.guards.entry(guard_key(first)).or_default().push(at);
                }
            }
        }
    }

    /// Adds to `findings` what the rules say about this input. `holds` says whether a rule holds for the caller at all.
    pub(super) fn find(
        &self,
        rules: &[Rule],
        input: &Value,
        holds: &dyn Fn(usize) -> bool,
        findings: &mut Findings<'_>,
    ) {
        let Some(command) = input.get("command").and_then(Value::as_str) else {
            findings.doubt("the call has no command");
            self.guard_unread(holds, findings, "the call has no command");
            return;
        };
        let matcher = Matcher { index: self, rules, holds };
        let script = shell::read(command);
        matcher.guard(&script, 0, findings);
        for at in matcher.by_text(command, Side::Guard) {
            findings.matches(at);
        }
        if let Some(field) = unknown_field(input, KNOWN_FIELDS) {
            findings.doubt(format!(
                "the call carries `{field}`, which rules for commands do not cover"
            ));
            return;
        }
        // A rule for exactly this text needs no understanding of it.
        if let Some(at) = matcher.by_text(command, Side::Allow).next() {
            findings.allow(vec![at]);
            return;
        }
        match matcher.cover(&script) {
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

/// Returns a field that is present, says something, and is not in the list.
pub(super) fn unknown_field<'a>(input: &'a Value, known: &[&str]) -> Option<&'a str> {
    let fields = input.as_object()?;
    fields
        .iter()
        .find(|(name, value)| {
            !known.contains(&name.as_str()) && !matches!(value, Value::Null | Value::Bool(false))
        })
        .map(|(name, _)| name.as_str())
}

fn guard_key(program: &str) -> String {
    programs::base_name(program).to_ascii_lowercase()
}

/// The two sides of a rule set: what lets through, and what stands in the way.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Allow,
    Guard,
}

struct Matcher<'a> {
    index: &'a BashIndex,
    rules: &'a [Rule],
    holds: &'a dyn Fn(usize) -> bool,
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

    /// Finds denies and asks.
    fn guard(&self, script: &Script, depth: usize, findings: &mut Findings<'_>) {
        if self.index.all_guards.is_empty() {
            return;
        }
        for command in &script.commands {
            self.guard_command(&command.words, depth, findings);
            for text in &command.beside {
                self.guard_words(&shell::crude_words(text), Standing::Text, findings);
            }
        }
        if script.unread.is_empty() {
            return;
        }
        self.index.guard_unread(self.holds, findings, "part of the command cannot be read");
        for text in &script.unread {
            self.guard_words(&shell::crude_words(text), Standing::RunsOthers, findings);
        }
    }

    fn guard_command(&self, words: &[Word], depth: usize, findings: &mut Findings<'_>) {
        let runs_others = programs::runs_others(words);
        self.guard_words(
            words,
            if runs_others { Standing::RunsOthers } else { Standing::Command },
            findings,
        );
        // Arguments that may run something may name it in a notation of their own: `--pager=less`, `core.editor=vi`.
        if runs_others || programs::suspect_argument(words, 1).is_some() {
            for text in words.iter().skip(1).map(Word::as_written) {
                self.guard_words(&shell::crude_words(text), Standing::Text, findings);
                // A value may follow the letter of its option without a space: `-Oless`.
                if let Some(value) = text.strip_prefix('-').and_then(|letters| letters.get(1..)) {
                    self.guard_words(&shell::crude_words(value), Standing::Text, findings);
                }
            }
        }
        if words.first().is_some_and(|word| word.literal().is_none()) {
            self.index.guard_unread(
                self.holds,
                findings,
                "the program's name is known only when it runs",
            );
        }
        if depth >= MAX_DEPTH || !runs_others {
            return;
        }
        // Whatever a program that runs others is given may be a script: `sh -xc '…'`, `find -exec sh -c '…'`, `ssh host '…'`.
        for text in words
            .iter()
            .skip(1)
            .filter_map(Word::literal)
            .filter(|text| text.contains([' ', '\t', '\n', ';', '|', '&']))
        {
            self.guard(&shell::read(text), depth + 1, findings);
        }
    }

    /// Looks for the words of guards. At the start of a command, or anywhere in one that runs others, finding them is a match;
    /// anywhere else they may be mere text, and that is asked.
    fn guard_words(&self, words: &[Word], standing: Standing, findings: &mut Findings<'_>) {
        for start in 0..words.len() {
            let Some(tail) = words.get(start..) else { continue };
            let Some(first) = tail.first().and_then(Word::literal) else { continue };
            for &at in self
                .index
                .guards
                .get(&guard_key(first))
                .into_iter()
                .flatten()
                .filter(|&&at| (self.holds)(at))
            {
                let sure = match standing {
                    Standing::Command => start == 0,
                    Standing::RunsOthers => true,
                    Standing::Text => false,
                };
                match self.pattern(at).map_or(Sequence::No, |pattern| sequence(pattern, tail)) {
                    Sequence::No => {}
                    Sequence::Yes if sure => findings.matches(at),
                    Sequence::Yes => findings.may_match(at, "its words stand among the arguments"),
                    Sequence::Unknown => {
                        findings.may_match(at, "part of the command is known only when it runs")
                    }
                }
            }
        }
    }

    /// Returns the rules that together cover every command of the script, or why there are none.
    fn cover(&self, script: &Script) -> Result<Vec<usize>, String> {
        let mut covering = Vec::new();
        self.cover_script(script, 0, &mut covering)?;
        covering.sort_unstable();
        covering.dedup();
        if covering.is_empty() {
            Err("the command runs nothing that a rule names".into())
        } else {
            Ok(covering)
        }
    }

    fn cover_script(
        &self,
        script: &Script,
        depth: usize,
        covering: &mut Vec<usize>,
    ) -> Result<(), String> {
        if depth > MAX_DEPTH {
            return Err("commands are nested deeper than they are followed".into());
        }
        if let Some(doubt) = script.doubts.first() {
            return Err(doubt.clone());
        }
        for command in &script.commands {
            if let Some(doubt) = command.doubts.first() {
                return Err(doubt.clone());
            }
            let alone = script.commands.len() == 1 && depth == 0;
            self.cover_command(&command.words, alone, depth, covering)?;
        }
        Ok(())
    }

    fn cover_command(
        &self,
        words: &[Word],
        alone: bool,
        depth: usize,
        covering: &mut Vec<usize>,
    ) -> Result<(), String> {
        let Some(program) = words.first().and_then(Word::literal) else {
            return Err("the program's name is known only when it runs".into());
        };
        if matches!(program, "true" | "false" | ":") && words.len() == 1 {
            return Ok(());
        }
        let mut why = None;
        for &at in
            self.index.allows.get(program).into_iter().flatten().filter(|&&at| (self.holds)(at))
        {
            let Some(pattern) = self.pattern(at) else { continue };
            match pattern {
                CommandPattern::Exact { .. } => {
                    if sequence(pattern, words) != Sequence::Yes {
                        continue;
                    }
                    // Named word by word, but what it changes reaches commands that were named without it.
                    if !alone && programs::nature(words) == Nature::Changes {
                        why.get_or_insert(format!(
                            "`{}` changes what other commands mean",
                            show(words)
                        ));
                        continue;
                    }
                    covering.push(at);
                    return Ok(());
                }
                CommandPattern::Prefix { words: named } => {
                    if !starts_with(words, named) {
                        continue;
                    }
                    let before = covering.len();
                    match self.cover_arguments(words, named.len(), alone, depth, covering) {
                        Ok(()) => {
                            covering.push(at);
                            return Ok(());
                        }
                        Err(reason) => {
                            covering.truncate(before);
                            why.get_or_insert(reason);
                        }
                    }
                }
            }
        }
        Err(why.unwrap_or_else(|| format!("no rule covers `{}`", show(words))))
    }

    /// Checks that what follows the words a rule names is covered: plain arguments, or a command that is covered itself.
    fn cover_arguments(
        &self,
        words: &[Word],
        named: usize,
        alone: bool,
        depth: usize,
        covering: &mut Vec<usize>,
    ) -> Result<(), String> {
        match programs::nature(words) {
            Nature::Plain => programs::suspect_argument(words, named).map_or(Ok(()), Err),
            Nature::Runs(start) => {
                if depth >= MAX_DEPTH {
                    return Err("commands are nested deeper than they are followed".into());
                }
                let inner = words.get(start..).unwrap_or_default();
                self.cover_command(inner, false, depth + 1, covering)
            }
            Nature::Script(text) => self.cover_script(&shell::read(&text), depth + 1, covering),
            Nature::Hidden { named: Some(enough) } if named >= enough => {
                programs::suspect_argument(words, named).map_or(Ok(()), Err)
            }
            Nature::Hidden { .. } => {
                Err(format!("what `{}` would run cannot be seen", show(words)))
            }
            Nature::Changes => {
                // A change of directory that nothing follows changes no other command of this call.
                let moves = words.first().and_then(Word::literal) == Some("cd") && words.len() <= 2;
                if alone && moves {
                    programs::suspect_argument(words, named).map_or(Ok(()), Err)
                } else {
                    Err(format!("`{}` changes what other commands mean", show(words)))
                }
            }
        }
    }
}

/// What words are, when a deny is looked for among them.
#[derive(Clone, Copy)]
enum Standing {
    /// A command: the first word is run.
    Command,
    /// A command that runs others: any word may be run.
    RunsOthers,
    /// Text in which a command may be named.
    Text,
}

/// Whether a pattern's words stand at the start of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sequence {
    No,
    Unknown,
    Yes,
}

fn sequence(pattern: &CommandPattern, words: &[Word]) -> Sequence {
    let (named, whole) = match pattern {
        CommandPattern::Prefix { words } => (words, false),
        CommandPattern::Exact { words: Some(words), .. } => (words, true),
        CommandPattern::Exact { words: None, .. } => return Sequence::No,
    };
    for (i, name) in named.iter().enumerate() {
        match words.get(i) {
            None => return Sequence::No,
            // A word that is known only at run time may be this one, or this one and more.
            Some(Word::Operand(_) | Word::Opaque(_)) => return Sequence::Unknown,
            Some(Word::Literal(word)) if i == 0 && guard_key(word) == guard_key(name) => {}
            Some(Word::Literal(word)) if word == name => {}
            Some(Word::Literal(_)) => return Sequence::No,
        }
    }
    match words.get(named.len()) {
        Some(Word::Literal(_)) if whole => Sequence::No,
        Some(Word::Operand(_) | Word::Opaque(_)) if whole => Sequence::Unknown,
        _ => Sequence::Yes,
    }
}

fn starts_with(words: &[Word], named: &[String]) -> bool {
    words.len() >= named.len()
        && words.iter().zip(named).all(|(word, name)| word.literal() == Some(name))
}

fn show(words: &[Word]) -> String {
    const SHOWN: usize = 3;
    words.iter().take(SHOWN).map(Word::as_written).collect::<Vec<_>>().join(" ")
}
