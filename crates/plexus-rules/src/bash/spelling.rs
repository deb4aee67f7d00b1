//! Says whether a command is the one that a rule denies or asks about, also in another spelling:
//! with options before a subcommand, by an alias or another name of the program, with another path
//! to the same file.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;

use super::super::call::Call;
use super::super::files::fold;
use super::super::known;
use super::super::paths::resolve;
use super::super::pattern::CommandPattern;
use super::super::shell::names::{ALIASES, GROUPS, TARGETED};
use super::super::shell::programs::{base_name, family};
use super::super::shell::{WILD, Word};

/// The result of comparing a pattern's words with those of a command.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Sequence {
    /// Neither here nor from a later word on that names the program with the same text: all words
    /// to the end were searched.
    Never,
    No,
    Unknown,
    Yes,
}

/// Compares a pattern with the words of a command.
pub(super) fn sequence(pattern: &CommandPattern, words: &[Word], places: &Places<'_>) -> Sequence {
    let Some((named, spelling)) = read(pattern, places) else { return Sequence::No };
    match words.split_first() {
        Some((first, rest)) => spelling.compare(named, first, &Rest { apart: &[], words: rest }),
        None => Sequence::No,
    }
}

/// Compares them with the name of a program taken apart: `git-push` is `git push`, and
/// `docker compose` is `docker-compose`. The result is never sure.
pub(super) fn apart(pattern: &CommandPattern, words: &[Word], places: &Places<'_>) -> Sequence {
    let Some((named, spelling)) = read(pattern, places) else { return Sequence::No };
    let Some((program, words)) = words.split_first() else { return Sequence::No };
    let words_apart = pieces(program).and_then(|pieces| {
        let (first, apart) = pieces.split_first()?;
        Some(spelling.compare(named, first, &Rest { apart, words }))
    });
    let named_apart = named_apart(named)
        .map(|named| spelling.compare(&named, program, &Rest { apart: &[], words }));
    let found = words_apart.into_iter().chain(named_apart).max().unwrap_or(Sequence::Never);
    found.min(Sequence::Unknown)
}

/// Says whether the words begin with those of a pattern as it is written.
pub(super) fn is_exact(pattern: &CommandPattern, words: &[Word]) -> bool {
    let (Some((named, whole)), Some((first, rest))) = (words_of(pattern), words.split_first())
    else {
        return false;
    };
    let Some((program, named)) = named.split_first() else { return false };
    first.literal().is_some_and(|first| name_of(first) == name_of(program))
        && begin_with(rest.iter(), named)
        && (!whole || rest.len() == named.len())
}

/// Returns the name of the program that a pattern is about.
pub(super) fn program_of(pattern: &CommandPattern) -> Option<&str> {
    words_of(pattern).and_then(|(words, _)| words.first()).map(|program| base_name(program))
}

fn begin_with<'a>(mut words: impl Iterator<Item = &'a Word>, named: &[String]) -> bool {
    named.iter().all(|name| words.next().and_then(Word::literal) == Some(name))
}

/// Returns the words that a pattern names, and whether they are the whole command.
fn words_of(pattern: &CommandPattern) -> Option<(&[String], bool)> {
    match pattern {
        CommandPattern::Prefix { words } => Some((words, false)),
        CommandPattern::Exact { words: Some(words), .. } => Some((words, true)),
        CommandPattern::Exact { words: None, .. } => None,
    }
}

fn read<'a>(
    pattern: &'a CommandPattern,
    places: &'a Places<'a>,
) -> Option<(&'a [String], Spelling<'a>)> {
    words_of(pattern).map(|(named, whole)| (named, Spelling { whole, places }))
}

/// Where the paths lead that are compared for one call, each looked up once.
pub(super) struct Places<'a> {
    call: &'a Call<'a>,
    /// Whether some of the command may work in another directory.
    moves: bool,
    /// `None` where it cannot be told.
    found: RefCell<HashMap<String, Option<PathBuf>>>,
}

impl<'a> Places<'a> {
    pub(super) fn new(call: &'a Call<'a>, moves: bool) -> Self {
        Self { call, moves, found: RefCell::default() }
    }

