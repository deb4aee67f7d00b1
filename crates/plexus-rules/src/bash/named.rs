//! Finds the files that a command names, for the rules that deny or ask about them: with
//! `Read(.env)` denied, somebody is asked about `cat .env`.
//!
//! A word says only that a file may be meant, so these rules never deny a command.

use std::collections::BTreeSet;

use super::super::call::Call;
use super::super::known::{self, Effect};
use super::super::paths::MAX_PATH_BYTES;
use super::super::shell::{self, Script, Word};

/// What a command may do to a file that it names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Touch {
    Reads,
    Writes,
}

/// The most paths that are looked up for one command, because each costs a few disk lookups.
const MAX_PATHS: usize = 1024;

/// Characters after which a path may begin within a word: `if=x`, `HEAD:x`, `@x`.
const BEFORE_PATHS: &[char] = &['=', ':', '@', ','];

/// Returns the paths that a command line may name; `None` when they are too many or too long to be
/// looked up.
pub(crate) fn paths_named(command: &str, call: &Call<'_>) -> Option<BTreeSet<(String, Touch)>> {
    let mut named = Named { paths: BTreeSet::new(), is_beyond: false, call };
    named.script(&shell::read(command));
    (!named.is_beyond).then_some(named.paths)
}

struct Named<'a> {
    paths: BTreeSet<(String, Touch)>,
    /// Whether there are more paths than are looked up, or longer ones.
    is_beyond: bool,
    call: &'a Call<'a>,
}

impl Named<'_> {
    fn script(&mut self, script: &Script) {
        for command in &script.commands {
            let entry = known::entry_of(&command.words);
            let shows = entry.is_some_and(|entry| entry.effect == Effect::Shows);
            let touch = if shows { Touch::Reads } else { Touch::Writes };
            for word in command.words.iter().skip(1) {
                self.word(word, touch);
                // It may be a script: `bash -c 'cat x'`.
                if let Some(text) = word.literal().filter(|text| text.contains(' ')) {
                    self.text(text, touch);
                }
            }
        }
        for word in &script.files {
            self.word(word, Touch::Writes);
        }
        for text in &script.unread {
            self.text(text, Touch::Writes);
        }
    }

    /// Adds the words of a text that is not read as a script.
    fn text(&mut self, text: &str, touch: Touch) {
        for word in shell::crude_words(text) {
            self.word(&word, touch);
        }
    }

    fn word(&mut self, word: &Word, touch: Touch) {
        let text = word.as_written();
        // The kernel opens no longer path, but a program may shorten it first.
        let may_be_shorter = || ["/.", "//"].iter().any(|it| text.contains(it));
        self.is_beyond |=
            self.paths.len() > MAX_PATHS || text.len() > MAX_PATH_BYTES && may_be_shorter();
        if self.is_beyond {
            return;
        }
        if let Word::Glob { marked, .. } = word {
            self.paths.extend(known::names_of(marked, self.call).into_iter().map(|it| (it, touch)));
        }
        self.paths.insert((text.to_owned(), touch));
        // The value of an option may follow its letter: `-fx`.
        let value = text.char_indices().nth(2).filter(|_| text.starts_with('-'));
        let values = text.match_indices(BEFORE_PATHS).map(|(at, before)| at + before.len());
        for start in value.map(|(at, _)| at).into_iter().chain(values) {
            let path = text.get(start..).filter(|path| !path.is_empty());
            self.paths.extend(path.map(|path| (path.to_owned(), touch)));
        }
    }
}
