//! Reads the words of a command as its program would, against the entry of its table.

use super::git;
use super::kinds::Kind;
use super::table::{self, Entry, Opt, Style, Takes};
use crate::call::Call;
use crate::shell::Word;
use crate::shell::programs::base_name;

/// Returns the entry of a command, if its program is in a table with these words.
pub(crate) fn entry_of(words: &[Word]) -> Option<&'static Entry> {
    let word = |at: usize| words.get(at).and_then(Word::literal);
    table::find(base_name(word(0)?), word)
}

/// Says whether a program is in a table by its own name alone: its words are no subcommands.
pub(crate) fn has_no_subcommands(program: &str) -> bool {
    table::find(program, |_| None).is_some()
}

/// Returns the operands of a command that are paths it reads; `None` if the command is not known.
pub(crate) fn paths_of<'a>(words: &'a [Word], call: &'a Call<'a>) -> Option<Vec<&'a Word>> {
    let mut reader = Reader::of(words, words.len(), call)?;
    reader.read().ok()?;
    let operands = reader.entry.operands.as_slice();
    let skipped = usize::from(reader.replaced);
    let is_path = |place: &usize| {
        let kind = operands.get(place + skipped).or(operands.last());
        kind.is_some_and(|kind| kind.may_be_path())
    };
    let places = 0..reader.operands.len();
    Some(places.filter(is_path).filter_map(|at| words.get(*reader.operands.get(at)?)).collect())
}

/// Says whether a redirection may make a file the input of a command: it is inside the working
/// directory.
pub(crate) fn is_readable(word: &Word, call: &Call<'_>) -> bool {
    word.literal().is_some_and(|path| path != "-") && Kind::Read.takes_operand(word, call)
}

/// Returns the words of a command, with known text in place of unknown where it is `test` and only
/// compares texts: `[ -n "$(git status)" ]`.
pub(crate) fn plain_test(words: &[Word]) -> Vec<Word> {
    let mut out = words.to_vec();
    let given = match words.first().and_then(Word::literal) {
        Some("test") => words.get(1..),
        Some("[") => words.get(1..words.len().saturating_sub(1)),
        _ => None,
    };
    let texts: Vec<Option<&str>> = given.unwrap_or_default().iter().map(Word::literal).collect();
    let compares =
        matches!(texts.as_slice(), [Some("-n" | "-z"), None] | [_, Some("=" | "==" | "!="), _]);
    for word in out.iter_mut().filter(|it| compares && matches!(it, Word::Text { .. })) {
        *word = Word::Literal("text".into());
    }
    out
}

/// Says whether any names of files may follow the words of a command, as more of its files.
pub(crate) fn takes_more_files(words: &[Word], call: &Call<'_>) -> bool {
    let Some(mut reader) = Reader::of(words, words.len(), call) else { return false };
    let entry = reader.entry;
    let fixed = entry.operands.len().saturating_sub(1);
    reader.read().is_ok()
        && entry.repeats
        && entry.operands.last().is_some_and(|it| matches!(it, Kind::Read | Kind::Text))
        && entry.style != Style::Words
        && reader.operands.len() + usize::from(reader.replaced) >= fixed
}

/// Says whether the word at a place may be the name of a file that the command reads, or of one
/// that it passes on.
pub(crate) fn may_name_file(words: &[Word], at: usize) -> bool {
    let Some(entry) = entry_of(words) else { return true };
    let reads = |opt: &Opt| match opt.takes {
        Takes::Always(kind) | Takes::Perhaps(kind) => kind.may_be_path(),
        Takes::Nothing => false,
    };
    let before = at.checked_sub(1).and_then(|at| words.get(at)).and_then(Word::literal);
    let option = before.and_then(|before| entry.options.get(before));
    if let Some(opt) = option.filter(|it| matches!(it.takes, Takes::Always(_))) {
        return reads(opt);
    }
    let written = words.get(at).map(Word::as_written).unwrap_or_default();
    if let Some(opt) = written.split_once('=').and_then(|(name, _)| entry.options.get(name)) {
        return reads(opt);
    }
    entry.operands.iter().any(|kind| kind.may_be_path())
}