    /// Says whether two paths lead to the same file, or may.
    fn may_be_same(&self, one: &str, other: &str) -> bool {
        if self.moves && name_of(one) == name_of(other) {
            return true;
        }
        let mut found = self.found.borrow_mut();
        for path in [one, other] {
            if !found.contains_key(path) {
                let place = resolve(self.call.paths, &self.call.working_dir.join(path));
                found.insert(path.to_owned(), place.ok());
            }
        }
        match (&found[one], &found[other]) {
            (Some(one), Some(other)) => one == other,
            (None, _) | (_, None) => true,
        }
    }
}

/// Returns the name by which programs are compared. Some file systems ignore case.
pub(super) fn name_of(program: &str) -> String {
    fold(base_name(program))
}

/// Takes the name of a program apart at its hyphens.
fn pieces(program: &Word) -> Option<Vec<Word>> {
    let pieces = base_name(program.literal()?).split('-').filter(|piece| !piece.is_empty());
    let apart: Vec<Word> = pieces.map(|piece| Word::Literal(piece.to_owned())).collect();
    (apart.len() > 1).then_some(apart)
}

fn named_apart(named: &[String]) -> Option<Vec<String>> {
    let (first, rest) = named.split_first()?;
    let pieces = base_name(first).split('-').filter(|piece| !piece.is_empty());
    let mut apart: Vec<String> = pieces.map(str::to_owned).collect();
    if apart.len() < 2 {
        return None;
    }
    apart.extend(rest.iter().cloned());
    Some(apart)
}

/// The words after the one that names the program.
struct Rest<'a> {
    /// Those that its own name was taken apart into.
    apart: &'a [Word],
    words: &'a [Word],
}

impl<'a> Rest<'a> {
    fn iter(&self) -> impl Iterator<Item = &'a Word> {
        self.apart.iter().chain(self.words)
    }
}

struct Spelling<'a> {
    /// Whether the pattern names the whole command.
    whole: bool,
    places: &'a Places<'a>,
}

impl Spelling<'_> {
    fn compare(&self, named: &[String], first: &Word, rest: &Rest<'_>) -> Sequence {
        let Some((program, named)) = named.split_first() else { return Sequence::No };
        let Some(first) = first.literal() else { return Sequence::Unknown };
        let (program, first) = (name_of(program), name_of(first));
        if family(&program) != family(&first) {
            return Sequence::No;
        }
        let found = match rest.iter().nth(named.len()) {
            _ if !begin_with(rest.iter(), named) => self.loosely(&first, named, rest),
            None => Sequence::Yes,
            Some(_) if !self.whole => Sequence::Yes,
            // Whether more words change the meaning depends on the program: `git push` is not
            // `git push --force`, but `rm x y` removes x too.
            Some(Word::Literal(_)) if !names_its_object(&first, named) => Sequence::No,
            Some(_) => Sequence::Unknown,
        };
        if program == first { found } else { found.min(Sequence::Unknown) }
    }

    /// Returns whether the words may mean the same in another order or spelling: options before a
    /// subcommand (`git -C . push`), an abbreviation (`npm publ`), another option of the same
    /// meaning (`rm -r -f` for `rm -rf`), another path to a file (`cat ./x`).
    fn loosely(&self, program: &str, named: &[String], words: &Rest<'_>) -> Sequence {
        // A `--` only ends the options.
        let plain: Vec<&String> = named.iter().filter(|name| *name != "--").collect();
        let options = plain.iter().position(|name| name.starts_with('-')).unwrap_or(plain.len());
        let (names, options) = plain.split_at(options);
        let mut rest = words.iter();
        // After an option any word may be its argument.
        let mut skipped = false;
        // Whether something differs from the pattern as it is written.
        let mut differs = plain.len() < named.len();
        for (at, name) in names.iter().enumerate() {
            if at + 1 < names.len() && is_group(program, name) {
                differs = true;
                continue;
            }
            if is_targeted(program) || name.contains(['/', '.']) {
                let found = words.iter().map(|word| self.is_word(program, word, name)).max();
                if found.is_none_or(|found| found == Sequence::No) {
                    return Sequence::Never;
                }
                skipped = true;
                continue;
            }
            loop {
                let Some(word) = rest.next() else { return Sequence::Never };
                match self.is_word(program, word, name) {
                    Sequence::Yes => break,
                    Sequence::Unknown if word.literal().is_none() => return Sequence::Unknown,
                    Sequence::Unknown => {
                        skipped = true;
                        break;
                    }
                    Sequence::No | Sequence::Never => {}
                }
                let passes = |word: &str| word.starts_with(['-', '+']) || is_group(program, word);
                if word.literal().is_none_or(passes) {
                    skipped = true;
                } else if !skipped {
                    return Sequence::No;
                }
            }
        }
        let other_options = !options.is_empty()
            && rest.any(|word| word.literal().is_none_or(|word| word.starts_with(['-', '+'])));
        match (skipped || differs) && options.is_empty() || other_options {
            true => Sequence::Unknown,
            false if options.is_empty() => Sequence::No,
            false => Sequence::Never,
        }
    }

    /// Returns whether a word is the one that a pattern names, or may mean the same.
    fn is_word(&self, program: &str, word: &Word, name: &str) -> Sequence {
        let text = match word {
            Word::Literal(text) if text == name => return Sequence::Yes,
            Word::Literal(text) if text.is_empty() => return Sequence::No,
            Word::Literal(text) => text,
            Word::Glob { marked, .. } if !may_match(marked, name) => return Sequence::No,
            Word::Glob { .. } | Word::Home { .. } | Word::Text { .. } | Word::Opaque(_) => {
                return Sequence::Unknown;
            }
        };
        let word = subcommand(text);
        let other_names =
            ALIASES.iter().filter(|(it, list)| *it == program && list.contains(&name));
        let may_mean = name.starts_with(&*word)
            || other_names.flat_map(|(_, list)| list.iter()).any(|other| other.starts_with(&*word))
            || fold(text) == fold(name)
            || is_same_number(text, name)
            // A target with its project or its plugin before it.
            || is_targeted(program) && text.rsplit(':').next() == Some(name)
            || self.is_same_path(text, name);
        if may_mean { Sequence::Unknown } else { Sequence::No }
    }

    fn is_same_path(&self, text: &str, name: &str) -> bool {
        (text.contains('/') || name.contains('/')) && self.places.may_be_same(text, name)
    }
}

