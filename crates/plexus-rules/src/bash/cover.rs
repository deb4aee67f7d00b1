//! The rules that together cover a command line: every simple command in it, each by a rule that
//! names it.

use std::io;
use std::path::Path;

use super::super::call::Call;
use super::super::known::{self, Effect};
use super::super::paths::{Entry, PathResolver};
use super::super::pattern::CommandPattern;
use super::super::shell::programs::{self, Nature};
use super::super::shell::{self, MAX_DEPTH, Script, Word};
use super::{Matcher, show};

/// The place of a command in its line, which decides which rules cover it.
#[derive(Clone, Copy)]
struct Place {
    /// Whether it is the only command, so that its changes reach no other.
    alone: bool,
    /// Whether another command gives it its input.
    piped: bool,
    /// Whether another command of the line may make files, which its file patterns then match.
    beside_makers: bool,
    /// Whether another command of the line may change where a path leads.
    beside_movers: bool,
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
        place: Place,
        covering: &mut Vec<usize>,
    ) -> Result<(), String> {
        if place.depth > MAX_DEPTH {
            return Err("commands are nested deeper than they are followed".into());
        }
        if let Some(doubt) = script.doubts.first() {
            return Err(doubt.clone());
        }
        let is_only = script.commands.len() == 1;
        let makes = |command: &shell::Simple| !only_shows(&command.words);
        let beside_makers = place.beside_makers || !is_only && script.commands.iter().any(makes);
        for (at, command) in script.commands.iter().enumerate() {
            if let Some(doubt) = command.doubts.first() {
                return Err(doubt.clone());
            }
            let alone = is_only && place.depth == 0;
            let piped = place.piped || command.piped;
            let mut others = script.commands.iter().enumerate().filter(|(other, _)| *other != at);
            let beside_movers =
                place.beside_movers || others.any(|(_, other)| programs::moves_paths(&other.words));
            let place = Place { alone, piped, beside_makers, beside_movers, ..place };
            self.cover_command(&command.words, place, covering)?;
        }
        Ok(())
    }

    fn cover_command(
        &self,
        words: &[Word],
        place: Place,
        covering: &mut Vec<usize>,
    ) -> Result<(), String> {
        let Some(program) = words.first().and_then(Word::literal) else {
            return Err("the program's name is known only when it runs".into());
        };
        if matches!(program, "true" | "false" | ":") && words.len() == 1 {
            return Ok(());
        }
        let mut why = None;
        for &at in
            self.index.allows.get(program).into_iter().flatten().filter(|&&at| (self.holds)(at))
        {
            let Some(pattern) = self.pattern(at) else { continue };
            match pattern {
                CommandPattern::Exact { words: named, .. } => {
                    if !named.as_ref().is_some_and(|named| is_exactly(words, named)) {
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
                    match self.cover_arguments(words, named.len(), place, covering) {
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
        Err(why.unwrap_or_else(|| format!("no rule covers `{}`", show(words))))
    }

    /// Checks that the words after those that a rule names are covered: they are arguments known to
    /// be harmless, or a command that is itself covered.
    fn cover_arguments(
        &self,
        words: &[Word],
        named: usize,
        place: Place,
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
                self.check(words, named, place)
            }
            Nature::Runs(start) => {
                if place.depth >= MAX_DEPTH {
                    return Err("commands are nested deeper than they are followed".into());
                }
                self.cover_command(words.get(start..).unwrap_or_default(), inner, covering)
            }
            Nature::Script(text) => self.cover_script(&shell::read(&text), inner, covering),
            Nature::Hidden { named: Some(enough) } if named >= enough && !place.piped => {
                self.check(words, named, place)
            }
            Nature::Hidden { .. } | Nature::RunsWithMore(_) => {
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
    fn check(&self, words: &[Word], named: usize, place: Place) -> Result<(), String> {
        known::check(words, named, self.call)?;
        // Git follows no links below the top of the repository, and the project's own code can read
        // what it likes.
        let follows = words.first().and_then(Word::literal) != Some("git")
            && known::entry_of(words).is_some_and(|it| it.effect != Effect::RunsProject);
        if place.beside_movers && follows {
            let call = Call { paths: &Changing, ..*self.call };
            known::check(words, named, &call).map_err(|_| {
                format!("another command may change where the paths of `{}` lead", show(words))
            })?;
        }
        Ok(())
    }

    /// Checks that a command is known not to execute its input. No table lists a program that does,
    /// but the project's own code may.
    fn takes_input(&self, words: &[Word], place: Place) -> Result<(), String> {
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

/// Says whether a command is known to change nothing.
fn only_shows(words: &[Word]) -> bool {
    known::entry_of(words).is_some_and(|entry| entry.effect == Effect::Shows)
}

/// Says whether the shell may make an option of a file pattern that was none when it was judged.
fn may_become_option(word: &Word, place: Place) -> bool {
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
