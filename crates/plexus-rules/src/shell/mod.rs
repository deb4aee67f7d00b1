//! Finds what a Bash command would run, as far as that can be known without running it.
//!
//! [`read`] turns a command line into its simple commands ([`Simple`]), through a real shell
//! parser. Anything else (a redirection to a file, a function, a variable in place of the program's
//! name) is kept as a doubt, in words for the person who will be asked.
//! `docs/decisions/0005-shell-parser.md` says which parser is used and why.
//!
//! - [`gate`]: the texts that the parser must not see.
//! - [`word`]: one word, decoded as the shell would, or marked as known only at run time.
//! - [`walk`]: from the syntax tree to simple commands.
//! - [`programs`]: programs that run other programs, with the lists of [`names`].

mod gate;
pub(super) mod names;
pub(super) mod programs;
mod walk;
mod word;

pub(super) use word::{WILD, Word};

/// How deep substitutions and `sh -c` are followed. Somebody is asked about deeper ones; nobody
/// writes them by hand.
pub(super) const MAX_DEPTH: usize = 4;

/// A parsed command line.
#[derive(Debug, Default)]
pub(super) struct Script {
    /// Every simple command in it, at any depth, substitutions included.
    pub(super) commands: Vec<Simple>,
    /// The reasons why rules for single commands cannot cover the whole.
    pub(super) doubts: Vec<String>,
    /// Text that could not be parsed. It may contain anything.
    pub(super) unread: Vec<String>,
    /// The words that it gives to the variables of its loops.
    pub(super) given: Vec<String>,
    /// The files that its commands read or write by redirections.
    pub(super) files: Vec<Word>,
}

/// One simple command: a program and its arguments.
#[derive(Debug)]
pub(super) struct Simple {
    /// The program's name and its arguments; may be empty when there were only assignments.
    pub(super) words: Vec<Word>,
    /// The reasons why no rule can cover this command.
    pub(super) doubts: Vec<String>,
    /// The variables that are set for it, by name, each with the whole assignment. An assignment
    /// may name a program.
    pub(super) assigned: Vec<(String, String)>,
    /// Whether its input comes from another command.
    pub(super) piped: bool,
}

/// Reads a command line.
pub(super) fn read(text: &str) -> Script {
    let mut script = Script::default();
    read_into(text, 0, &mut script);
    script
}

fn read_into(text: &str, depth: usize, script: &mut Script) {
    if depth > MAX_DEPTH {
        script.doubts.push("commands are nested deeper than they are followed".into());
        script.unread.push(text.to_owned());
        return;
    }
    let parsed = match gate::check(text) {
        Ok(()) => gate::parse(text),
        Err(reason) => Err(reason),
    };
    match parsed {
        Ok(program) => walk::program(&program, depth, script),
        Err(reason) => {
            script.doubts.push(reason.into());
            script.unread.push(text.to_owned());
        }
    }
}

/// Removes the space around a command that every shell ignores. A no-break space stays: shells make
/// it part of the word, so `npm test` with one at its end is another command.
pub(super) fn trim(command: &str) -> &str {
    command.trim_matches([' ', '\t', '\n'])
}

/// Returns the words of `text` when it is one simple command of plain words only.
pub(super) fn plain_words(text: &str) -> Option<Vec<String>> {
    let script = read(text);
    let [command] = script.commands.as_slice() else { return None };
    if !script.doubts.is_empty() || !command.doubts.is_empty() {
        return None;
    }
    command.words.iter().map(|word| word.literal().map(str::to_owned)).collect()
}

/// Splits text that could not be parsed into possible words of a command, for rules that deny.
pub(super) fn crude_words(text: &str) -> Vec<Word> {
    text.split(|c: char| !(c.is_alphanumeric() || "_-./".contains(c)))
        .filter(|word| !word.is_empty())
        .map(|word| Word::Literal(word.to_owned()))
        .collect()
}
