//! Finds the rules that deny or ask, even where a command hides its words: after a wrapper, in a
//! script, after options, in a variable. A rule that cannot be ruled out may fit, and somebody is
//! asked.

use super::super::known;
use super::super::pattern::CommandPattern;
use super::super::set::Findings;
use super::super::shell::names::{ALIASES, GROUPS};
use super::super::shell::programs::{self, Nature, Reach, base_name};
use super::super::shell::{self, MAX_DEPTH, Script, Simple, Word};
use super::{Matcher, guard_key};

/// Characters that may make a text more than one word to a shell.
const SCRIPT_CHARACTERS: &[char] =
    &[' ', '\t', '\n', ';', '|', '&', '$', '`', '\\', '\'', '"', '(', '<', '>'];

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
            self.guard_words(&shell::crude_words(text), Standing::RunsOthers, findings);
        }
    }

    fn guard_simple(&self, command: &Simple, depth: usize, findings: &mut Findings<'_>) {
        for (name, assignment) in &command.assigned {
            self.guard_text(assignment, findings);
            if !programs::is_harmless_variable(name) {
                self.guard_beyond("it sets a variable that programs may obey", findings);
            }
        }
        if !command.words.is_empty() {
            self.guard_command(&command.words, depth, findings);
        }
    }

    fn guard_command(&self, words: &[Word], depth: usize, findings: &mut Findings<'_>) {
        if depth > MAX_DEPTH {
            return self
                .guard_beyond("commands are nested deeper than they are followed", findings);
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
            Reach::Itself => self.guard_arguments(words, findings),
            Reach::Words => self.guard_given(words, depth, findings),
            Reach::Beyond => {
                self.guard_beyond("what it runs cannot be seen", findings);
                self.guard_given(words, depth, findings);
            }
        }
    }

    /// Searches arguments that are not known to be harmless. They may name a program in a notation
    /// of their own: `--pager=less`, `core.editor=vi`.
    fn guard_arguments(&self, words: &[Word], findings: &mut Findings<'_>) {
        if known::check(words, 1, self.call).is_ok() {
            return;
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
        for word in words.iter().skip(1) {
            match word.literal() {
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
        // The shell removes quotes when it runs the text.
        let plain: String = text.chars().filter(|c| !matches!(c, '\'' | '"' | '\\')).collect();
        self.guard_words(&shell::crude_words(&plain), Standing::Text, findings);
        // A value may follow the letter of its option without a space: `-Oless`.
        if let Some(value) = plain.strip_prefix('-').and_then(|letters| letters.get(1..)) {
            self.guard_words(&shell::crude_words(value), Standing::Text, findings);
        }
    }

    /// Reports that every guard may fit, because anything may be run.
    fn guard_beyond(&self, why: &str, findings: &mut Findings<'_>) {
        self.index.guard_unread(self.holds, findings, why);
    }

    /// Looks for the words of guards. At the start of a command, or anywhere in one that runs
    /// others, finding them is a match. Anywhere else they may be mere text, so somebody is asked.
    fn guard_words(&self, words: &[Word], standing: Standing, findings: &mut Findings<'_>) {
        for start in 0..words.len() {
            let Some(tail) = words.get(start..) else { continue };
            let Some(first) = tail.first().and_then(Word::literal) else { continue };
            let guards = self.index.guards.get(&guard_key(first)).into_iter().flatten();
            for &at in guards.filter(|&&at| (self.holds)(at)) {
                let sure = match standing {
                    Standing::Command => start == 0,
                    Standing::RunsOthers => true,
                    Standing::Text => false,
                };
                match self.pattern(at).map_or(Sequence::No, |pattern| sequence(pattern, tail)) {
                    Sequence::No => {}
                    Sequence::Yes if sure => findings.matches(at),
                    Sequence::Yes => findings.may_match(at, "its words stand among the arguments"),
                    Sequence::Unknown => findings.may_match(at, "its words may be meant"),
                }
            }
        }
    }
}

/// The role of the words in which a guard is searched for.
#[derive(Clone, Copy)]
enum Standing {
    /// A command: the first word is run.
    Command,
    /// A command that runs others: any word may be run.
    RunsOthers,
    /// Text in which a command may be named.
    Text,
}

/// The result of comparing a pattern's words with those of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sequence {
    No,
    Unknown,
    Yes,
}

fn sequence(pattern: &CommandPattern, words: &[Word]) -> Sequence {
    let (named, whole) = match pattern {
        CommandPattern::Prefix { words } => (words.as_slice(), false),
        CommandPattern::Exact { words: Some(words), .. } => (words.as_slice(), true),
        CommandPattern::Exact { words: None, .. } => return Sequence::No,
    };
    let (Some((program, named)), Some((first, rest))) = (named.split_first(), words.split_first())
    else {
        return Sequence::No;
    };
    match first.literal() {
        None => return Sequence::Unknown,
        Some(word) if guard_key(word) != guard_key(program) => return Sequence::No,
        Some(_) => {}
    }
    let same = rest.len() >= named.len()
        && rest.iter().zip(named).all(|(word, name)| word.literal() == Some(name));
    match rest.get(named.len()) {
        _ if !same => loosely(base_name(program), named, rest),
        None => Sequence::Yes,
        Some(_) if !whole => Sequence::Yes,
        Some(Word::Literal(_)) => Sequence::No,
        Some(_) => Sequence::Unknown,
    }
}

/// Returns whether the words may mean the same in another order or spelling: options before a
/// subcommand (`git -C . push`), an abbreviation (`npm publ`), another option of the same meaning
/// (`rm -r -f` for `rm -rf`).
fn loosely(program: &str, named: &[String], words: &[Word]) -> Sequence {
    let options = named.iter().position(|name| name.starts_with('-')).unwrap_or(named.len());
    let (subcommands, options) = named.split_at(options);
    let mut words = words.iter();
    // After an option any word may be its argument.
    let mut skipped = false;
    for name in subcommands {
        loop {
            let Some(word) = words.next() else { return Sequence::No };
            let Some(word) = word.literal() else { return Sequence::Unknown };
            if word == name {
                break;
            }
            let other_name = (!word.is_empty() && name.starts_with(word))
                || listed_together(ALIASES, program, &[word, name]);
            let grouping = GROUPS.iter().any(|(it, list)| *it == program && list.contains(&word));
            if other_name {
                skipped = true;
                break;
            }
            if word.starts_with(['-', '+']) || grouping {
                skipped = true;
            } else if !skipped {
                return Sequence::No;
            }
        }
    }
    let other_options = !options.is_empty()
        && words.any(|word| word.literal().is_none_or(|word| word.starts_with(['-', '+'])));
    if skipped && options.is_empty() || other_options { Sequence::Unknown } else { Sequence::No }
}

fn listed_together(lists: &[(&str, &[&str])], program: &str, names: &[&str]) -> bool {
    lists.iter().any(|(it, list)| *it == program && names.iter().all(|name| list.contains(name)))
}
