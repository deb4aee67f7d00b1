//! Turns the syntax tree into simple commands and doubts. The arms of each match are written out,
//! so that a construct added to the parser is a compile error here, not a hole.

use brush_parser::ast::{
    AndOr, Assignment as RawAssignment, AssignmentValue, BinaryPredicate, Command,
    CommandPrefixOrSuffixItem as Item, CompoundCommand, CompoundList, ExtendedTestExpr,
    IoFileRedirectKind, IoFileRedirectTarget, IoRedirect, Pipeline, ProcessSubstitutionKind,
    Program, RedirectList, SimpleCommand, SubshellCommand, UnaryPredicate, Word as RawWord,
};

use super::programs::{is_harmless_assignment, is_loop_variable, may_be_obeyed};
use super::word::{Word, decode};
use super::{Assignment, Context, Entered, Script, Simple, here, read_into};

/// The most values with which a loop is unrolled.
const MAX_VALUES: usize = 16;

/// The most commands that a loop is unrolled to.
const MAX_COMMANDS: usize = 512;

pub(super) fn program(program: &Program, context: Context, script: &mut Script) {
    let mut walker = Walker { context, in_loop: false, script };
    for list in &program.complete_commands {
        walker.list(list);
    }
}

struct Walker<'a> {
    /// What the part being walked inherits.
    context: Context,
    /// Whether the part being walked may run again after what follows it.
    in_loop: bool,
    script: &'a mut Script,
}

/// What a redirection does to a command.
#[derive(Default)]
struct Redirected {
    /// Why no rule covers the command.
    doubts: Vec<String>,
    /// The files that become its input.
    inputs: Vec<Word>,
    /// Whether one of its streams goes where another goes.
    joins_streams: bool,
}