/// Says whether a word only groups the subcommands after it. It may be abbreviated.
fn is_group(program: &str, word: &str) -> bool {
    let word = subcommand(word);
    let is_start = |group: &&str| group.starts_with(&word);
    !word.is_empty() && GROUPS.iter().any(|(it, list)| *it == program && list.iter().any(is_start))
}

/// Says whether the words of a pattern tell what is acted on or how, so that the same words with
/// others after them do the same.
fn names_its_object(program: &str, named: &[String]) -> bool {
    named.iter().any(|name| name.starts_with('-')) || !named.is_empty() && is_targeted(program)
}

/// Says whether a program does what each of its words names, in any place.
fn is_targeted(program: &str) -> bool {
    TARGETED.contains(&program) || known::has_no_subcommands(program)
}

/// Writes a subcommand as programs list it: npm reads `runScript` as `run-script`.
fn subcommand(word: &str) -> String {
    let mut out = String::with_capacity(word.len());
    for c in word.chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push('-');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

/// Says whether both are the same number, as `0777` and `777` are one mode.
fn is_same_number(one: &str, other: &str) -> bool {
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    digits(one) && digits(other) && one.trim_start_matches('0') == other.trim_start_matches('0')
}

/// Says whether a file pattern may match a name, by its start and its end alone.
fn may_match(marked: &str, name: &str) -> bool {
    let (pattern, name) = match (marked.rsplit_once('/'), name.rsplit_once('/')) {
        (Some((directory, _)), _) if directory.contains(WILD) => return true,
        (pattern, name_parts) => (
            pattern.map_or(marked, |(_, pattern)| pattern),
            name_parts.map_or(name, |(_, last)| last),
        ),
    };
    let start = pattern.split(WILD).next().unwrap_or_default().to_lowercase();
    let end = pattern.rsplit([WILD, ']']).next().unwrap_or_default().to_lowercase();
    let name = name.to_lowercase();
    name.starts_with(&start) && name.ends_with(&end)
}
