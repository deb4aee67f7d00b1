//! Finds the rules that deny or ask, even where a command hides its words: after a wrapper, in a
//! script, after options, in a variable. A rule that cannot be ruled out may fit, and somebody is
//! asked.

use std::collections::HashSet;

use globset::GlobBuilder;

use super::super::files::fold;
use super::super::known;
use super::super::pattern::CommandPattern;
use super::super::set::Findings;
use super::super::shell::names::SEARCHING;
use super::super::shell::programs::{self, Nature, Reach, RunForMatches, base_name};
use super::super::shell::{self, MAX_DEPTH, Script, Simple, Word};
use super::spelling::{self, Places, Sequence};
use super::{Matcher, guard_keys};

/// Characters that may make a text more than one word to a shell.
const SCRIPT_CHARACTERS: &[char] =
    &[' ', '\t', '\n', ';', '|', '&', '$', '`', '\\', '\'', '"', '(', '<', '>'];

/// The most letters that are combined with one that takes a value: nobody writes more.
const MAX_LETTERS: usize = 4;

/// The most file patterns of one text that are compared with the programs of guards.
const MAX_PATTERNS: usize = 64;

impl Matcher<'_> {
    /// Finds the rules that deny or ask.
    pub(super) fn guard(&self, script: &Script, depth: usize, findings: &mut Findings<'_>) {
        if self.index.all_guards.is_empty() {
            return;
        }
        for command in &script.commands {
            self.guard_simple(command, depth, findings);
        }
        if !script.unread.is_empty() {
            self.guard_beyond("part of the command cannot be read", findings);
        }
        for text in &script.unread {
            self.guard_words(&shell::crude_words(text), Standing::Unread, findings);
        }
        for word in &script.given {
            self.guard_text(word.as_written(), findings);
        }
    }

    fn guard_simple(&self, command: &Simple, depth: usize, findings: &mut Findings<'_>) {
        for assignment in &command.assigned {
            self.guard_text(&assignment.written, findings);
            if !programs::is_harmless_assignment(&assignment.name, assignment.value.as_deref()) {
                self.guard_beyond("it sets a variable that programs may obey", findings);
            }
        }
        if !command.words.is_empty() {
            self.guard_command(&command.words, depth, findings);
            // `cat < x` does what `cat x` does.
            if !command.inputs.is_empty() {
                let words = [command.words.as_slice(), &command.inputs].concat();
                self.guard_words(&words, Standing::Command, findings);
            }
        }
    }

    fn guard_command(&self, words: &[Word], depth: usize, findings: &mut Findings<'_>) {
        if depth > MAX_DEPTH {
            return self
                .guard_beyond("commands are nested deeper than they are followed", findings);
        }
        // Some file systems ignore case.
        if let Some(plain) = in_lower_case(words) {
            return self.guard_command(&plain, depth + 1, findings);
        }
        if let Some(plain) = as_git(words) {
            self.guard_command(&plain, depth + 1, findings);
        }
        let reach = programs::reach(words);
        let standing = match reach {
            Reach::Itself => Standing::Command,
            Reach::Words | Reach::Beyond => Standing::RunsOthers,
        };
        self.guard_words(words, standing, findings);
        match programs::nature(words) {
            Nature::Runs(start) => {
                return self.guard_command(
                    words.get(start..).unwrap_or_default(),
                    depth + 1,
                    findings,
                );
            }
            Nature::RunsWithMore(start) => {
                let mut inner = words.get(start..).unwrap_or_default().to_vec();
                inner.push(Word::Opaque("…".into()));
                return self.guard_command(&inner, depth + 1, findings);
            }
            Nature::Script(text) => return self.guard(&shell::read(&text), depth + 1, findings),
            Nature::Plain | Nature::Hidden { .. } | Nature::Changes => {}
        }
        if programs::sets_variable(words) {
            self.guard_beyond("it sets a variable that programs may obey", findings);
        }
        match reach {
            Reach::Itself => self.guard_arguments(words, depth, findings),
            Reach::Words => self.guard_given(words, depth, findings),
            Reach::Beyond => {
                self.guard_beyond("what it runs cannot be seen", findings);
                self.guard_given(words, depth, findings);
            }
        }
    }

    /// Searches arguments that are not known to be harmless. They may name a program in a notation
    /// of their own: `--pager=less`, `core.editor=vi`.
    fn guard_arguments(&self, words: &[Word], depth: usize, findings: &mut Findings<'_>) {
        if known::check(words, 1, self.call).is_ok() {
            return;
        }
        // It may be a wrapper that is in no list: `anything $(printf curl) x`.
        let is_known_program = known::entry_of(words).is_some();
        if !is_known_program && words.iter().skip(1).any(Word::is_computed) {
            self.guard_beyond("a word that is known only when it runs may be a program", findings);
        }
        // A wrapper that is in no list may run a shell: `anything bash x`.
        if let Some(inner) = code_run_by(words).filter(|inner| inner.len() > 1) {
            self.guard_command(inner, depth + 1, findings);
        }
        for word in words.iter().skip(1) {
            self.guard_text(word.as_written(), findings);
            if word.literal().is_some_and(|text| text.contains(['$', '`'])) {
                self.guard_beyond("an argument may be a script", findings);
            }
        }
    }

    /// Searches the arguments of a program that runs others. Each may be a script: `find -exec sh
    /// -c '…'`, `ssh host '…'`.
    fn guard_given(&self, words: &[Word], depth: usize, findings: &mut Findings<'_>) {
        for inner in executed_by(words) {
            self.guard_command(&inner, depth + 1, findings);
        }
        if let Some(inner) = code_run_by(words) {
            self.guard_command(inner, depth + 1, findings);
        }
        for word in words.iter().skip(1) {
            match word.literal() {
                // The end of `find -exec`, and its brackets.
                Some(";" | "(" | ")") => {}
                Some(text) if text.contains(SCRIPT_CHARACTERS) => {
                    self.guard(&shell::read(text), depth + 1, findings);
                }
                Some(_) => {}
                None => self.guard_beyond("a word is known only when it runs", findings),
            }
            self.guard_text(word.as_written(), findings);
        }
    }

    /// Looks for the words of guards in a text that is not a command.
    fn guard_text(&self, text: &str, findings: &mut Findings<'_>) {
        // The shell removes quotes when it runs the text, and joins lines.
        let plain: String =
            text.replace("\\\n", "").chars().filter(|c| !matches!(c, '\'' | '"' | '\\')).collect();
        self.guard_patterns(&plain, findings);
        self.guard_words(&shell::crude_words(&plain), Standing::Text, findings);
        // A value may follow the letters of its option without a space: `-Oless`, `-nOless`.
        let letters = plain.strip_prefix('-').unwrap_or_default();
        for value in (1..=MAX_LETTERS).filter_map(|letter| letters.get(letter..)) {
            self.guard_words(&shell::crude_words(value), Standing::Text, findings);
        }
    }

    /// Looks for file patterns that match the program of a guard: `--to-command='cur? x'`.
    fn guard_patterns(&self, text: &str, findings: &mut Findings<'_>) {
        let is_in_word = |c: char| c.is_alphanumeric() || "_-./*?[]{},!^".contains(c);
        let words = text.split(|c: char| !is_in_word(c)).map(base_name);
        let patterns = words.filter(|it| {
            it.contains(['*', '?', '[', '{']) && it.contains(|c: char| c.is_alphanumeric())
        });
        for (count, pattern) in patterns.enumerate() {
            if count > MAX_PATTERNS {
                return self.guard_beyond("it has more file patterns than are compared", findings);
            }
            let Ok(glob) = GlobBuilder::new(pattern).case_insensitive(true).build() else {
                continue;
            };
            let glob = glob.compile_matcher();
            for &at in self.index.all_guards.iter().filter(|&&at| (self.holds)(at)) {
                let program = self.pattern(at).and_then(spelling::program_of);
                if program.is_some_and(|program| glob.is_match(program)) {
                    findings.may_match(at, "a file pattern may match its program");
                }
            }
        }
    }

    /// Reports that every guard may fit, because anything may be run.
    fn guard_beyond(&self, why: &str, findings: &mut Findings<'_>) {
        self.index.guard_unread(self.holds, findings, why);
    }

    /// Looks for the words of guards. At the start of a command, or anywhere in one that runs
    /// others, finding them is a match. Anywhere else they may be mere text, so somebody is asked.
    fn guard_words(&self, words: &[Word], standing: Standing, findings: &mut Findings<'_>) {
        let mut searched = HashSet::new();
        for start in 0..words.len() {
            let Some(tail) = words.get(start..) else { continue };
            let Some(first) = tail.first().and_then(Word::literal) else { continue };
            let guards =
                guard_keys(first).into_iter().filter_map(|key| self.index.guards.get(&key));
            for &at in guards.flatten().filter(|&&at| (self.holds)(at)) {
                let sure = match standing {
                    Standing::Command => start == 0,
                    Standing::RunsOthers | Standing::Unread => true,
                    Standing::Text => false,
                };
                let Some(pattern) = self.pattern(at) else { continue };
                let ways: &[Way] = match (standing, sure) {
                    // Somebody is asked anyway.
                    (Standing::Unread, _) => &[],
                    (_, true) => &[spelling::sequence, spelling::apart],
                    (_, false) => &[spelling::sequence],
                };
                let mut found = Sequence::No;
                for (way, compare) in ways.iter().enumerate() {
                    // A search that went to the end, or has found something, is not made again: it
                    // would make the time grow with the square of the words.
                    if found > Sequence::No || searched.contains(&(at, way, first)) {
                        continue;
                    }
                    let compared = compare(pattern, tail, &self.places);
                    if compared != Sequence::No {
                        searched.insert((at, way, first));
                    }
                    found = found.max(compared);
                }
                if spelling::is_exact(pattern, tail) {
                    found = Sequence::Yes;
                }
                match found {
                    Sequence::No | Sequence::Never => {}
                    Sequence::Yes if sure => findings.matches(at),
                    Sequence::Yes => findings.may_match(at, "its words stand among the arguments"),
                    Sequence::Unknown => findings.may_match(at, "its words may be meant"),
                }
            }
        }
    }
}

