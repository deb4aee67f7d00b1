//! Finds the files that a command names, for the rules that deny or ask about them: with
//! `Read(.env)` denied, somebody is asked about `cat .env`.
//!
//! A word says only that a file may be meant, so these rules never deny a command. Where a path
//! leads is not always known: it may hold a variable, or the command may move to another directory
//! first. Then the rules about a file of the same name are found.

use std::collections::BTreeSet;

use super::super::call::Call;
use super::super::known::{self, Effect};
use super::super::paths::MAX_PATH_BYTES;
use super::super::shell::names::{LINKING, NAMING_NO_FILES, SEARCHING};
use super::super::shell::programs::{self, Nature, base_name};
use super::super::shell::{self, Script, Simple, WILD, Word};
use super::super::steps::{Step, marked};

/// What a command may do to a file that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Touch {
    Reads,
    Writes,
}

/// The files that a command may name.
pub(crate) struct NamedFiles {
    pub(crate) paths: BTreeSet<(String, Touch)>,
    /// Steps of paths of which it is not known where they begin.
    pub(crate) steps: BTreeSet<(Step, Touch)>,
    /// Directories that it reads with everything in them.
    pub(crate) trees: BTreeSet<String>,
    /// Whether it reads a file whose name is known only when it runs.
    pub(crate) may_read_any: bool,
}

/// The most paths that are looked up for one command, because each costs a few disk lookups.
const MAX_PATHS: usize = 1024;

/// The most directories that are looked through for one command.
const MAX_TREES: usize = 8;

/// Characters after which a path may begin within a word: `if=x`, `HEAD:x`, `@x`.
const BEFORE_PATHS: &[char] = &['=', ':', '@', ','];

/// The most letters that are combined with one that takes a path: `-qO/x`.
const MAX_LETTERS: usize = 4;

/// Characters that a path rarely has, but a script does.
const SCRIPT_CHARACTERS: &[char] = &[' ', '\n', '\'', '"', '(', '<', '>', ';', '|', '\\', '`'];

/// Programs and options with which a command works in another directory.
const MOVES: &[&str] = &["cd", "chdir", "pushd", "popd", "-D"];
const MOVING_OPTIONS: &[&str] =
    &["-C", "--directory", "--chdir", "--cwd", "--git-dir", "--work-tree", "--prefix", "--root"];

/// Returns the files that a command line may name; `None` when they are too many or too long to be
/// looked up, or may be any.
pub(crate) fn files_named(command: &str, call: &Call<'_>) -> Option<NamedFiles> {
    let found = NamedFiles {
        paths: BTreeSet::new(),
        steps: BTreeSet::new(),
        trees: BTreeSet::new(),
        may_read_any: false,
    };
    let mut named = Named { found, is_beyond: false, moves: false, searches: false, call };
    let script = shell::read(command);
    named.moves = moves(command, &script);
    named.script(&script);
    (!named.is_beyond).then_some(named.found)
}

/// Says whether some of the command may work in another directory, or make a link to one.
pub(super) fn moves(command: &str, script: &Script) -> bool {
    let plain: String = command.chars().filter(|c| !matches!(c, '\'' | '"' | '\\')).collect();
    let is_move = |word: &str| {
        MOVES.contains(&word)
            || LINKING.contains(&base_name(word))
            || MOVING_OPTIONS.iter().any(|option| word.starts_with(option))
    };
    shell::crude_words(&plain).iter().filter_map(Word::literal).any(is_move)
        || script.commands.iter().any(|it| it.words.first().is_some_and(is_search))
}

/// Says whether a program finds files by their names, in directories below others.
fn is_search(program: &Word) -> bool {
    program.literal().is_some_and(|program| SEARCHING.contains(&base_name(program)))
}

struct Named<'a> {
    found: NamedFiles,
    /// Whether there are more paths than are looked up, or longer ones, or any path may be meant.
    is_beyond: bool,
    /// Whether relative paths may begin in another directory.
    moves: bool,
    /// Whether the words of the present command may be patterns for names.
    searches: bool,
    call: &'a Call<'a>,
}