/// Checks that everything after the first `named` words, which the rule itself names, is known to
/// be harmless.
///
/// # Errors
/// With the reason to ask, for the person who is asked.
pub(crate) fn check(words: &[Word], named: usize, call: &Call<'_>) -> Result<(), String> {
    if words.len() <= named {
        return Ok(());
    }
    let Some(mut reader) = Reader::of(words, named, call) else {
        let start: Vec<&str> = words.iter().take(2).map(Word::as_written).collect();
        return Err(format!(
            "what the arguments of `{}` do is not known; a rule for the exact command allows it",
            start.join(" ")
        ));
    };
    reader.read()?;
    reader.check_operands()
}

struct Reader<'a> {
    words: &'a [Word],
    /// Words before this one are named by the rule itself: they are read, but never doubted.
    named: usize,
    call: &'a Call<'a>,
    entry: &'static Entry,
    /// The next word.
    at: usize,
    /// Where the operands are.
    operands: Vec<usize>,
    /// Where the `--` is that ends the options.
    dashes: Option<usize>,
    /// Whether an option has taken the place of the first operand.
    replaced: bool,
    /// Whether an option that the rule names says what the command acts on.
    names_object: bool,
    /// An option beyond the rule that says so.
    other_object: Option<&'a Word>,
}

impl<'a> Reader<'a> {
    fn of(words: &'a [Word], named: usize, call: &'a Call<'a>) -> Option<Self> {
        let entry = entry_of(words)?;
        let at = entry.words.len();
        Some(Reader {
            words,
            named,
            call,
            entry,
            at,
            operands: Vec::new(),
            dashes: None,
            replaced: false,
            names_object: false,
            other_object: None,
        })
    }

    fn read(&mut self) -> Result<(), String> {
        while let Some(word) = self.words.get(self.at) {
            let at = self.at;
            self.at += 1;
            let text = match word {
                Word::Literal(text) => text.as_str(),
                Word::Glob { marked, .. } if self.is_text_of_option(marked) => continue,
                Word::Text { start, .. } if self.is_text_of_option(start) => continue,
                Word::Text { start, .. } if self.may_be_text(start) => {
                    self.operands.push(at);
                    continue;
                }
                Word::Glob { .. } | Word::Home { .. } => {
                    self.operands.push(at);
                    continue;
                }
                Word::Text { raw, .. } | Word::Opaque(raw) => {
                    return Err(format!("`{raw}` is known only when it runs"));
                }
            };
            // Terminals obey some control characters, and no harmless argument needs one.
            if text.chars().any(|c| c.is_control() && c != '\n' && c != '\t') {
                return Err(self.unknown(text));
            }
            match self.entry.style {
                Style::Text => self.operands.push(at),
                Style::Letters | Style::Words if text == "--" => return self.read_after_dashes(),
                Style::Letters => self.read_letters(at, text)?,
                Style::Words => self.read_word(at, text)?,
            }
        }
        Ok(())
    }

    fn unknown(&self, text: &str) -> String {
        let command = self.entry.name();
        format!("`{text}` is not among the arguments of `{command}` that are known to be harmless")
    }

    fn read_after_dashes(&mut self) -> Result<(), String> {
        let Some(options) = &self.entry.after_dashes else {
            // `find -- -fprint x` writes x: programs whose options are words need not stop at `--`.
            if self.entry.style == Style::Words {
                return Err(self.unknown("--"));
            }
            self.dashes = Some(self.at - 1);
            self.operands.extend(self.at..self.words.len());
            return Ok(());
        };
        while let Some(word) = self.words.get(self.at) {
            self.at += 1;
            let text = word.literal().ok_or_else(|| self.unknown(word.as_written()))?;
            let (name, value) = split(text);
            match (options.get(name), self.entry.operands_after_dashes) {
                (Some(opt), _) => self.take(*opt, value, text)?,
                (None, Some(kind)) if !text.starts_with('-') && kind.takes(text, self.call) => {}
                (None, _) => return Err(self.unknown(text)),
            }
        }
        Ok(())
    }

