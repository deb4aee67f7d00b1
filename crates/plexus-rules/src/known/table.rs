//! The notation of the tables, and finding the entry of a command.
//!
//! ```text
//! # A comment.
//! @common                       a group of options, for the entries that name it
//!     -v --verbose
//! tool list | tool ls : READ* ; shows
//!     @common -a --all -NUM     options without an argument; `-NUM` is any number
//!     -n=NUM --max=NUM          an argument, in the same word or the next
//!     --color[=WORD] -U[=NUM]   an argument in the same word, or none
//!     -e!=TEXT                  as above, and it takes the place of the first operand
//!     -R@=TEXT --all@           it says what the command acts on, as an operand does
//!     -- TEXT* --exact          what may follow a `--`; the last lines of an entry
//! ```
//!
//! The kinds of the operands stand after `:`, in order; a `*` lets the last one repeat. The effect
//! of the command (see [`Effect`]) and how it reads its words (see [`Style`]) stand after `;`.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::kinds::Kind;

/// The tables, one for each family of programs.
const TABLES: &[(&str, &str)] = &[
    ("files.txt", include_str!("tables/files.txt")),
    ("text.txt", include_str!("tables/text.txt")),
    ("search.txt", include_str!("tables/search.txt")),
    ("system.txt", include_str!("tables/system.txt")),
    ("git.txt", include_str!("tables/git.txt")),
    ("build.txt", include_str!("tables/build.txt")),
    ("rust.txt", include_str!("tables/rust.txt")),
    ("node.txt", include_str!("tables/node.txt")),
    ("python.txt", include_str!("tables/python.txt")),
    ("services.txt", include_str!("tables/services.txt")),
];

/// The effects of a command with the arguments that its table names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Reads files inside the working directory and shows something; writes nothing, runs nothing
    /// of the project's.
    Shows,
    /// Changes files inside the working directory, but none that other programs take orders from.
    Changes,
    /// Runs code of the project: its scripts, tests, build files, plugins or hooks.
    RunsProject,
    /// Talks to a server: one that the command names, or that the project's settings name.
    Talks,
    /// Changes what is in files, so each of them needs a rule for `Edit` too: a rule for the
    /// program may be meant for its other uses, which only show.
    Edits,
}

/// How a program tells options from operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// Letters can be combined (`-la`), long options start with two dashes, `--` ends the options.
    Letters,
    /// Every option is a word of its own, whatever it starts with (`find -name`, `npm --silent`,
    /// `(`). `--` is refused unless the table lists what may follow it.
    Words,
    /// Nothing is an option: every word is text (`echo`).
    Text,
}

/// Whether an option takes an argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Takes {
    Nothing,
    /// In the same word or in the next.
    Always(Kind),
    /// In the same word or not at all.
    Perhaps(Kind),
}

/// One option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Opt {
    pub(super) takes: Takes,
    /// Whether it takes the place of the first operand, as `grep -e` does.
    pub(super) replaces_first: bool,
    /// Whether it says what the command acts on, as `gh -R` does. A rule that names an operand
    /// allows no such option.
    pub(super) chooses_object: bool,
}

/// One command and everything that may follow its words.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The program and, where it has them, its subcommands.
    pub(super) words: Vec<&'static str>,
    pub(super) options: HashMap<&'static str, Opt>,
    /// Whether `-7` is an option.
    pub(super) numbers: bool,
    /// The kinds of the operands, in order.
    pub(super) operands: Vec<Kind>,
    /// Whether the last kind may come any number of times.
    pub(super) repeats: bool,
    pub(super) style: Style,
    /// The options that may follow a `--`; `None` when `--` only ends the options.
    pub(super) after_dashes: Option<HashMap<&'static str, Opt>>,
    /// The kind of the operands that may follow a `--`.
    pub(super) operands_after_dashes: Option<Kind>,
    pub(crate) effect: Effect,
}

impl Entry {
    /// Returns the command, as a rule would name it.
    pub(crate) fn name(&self) -> String {
        self.words.join(" ")
    }

    /// Says whether a rule that names operands of this kind allows further ones: a command that
    /// only shows files may show more of them.
    pub(super) fn may_add(&self, kind: Kind) -> bool {
        self.effect == Effect::Shows && kind != Kind::Word
    }

