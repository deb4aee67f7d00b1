//! Programs that run other programs, options that do, and builtins that change what the next command means.
//!
//! A prefix rule promises that what follows its words are plain arguments. The lists of [`names`](super::names) say when they are not. They cannot
//! be complete, so a generic test on option names stands behind them, and all errors are on the side of asking. A word that
//! the rule itself names is never suspect: `Bash(python -c:*)` means what it says.

use super::Word;
use super::names::{CHANGING, GIT_KNOWN, GIT_RUNNERS, HIDING, RISKY, Risky, SUSPECT_NAMES};

/// What kind of command this is.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::rules) enum Nature {
    /// A program with arguments.
    Plain,
    /// Runs the words from here on as a command of their own.
    Runs(usize),
    /// Runs this text as a script.
    Script(String),
    /// Runs something that cannot be seen from here, unless the rule names at least this many words.
    Hidden {
        /// How many words a rule must name to know what is run; `None`: no prefix rule is enough.
        named: Option<usize>,
    },
    /// Changes what later commands mean: variables, aliases, functions, the working directory.
    Changes,
}

/// The part of a program's name that is looked up here: `/usr/bin/env` is `env`.
pub(in crate::rules) fn base_name(program: &str) -> &str {
    program.rsplit('/').next().unwrap_or(program)
}

/// Says what kind of command these words are.
pub(in crate::rules) fn nature(words: &[Word]) -> Nature {
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
        "sh" | "bash" | "dash" | "zsh" | "ksh" | "ash" | "fish" => match (word(1), word(2)) {
            (Some("-c"), Some(script)) if words.len() == 3 => Nature::Script(script.to_owned()),
            // A script file: a rule that names it knows what is run.
            (Some(file), _) if !file.starts_with('-') => Nature::Hidden { named: Some(2) },
            _ => hidden,
        },
        "eval" => match words.iter().skip(1).map(Word::literal).collect::<Option<Vec<_>>>() {
            Some(parts) => Nature::Script(parts.join(" ")),
            None => hidden,
        },
        name if HIDING.contains(&name) => hidden,
        name if CHANGING.contains(&name) => Nature::Changes,
        _ => Nature::Plain,
    }
}

/// Says whether words of such a command may be commands in themselves, for rules that deny.
pub(in crate::rules) fn runs_others(words: &[Word]) -> bool {
    let name = words.first().and_then(Word::literal).map(base_name);
    let searches = name.is_some_and(|name| matches!(name, "find" | "gfind" | "fd" | "fdfind"));
    nature(words) != Nature::Plain || (searches && suspect_argument(words, 1).is_some())
}

/// Says why the words after the first `named` ones are more than plain arguments, if they are.
pub(in crate::rules) fn suspect_argument(words: &[Word], named: usize) -> Option<String> {
    let program = words.first().and_then(Word::literal).map(base_name)?;
    let risky = RISKY.iter().find(|risky| risky.programs.contains(&program));
    for word in words.iter().skip(named) {
        let text = match word {
            Word::Literal(text) => text.as_str(),
            Word::Operand(_) => continue,
            Word::Opaque(raw) => return Some(format!("`{raw}` is known only when it runs")),
        };
        if is_suspect(text) || risky.is_some_and(|risky| risky.flags(text)) {
            return Some(format!("`{text}` may make `{program}` run or write something else"));
        }
    }
    if program == "git" && named == 1 {
        let subcommand = words.get(1).and_then(Word::literal)?;
        if GIT_RUNNERS.contains(&subcommand) || !GIT_KNOWN.contains(&subcommand) {
            return Some(format!("`git {subcommand}` may run other programs"));
        }
    }
    if matches!(program, "sed" | "gsed") {
        let script =
            words.iter().skip(named).filter_map(Word::literal).find(|word| !word.starts_with('-'));
        if script.is_none_or(|script| !is_plain_sed(script)) {
            return Some("the sed script may run or write something".into());
        }
    }
    None
}