    /// Says whether a word of unknown text that begins like this is an operand.
    fn may_be_text(&self, start: &str) -> bool {
        match self.entry.style {
            Style::Text => true,
            Style::Letters => !start.is_empty() && !start.starts_with('-'),
            Style::Words => false,
        }
    }

    /// Reads `-la`, `-n5`, `-n 5`, `--max=5`, `--max 5` or `-7`.
    fn read_letters(&mut self, at: usize, text: &str) -> Result<(), String> {
        if text.starts_with("--") {
            return self.read_word(at, text);
        }
        let Some(letters) = text.strip_prefix('-').filter(|letters| !letters.is_empty()) else {
            self.operands.push(at);
            return Ok(());
        };
        if at >= self.named && !self.may_be_file(text) {
            return Err(self.unknown(text));
        }
        if self.entry.numbers && letters.bytes().all(|byte| byte.is_ascii_digit()) {
            return Ok(());
        }
        for (offset, letter) in letters.char_indices() {
            let opt = self.option(&format!("-{letter}")).ok_or_else(|| self.unknown(text))?;
            let value = letters.get(offset + letter.len_utf8()..).filter(|it| !it.is_empty());
            match opt.takes {
                Takes::Nothing => self.take(opt, None, text)?,
                Takes::Always(_) | Takes::Perhaps(_) => return self.take(opt, value, text),
            }
        }
        Ok(())
    }

    /// Reads a word that is an option by itself, or an operand when it does not start with a dash.
    fn read_word(&mut self, at: usize, text: &str) -> Result<(), String> {
        if let Some(opt) = self.option(text) {
            return self.take(opt, None, text);
        }
        if let Some(opt) = self.option(split(text).0)
            && let (_, Some(value)) = split(text)
        {
            return self.take(opt, Some(value), text);
        }
        if self.entry.numbers && text.strip_prefix('-').is_some_and(|it| it.parse::<u32>().is_ok())
        {
            return Ok(());
        }
        if text.starts_with('-') && text != "-" {
            return Err(self.unknown(text));
        }
        self.operands.push(at);
        Ok(())
    }

    /// Says whether a file pattern can only become an option with any text: `--include=*.rs` is
    /// that option, whatever names the shell finds.
    fn is_text_of_option(&self, marked: &str) -> bool {
        let is_long = marked.starts_with("--") && self.entry.style == Style::Letters;
        marked.split_once('=').filter(|_| is_long).is_some_and(|(name, _)| {
            let takes = self.option(name).filter(|it| !it.replaces_first).map(|it| it.takes);
            matches!(takes, Some(Takes::Always(Kind::Text) | Takes::Perhaps(Kind::Text)))
        })
    }

    fn option(&self, name: &str) -> Option<Opt> {
        self.entry.options.get(name).copied()
    }

    /// Takes an option with the value in its own word, and with the next word when it needs one.
    fn take(&mut self, opt: Opt, value: Option<&str>, text: &str) -> Result<(), String> {
        self.replaced |= opt.replaces_first;
        if opt.chooses_object && self.at > self.named {
            self.other_object = self.words.get(self.at - 1);
        }
        // `--all` names nothing by itself.
        self.names_object |=
            opt.chooses_object && self.at <= self.named && opt.takes != Takes::Nothing;
        let fits = match (opt.takes, value) {
            (Takes::Nothing, None) | (Takes::Perhaps(_), None) => true,
            (Takes::Nothing, Some(_)) => false,
            (Takes::Always(kind) | Takes::Perhaps(kind), Some(value)) => {
                self.at <= self.named || kind.takes(value, self.call)
            }
            (Takes::Always(kind), None) => {
                let next = self.at;
                self.at += 1;
                match self.words.get(next) {
                    Some(Word::Text { start, .. }) => {
                        kind == Kind::Text && self.may_be_text(start) && self.operands.is_empty()
                    }
                    Some(Word::Literal(value)) => {
                        next < self.named
                            || (kind.takes(value, self.call)
                                && self.may_be_operand(kind, value)
                                && !may_be_option(kind, value))
                    }
                    _ => false,
                }
            }
        };
        if fits { Ok(()) } else { Err(self.unknown(self.shown(text))) }
    }