impl Walker<'_> {
    fn doubt(&mut self, reason: impl Into<String>) {
        self.script.doubts.push(reason.into());
    }

    fn unread(&mut self, text: &str) {
        self.script.unread.push(here::restore(text));
    }

    fn list(&mut self, list: &CompoundList) {
        for item in &list.0 {
            self.pipeline(&item.0.first);
            for next in &item.0.additional {
                let pipeline = match next {
                    AndOr::And(pipeline) => pipeline,
                    AndOr::Or(pipeline) => {
                        self.may_not_have_entered();
                        pipeline
                    }
                };
                self.pipeline(pipeline);
            }
            self.may_not_have_entered();
        }
    }

    /// Notes that what follows runs also where `cd` failed.
    fn may_not_have_entered(&mut self) {
        if let Some(entered) = &mut self.context.entered {
            entered.always = false;
        }
    }

    fn pipeline(&mut self, pipeline: &Pipeline) {
        if let [command] = pipeline.seq.as_slice() {
            let is_plain = !pipeline.bang && pipeline.timed.is_none();
            return self.command(command, None, is_plain);
        }
        let outer = self.context.clone();
        let mut previous = None;
        for (place, command) in pipeline.seq.iter().enumerate() {
            self.context.piped = outer.piped || place > 0;
            self.command(command, previous, false);
            let is_simple = matches!(command, Command::Simple(_));
            previous = self.script.commands.len().checked_sub(1).filter(|_| is_simple);
            // Each runs in a shell of its own.
            self.context.clone_from(&outer);
        }
    }

    fn subshell(&mut self, subshell: &SubshellCommand) {
        let outer = self.context.clone();
        self.list(&subshell.list);
        self.context = outer;
    }

    /// Walks a part that may run several times.
    fn repeated(&mut self, walk: impl FnOnce(&mut Self)) {
        let outer = std::mem::replace(&mut self.in_loop, true);
        walk(self);
        self.in_loop = outer;
    }

    /// Walks a command. `reads_from` is the simple command before it in the pipeline; a `cd` moves
    /// the shell only if it is alone.
    fn command(&mut self, command: &Command, reads_from: Option<usize>, is_alone: bool) {
        match command {
            Command::Simple(simple) => self.simple(simple, reads_from, is_alone),
            Command::Compound(compound, redirects) => {
                let start = self.script.commands.len();
                self.compound(compound);
                let redirected = self.redirects(redirects.as_ref());
                for command in self.script.commands.iter_mut().skip(start) {
                    command.inputs.extend(redirected.iter().cloned());
                }
            }
            Command::Function(function) => {
                // A function can shadow an allowed program.
                self.doubt(format!("defines a function (`{}`)", function.fname.value));
                self.compound(&function.body.0);
                self.redirects(function.body.1.as_ref());
            }
            Command::ExtendedTest(test, redirects) => {
                if !self.plain_test(&test.expr) {
                    self.doubt("has a `[[ … ]]` test, which can evaluate code");
                    self.unread(&test.to_string());
                }
                self.redirects(redirects.as_ref());
            }
        }
    }

    fn compound(&mut self, compound: &CompoundCommand) {
        match compound {
            CompoundCommand::Arithmetic(arithmetic) => {
                self.doubt("has arithmetic, which can evaluate code");
                self.unread(&arithmetic.to_string());
            }
            CompoundCommand::ArithmeticForClause(clause) => {
                self.doubt("has arithmetic, which can evaluate code");
                self.unread(&clause.to_string());
                self.repeated(|walker| walker.list(&clause.body.list));
            }
            CompoundCommand::BraceGroup(group) => self.list(&group.list),
            CompoundCommand::Subshell(subshell) => self.subshell(subshell),
            CompoundCommand::ForClause(clause) => {
                // `for PATH in …` sets `PATH`. The variables that matter are too many to list.
                let name = &clause.variable_name;
                if !is_loop_variable(name) {
                    self.doubt(format!("sets the variable `{name}`"));
                }
                if may_be_obeyed(name) {
                    let (name, written) = (name.clone(), String::new());
                    let assigned = vec![Assignment { name, written, value: None }];
                    self.script.commands.push(Simple { assigned, ..Simple::of(&[]) });
                }
                let mut values = Vec::new();
                for raw in clause.values.iter().flatten() {
                    let value = self.word(raw);
                    self.script.given.push(value.clone());
                    values.extend(numbers(&raw.value).unwrap_or_else(|| vec![value]));
                }
                if !values.iter().any(Word::is_computed) {
                    self.script.loops.push(name.clone());
                }
                self.for_each(name, &values, &clause.body.list);
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
                self.repeated(|walker| {
                    walker.list(&clause.0);
                    walker.list(&clause.1.list);
                });
            }
            CompoundCommand::Coprocess(coprocess) => {
                self.doubt("starts a coprocess");
                self.command(&coprocess.body, None, false);
            }
        }
    }

    /// Walks the body of a loop, with each value if all are known.
    fn for_each(&mut self, name: &str, values: &[Word], body: &CompoundList) {
        let is_known = |it: &Word| matches!(it, Word::Literal(_) | Word::Glob { .. });
        let unrolls = self.context.unrolls
            && (1..=MAX_VALUES).contains(&values.len())
            && values.iter().all(is_known);
        let start = self.script.commands.len();
        let mut is_walked = false;
        for value in values.iter().filter(|_| unrolls) {
            self.walk_with(name, value.clone(), body);
            let made = self.script.commands.len() - start;
            is_walked = made <= MAX_COMMANDS;
            if !is_walked {
                self.script.commands.truncate(start);
                break;
            }
        }
        if !is_walked {
            self.walk_with(name, Word::Opaque(String::new()), body);
        }
        // It keeps its last value.
        self.context.variables.retain(|(it, _)| it != name);
        self.context.variables.push((name.to_owned(), Word::Opaque(String::new())));
    }

    fn walk_with(&mut self, name: &str, value: Word, body: &CompoundList) {
        self.context.variables.push((name.to_owned(), value));
        self.repeated(|walker| walker.list(body));
        self.context.variables.pop();
    }

    /// Adds the parts of a test that evaluates nothing, each as a `test` of its own. Returns
    /// whether all of it is such a test.
    fn plain_test(&mut self, test: &ExtendedTestExpr) -> bool {
        match test {
            ExtendedTestExpr::And(left, right) | ExtendedTestExpr::Or(left, right) => {
                self.plain_test(left) && self.plain_test(right)
            }
            ExtendedTestExpr::Not(inner) | ExtendedTestExpr::Parenthesized(inner) => {
                self.plain_test(inner)
            }
            ExtendedTestExpr::UnaryTest(predicate, word) => {
                let is_plain = matches!(
                    predicate,
                    UnaryPredicate::FileExists
                        | UnaryPredicate::FileExistsAndIsDir
                        | UnaryPredicate::FileExistsAndIsRegularFile
                        | UnaryPredicate::FileExistsAndIsSymlink
                        | UnaryPredicate::FileExistsAndIsReadable
                        | UnaryPredicate::FileExistsAndIsNotZeroLength
                        | UnaryPredicate::FileExistsAndIsWritable
                        | UnaryPredicate::FileExistsAndIsExecutable
                        | UnaryPredicate::StringHasZeroLength
                        | UnaryPredicate::StringHasNonZeroLength
                );
                let word = self.word(word);
                self.test(&[Word::Literal(predicate.to_string()), word]);
                is_plain
            }
            ExtendedTestExpr::BinaryTest(predicate, left, right) => {
                let is_plain = matches!(
                    predicate,
                    BinaryPredicate::StringExactlyMatchesPattern
                        | BinaryPredicate::StringDoesNotExactlyMatchPattern
                        | BinaryPredicate::StringExactlyMatchesString
                        | BinaryPredicate::StringDoesNotExactlyMatchString
                );
                let (left, right) = (self.word(left), self.word(right));
                self.test(&[left, Word::Literal(predicate.to_string()), right]);
                is_plain
            }
        }
    }

    fn test(&mut self, given: &[Word]) {
        let mut command = Simple::of(&["test"]);
        // Between the brackets no pattern becomes the names of files.
        command.words.extend(given.iter().map(|word| match word {
            Word::Glob { raw, .. } => Word::Literal(raw.clone()),
            word => word.clone(),
        }));
        command.entered.clone_from(&self.context.entered);
        self.script.commands.push(command);
    }

    fn simple(&mut self, simple: &SimpleCommand, reads_from: Option<usize>, is_alone: bool) {
        let mut command = Simple {
            piped: self.context.piped,
            reads_from,
            entered: self.context.entered.clone(),
            ..Simple::of(&[])
        };
        let mut redirected = Redirected::default();
        for item in simple.prefix.iter().flat_map(|prefix| &prefix.0) {
            match item {
                Item::AssignmentWord(assignment, raw) => self.assign(assignment, raw, &mut command),
                Item::IoRedirect(redirect) => self.redirect(redirect, &mut redirected),
                Item::Word(raw) => {
                    command
                        .doubts
                        .push(format!("has a word before the program's name (`{}`)", raw.value));
                    self.word(raw);
                }
                Item::ProcessSubstitution(_, subshell) => {
                    command.doubts.push("has a process substitution".into());
                    self.subshell(subshell);
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
                Item::IoRedirect(redirect) => self.redirect(redirect, &mut redirected),
                Item::ProcessSubstitution(kind, subshell) => {
                    self.subshell(subshell);
                    let is_input = matches!(kind, ProcessSubstitutionKind::Read);
                    if self.context.unrolls && is_input {
                        // A file that only the commands in it write.
                        command.words.push(Word::Literal("/dev/null".into()));
                        command.piped = true;
                    } else {
                        command.words.push(Word::Opaque(here::restore(&subshell.to_string())));
                    }
                }
            }
        }
        command.doubts.append(&mut redirected.doubts);
        command.inputs.append(&mut redirected.inputs);
        command.prints_errors = redirected.joins_streams;
        if let [program, directory] = command.words.as_slice()
            && program.literal() == Some("cd")
            && is_alone
            && !self.in_loop
            && self.context.entered.is_none()
            && command.assigned.is_empty()
        {
            command.enters = true;
            self.context.entered = Some(Entered { directory: directory.clone(), always: true });
        }
        self.script.commands.push(command);
    }

    /// Notes a variable that is set for a command.
    fn assign(&mut self, assignment: &RawAssignment, raw: &RawWord, command: &mut Simple) {
        self.word(raw);
        let name = assignment.name.to_string();
        let value = match &assignment.value {
            AssignmentValue::Scalar(value) if !assignment.append => {
                decode(&value.value, &[]).word.literal().map(str::to_owned)
            }
            AssignmentValue::Scalar(_) | AssignmentValue::Array(_) => None,
        };
        if !is_harmless_assignment(&name, value.as_deref()) {
            command.doubts.push(format!("sets a variable (`{name}`)"));
        }
        let written = here::restore(&raw.value);
        command.assigned.push(Assignment { name, written, value });
    }

    /// Decodes a word and reads the commands inside it.
    fn word(&mut self, raw: &RawWord) -> Word {
        let decoded = decode(&raw.value, &self.context.variables);
        for inner in &decoded.scripts {
            let context = Context { depth: self.context.depth + 1, ..self.context.clone() };
            read_into(inner, context, self.script);
        }
        if decoded.unread {
            self.doubt(format!("has a word that is not understood (`{}`)", shorten(&raw.value)));
            self.unread(&raw.value);
        }
        decoded.word
    }

    /// Notes the file that a redirection writes, and says whether it is `/dev/null`.
    fn is_nowhere(&mut self, raw: &RawWord) -> bool {
        let word = self.word(raw);
        let nowhere = word == Word::Literal("/dev/null".into());
        self.script.files.push(word);
        nowhere
    }

    /// Notes the redirections of a group of commands, and returns the files that it reads.
    fn redirects(&mut self, redirects: Option<&RedirectList>) -> Vec<Word> {
        let mut redirected = Redirected::default();
        for redirect in redirects.iter().flat_map(|list| &list.0) {
            self.redirect(redirect, &mut redirected);
        }
        self.script.doubts.append(&mut redirected.doubts);
        redirected.inputs
    }

    /// Checks a redirection. `/dev/null` and copies of descriptors 0 to 2 are harmless for every
    /// command; whether a file may become its input depends on the command.
    fn redirect(&mut self, redirect: &IoRedirect, redirected: &mut Redirected) {
        redirected.joins_streams |= matches!(
            redirect,
            IoRedirect::OutputAndError(..)
                | IoRedirect::File(_, IoFileRedirectKind::DuplicateOutput, _)
        );
        let harmless = match redirect {
            IoRedirect::File(fd, kind, target) => match (kind, target) {
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
                (IoFileRedirectKind::Read, IoFileRedirectTarget::Filename(raw)) => {
                    let word = self.word(raw);
                    if word != Word::Literal("/dev/null".into()) {
                        redirected.inputs.push(word);
                    }
                    matches!(fd, None | Some(0))
                }
                (IoFileRedirectKind::ReadAndWrite, IoFileRedirectTarget::Filename(raw)) => {
                    let nowhere = self.is_nowhere(raw);
                    redirected.inputs.extend(self.script.files.last().cloned());
                    nowhere
                }
                (_, IoFileRedirectTarget::Filename(raw)) => self.is_nowhere(raw),
                (_, IoFileRedirectTarget::ProcessSubstitution(_, subshell)) => {
                    self.subshell(subshell);
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
                self.unread(&document.doc.value);
                false
            }
            IoRedirect::HereString(_, raw) => {
                self.word(raw);
                false
            }
        };
        if !harmless {
            let shown = shorten(&here::restore(&redirect.to_string()));
            redirected.doubts.push(format!("redirects (`{shown}`)"));
        }
    }
}

/// Returns the numbers of `{1..5}` or `$(seq 1 5)`.
fn numbers(raw: &str) -> Option<Vec<Word>> {
    let braces = raw.strip_prefix('{').and_then(|it| it.strip_suffix('}'));
    let seq = raw.strip_prefix("$(seq ").and_then(|it| it.strip_suffix(')'));
    let (first, last) = match (braces, seq) {
        (Some(range), _) => range.split_once("..")?,
        (None, Some(range)) => range.split_once(' ').unwrap_or(("1", range)),
        (None, None) => return None,
    };
    let (first, last) = (first.parse::<u16>().ok()?, last.parse::<u16>().ok()?);
    let few = usize::from(last.checked_sub(first)?) < MAX_VALUES;
    few.then(|| (first..=last).map(|number| Word::Literal(number.to_string())).collect())
}

/// Shortens a text for a message.
fn shorten(text: &str) -> String {
    const SHOWN: usize = 40;
    match text.char_indices().nth(SHOWN) {
        Some((at, _)) => format!("{}…", text.get(..at).unwrap_or_default()),
        None => text.to_owned(),
    }
}
