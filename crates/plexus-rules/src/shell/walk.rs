//! Turns the syntax tree into simple commands and doubts. The arms of each match are written out,
//! so that a construct added to the parser is a compile error here, not a hole.

use brush_parser::ast::{
    AndOr, Command, CommandPrefixOrSuffixItem as Item, CompoundCommand, CompoundList,
    IoFileRedirectKind, IoFileRedirectTarget, IoRedirect, Pipeline, Program, RedirectList,
    SimpleCommand, Word as RawWord,
};

use super::programs::may_be_obeyed;
use super::word::{Word, decode};
use super::{Script, Simple, read_into};

pub(super) fn program(program: &Program, depth: usize, script: &mut Script) {
    let mut walker = Walker { depth, piped: false, script };
    for list in &program.complete_commands {
        walker.list(list);
    }
}

struct Walker<'a> {
    depth: usize,
    /// Whether the part being walked gets its input from a pipe.
    piped: bool,
    script: &'a mut Script,
}

impl Walker<'_> {
    fn doubt(&mut self, reason: impl Into<String>) {
        self.script.doubts.push(reason.into());
    }

    fn list(&mut self, list: &CompoundList) {
        for item in &list.0 {
            self.pipeline(&item.0.first);
            for next in &item.0.additional {
                match next {
                    AndOr::And(pipeline) | AndOr::Or(pipeline) => self.pipeline(pipeline),
                }
            }
        }
    }

    fn pipeline(&mut self, pipeline: &Pipeline) {
        let outer = self.piped;
        for (place, command) in pipeline.seq.iter().enumerate() {
            self.piped = outer || place > 0;
            self.command(command);
        }
        self.piped = outer;
    }

    fn command(&mut self, command: &Command) {
        match command {
            Command::Simple(simple) => self.simple(simple),
            Command::Compound(compound, redirects) => {
                self.compound(compound);
                self.redirects(redirects.as_ref());
            }
            Command::Function(function) => {
                // A function can shadow an allowed program.
                self.doubt(format!("defines a function (`{}`)", function.fname.value));
                self.compound(&function.body.0);
                self.redirects(function.body.1.as_ref());
            }
            Command::ExtendedTest(test, redirects) => {
                self.doubt("has a `[[ … ]]` test, which can evaluate code");
                self.script.unread.push(test.to_string());
                self.redirects(redirects.as_ref());
            }
        }
    }

    fn compound(&mut self, compound: &CompoundCommand) {
        match compound {
            CompoundCommand::Arithmetic(arithmetic) => {
                self.doubt("has arithmetic, which can evaluate code");
                self.script.unread.push(arithmetic.to_string());
            }
            CompoundCommand::ArithmeticForClause(clause) => {
                self.doubt("has arithmetic, which can evaluate code");
                self.script.unread.push(clause.to_string());
                self.list(&clause.body.list);
            }
            CompoundCommand::BraceGroup(group) => self.list(&group.list),
            CompoundCommand::Subshell(subshell) => self.list(&subshell.list),
            CompoundCommand::ForClause(clause) => {
                // `for PATH in …` sets `PATH`. The variables that matter are too many to list, so
                // only a single lower-case letter passes.
                let name = &clause.variable_name;
                if name.len() != 1 || !name.starts_with(|c: char| c.is_ascii_lowercase()) {
                    self.doubt(format!("sets the variable `{name}`"));
                }
                if may_be_obeyed(name) {
                    self.script.commands.push(Simple {
                        words: Vec::new(),
                        doubts: Vec::new(),
                        assigned: vec![(name.clone(), String::new())],
                        piped: false,
                    });
                }
                for value in clause.values.iter().flatten() {
                    let value = self.word(value);
                    self.script.given.push(value.as_written().to_owned());
                }
                self.list(&clause.body.list);
            }
            CompoundCommand::CaseClause(clause) => {
                self.word(&clause.value);
                for case in &clause.cases {
                    for pattern in &case.patterns {
                        self.word(pattern);
                    }
                    if let Some(list) = &case.cmd {
                        self.list(list);
                    }
                }
            }
            CompoundCommand::IfClause(clause) => {
                self.list(&clause.condition);
                self.list(&clause.then);
                for other in clause.elses.iter().flatten() {
                    if let Some(condition) = &other.condition {
                        self.list(condition);
                    }
                    self.list(&other.body);
                }
            }
            CompoundCommand::WhileClause(clause) | CompoundCommand::UntilClause(clause) => {
                self.list(&clause.0);
                self.list(&clause.1.list);
            }
            CompoundCommand::Coprocess(coprocess) => {
                self.doubt("starts a coprocess");
                self.command(&coprocess.body);
            }
        }
    }

    fn simple(&mut self, simple: &SimpleCommand) {
        let mut command = Simple {
            words: Vec::new(),
            doubts: Vec::new(),
            assigned: Vec::new(),
            piped: self.piped,
        };
        for item in simple.prefix.iter().flat_map(|prefix| &prefix.0) {
            match item {
                Item::AssignmentWord(assignment, raw) => {
                    command.doubts.push(format!("sets a variable (`{}`)", assignment.name));
                    command.assigned.push((assignment.name.to_string(), raw.value.clone()));
                    self.word(raw);
                }
                Item::IoRedirect(redirect) => self.redirect(redirect, &mut command.doubts),
                Item::Word(raw) => {
                    command
                        .doubts
                        .push(format!("has a word before the program's name (`{}`)", raw.value));
                    self.word(raw);
                }
                Item::ProcessSubstitution(_, subshell) => {
                    command.doubts.push("has a process substitution".into());
                    self.list(&subshell.list);
                }
            }
        }
        if let Some(name) = &simple.word_or_name {
            let name = self.word(name);
            command.words.push(name);
        }
        for item in simple.suffix.iter().flat_map(|suffix| &suffix.0) {
            match item {
                Item::Word(raw) | Item::AssignmentWord(_, raw) => {
                    let word = self.word(raw);
                    command.words.push(word);
                }
                Item::IoRedirect(redirect) => self.redirect(redirect, &mut command.doubts),
                Item::ProcessSubstitution(_, subshell) => {
                    command.words.push(Word::Opaque(subshell.to_string()));
                    self.list(&subshell.list);
                }
            }
        }
        self.script.commands.push(command);
    }

    /// Decodes a word and reads the commands inside it.
    fn word(&mut self, raw: &RawWord) -> Word {
        let decoded = decode(&raw.value);
        for inner in &decoded.scripts {
            read_into(inner, self.depth + 1, self.script);
        }
        if decoded.unread {
            self.doubt(format!("has a word that is not understood (`{}`)", shorten(&raw.value)));
            self.script.unread.push(raw.value.clone());
        }
        decoded.word
    }

    /// Notes the file of a redirection, and says whether it is `/dev/null`.
    fn is_nowhere(&mut self, raw: &RawWord) -> bool {
        let word = self.word(raw);
        let nowhere = word == Word::Literal("/dev/null".into());
        self.script.files.push(word);
        nowhere
    }

    fn redirects(&mut self, redirects: Option<&RedirectList>) {
        let mut doubts = Vec::new();
        for redirect in redirects.iter().flat_map(|list| &list.0) {
            self.redirect(redirect, &mut doubts);
        }
        self.script.doubts.append(&mut doubts);
    }

    /// Checks a redirection. Only `/dev/null` and copies of descriptors 0 to 2 are harmless for
    /// every command.
    fn redirect(&mut self, redirect: &IoRedirect, doubts: &mut Vec<String>) {
        let harmless = match redirect {
            IoRedirect::File(_, kind, target) => match (kind, target) {
                (
                    IoFileRedirectKind::DuplicateInput | IoFileRedirectKind::DuplicateOutput,
                    IoFileRedirectTarget::Fd(fd),
                ) => (0..=2).contains(fd),
                (
                    IoFileRedirectKind::DuplicateInput | IoFileRedirectKind::DuplicateOutput,
                    IoFileRedirectTarget::Duplicate(raw),
                ) => {
                    // Checked on the raw text: `>&x` with any other word writes a file.
                    self.is_nowhere(raw);
                    matches!(raw.value.as_str(), "0" | "1" | "2")
                }
                (_, IoFileRedirectTarget::Filename(raw)) => self.is_nowhere(raw),
                (_, IoFileRedirectTarget::ProcessSubstitution(_, subshell)) => {
                    self.list(&subshell.list);
                    false
                }
                (_, IoFileRedirectTarget::Duplicate(raw)) => {
                    self.word(raw);
                    false
                }
                (_, IoFileRedirectTarget::Fd(_)) => false,
            },
            IoRedirect::OutputAndError(raw, _) => self.is_nowhere(raw),
            IoRedirect::HereDocument(_, document) => {
                self.script.unread.push(document.doc.value.clone());
                false
            }
            IoRedirect::HereString(_, raw) => {
                self.word(raw);
                false
            }
        };
        if !harmless {
            doubts.push(format!("redirects (`{}`)", shorten(&redirect.to_string())));
        }
    }
}

/// Shortens a text for a message.
fn shorten(text: &str) -> String {
    const SHOWN: usize = 40;
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}
