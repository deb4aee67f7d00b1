//! The rules that together cover a command line: every simple command in it, each by a rule that
//! names it.

use std::io;
use std::path::{Component, Path, PathBuf};

use super::super::call::Call;
use super::super::known::{self, Effect};
use super::super::paths::{Entry, PathResolver, resolve};
use super::super::pattern::CommandPattern;
use super::super::shell::programs::{self, Nature};
use super::super::shell::{self, MAX_DEPTH, Script, Simple, Word};
use super::{Matcher, lists, show};

/// The most commands of one line for which directories are looked through.
const MAX_TREES: usize = 8;

/// The place of a command in its line, which decides which rules cover it.
#[derive(Clone, Copy)]
struct Place<'p> {
    /// Whether it is the only command, so that its changes reach no other.
    alone: bool,
    /// Whether another command gives it its input.
    piped: bool,
    /// Whether another command of the line may make files, which its file patterns then match.
    beside_makers: bool,
    /// Whether another command of the line may change where a path leads.
    beside_movers: bool,
    /// The directory below the session's that the line has entered.
    directory: Option<&'p Path>,
    /// The commands that print the names which it gets as further arguments, first to last.
    names_from: &'p [&'p Simple],
    depth: usize,
}

/// The file system while another command changes it: nothing is known of any path.
struct Changing;

impl PathResolver for Changing {
    fn look(&self, _: &Path) -> io::Result<Entry> {
        Err(io::Error::from(io::ErrorKind::WouldBlock))
    }
}