impl Named<'_> {
    fn script(&mut self, script: &Script) {
        // What one command prints, another may change.
        let hands_on = script.commands.iter().any(|it| self.changes_input(&it.words));
        let nowhere = Word::Literal("/dev/null".to_owned());
        let redirects = script.files.iter().any(|file| *file != nowhere);
        let mut touches = if redirects { Touch::Writes } else { Touch::Reads };
        for command in &script.commands {
            let only_reads = self.only_reads(&command.words) && !hands_on;
            let touch = if only_reads { Touch::Reads } else { Touch::Writes };
            touches = touches.max(touch);
            self.computed(command, script);
            self.tree(&command.words);
            self.searches = command.words.first().is_some_and(is_search);
            for word in command.words.iter().skip(1) {
                self.word(word, touch);
                // It may be a script: `bash -c 'cat x'`.
                if let Some(text) = word.literal().filter(|it| it.contains(SCRIPT_CHARACTERS)) {
                    self.text(text, touch);
                }
            }
            self.searches = false;
            if known::entry_of(&command.words).is_some_and(known::Entry::takes_script) {
                // A file may follow a letter: `sed r.env`.
                for text in command.words.iter().skip(1).filter_map(Word::literal) {
                    self.path(text.find('.').map_or("", |start| &text[start..]), touch);
                }
            }
            for assignment in &command.assigned {
                self.word(&Word::Opaque(assignment.written.clone()), Touch::Writes);
            }
            for input in &command.inputs {
                self.word(input, touch);
                self.found.may_read_any |= is_unknown(input);
            }
        }
        // What the variable of a loop names, some of the commands may touch.
        for word in &script.given {
            self.word(word, touches);
            // A part of a name may follow it: `.e$n`.
            if let Word::Literal(text) = word {
                self.word(&Word::Opaque(text.clone()), touches);
            }
        }
        for word in &script.files {
            self.word(word, Touch::Writes);
            self.found.may_read_any |= is_unknown(word);
        }
        for text in &script.unread {
            // `$'…'` may spell any name.
            self.is_beyond |= text.contains("$'") && text.contains('\\');
            self.text(text, Touch::Writes);
        }
    }

    /// Says whether a command may change the files that its input names.
    fn changes_input(&self, command: &[Word]) -> bool {
        match command.first().and_then(Word::literal).map(base_name) {
            Some("xargs" | "gxargs") => match programs::nature(command) {
                Nature::RunsWithMore(start) => {
                    !self.only_reads(command.get(start..).unwrap_or_default())
                }
                _ => true,
            },
            Some("parallel") => true,
            _ => false,
        }
    }

    /// Says whether a command only reads the files that it names, wherever they are.
    fn only_reads(&self, command: &[Word]) -> bool {
        let Some(entry) = known::entry_of(command) else { return false };
        if entry.effect != Effect::Shows {
            return false;
        }
        // Files elsewhere are read as those here are, but a script may begin as a path does.
        let is_elsewhere = |text: &str| {
            text.starts_with(['/', '~']) || text.starts_with("..") || text.contains("/..")
        };
        let here = || Word::Literal("x".to_owned());
        let mut words: Vec<Word> = command.iter().take(1).cloned().collect();
        for word in command.iter().skip(1) {
            match word {
                Word::Literal(text)
                    if is_elsewhere(text)
                        && !text.contains(SCRIPT_CHARACTERS)
                        && !entry.takes_script() =>
                {
                    words.push(here());
                }
                Word::Literal(_) => words.push(word.clone()),
                Word::Home { .. } | Word::Text { .. } | Word::Opaque(_) => words.push(here()),
                // It may match any number of names.
                Word::Glob { .. } => words.extend([here(), here()]),
            }
        }
        known::check(&words, 1, self.call).is_ok()
    }

    /// Notes that the command reads files whose names are known only when it runs.
    fn computed(&mut self, command: &Simple, script: &Script) {
        let words = &command.words;
        let Some(program) = words.first() else { return };
        let name = program.literal().map(base_name).unwrap_or_default();
        if NAMING_NO_FILES.contains(&name) {
            return;
        }
        if matches!(name, "xargs" | "gxargs" | "parallel") {
            self.given_names(command, script);
        }
        let is_given_by_loop = |raw: &str| {
            let raw = raw.trim_matches('"');
            let name = raw.strip_prefix('$').unwrap_or_default().trim_matches(['{', '}']);
            script.loops.iter().any(|it| it == name)
        };
        self.found.may_read_any |= words.iter().enumerate().skip(1).any(|(at, word)| {
            is_unknown(word)
                && !is_given_by_loop(word.as_written())
                && known::may_name_file(words, at)
        });
    }

    /// Notes the files whose names a command gets from the one at the start of its pipeline.
    fn given_names(&mut self, command: &Simple, script: &Script) {
        let previous = |it: &&Simple| script.commands.get(it.reads_from?);
        let first = std::iter::successors(previous(&command), previous).last();
        let Some(first) = first.filter(|it| programs::lists_tree(&it.words)) else {
            self.found.may_read_any = true;
            return;
        };
        // The names that a search looks for are looked at by themselves.
        if !programs::searches_by_name(&first.words) {
            self.trees_of(&first.words);
        }
    }

    /// Notes the directories that a command reads with everything in them.
    fn tree(&mut self, words: &[Word]) {
        let inner = match programs::nature(words) {
            Nature::Runs(start) | Nature::RunsWithMore(start) => words.get(start..),
            _ => None,
        };
        if let Some(inner) = inner {
            return self.tree(inner);
        }
        if programs::reads_tree(words) {
            self.trees_of(words);
        }
    }

    fn trees_of(&mut self, words: &[Word]) {
        let Some(program) = words.first() else { return };
        let call = self.call;
        let paths = known::paths_of(words, call);
        // Without a table any word may be one of the directories.
        let is_known = paths.is_some();
        let words = paths.unwrap_or_else(|| words.iter().skip(1).collect());
        let literal = words.iter().filter_map(|word| word.literal());
        let mut trees: Vec<String> = literal.map(str::to_owned).collect();
        let name = program.literal().map(base_name).unwrap_or_default();
        let has_default = !matches!(name, "cp" | "scp" | "diff");
        if has_default && (!is_known || trees.is_empty()) {
            trees.push(".".to_owned());
        }
        self.found.trees.extend(trees);
        self.is_beyond |= self.found.trees.len() > MAX_TREES;
    }

    /// Adds the texts that the expansions of a word may give: `${x:-.env}`.
    fn expansions(&mut self, raw: &str, touch: Touch) {
        let Some(texts) = alternatives(raw) else {
            self.is_beyond = true;
            return;
        };
        for text in texts {
            self.steps(&text, touch);
            self.path(&text.replace(WILD, ""), touch);
        }
    }

    /// Adds the words of a text that is not read as a script.
    fn text(&mut self, text: &str, touch: Touch) {
        // The shell removes quotes when it runs the text.
        let plain: String = text.chars().filter(|c| !matches!(c, '\'' | '"' | '\\')).collect();
        for text in [text, &plain] {
            for word in shell::crude_words(text) {
                self.word(&word, touch);
            }
        }
        let is_in_word = |c: char| c.is_alphanumeric() || "_-./*?[]{},$".contains(c);
        for word in plain.split_whitespace().filter(|word| word.contains("${")) {
            self.expansions(word, touch);
        }
        for word in plain.split(|c: char| !is_in_word(c)) {
            if word.contains(['*', '?', '[', '{', '$']) {
                self.steps(&expanded(word), touch);
            }
        }
    }

    fn word(&mut self, word: &Word, touch: Touch) {
        let home;
        let text = match word {
            Word::Home { rest, .. } => {
                home = format!("~/{rest}");
                &home
            }
            word => word.as_written(),
        };
        // The kernel opens no longer path, but a program may shorten it first.
        let may_be_shorter = || ["/.", "//"].iter().any(|it| text.contains(it));
        self.is_beyond |=
            self.found.paths.len() > MAX_PATHS || text.len() > MAX_PATH_BYTES && may_be_shorter();
        // `/proc` leads anywhere, differently for each process.
        self.is_beyond |=
            text.contains("/proc/") && ["/root", "/cwd", "/fd"].iter().any(|it| text.contains(it));
        if self.is_beyond {
            return;
        }
        match word {
            Word::Glob { marked, .. } => {
                let names = known::names_of(marked, self.call);
                self.found.paths.extend(names.into_iter().map(|name| (name, touch)));
                if self.moves || marked.rsplit_once('/').is_some_and(|(dir, _)| dir.contains(WILD))
                {
                    self.steps(marked, touch);
                }
            }
            Word::Text { raw, .. } | Word::Opaque(raw) => {
                self.expansions(raw, touch);
                self.steps(&expanded(raw), touch);
                for word in shell::crude_words(raw) {
                    self.path(word.as_written(), touch);
                    // One of several in braces: `x/{a,b}`.
                    if raw.contains('{') {
                        self.steps(word.as_written(), touch);
                    }
                }
            }
            Word::Literal(text) if self.searches => self.steps(&marked(text), touch),
            Word::Literal(text) if self.moves => self.steps(text, touch),
            Word::Literal(_) | Word::Home { .. } => {}
        }
        self.path(text, touch);
        // The value of an option may follow its letter: `-fx`.
        let letters = text.char_indices().map(|(at, _)| at).skip(2).take(MAX_LETTERS);
        let values = text.match_indices(BEFORE_PATHS).map(|(at, before)| at + before.len());
        for start in letters.filter(|_| text.starts_with('-')).chain(values) {
            self.path(text.get(start..).unwrap_or_default(), touch);
        }
        // So may one within another notation: `1w/x`, `/x:/y`.
        for part in text.split(BEFORE_PATHS).filter(|part| part.len() < text.len()) {
            self.path(part, touch);
        }
        if let Some((_, place)) = text.split_once("://")
            && text.get(..5).is_some_and(|scheme| scheme.eq_ignore_ascii_case("file:"))
        {
            self.path(place.find('/').map_or("", |start| &place[start..]), touch);
        }
        if let Some(start) = text.find('/') {
            let path = text.get(start..).unwrap_or_default();
            self.path(path.split(BEFORE_PATHS).next().unwrap_or(path), touch);
        }
    }

    fn path(&mut self, path: &str, touch: Touch) {
        if !path.is_empty() {
            self.found.paths.insert((path.to_owned(), touch));
        }
    }

    /// Adds the steps of a path that may begin anywhere.
    fn steps(&mut self, marked: &str, touch: Touch) {
        let steps = marked.split(['/', ':', '=', '@', ',']).filter(|it| !matches!(*it, "." | ".."));
        for step in steps.map(Step::of).filter(Step::is_known) {
            self.found.steps.insert((step, touch));
        }
    }
}

