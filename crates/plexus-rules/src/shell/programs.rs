//! Programs that run other programs, and builtins that change what the next command means.
//!
//! An allow sees through a few wrappers (`timeout 5 git status`) and asks about all others. A deny
//! looks further: it searches all words of a command that may be run, and somebody is asked when
//! the command line does not show what runs.

use super::Word;
use super::names::{
    ASSIGNING, BUN_RUNS, CHANGING, EVALUATING, GIT_CHECKOUTS, GIT_COMMANDS, GIT_RUNNERS,
    GIT_VALUES, HARMLESS_VARIABLES, HIDING, INTERPRETERS, LINKING, LOOP_VARIABLES, NEED_NO_RULE,
    PLAIN_SCRIPT_OPTIONS, PROMPTING, READING_TREES, READING_TREES_BY_OPTION, RUNS_REST,
    SAME_PROGRAMS, SEARCHING, SHELLS,
};

/// The kinds of commands.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Nature {
    /// A program with arguments.
    Plain,
    /// Runs the words from here on as a command of their own.
    Runs(usize),
    /// The same, with further arguments that are not on the command line.
    RunsWithMore(usize),
    /// Runs this text as a script.
    Script(String),
    /// Runs something that the command line does not show, unless the rule names at least this many
    /// words.
    Hidden {
        /// How many words a rule must name to know what is run; `None`: no prefix rule is enough.
        named: Option<usize>,
    },
    /// Changes what later commands mean: variables, aliases, functions, the working directory.
    Changes,
}

/// Returns the part of a program's name that the lists use: `/usr/bin/env` is `env`.
pub(crate) fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// Says what kind of command these words are.
pub(crate) fn nature(words: &[Word]) -> Nature {
    let Some(program) = words.first().and_then(Word::literal) else {
        return Nature::Hidden { named: None };
    };
    let word = |i: usize| words.get(i).and_then(Word::literal);
    let starts_command = |i: usize| {
        word(i).is_some_and(|w| !w.is_empty() && !w.starts_with('-') && !w.contains('='))
    };
    let hidden = Nature::Hidden { named: None };
    let runs =
        |i: usize| if starts_command(i) { Nature::Runs(i) } else { Nature::Hidden { named: None } };
    match base_name(program) {
        // `command -v x` only says where x is.
        "command" if word(1) == Some("-v") => Nature::Plain,
        "time" | "nohup" | "setsid" | "command" | "builtin" | "exec" | "sudo" | "doas" | "env" => {
            runs(1)
        }
        "timeout" | "gtimeout" => match word(1) {
            Some(duration)
                if duration.trim_end_matches(['s', 'm', 'h', 'd']).parse::<f64>().is_ok() =>
            {
                runs(2)
            }
            _ => hidden,
        },
        "nice" | "ionice" => match (word(1), word(2)) {
            (Some("-n" | "-c"), Some(level)) if level.parse::<i32>().is_ok() => runs(3),
            _ => runs(1),
        },
        "stdbuf" => {
            let options = words
                .iter()
                .skip(1)
                .take_while(|w| w.literal().is_some_and(|w| w.starts_with('-') && w.len() > 2));
            runs(1 + options.count())
        }
        "xargs" | "gxargs" => match xargs_command(words) {
            Some(start) if starts_command(start) => Nature::RunsWithMore(start),
            _ => hidden,
        },
        name if is_shell(name) => match (word(1), word(2)) {
            (Some("-c"), Some(script)) if words.len() == 3 => Nature::Script(script.to_owned()),
            // A script file: a rule that names it knows what is run.
            (Some(file), _) if !file.starts_with('-') => Nature::Hidden { named: Some(2) },
            _ => hidden,
        },
        "eval" => match words.iter().skip(1).map(Word::literal).collect::<Option<Vec<_>>>() {
            Some(parts) => Nature::Script(parts.join(" ")),
            None => hidden,
        },
        name if is_interpreter(name) => match word(1) {
            Some(file) if !file.starts_with('-') => Nature::Hidden { named: Some(2) },
            // `python -m pytest` and `node --version` are in the tables.
            _ if crate::known::entry_of(words).is_some() => Nature::Plain,
            _ => hidden,
        },
        // The programs that projects have in `node_modules` are in the tables.
        "npx" if crate::known::entry_of(words).is_some() => Nature::Plain,
        name if HIDING.contains(&name) || is_loader(name) => hidden,
        name if CHANGING.contains(&name) => Nature::Changes,
        _ => Nature::Plain,
    }
}