    fn shown<'b>(&'b self, option: &'b str) -> &'b str {
        self.words.get(self.at.saturating_sub(1)).map_or(option, Word::as_written)
    }

    /// Returns whether the value of an option is also harmless as an operand.
    fn may_be_operand(&self, kind: Kind, value: &str) -> bool {
        matches!(kind, Kind::Num) || self.may_be_file(value)
    }

    /// Returns whether a word that is part of an option is also harmless as an operand. Some
    /// programs take no options after their first operand, and read such a word as a file.
    fn may_be_file(&self, text: &str) -> bool {
        self.operands.is_empty() || Kind::Read.takes(text, self.call)
    }

    fn check_operands(&self) -> Result<(), String> {
        let mut kinds = self.entry.operands.iter().skip(usize::from(self.replaced)).copied();
        let last = self.entry.operands.last().copied().filter(|_| self.entry.repeats);
        // Whether the rule names an operand of those that may be repeated.
        let mut names_repeated = false;
        let mut names_object = self.names_object;
        let mut excluded = None;
        let mut names_path = false;
        for &at in &self.operands {
            let Some(word) = self.words.get(at) else { continue };
            let fixed = kinds.len() > 1 || last.is_none();
            let Some(kind) = kinds.next().or(last) else {
                return Err(self.unknown(word.as_written()));
            };
            let kind = match kind {
                Kind::Revision | Kind::Commit if self.dashes.is_some_and(|dashes| at > dashes) => {
                    Kind::Pathspec
                }
                kind => kind,
            };
            // The shell expands a pattern to any number of words, so a pattern may stand only where
            // any number of operands of one kind may.
            let many = matches!(word, Word::Glob { .. });
            if many && fixed || at >= self.named && !kind.takes_operand(word, self.call) {
                return Err(self.unknown(word.as_written()));
            }
            if at < self.named {
                names_repeated |= !fixed;
                // A text only selects among what is acted on.
                names_object |= kind != Kind::Text;
            } else if names_repeated && !self.entry.may_add(kind) {
                return Err(self.other_than_named(word));
            }
            match word.literal() {
                Some(text) if kind.excludes(text) => excluded = Some(word),
                literal => names_path |= kind.is_path(literal),
            }
        }
        if let Some(option) = self.other_object.filter(|_| names_object) {
            return Err(self.other_than_named(option));
        }
        match excluded {
            Some(word) if !names_path && !git::is_at_top(self.call) => Err(format!(
                "`{}` alone means the rest of the whole repository; `.` before it means this \
                 directory",
                word.as_written()
            )),
            _ => Ok(()),
        }
    }

    fn other_than_named(&self, word: &Word) -> String {
        let command = self.entry.name();
        let word = word.as_written();
        format!(
            "the rule says what `{command}` acts on, and `{word}` makes it act on something else"
        )
    }
}

/// Returns whether a program may read the value of an option as another option: some programs take
/// a value in the same word only, and each program has its own exceptions. A number is harmless
/// either way.
fn may_be_option(kind: Kind, value: &str) -> bool {
    kind != Kind::Num && value.len() > 1 && value.starts_with('-')
}

/// Splits `--name=value`.
fn split(text: &str) -> (&str, Option<&str>) {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => (name, Some(value)),
        _ => (text, None),
    }
}