/// The most expansions of one word that are combined.
const MAX_EXPANSIONS: u32 = 5;

/// Returns the texts that a word may become by the words within its expansions, with [`WILD`] for
/// what is not known: `a${x:-b}` may be `ab`. `None` if there are too many.
fn alternatives(raw: &str) -> Option<Vec<String>> {
    let mut texts = vec![String::new()];
    let mut rest = raw;
    while let Some(start) = rest.find("${") {
        let (before, after) = rest.split_at(start);
        let inside_and_more = after.get(2..).unwrap_or_default();
        let end = end_of_braces(inside_and_more).unwrap_or(inside_and_more.len());
        let (inside, more) = inside_and_more.split_at(end);
        if texts.len() >= 1 << MAX_EXPANSIONS {
            return None;
        }
        let is_in_name = |c: char| c.is_alphanumeric() || "_!#@*?".contains(c);
        // What comes before the operator is a name, or a subscript too.
        let given = inside.trim_start_matches(is_in_name);
        let given = given.split_once(']').map_or(given, |(_, given)| given);
        let given = given.trim_start_matches(|c: char| ":-=+?#%/^,~@".contains(c));
        let mut values = vec![WILD.to_string()];
        // A replacement may stand after its pattern.
        for value in [given].into_iter().chain(given.split('/').skip(1)) {
            values.extend(alternatives(value)?.into_iter().filter(|it| !it.is_empty()));
        }
        let plain = expanded(before);
        let with = |text: &String| -> Vec<String> {
            values.iter().map(|value| format!("{text}{plain}{value}")).collect()
        };
        texts = texts.iter().flat_map(with).collect();
        rest = more.strip_prefix('}').unwrap_or(more);
    }
    let plain = expanded(rest);
    texts.iter_mut().for_each(|text| text.push_str(&plain));
    Some(texts)
}