/// Returns where the command of `xargs` starts, after the options that only say how to split its
/// input.
fn xargs_command(words: &[Word]) -> Option<usize> {
    let mut at = 1;
    loop {
        match words.get(at)?.literal()? {
            "-0" | "-r" | "-t" | "--null" | "--no-run-if-empty" => at += 1,
            "-n" | "-P" | "-L" => {
                words.get(at + 1)?.literal()?.parse::<u32>().ok()?;
                at += 2;
            }
            option if option.starts_with('-') => {
                let letters = option.strip_prefix('-')?;
                let number = letters.strip_prefix(['n', 'P', 'L'])?;
                number.parse::<u32>().ok()?;
                at += 1;
            }
            _ => return Some(at),
        }
    }
}

/// Says whether a program is a shell; `bash-5.2` is `bash`.
fn is_shell(name: &str) -> bool {
    SHELLS.contains(&name) || SHELLS.contains(&without_version(name))
}

/// Says whether a program runs code that it is given; `python3.12` is `python`.
fn is_interpreter(name: &str) -> bool {
    INTERPRETERS.contains(&without_version(name))
}

/// Says whether a program is a shell or an interpreter, in upper or lower case.
pub(crate) fn runs_code(program: &str) -> bool {
    let name = base_name(program).to_lowercase();
    is_shell(&name) || is_interpreter(&name)
}

/// Says whether a program is the loader, which runs the program that it is given.
fn is_loader(name: &str) -> bool {
    ["ld-linux", "ld-musl", "ld.so"].iter().any(|loader| name.starts_with(loader))
}

/// Returns the name without its version, also where it is written as on Windows.
fn without_version(name: &str) -> &str {
    let endings = [".exe", ".cmd", ".bat"];
    let name = endings.iter().find_map(|it| name.strip_suffix(it)).unwrap_or(name);
    let plain = name.trim_end_matches(|c: char| c.is_ascii_digit() || matches!(c, '.' | '-'));
    if plain.is_empty() { name } else { plain }
}

/// Returns one name for all programs that may be the same: `nodejs` and `node20` are `node`.
pub(crate) fn family(name: &str) -> &str {
    let is_there =
        |names: &&&[&str]| names.contains(&name) || names.contains(&without_version(name));
    match SAME_PROGRAMS.iter().find(is_there) {
        Some([first, ..]) => first,
        Some([]) | None => without_version(name),
    }
}

/// What a command may run, as rules that deny must assume.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Only the program itself is run.
    Itself,
    /// Any of its words may be run.
    Words,
    /// It runs or changes something that the command line does not show.
    Beyond,
}