impl Matcher<'_> {
    /// Returns the rules that together cover every command of the script, or why there are none.
    pub(super) fn cover(&self, script: &Script) -> Result<Vec<usize>, String> {
        let mut covering = Vec::new();
        let place = Place {
            alone: true,
            piped: false,
            beside_makers: false,
            beside_movers: false,
            directory: None,
            names_from: &[],
            depth: 0,
        };
        self.cover_script(script, place, &mut covering)?;
        covering.sort_unstable();
        covering.dedup();
        if covering.is_empty() {
            Err("the command runs nothing that a rule names".into())
        } else {
            Ok(covering)
        }
    }

    fn cover_script(
        &self,
        script: &Script,
        place: Place<'_>,
        covering: &mut Vec<usize>,
    ) -> Result<(), String> {
        if place.depth > MAX_DEPTH {
            return Err("commands are nested deeper than they are followed".into());
        }
        if let Some(doubt) = script.doubts.first() {
            return Err(doubt.clone());
        }
        let looks = |it: &&Simple| {
            let gives_names = matches!(programs::nature(&it.words), Nature::RunsWithMore(_));
            gives_names || programs::reads_tree(&it.words)
        };
        if script.commands.iter().filter(looks).count() > MAX_TREES {
            return Err("the command reads more directories than are looked through".into());
        }
        let is_only = script.commands.len() == 1;
        let makes = |command: &Simple| {
            let is_quiet = command.words.is_empty() || command.enters;
            !is_quiet && makes_files(&command.words)
        };
        let beside_makers = place.beside_makers || !is_only && script.commands.iter().any(makes);
        for (at, command) in script.commands.iter().enumerate() {
            if let Some(doubt) = command.doubts.first() {
                return Err(doubt.clone());
            }
            let alone = is_only && place.depth == 0;
            let mut others = script.commands.iter().enumerate().filter(|(other, _)| *other != at);
            let beside_movers =
                place.beside_movers || others.any(|(_, other)| programs::moves_paths(&other.words));
            let place = Place { alone, beside_makers, beside_movers, ..place };
            if command.enters && !alone {
                self.entered(&command.words, place)?;
                continue;
            }
            // Harmless variables by themselves.
            if command.words.is_empty() && command.inputs.is_empty() && !command.assigned.is_empty()
            {
                continue;
            }
            let names_from = before(script, command);
            let piped = place.piped || command.piped || !command.inputs.is_empty();
            let place = Place { piped, names_from: &names_from, ..place };
            let entered = match &command.entered {
                Some(entered) => {
                    let words = [Word::Literal("cd".into()), entered.directory.clone()];
                    Some((self.entered(&words, place)?, entered.always))
                }
                None => None,
            };
            if let Some((Some(directory), _)) = &entered {
                let place = Place { directory: Some(directory), ..place };
                self.cover_simple(command, place, covering)?;
            }
            if !matches!(entered, Some((Some(_), true))) {
                self.cover_simple(command, place, covering)?;
            }
        }
        Ok(())
    }

    fn cover_simple(
        &self,
        command: &Simple,
        place: Place<'_>,
        covering: &mut Vec<usize>,
    ) -> Result<(), String> {
        let call = self.call_in(place);
        for input in &command.inputs {
            if !known::is_readable(input, &call) {
                return Err(format!("its input is `{}`", input.as_written()));
            }
        }
        self.cover_command(&command.words, place, covering)
    }

    /// Returns the call as it is in the directory that the line has entered, where nothing is known
    /// of a path that another command may move.
    fn call_in<'c>(&'c self, place: Place<'c>) -> Call<'c> {
        let paths = if place.beside_movers { &Changing } else { self.call.paths };
        let working_dir = place.directory.unwrap_or(self.call.working_dir);
        Call { paths, working_dir, ..*self.call }
    }

    /// Returns the directory below the session's that a `cd` enters, without links on the way:
    /// `None` for the session's own.
    fn entered(&self, words: &[Word], place: Place<'_>) -> Result<Option<PathBuf>, String> {
        let unknown = || format!("`{}` changes what other commands mean", show(words));
        let directory = words.get(1).and_then(Word::literal).ok_or_else(unknown)?;
        let call = self.call_in(place);
        let here = resolve(call.paths, call.working_dir).map_err(|_| unknown())?;
        let there = call.working_dir.join(directory);
        let is_plain = |component| matches!(component, Component::Normal(_) | Component::CurDir);
        let is_simple =
            directory.starts_with('/') || Path::new(directory).components().all(is_plain);
        let real = resolve(call.paths, &there).map_err(|_| unknown())?;
        if !is_simple || directory.is_empty() || directory.starts_with('-') {
            return Err(unknown());
        }
        if real == here {
            return Ok(place.directory.map(Path::to_owned));
        }
        let below = there.strip_prefix(call.working_dir).or_else(|_| there.strip_prefix(&here));
        match below {
            Ok(below) if here.join(below) == real && known::is_directory(&real, &call) => {
                Ok(Some(real))
            }
            _ => Err(unknown()),
        }
    }

    fn cover_command(
        &self,
        words: &[Word],
        place: Place<'_>,
        covering: &mut Vec<usize>,
    ) -> Result<(), String> {
        let Some(program) = words.first().and_then(Word::literal) else {
            return Err("the program's name is known only when it runs".into());
        };
        // The rules were made for the session's directory. In another one programs may obey other
        // files, and a rule's own words mean other paths.
        let is_elsewhere = place.directory.is_some() && !programs::is_harmless_builtin(words);
        if is_elsewhere && (!only_shows(words) || program == "git") {
            return Err(format!("`{}` would run in another directory", show(words)));
        }
        let mut why = None;
        for &at in
            self.index.allows.get(program).into_iter().flatten().filter(|&&at| (self.holds)(at))
        {
            let Some(pattern) = self.pattern(at) else { continue };
            match pattern {
                CommandPattern::Exact { words: named, .. } => {
                    if place.directory.is_some()
                        || !named.as_ref().is_some_and(|named| is_exactly(words, named))
                    {
                        continue;
                    }
                    // The rule names this command word by word, but its changes reach commands
                    // whose rules do not expect them.
                    if !place.alone && programs::nature(words) == Nature::Changes {
                        why.get_or_insert(format!(
                            "`{}` changes what other commands mean",
                            show(words)
                        ));
                        continue;
                    }
                    // The rule's author read the command but not its input, which another command
                    // writes.
                    if place.piped && self.takes_input(words, place).is_err() {
                        why.get_or_insert(format!(
                            "`{}` gets its input from another command",
                            show(words)
                        ));
                        continue;
                    }
                    covering.push(at);
                    return Ok(());
                }
                CommandPattern::Prefix { words: named } => {
                    if !starts_with(words, named) {
                        continue;
                    }
                    let before = covering.len();
                    let named = if place.directory.is_some() { 1 } else { named.len() };
                    match self.cover_arguments(words, named, place, covering) {
                        Ok(()) => {
                            covering.push(at);
                            return Ok(());
                        }
                        Err(reason) => {
                            covering.truncate(before);
                            why.get_or_insert(reason);
                        }
                    }
                }
            }
        }
        if programs::is_harmless_builtin(words)
            || programs::needs_no_rule(words) && self.check(words, 1, place).is_ok()
        {
            return Ok(());
        }
        Err(why.unwrap_or_else(|| format!("no rule covers `{}`", show(words))))
    }

    /// Checks that the words after those that a rule names are covered: they are arguments known to
    /// be harmless, or a command that is itself covered.
    fn cover_arguments(
        &self,
        words: &[Word],
        named: usize,
        place: Place<'_>,
        covering: &mut Vec<usize>,
    ) -> Result<(), String> {
        let inner = Place { alone: false, depth: place.depth + 1, ..place };
        let given = words.get(named..).unwrap_or_default();
        if let Some(pattern) = given.iter().find(|word| may_become_option(word, place)) {
            return Err(format!(
                "`{0}` may match a name that begins with a dash, which another command of the line \
                 could make; `./{0}` may not",
                pattern.as_written()
            ));
        }
        match programs::nature(words) {
            Nature::Plain => {
                if place.piped {
                    self.takes_input(words, place)?;
                }
                self.check(words, named, place)?;
                self.may_edit(words, place, covering)
            }
            Nature::Runs(start) => {
                if place.depth >= MAX_DEPTH {
                    return Err("commands are nested deeper than they are followed".into());
                }
                self.cover_command(words.get(start..).unwrap_or_default(), inner, covering)
            }
            Nature::Script(text) => {
                self.cover_script(&shell::read_unrolled(&text), inner, covering)
            }
            Nature::Hidden { named: Some(enough) } if named >= enough && !place.piped => {
                self.check(words, named, place)
            }
            Nature::RunsWithMore(start) => {
                let call = self.call_in(place);
                let run = words.get(start..).unwrap_or_default();
                if place.beside_makers {
                    return Err(format!(
                        "another command may make names that `{}` takes for something else",
                        show(words)
                    ));
                }
                lists::check(place.names_from, words, run, &call)?;
                // Whatever the names are, the command takes any number of them.
                let more = ["listed-1", "listed-2"].map(|name| Word::Literal(name.into()));
                self.cover_command(&[run, &more].concat(), inner, covering)
            }
            Nature::Hidden { .. } => {
                Err(format!("what `{}` would run cannot be seen", show(words)))
            }
            Nature::Changes => {
                // The next command starts in the working directory again, so a lone `cd` changes
                // nothing.
                let moves = words.first().and_then(Word::literal) == Some("cd") && words.len() <= 2;
                let plain = words.iter().all(|word| !matches!(word, Word::Opaque(_)));
                if place.alone && moves && plain {
                    Ok(())
                } else {
                    Err(format!("`{}` changes what other commands mean", show(words)))
                }
            }
        }
    }

    /// Checks that the arguments are known to be harmless, also while the other commands run.
    fn check(&self, words: &[Word], named: usize, place: Place<'_>) -> Result<(), String> {
        let words = &known::plain_test(words);
        let in_place = Call { paths: self.call.paths, ..self.call_in(place) };
        known::check(words, named, &in_place)?;
        // Git follows no links below the top of the repository, and the project's own code can read
        // what it likes.
        let follows = words.first().and_then(Word::literal) != Some("git")
            && known::entry_of(words).is_some_and(|it| it.effect != Effect::RunsProject);
        if place.beside_movers && follows {
            known::check(words, named, &self.call_in(place)).map_err(|_| {
                format!("another command may change where the paths of `{}` lead", show(words))
            })?;
        }
        if words.first().and_then(Word::literal) == Some("npx") {
            known::is_in_project(words, self.call)?;
        }
        Ok(())
    }

    /// Checks that rules for `Edit` allow what a command changes in files.
    fn may_edit(
        &self,
        words: &[Word],
        place: Place<'_>,
        covering: &mut Vec<usize>,
    ) -> Result<(), String> {
        if known::entry_of(words).is_none_or(|entry| entry.effect != Effect::Edits) {
            return Ok(());
        }
        // Other systems take the word after `-i` for a part of a name.
        if !cfg!(target_os = "linux") {
            return Err(format!("`{}` is read differently on this system", show(words)));
        }
        let call = self.call_in(place);
        let paths = known::paths_of(words, &call).unwrap_or_default();
        if paths.is_empty() {
            return Err(format!("`{}` names no file", show(words)));
        }
        for path in paths {
            let allowed = path.literal().and_then(|path| (self.edits)(path));
            covering.extend(allowed.ok_or_else(|| {
                format!(
                    "no rule allows to edit `{}`, which `{}` does",
                    path.as_written(),
                    show(words)
                )
            })?);
        }
        Ok(())
    }

    /// Checks that a command is known not to execute its input. No table lists a program that does,
    /// but the project's own code may.
    fn takes_input(&self, words: &[Word], place: Place<'_>) -> Result<(), String> {
        self.check(words, 0, place)?;
        if known::entry_of(words).is_some_and(|entry| entry.effect == Effect::RunsProject) {
            return Err(format!(
                "`{}` runs code of the project, which may execute what another command gives it",
                show(words)
            ));
        }
        Ok(())
    }
}