/// The generic test on one word.
fn is_suspect(text: &str) -> bool {
    // A control character in an argument is never needed, and terminals obey some of them.
    if text.chars().any(|c| c.is_control() && c != '\n' && c != '\t') {
        return true;
    }
    let Some(option) = text.strip_prefix('-') else { return false };
    let name = option.split('=').next().unwrap_or(option).to_ascii_lowercase();
    SUSPECT_NAMES.iter().any(|part| name.contains(part))
}

impl Risky {
    fn flags(&self, text: &str) -> bool {
        if self.words.contains(&text) || self.inside.iter().any(|part| text.contains(part)) {
            return true;
        }
        if let Some(option) = text.strip_prefix("--") {
            let name = option.split('=').next().unwrap_or(option);
            return !name.is_empty() && self.long.iter().any(|long| long.starts_with(name));
        }
        text.strip_prefix('-').is_some_and(|letters| letters.contains(|c| self.short.contains(c)))
    }
}

/// One `p`, `d` or `q` with line numbers, or one `s/…/…/` whose flags neither run nor write.
fn is_plain_sed(script: &str) -> bool {
    if let Some(rest) = script.strip_prefix("s/") {
        let parts: Vec<&str> = rest.split('/').collect();
        return matches!(parts.as_slice(), [_, _, flags] if flags.chars().all(|c| c.is_ascii_digit() || matches!(c, 'g' | 'p' | 'I')))
            && !script.contains(['\n', '\\', ';']);
    }
    script
        .strip_suffix(['p', 'd', 'q'])
        .is_some_and(|lines| lines.chars().all(|c| c.is_ascii_digit() || matches!(c, ',' | '$')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<Word> {
        text.split(' ').map(|word| Word::Literal(word.to_owned())).collect()
    }

    #[test]
    fn arguments_that_run_or_write_are_suspect() {
        for (text, named) in [
            ("git status -c core.pager=x", 2),
            ("git diff --output=x", 2),
            ("git diff --outp=x", 2),
            ("git diff --ext-diff", 2),
            ("git grep -Oless x", 2),
            ("git fetch --upload-pack=x", 2),
            ("git x", 1),
            ("git -c a=b status", 1),
            ("git submodule foreach x", 1),
            ("tar xf a --to-command=x", 1),
            ("tar xf a --checkpoint-action=exec=x", 1),
            ("rsync -e x a b", 1),
            ("rsync -ave x a b", 1),
            ("find . -delete", 1),
            ("sed -i s/a/b/ f", 1),
            ("sed 1e f", 1),
            ("sed s/a/b/w f", 1),
            ("sed s/a/b/e f", 1),
            ("awk BEGIN{system(1)}", 1),
            ("python -c x", 1),
            ("sort -o f", 1),
            ("rg --pre x", 1),
            ("mytool --exec=x", 1),
            ("eslint --config=x", 1),
        ] {
            assert!(suspect_argument(&words(text), named).is_some(), "{text}");
        }
    }

    #[test]
    fn plain_arguments_are_not() {
        for (text, named) in [
            ("git status -s -b --porcelain=v2 src", 2),
            ("git log --oneline -n 5 HEAD~1", 2),
            ("git commit -am message", 2),
            ("git diff --stat --no-ext-diff", 2),
            ("git status", 1),
            ("sed -n 1,10p f", 1),
            ("sed s/a/b/g f", 1),
            ("find . -name x -type f", 1),
            ("cargo test --workspace --all-features", 2),
            ("npm run build --silent", 2),
            ("python -c x", 2),
            ("ls -la", 1),
        ] {
            assert_eq!(suspect_argument(&words(text), named), None, "{text}");
        }
    }

    #[test]
    fn wrappers_are_seen_through_or_hidden() {
        for (text, expected) in [
            ("env git status", Nature::Runs(1)),
            ("/usr/bin/env git", Nature::Runs(1)),
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
            ("xargs git", Nature::Hidden { named: None }),
            ("export A=1", Nature::Changes),
            ("git status", Nature::Plain),
        ] {
            assert_eq!(nature(&words(text)), expected, "{text}");
        }
    }
}