/// Returns what a command may run, as rules that deny must assume. A wrapper such as `nice` counts
/// as running only itself here, because the caller checks the command inside it separately.
pub(crate) fn reach(words: &[Word]) -> Reach {
    let Some(name) = words.first().and_then(Word::literal).map(base_name) else {
        return Reach::Beyond;
    };
    let arguments = || words.iter().skip(1).map(Word::as_written);
    match nature(words) {
        Nature::Runs(_) | Nature::RunsWithMore(_) | Nature::Script(_) => Reach::Itself,
        Nature::Hidden { .. } => match words.get(1).and_then(Word::literal) {
            // A script file for an interpreter is a program like any other; a file of shell
            // commands is not.
            Some(file)
                if is_interpreter(name)
                    && !file.starts_with('-')
                    && !PROMPTING.contains(&without_version(name))
                    && !matches!(file, "eval" | "repl") =>
            {
                Reach::Itself
            }
            _ => Reach::Beyond,
        },
        Nature::Changes if EVALUATING.contains(&name) => Reach::Beyond,
        // The shell evaluates a subscript, including commands in it.
        Nature::Changes if arguments().any(|text| text.contains('[')) => Reach::Beyond,
        Nature::Changes => Reach::Itself,
        Nature::Plain => match name {
            "git" => git_reach(words),
            // A setting on the command line can define an alias.
            "cargo" if arguments().any(|text| text.starts_with("--config")) => Reach::Beyond,
            "printf" | "test" | "["
                if arguments().any(|text| text.contains("[$") || text.contains("[`")) =>
            {
                Reach::Beyond
            }
            "awk" | "gawk" | "mawk" | "nawk" => {
                scripts_are_plain(words, "", "Fv", crate::known::is_plain_awk)
            }
            "sed" | "gsed" => scripts_are_plain(words, "nErsuzb", "l", crate::known::is_plain_sed),
            // `bun exec` has a shell of its own.
            "bun" if arguments().any(|it| BUN_RUNS.iter().any(|run| it.starts_with(run))) => {
                Reach::Beyond
            }
            name if SEARCHING.contains(&name) => {
                let runs = arguments().any(|text| runs_matches(name, text).is_some());
                if runs { Reach::Words } else { Reach::Itself }
            }
            name => {
                let rest = RUNS_REST.iter().find(|(program, _)| *program == name);
                let named = |list: &[&str]| arguments().any(|word| list.contains(&word));
                if rest.is_some_and(|(_, list)| named(list)) { Reach::Words } else { Reach::Itself }
            }
        },
    }
}

/// Says what a git command may run. A name that git does not define is an alias, which runs
/// anything; settings on the command line can define one.
fn git_reach(words: &[Word]) -> Reach {
    let mut rest = words.iter().skip(1);
    while let Some(word) = rest.next() {
        match word.literal() {
            None => return Reach::Beyond,
            Some("-c" | "--config-env" | "--exec-path") => return Reach::Beyond,
            Some(option)
                if option.starts_with("--config-env=") || option.starts_with("--exec-path=") =>
            {
                return Reach::Beyond;
            }
            Some(option) if GIT_VALUES.contains(&option) => {
                if rest.next().is_some_and(|value| value.literal().is_none()) {
                    return Reach::Beyond;
                }
            }
            Some(option) if option.starts_with('-') => {}
            Some(name) if GIT_RUNNERS.contains(&name) => return Reach::Words,
            Some(name) if GIT_COMMANDS.contains(&name) => return Reach::Itself,
            Some(_) => return Reach::Beyond,
        }
    }
    Reach::Itself
}

/// Says whether all scripts on the command line of awk or sed are plain. A script follows `-e`, or
/// else is the first word that is not an option. An option that is none of these `flags`, and takes
/// none of these `values`, may name a file with a script.
fn scripts_are_plain(words: &[Word], flags: &str, values: &str, plain: fn(&str) -> bool) -> Reach {
    let mut scripts: Vec<Option<&str>> = Vec::new();
    let mut operands = Vec::new();
    let mut rest = words.iter().skip(1).map(Word::literal);
    while let Some(word) = rest.next() {
        let long = word.and_then(|word| word.strip_prefix("--"));
        let letters = word.and_then(|word| word.strip_prefix('-')).filter(|it| !it.is_empty());
        match (long, letters) {
            (Some(""), _) => operands.extend(rest.by_ref()),
            (Some("expression" | "source"), _) => scripts.push(rest.next().flatten()),
            (Some("assign" | "field-separator" | "line-length"), _) => {
                rest.next();
            }
            (Some(name), _) => match name.split_once('=') {
                Some(("expression" | "source", script)) => scripts.push(Some(script)),
                Some(("assign" | "field-separator" | "line-length" | "in-place", _)) => {}
                None if PLAIN_SCRIPT_OPTIONS.contains(&name) => {}
                _ => return Reach::Beyond,
            },
            (None, Some(letters)) => {
                for (at, letter) in letters.char_indices() {
                    let value = letters.get(at + letter.len_utf8()..).filter(|it| !it.is_empty());
                    match letter {
                        'e' => scripts.push(value.or_else(|| rest.next().flatten())),
                        // What follows is the end of the names of the copies.
                        'i' if !flags.is_empty() => {}
                        letter if values.contains(letter) => {
                            value.is_none().then(|| rest.next());
                        }
                        letter if flags.contains(letter) => continue,
                        _ => return Reach::Beyond,
                    }
                    break;
                }
            }
            (None, None) => operands.push(word),
        }
    }
    if scripts.is_empty() {
        scripts.extend(operands.first());
    }
    let shows = |script: &Option<&str>| script.is_some_and(plain);
    if scripts.iter().all(shows) { Reach::Itself } else { Reach::Beyond }
}

