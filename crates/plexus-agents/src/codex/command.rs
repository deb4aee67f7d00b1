//! The script in a command line: Codex starts every command as `SHELL -lc SCRIPT`, and shows the
//! three as one line in shell syntax.

/// The shells that Codex starts scripts with.
const SHELLS: [&str; 4] = ["bash", "zsh", "sh", "dash"];

/// Returns the script when the line is nothing but a shell with one. For a line with more than
/// plain quoting it returns `None`, and the line itself is shown.
pub(super) fn script_of(line: &str) -> Option<String> {
    let [shell, flag, script] = <[String; 3]>::try_from(words(line)?).ok()?;
    let name = shell.rsplit('/').next().unwrap_or_default();
    (SHELLS.contains(&name) && matches!(flag.as_str(), "-lc" | "-c")).then_some(script)
}

/// Splits a line as a POSIX shell would, if it holds nothing but words and quotes.
fn words(line: &str) -> Option<Vec<String>> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            ' ' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match letters.next()? {
                        '\'' => break,
                        inside => word.push(inside),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match letters.next()? {
                        '"' => break,
                        '\\' => match letters.next()? {
                            escaped @ ('"' | '\\' | '$' | '`') => word.push(escaped),
                            other => word.extend(['\\', other]),
                        },
                        // The shell would expand it.
                        '$' | '`' => return None,
                        inside => word.push(inside),
                    }
                }
            }
            '\\' => word.get_or_insert_default().push(letters.next().filter(|next| *next != '\n')?),
            plain if plain.is_alphanumeric() || "/-_.,:=@%+^".contains(plain) => {
                word.get_or_insert_default().push(plain);
            }
            _ => return None,
        }
    }
    words.extend(word);
    Some(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_plain_quoting_is_taken_apart() {
        let cases = [
            ("/bin/bash -lc 'echo ran >> a.txt'", Some("echo ran >> a.txt")),
            ("/bin/bash -lc ls", Some("ls")),
            ("/usr/bin/zsh -c 'a; b'", Some("a; b")),
            ("/bin/bash -lc \"echo 'x' \\\"y\\\" \\$HOME\"", Some("echo 'x' \"y\" $HOME")),
            ("/bin/bash -lc 'it'\\''s'", Some("it's")),
            ("/bin/bash -lc \"echo $HOME\"", None),
            ("/bin/bash -lc 'a' 'b'", None),
            ("/bin/bash -lc 'a'; rm x", None),
            ("/bin/bash -lc 'a' && b", None),
            ("/bin/bash -lc a|b", None),
            ("python3 -c 'x'", None),
            ("<command included NUL byte>", None),
            ("/bin/bash -lc 'open", None),
        ];
        for (line, script) in cases {
            assert_eq!(script_of(line).as_deref(), script, "{line}");
        }
    }
}