/// Returns the commands before this one in its pipeline, first to last; none if they are not all
/// simple.
fn before<'s>(script: &'s Script, command: &'s Simple) -> Vec<&'s Simple> {
    let previous =
        |it: &&'s Simple| script.commands.get(it.reads_from?).filter(|_| it.inputs.is_empty());
    let mut before: Vec<_> = std::iter::successors(previous(&command), previous).collect();
    before.reverse();
    before
}

/// Says whether a command may make files.
fn makes_files(words: &[Word]) -> bool {
    match programs::nature(words) {
        Nature::Runs(start) | Nature::RunsWithMore(start) => {
            makes_files(words.get(start..).unwrap_or_default())
        }
        _ => !only_shows(words) && !programs::is_harmless_builtin(words),
    }
}

/// Says whether a command is known to change nothing.
fn only_shows(words: &[Word]) -> bool {
    known::entry_of(words).is_some_and(|entry| entry.effect == Effect::Shows)
}

/// Says whether the shell may make an option of a file pattern that was none when it was judged.
fn may_become_option(word: &Word, place: Place<'_>) -> bool {
    place.beside_makers && matches!(word, Word::Glob { marked, .. } if known::begins_anyhow(marked))
}

fn starts_with(words: &[Word], named: &[String]) -> bool {
    words.len() >= named.len()
        && words.iter().zip(named).all(|(word, name)| word.literal() == Some(name))
}

/// Returns whether the command is exactly these words.
fn is_exactly(words: &[Word], named: &[String]) -> bool {
    words.len() == named.len() && starts_with(words, named)
}