/// Says whether a command may make links, or files that were links before: a path that was followed
/// before it may lead elsewhere afterwards. The words are searched one by one, because they may be
/// a script or what a wrapper runs.
pub(crate) fn moves_paths(words: &[Word]) -> bool {
    let texts = words.iter().map(Word::as_written);
    let mut names = texts.flat_map(|text| text.split([' ', '\t', '\n', ';', '&', '|', '(', ')']));
    names.any(|name| LINKING.contains(&base_name(name)) || GIT_CHECKOUTS.contains(&name))
}

/// What a search runs for its matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RunForMatches<'a> {
    /// The next words.
    NextWords,
    /// This program, with the next words.
    Program(&'a str),
}

/// Says what a word makes a search run for each match: `find -exec`, `fd -Hx`, `fd --exec=cat`.
pub(crate) fn runs_matches<'a>(program: &str, word: &'a str) -> Option<RunForMatches<'a>> {
    let run = |rest: &'a str| match rest.strip_prefix('=').unwrap_or(rest) {
        "" => RunForMatches::NextWords,
        program => RunForMatches::Program(program),
    };
    if matches!(program, "find" | "gfind") {
        let runs = ["-exec", "-ok"].iter().any(|it| word.starts_with(it));
        return runs.then_some(RunForMatches::NextWords);
    }
    if let Some(name) = word.strip_prefix("--") {
        let rest = name.strip_prefix("exec")?;
        return Some(run(rest.strip_prefix("-batch").unwrap_or(rest)));
    }
    let letters = word.strip_prefix('-')?;
    letters.find(['x', 'X']).map(|at| run(letters.get(at + 1..).unwrap_or_default()))
}

/// Says whether a command reads all files below a directory.
pub(crate) fn reads_tree(words: &[Word]) -> bool {
    let Some(name) = words.first().and_then(Word::literal).map(base_name) else { return false };
    let name = family(name);
    let mut arguments = words.iter().skip(1).map(Word::as_written);
    if READING_TREES.contains(&name) {
        return !arguments.any(|it| it == "--files");
    }
    if SEARCHING.contains(&name) {
        return !searches_by_name(words) && arguments.any(|it| runs_matches(name, it).is_some());
    }
    let Some((_, letters, names)) = READING_TREES_BY_OPTION.iter().find(|it| it.0 == name) else {
        return false;
    };
    let first = words.get(1).and_then(Word::literal).unwrap_or_default();
    let is_option = |it: &str| match it.strip_prefix("--") {
        // Programs take abbreviations.
        Some(long) => {
            let long = long.split('=').next().unwrap_or(long);
            !long.is_empty() && names.iter().any(|name| name.starts_with(long))
        }
        None => it.strip_prefix('-').is_some_and(|it| it.contains(|c| letters.contains(c))),
    };
    // tar takes the letters of its first word without a dash.
    arguments.any(is_option) || name == "tar" && first.contains(|c| letters.contains(c))
}

/// Says whether a search finds only what has one of the names in its words.
pub(crate) fn searches_by_name(words: &[Word]) -> bool {
    let is_one_of =
        |names: &[&str]| words.iter().any(|it| names.contains(&it.literal().unwrap_or_default()));
    let is_find = words.first().and_then(Word::literal).map(base_name).map(family) == Some("find");
    is_find && is_one_of(&["-name", "-iname"]) && !is_one_of(&["-not", "!", "-o", "-or", ","])
}