    /// Says whether one of its operands is a script.
    pub(crate) fn takes_script(&self) -> bool {
        self.operands.iter().any(|kind| matches!(kind, Kind::Sed | Kind::Awk | Kind::Jq))
    }

    pub(crate) fn words(&self) -> &[&'static str] {
        &self.words
    }
}

static ENTRIES: LazyLock<HashMap<&'static str, Vec<Entry>>> = LazyLock::new(|| {
    let mut entries: HashMap<&'static str, Vec<Entry>> = HashMap::new();
    for (file, text) in TABLES {
        #[expect(clippy::expect_used, reason = "the tables are constants, and a test reads them")]
        let table = read(file, text).expect("the tables of known commands are well-formed");
        for entry in table {
            let program = entry.words.first().copied().unwrap_or_default();
            entries.entry(program).or_default().push(entry);
        }
    }
    entries
});

/// Returns the entry with the most words that the command starts with. `word` gives the words after
/// the program.
pub(super) fn find<'a>(
    program: &str,
    word: impl Fn(usize) -> Option<&'a str>,
) -> Option<&'static Entry> {
    let starts = |entry: &&Entry| {
        entry.words.iter().enumerate().skip(1).all(|(at, name)| word(at) == Some(*name))
    };
    ENTRIES.get(program)?.iter().filter(starts).max_by_key(|entry| entry.words.len())
}

/// A line of a table that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{file}, line {line}: {problem}")]
struct TableError {
    file: &'static str,
    line: usize,
    problem: String,
}

fn read(file: &'static str, text: &'static str) -> Result<Vec<Entry>, TableError> {
    let mut groups: HashMap<&'static str, Options> = HashMap::new();
    let mut entries: Vec<Entry> = Vec::new();
    // The entries or the group that indented lines belong to.
    let mut open = Open::Nothing;
    // Whether a `--` was read: the options after it belong to it.
    let mut dashes = false;
    // The names of a header that continues on the next line.
    let mut names: Vec<&'static str> = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let refuse = |problem: String| TableError { file, line: number + 1, problem };
        let content = line.split(" #").next().unwrap_or(line).trim();
        if content.is_empty() || content.starts_with('#') {
            continue;
        }
        if !line.starts_with(' ') {
            dashes = false;
            open = match content.strip_prefix('@') {
                Some(name) => Open::Group(name),
                None => match content.strip_suffix(" |") {
                    Some(first) => {
                        names.extend(first.split(" | "));
                        continue;
                    }
                    None => {
                        let from = entries.len();
                        let more = std::mem::take(&mut names);
                        entries.extend(header(content, more).map_err(refuse)?);
                        Open::Entries(from)
                    }
                },
            };
            continue;
        }
        let after_dashes = dashes.then(HashMap::new);
        let mut options = Options { after_dashes, ..Options::default() };
        for token in content.split_whitespace() {
            match token.strip_prefix('@') {
                Some(name) => {
                    let group = groups.get(name).ok_or_else(|| refuse(format!("no @{name}")))?;
                    options.add(group).map_err(refuse)?;
                }
                None => options.token(token).map_err(refuse)?,
            }
        }
        dashes = options.after_dashes.is_some();
        match open {
            Open::Nothing => return Err(refuse("options of nothing".into())),
            Open::Group(name) => groups.entry(name).or_default().add(&options).map_err(refuse)?,
            Open::Entries(from) => {
                for entry in entries.iter_mut().skip(from) {
                    options.add_to(entry).map_err(refuse)?;
                }
            }
        }
    }
    Ok(entries)
}

#[derive(Clone, Copy)]
enum Open {
    Nothing,
    Group(&'static str),
    Entries(usize),
}

/// The options of one line or one group.
#[derive(Default)]
struct Options {
    named: HashMap<&'static str, Opt>,
    numbers: bool,
    after_dashes: Option<HashMap<&'static str, Opt>>,
    operands_after_dashes: Option<Kind>,
}

impl Options {
    fn token(&mut self, token: &'static str) -> Result<(), String> {
        if token == "--" {
            self.after_dashes.get_or_insert_default();
            return Ok(());
        }
        if token == "-NUM" {
            self.numbers = true;
            return Ok(());
        }
        if let Some(kind) = token.strip_suffix('*').filter(|_| self.after_dashes.is_some()) {
            self.operands_after_dashes = Some(Kind::of(kind)?);
            return Ok(());
        }
        let (name, takes) = match (token.split_once("[="), token.split_once('=')) {
            (Some((name, kind)), _) => {
                let kind = kind.strip_suffix(']').ok_or_else(|| format!("`{token}`"))?;
                (name, Takes::Perhaps(Kind::of(kind)?))
            }
            // `=` and `!=` are words themselves.
            (None, Some((name, kind))) if !kind.is_empty() && !name.is_empty() => {
                (name, Takes::Always(Kind::of(kind)?))
            }
            (None, _) => (token, Takes::Nothing),
        };
        let without = |mark: char| name.strip_suffix(mark).filter(|it| !it.is_empty());
        let (replaces_first, chooses_object) = (without('!').is_some(), without('@').is_some());
        let name = without('!').or_else(|| without('@')).unwrap_or(name);
        let list = self.after_dashes.as_mut().unwrap_or(&mut self.named);
        insert(list, name, Opt { takes, replaces_first, chooses_object })
    }