/// Returns a command with its program in lower case, if it is not.
fn in_lower_case(words: &[Word]) -> Option<Vec<Word>> {
    let program = words.first()?.literal()?;
    let lower = fold(program);
    (lower != program).then(|| with_program(&[&lower], words))
}

/// Returns `git push` for `git-push`.
fn as_git(words: &[Word]) -> Option<Vec<Word>> {
    let command = base_name(words.first()?.literal()?).strip_prefix("git-")?;
    (!command.is_empty()).then(|| with_program(&["git", command], words))
}

fn with_program(program: &[&str], words: &[Word]) -> Vec<Word> {
    let program = program.iter().map(|&word| Word::Literal(word.to_owned()));
    program.chain(words.iter().skip(1).cloned()).collect()
}

/// Returns the commands that a search runs: the words after each option that says so.
fn executed_by(words: &[Word]) -> Vec<Vec<Word>> {
    let program = words.first().and_then(Word::literal).map(base_name);
    let Some(program) = program.filter(|program| SEARCHING.contains(program)) else {
        return Vec::new();
    };
    let mut executed = Vec::new();
    for (at, word) in words.iter().enumerate().skip(1) {
        let rest = words.get(at + 1..).unwrap_or_default();
        let command = match word.literal().and_then(|word| programs::runs_matches(program, word)) {
            Some(RunForMatches::NextWords) => rest.to_vec(),
            Some(RunForMatches::Program(name)) => {
                [&[Word::Literal(name.to_owned())], rest].concat()
            }
            None => continue,
        };
        // The next such option begins another command.
        let runs_too = |word: &Word| {
            let word = word.literal();
            word.is_some_and(|word| programs::runs_matches(program, word).is_some())
        };
        let end = command.iter().position(runs_too).unwrap_or(command.len());
        executed.extend(command.get(..end).filter(|it| !it.is_empty()).map(<[Word]>::to_vec));
    }
    executed
}

/// Returns the first words after the program that begin with a shell or an interpreter.
fn code_run_by(words: &[Word]) -> Option<&[Word]> {
    let runs = |word: &Word| word.literal().is_some_and(programs::runs_code);
    let at = words.iter().skip(1).position(runs)? + 1;
    words.get(at..)
}

/// A way to compare a pattern with words.
type Way = fn(&CommandPattern, &[Word], &Places<'_>) -> Sequence;

/// The role of the words in which a guard is searched for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing {
    /// A command: the first word is run.
    Command,
    /// A command that runs others: any word may be run.
    RunsOthers,
    /// Text in which a command may be named.
    Text,
    /// Text that could not be read. Every guard may fit it, and only its exact words match.
    Unread,
}