/// Says whether a command prints the names of files below a directory.
pub(crate) fn lists_tree(words: &[Word]) -> bool {
    let program = words.first().and_then(Word::literal).map(base_name);
    program.is_some_and(|name| SEARCHING.contains(&name) || name == "rg") || reads_tree(words)
}

/// Says whether a command changes nothing and shows nothing that its rule would have to name: the
/// end of a loop or of the shell, or its settings that stop at errors.
pub(crate) fn is_harmless_builtin(words: &[Word]) -> bool {
    let Some(texts) = words.iter().map(Word::literal).collect::<Option<Vec<_>>>() else {
        return false;
    };
    match texts.as_slice() {
        // It repeats its input.
        ["cat"] | ["break" | "continue" | "exit"] => true,
        ["break" | "continue" | "exit", number] => number.parse::<u8>().is_ok(),
        ["set", options @ ..] => {
            let stops = |it: &&str| {
                matches!(*it, "-e" | "-u" | "-eu" | "-o" | "-eo" | "-uo" | "-euo" | "pipefail")
            };
            !options.is_empty() && options.iter().all(stops)
        }
        _ => false,
    }
}

/// Says whether a command needs no rule of its own, with arguments that are known to be harmless.
pub(crate) fn needs_no_rule(words: &[Word]) -> bool {
    let word = |i: usize| words.get(i).and_then(Word::literal);
    word(0).is_some_and(|program| NEED_NO_RULE.contains(&program))
        || word(0) == Some("command") && word(1) == Some("-v")
}

/// Says whether an assignment before a command is known to change nothing that it runs. `None` is a
/// value that is not known.
pub(crate) fn is_harmless_assignment(name: &str, value: Option<&str>) -> bool {
    // `make` expands its variables, and a path could lead to a file of the agent's.
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-.,:=+/".contains(c);
    let leads_away =
        |value: &str| value.starts_with(['/', ':']) || value.contains("..") || value.contains(":/");
    is_harmless_variable(name)
        && value.is_some_and(|value| value.chars().all(is_plain) && !leads_away(value))
}

/// Says whether a variable is known to run nothing, if its value is plain.
fn is_harmless_variable(name: &str) -> bool {
    HARMLESS_VARIABLES.contains(&name)
}

/// Says whether no program takes orders from a variable that a loop sets.
pub(crate) fn is_loop_variable(name: &str) -> bool {
    let is_letter = name.len() == 1 && name.starts_with(|c: char| c.is_ascii_lowercase());
    is_letter || LOOP_VARIABLES.contains(&name)
}

/// Says whether programs may obey a variable that is set by its name alone, as loops and `read` set
/// one. It is then in the environment already, where names are in capitals, but for a few.
pub(crate) fn may_be_obeyed(name: &str) -> bool {
    let is_listed = || {
        matches!(name, "path" | "fpath" | "cdpath" | "module_path")
            || name.ends_with("_proxy")
            || name.starts_with("npm_config_")
    };
    let is_capital = name.len() > 1 && name.chars().any(char::is_uppercase);
    (is_capital || is_listed()) && !is_harmless_variable(name)
}