/// Returns where the braces end that begin before a text.
fn end_of_braces(text: &str) -> Option<usize> {
    let mut depth = 1_usize;
    text.char_indices().find_map(|(at, c)| {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        (depth == 0).then_some(at)
    })
}

/// Says whether nothing is known of the last step of a word, so that it may name any file.
fn is_unknown(word: &Word) -> bool {
    match word {
        Word::Text { raw, .. } | Word::Opaque(raw) => {
            let text = expanded(raw);
            let last = text.rsplit(['/', '=', ':', '@']).next().unwrap_or_default();
            last.contains(WILD) && !Step::of(last).is_known()
        }
        Word::Literal(_) | Word::Glob { .. } | Word::Home { .. } => false,
    }
}

/// Returns a word that is known only when it runs, with [`WILD`] for each of its expansions.
fn expanded(raw: &str) -> String {
    let mut out = String::new();
    let mut rest = raw.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '\'' | '"' => {}
            '\\' => out.extend(rest.next()),
            '`' => {
                rest.by_ref().take_while(|c| *c != '`').for_each(drop);
                out.push(WILD);
            }
            '$' => {
                out.push(WILD);
                match rest.peek() {
                    Some('(') => skip_group(&mut rest, '(', ')'),
                    Some('{') => skip_group(&mut rest, '{', '}'),
                    Some(c) if c.is_alphabetic() || *c == '_' => {
                        while rest.next_if(|c| c.is_alphanumeric() || *c == '_').is_some() {}
                    }
                    _ => {
                        rest.next();
                    }
                }
            }
            '{' => {
                // What stands in the braces is looked at word by word.
                skip_inside(&mut rest, '{', '}');
                out.push(WILD);
            }
            '*' | '?' | '[' | '}' => out.push(WILD),
            c => out.push(c),
        }
    }
    out
}

/// Skips a group that begins with the next character.
fn skip_group(rest: &mut impl Iterator<Item = char>, open: char, close: char) {
    rest.next();
    skip_inside(rest, open, close);
}

fn skip_inside(rest: &mut impl Iterator<Item = char>, open: char, close: char) {
    let mut depth = 1_usize;
    for c in rest {
        if c == open {
            depth += 1;
        } else if c == close {
            depth -= 1;
            if depth == 0 {
                return;
            }
        }
    }
}
