//! Shell commands that run without permission in the CLI's default mode.
//!
//! The list is short on purpose: the commands that the notes on the CLI name, and those of the
//! recorded runs. Any other command asks, which is the safe way to be wrong.

/// Commands that only read, with any arguments inside the working directory.
const READERS: &[&str] =
    &["ls", "cat", "grep", "find", "echo", "sleep", "ps", "pwd", "head", "tail", "wc", "true"];

/// Git subcommands that only read.
const GIT_READERS: &[&str] = &["status", "log", "diff"];

/// Options of `find` that do more than search.
const FIND_ACTIONS: &[&str] =
    &["-exec", "-execdir", "-ok", "-okdir", "-delete", "-fprint", "-fprintf", "-fls"];

/// Tells whether every part of a command line is harmless. `is_inside` judges paths.
pub(crate) fn is_harmless(command: &str, is_inside: impl Fn(&str) -> bool) -> bool {
    // Substitutions, redirections, quotes and backgrounding can hide another command: such lines
    // ask.
    if command.trim().is_empty()
        || command.contains(['$', '`', '>', '<', '\\', '\n', '(', '{', '\'', '"'])
    {
        return false;
    }
    let command = command.replace("&&", ";").replace("||", ";").replace('|', ";");
    !command.contains('&')
        && command.split(';').all(|part| is_harmless_part(part.trim(), &is_inside))
}

fn is_harmless_part(part: &str, is_inside: &impl Fn(&str) -> bool) -> bool {
    let mut words = part.split_whitespace();
    let Some(program) = words.next() else { return false };
    let arguments: Vec<&str> = words.collect();
    if program == "git" {
        return arguments.first().is_some_and(|subcommand| GIT_READERS.contains(subcommand));
    }
    READERS.contains(&program)
        && !arguments.iter().any(|argument| FIND_ACTIONS.contains(argument))
        && arguments.iter().filter(|argument| argument.contains(['/', '~', '.'])).all(|path| {
            // The shell expands a tilde to a path that is not inside.
            !path.starts_with('~') && is_inside(path)
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anything_that_could_change_something_asks() {
        let inside = |path: &str| !path.starts_with('/') && !path.starts_with("..");
        for command in [
            "ls",
            "cat a.txt",
            "git log",
            "grep -r x src/",
            "ls | wc -l",
            "ps aux",
            "sleep 4; echo x",
        ] {
            assert!(is_harmless(command, inside), "{command} should run unasked");
        }
        for command in [
            "",
            "touch a",
            "ls > a",
            "echo $(touch a)",
            "cat /etc/passwd",
            "cat ../x",
            "cat ~/x",
            "git push",
            "find . -delete",
            "sleep 1 & touch a",
            "python3 -c x",
            "ls\ntouch a",
            "cat 'a b'",
        ] {
            assert!(!is_harmless(command, inside), "{command} should ask");
        }
    }
}