/// Says whether a builtin sets a variable that is not known to be harmless.
pub(crate) fn sets_variable(words: &[Word]) -> bool {
    let Some(program) = words.first().and_then(Word::literal) else { return false };
    let mut given = words.iter().skip(1);
    let is_obeyed = |word: &Word| word.literal().is_none_or(may_be_obeyed);
    match program {
        // The value of `-p` or `-u` is not a name, but neither does it look like one.
        "read" => given.any(is_obeyed),
        "getopts" => given.nth(1).is_some_and(is_obeyed),
        "printf" | "wait" => match given.next().and_then(Word::literal) {
            Some("-v" | "-p") => given.next().is_some_and(is_obeyed),
            Some(option) => {
                ["-v", "-p"].iter().any(|it| option.strip_prefix(it).is_some_and(may_be_obeyed))
            }
            None => false,
        },
        name if ASSIGNING.contains(&name) => {
            given.any(|word| match word.as_written().split_once('=') {
                Some((name, value)) => {
                    !is_harmless_assignment(name, word.literal().and(Some(value)))
                }
                None => word.literal().is_none(),
            })
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<Word> {
        text.split(' ').map(|word| Word::Literal(word.to_owned())).collect()
    }

    #[test]
    fn wrappers_are_seen_through_or_hidden() {
        for (text, expected) in [
            ("env git status", Nature::Runs(1)),
            ("/usr/bin/env git", Nature::Runs(1)),
            ("command -v git", Nature::Plain),
            ("command -p git", Nature::Hidden { named: None }),
            ("npx jest", Nature::Plain),
            ("npx frobnicate", Nature::Hidden { named: None }),
            ("npx -y jest", Nature::Hidden { named: None }),
            ("env -i git", Nature::Hidden { named: None }),
            ("env A=1 git", Nature::Hidden { named: None }),
            ("timeout 5s git", Nature::Runs(2)),
            ("timeout -k 5 git", Nature::Hidden { named: None }),
            ("nice -n 5 git", Nature::Runs(3)),
            ("stdbuf -oL git", Nature::Runs(2)),
            ("sh -c ls", Nature::Script("ls".into())),
            ("bash -lc ls", Nature::Hidden { named: None }),
            ("bash build.sh", Nature::Hidden { named: Some(2) }),
            ("eval rm x", Nature::Script("rm x".into())),
            ("xargs -0 -n 1 grep x", Nature::RunsWithMore(4)),
            ("xargs -I{} sh", Nature::Hidden { named: None }),
            ("python3 x.py", Nature::Hidden { named: Some(2) }),
            ("python3 -m pytest", Nature::Plain),
            ("python3.12 -c x", Nature::Hidden { named: None }),
            ("python3", Nature::Hidden { named: None }),
            ("export A=1", Nature::Changes),
            ("git status", Nature::Plain),
        ] {
            assert_eq!(nature(&words(text)), expected, "{text}");
        }
    }

    #[test]
    fn a_deny_expects_what_may_be_run() {
        for (text, expected) in [
            ("ls -l", Reach::Itself),
            ("git status", Reach::Itself),
            ("git -C . status", Reach::Itself),
            ("git --no-pager log x", Reach::Itself),
            ("git st", Reach::Beyond),
            ("git -C . st", Reach::Beyond),
            ("git --no-pager st", Reach::Beyond),
            ("git -c a.b=c status", Reach::Beyond),
            ("git rebase -x y", Reach::Words),
            ("find . -exec y {} +", Reach::Words),
            ("find . -xdev", Reach::Itself),
            ("fd x -Hx y", Reach::Words),
            ("fd x -xy", Reach::Words),
            ("fd x --exec=y", Reach::Words),
            ("fd x --exec-batch y", Reach::Words),
            ("find . -name y", Reach::Itself),
            ("npm exec y", Reach::Words),
            ("npm test", Reach::Itself),
            ("sh", Reach::Beyond),
            ("bash x.sh", Reach::Beyond),
            ("python x.py", Reach::Itself),
            ("python -c x", Reach::Beyond),
            ("source x", Reach::Beyond),
            ("cd x", Reach::Itself),
            ("awk {print}", Reach::Itself),
            ("awk -F : -vx=1 {print} f", Reach::Itself),
            ("awk -F : {system(1)}", Reach::Beyond),
            ("awk -v x=1 -f f", Reach::Beyond),
            ("gawk --source=BEGIN{system(1)}", Reach::Beyond),
            ("sed -i.bak -E s/a/b/ f", Reach::Itself),
            ("sed -nf f f", Reach::Beyond),
            ("sed -n -Ee1e f", Reach::Beyond),
            ("sed p -e 1e f", Reach::Beyond),
            ("sqlite3 d .x", Reach::Beyond),
            ("deno eval x", Reach::Beyond),
            ("bash-5.2 f", Reach::Beyond),
            ("/lib64/ld-linux-x86-64.so.2 f", Reach::Beyond),
            ("awk {system(1)}", Reach::Beyond),
            ("sed -n 5p f", Reach::Itself),
            ("sed -e 1e f", Reach::Beyond),
            ("ssh host y", Reach::Beyond),
        ] {
            assert_eq!(reach(&words(text)), expected, "{text}");
        }
    }
}