    fn add(&mut self, other: &Self) -> Result<(), String> {
        for (name, opt) in &other.named {
            insert(&mut self.named, name, *opt)?;
        }
        self.numbers |= other.numbers;
        Ok(())
    }

    fn add_to(&self, entry: &mut Entry) -> Result<(), String> {
        for (name, opt) in &self.named {
            insert(&mut entry.options, name, *opt)?;
        }
        entry.numbers |= self.numbers;
        for (name, opt) in self.after_dashes.iter().flatten() {
            insert(entry.after_dashes.get_or_insert_default(), name, *opt)?;
        }
        if self.after_dashes.is_some() {
            entry.after_dashes.get_or_insert_default();
        }
        entry.operands_after_dashes = self.operands_after_dashes.or(entry.operands_after_dashes);
        Ok(())
    }
}

fn insert(
    list: &mut HashMap<&'static str, Opt>,
    name: &'static str,
    opt: Opt,
) -> Result<(), String> {
    match list.insert(name, opt) {
        Some(other) if other != opt => Err(format!("`{name}` is there twice")),
        _ => Ok(()),
    }
}

/// Reads `words | words : operands ; effect style`, for these names and those of the lines before.
fn header(line: &'static str, mut names: Vec<&'static str>) -> Result<Vec<Entry>, String> {
    let (last, rest) = line.split_once(" : ").ok_or("no ` : `")?;
    let (operands, traits) = rest.split_once(" ; ").ok_or("no ` ; `")?;
    let mut kinds = Vec::new();
    let mut repeats = false;
    for token in operands.split_whitespace().filter(|token| *token != "NONE") {
        repeats = token.ends_with('*');
        kinds.push(Kind::of(token.trim_end_matches('*'))?);
    }
    let (mut effect, mut style) = (None, Style::Letters);
    for name in traits.split_whitespace() {
        match name {
            "shows" => effect = Some(Effect::Shows),
            "changes" => effect = Some(Effect::Changes),
            "project" => effect = Some(Effect::RunsProject),
            "talks" => effect = Some(Effect::Talks),
            "edits" => effect = Some(Effect::Edits),
            "words" => style = Style::Words,
            "text" => style = Style::Text,
            other => return Err(format!("`{other}` is neither an effect nor a style")),
        }
    }
    let effect = effect.ok_or("no effect")?;
    let entry = |name: &'static str| Entry {
        words: name.split_whitespace().collect(),
        options: HashMap::new(),
        numbers: false,
        operands: kinds.clone(),
        repeats,
        style,
        after_dashes: None,
        operands_after_dashes: None,
        effect,
    };
    names.extend(last.split(" | "));
    Ok(names.into_iter().map(entry).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_can_be_read_and_no_command_is_in_two_places() {
        let mut seen = std::collections::HashSet::new();
        for (file, text) in TABLES {
            for entry in read(file, text).unwrap() {
                assert!(seen.insert(entry.name()), "{} is there twice", entry.name());
            }
        }
        assert!(seen.len() > 150, "only {} commands", seen.len());
    }

    #[test]
    fn the_entry_with_the_most_words_is_found() {
        let entry = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            find(words[0], |at| words.get(at).copied()).map(Entry::name)
        };
        assert_eq!(entry("git stash list"), Some("git stash list".into()));
        assert_eq!(entry("git stash"), Some("git stash".into()));
        assert_eq!(entry("git frobnicate"), None);
        assert_eq!(entry("frobnicate"), None);
    }
}
