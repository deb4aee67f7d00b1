//! Finds what a Bash command would run, as far as that can be known without running it.
//!
//! [`read`] turns a command line into its simple commands ([`Simple`]), through a real shell
//! parser. Anything else (a redirection to a file, a function, a variable in place of the program's
//! name) is kept as a doubt, in words for the person who will be asked.
//! `docs/decisions/0005-shell-parser.md` says which parser is used and why.
//!
//! - [`gate`]: the texts that the parser must not see.
//! - [`here`]: here-documents that are plain text, as in `git commit -m "$(cat <<'EOF' … EOF)"`.
//! - [`word`]: one word, decoded as the shell would, or marked as known only at run time.
//! - [`walk`]: from the syntax tree to simple commands.
//! - [`programs`]: programs that run other programs, with the lists of [`names`].

mod gate;
mod here;
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
    pub(super) given: Vec<Word>,
    /// The variables of its loops whose values are all in `given`.
    pub(super) loops: Vec<String>,
    /// The files that its commands write by redirections.
    pub(super) files: Vec<Word>,
}

/// One simple command: a program and its arguments.
#[derive(Debug)]
pub(super) struct Simple {
    /// The program's name and its arguments; may be empty when there were only assignments.
    pub(super) words: Vec<Word>,
    /// The reasons why no rule can cover this command.
    pub(super) doubts: Vec<String>,
    /// The variables that are set for it.
    pub(super) assigned: Vec<Assignment>,
    /// Whether its input comes from another command.
    pub(super) piped: bool,
    /// The files that its input is redirected from.
    pub(super) inputs: Vec<Word>,
    /// Whether what it prints may hold its errors too.
    pub(super) prints_errors: bool,
    /// The position of the simple command before it in the pipeline.
    pub(super) reads_from: Option<usize>,
    /// Where a `cd` earlier in the line has gone.
    pub(super) entered: Option<Entered>,
    /// Whether it is that `cd`.
    pub(super) enters: bool,
}

impl Simple {
    fn of(words: &[&str]) -> Self {
        Self {
            words: words.iter().map(|&word| Word::Literal(word.to_owned())).collect(),
            doubts: Vec::new(),
            assigned: Vec::new(),
            piped: false,
            inputs: Vec::new(),
            prints_errors: false,
            reads_from: None,
            entered: None,
            enters: false,
        }
    }
}

/// A variable that is set for one command. Its value may name a program.
#[derive(Debug, Clone)]
pub(super) struct Assignment {
    pub(super) name: String,
    /// The whole assignment, as it stands in the command.
    pub(super) written: String,
    /// The value, when it is known.
    pub(super) value: Option<String>,
}

/// Where a `cd` has gone.
#[derive(Debug, Clone)]
pub(super) struct Entered {
    pub(super) directory: Word,
    /// Whether later commands run only if it succeeded.
    pub(super) always: bool,
}

/// What a text inherits from the command line around it.
#[derive(Debug, Clone, Default)]
struct Context {
    depth: usize,
    /// Whether loops are repeated with each value of their variable.
    unrolls: bool,
    /// The variables of the loops around it, each with its present value.
    variables: Vec<(String, Word)>,
    piped: bool,
    entered: Option<Entered>,
}

/// Reads a command line as it is written: each command once, and the variables of loops unknown.
pub(super) fn read(text: &str) -> Script {
    read_with(text, false)
}

/// Reads a command line as it runs: the commands of a loop once for each value of its variable. A
/// variable may be set again in ways that this does not see, so this reading is for commands that
/// are known to set none.
pub(super) fn read_unrolled(text: &str) -> Script {
    read_with(text, true)
}

fn read_with(text: &str, unrolls: bool) -> Script {
    let mut script = Script::default();
    read_into(text, Context { unrolls, ..Context::default() }, &mut script);
    script
}

fn read_into(text: &str, context: Context, script: &mut Script) {
    if context.depth > MAX_DEPTH {
        script.doubts.push("commands are nested deeper than they are followed".into());
        script.unread.push(text.to_owned());
        return;
    }
    let parsed = gate::admit(text)
        .and_then(|admitted| Ok((gate::parse(&admitted.text)?, admitted.here_documents)));
    match parsed {
        Ok((program, here_documents)) => {
            // Each was the input of a `cat`.
            script.commands.extend((0..here_documents).map(|_| Simple::of(&["cat"])));
            walk::program(&program, context, script);
        }
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
    let is_plain = command.doubts.is_empty()
        && command.assigned.is_empty()
        && command.inputs.is_empty()
        && script.doubts.is_empty();
    if !is_plain {
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
