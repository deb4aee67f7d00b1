//! One word of a command, decoded as the shell does, or marked as known only at run time.

/// A word with its quoting removed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Word {
    /// Exactly this text.
    Literal(String),
    /// A file pattern: the shell replaces it with the names that match, or leaves it unchanged.
    Glob {
        /// As it stands in the command.
        raw: String,
        /// Decoded, with [`WILD`] in place of each wildcard character.
        marked: String,
    },
    /// `~` or `~/…`: a path in the home directory.
    Home {
        /// As it stands in the command.
        raw: String,
        /// What follows `~/`.
        rest: String,
    },
    /// Anything: a variable, a substitution, braces, or quoting that shells read differently.
    Opaque(String),
}

/// Marks a wildcard character in a decoded pattern. The gate refuses commands with this character,
/// so it never occurs as itself.
pub(crate) const WILD: char = '\0';

impl Word {
    /// Returns the text, when it is known.
    pub(crate) fn literal(&self) -> Option<&str> {
        match self {
            Self::Literal(text) => Some(text),
            Self::Glob { .. } | Self::Home { .. } | Self::Opaque(_) => None,
        }
    }

    /// Returns the text, or the word as it stands in the command when the text is not known.
    pub(crate) fn as_written(&self) -> &str {
        match self {
            Self::Literal(text) | Self::Opaque(text) => text,
            Self::Glob { raw, .. } | Self::Home { raw, .. } => raw,
        }
    }
}

/// A decoded word and the commands inside it.
#[derive(Debug)]
pub(super) struct Decoded {
    pub(super) word: Word,
    /// The texts of its command substitutions.
    pub(super) scripts: Vec<String>,
    /// Whether something in it could hold commands that were not found.
    pub(super) unread: bool,
}

/// Decodes one raw word.
pub(super) fn decode(raw: &str) -> Decoded {
    let mut decoder = Decoder {
        rest: raw,
        text: String::new(),
        shape: Shape::Known,
        home: false,
        scripts: Vec::new(),
        unread: false,
    };
    decoder.run(raw);
    let word = match decoder.shape {
        Shape::Known if decoder.home => {
            let rest = decoder.text.trim_start_matches('/').to_owned();
            Word::Home { raw: raw.to_owned(), rest }
        }
        Shape::Known => Word::Literal(decoder.text),
        Shape::Pattern if !decoder.home => Word::Glob { raw: raw.to_owned(), marked: decoder.text },
        Shape::Pattern | Shape::Unknown => Word::Opaque(raw.to_owned()),
    };
    Decoded { word, scripts: decoder.scripts, unread: decoder.unread }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Shape {
    Known,
    Pattern,
    Unknown,
}

struct Decoder<'a> {
    rest: &'a str,
    text: String,
    shape: Shape,
    /// Whether it starts with `~`, and so in the home directory.
    home: bool,
    scripts: Vec<String>,
    unread: bool,
}

impl Decoder<'_> {
    fn next(&mut self) -> Option<char> {
        let c = self.rest.chars().next()?;
        self.rest = self.rest.get(c.len_utf8()..).unwrap_or_default();
        Some(c)
    }

    fn becomes(&mut self, shape: Shape) {
        self.shape = self.shape.max(shape);
    }

    fn run(&mut self, raw: &str) {
        let mut previous = None;
        while let Some(c) = self.next() {
            match c {
                '\'' => match self.rest.split_once('\'') {
                    Some((inside, rest)) => {
                        self.text.push_str(inside);
                        self.rest = rest;
                    }
                    None => self.lose(),
                },
                '"' => self.double_quoted(),
                '\\' => match self.next() {
                    Some('\n') => {}
                    Some(c) => self.text.push(c),
                    None => self.lose(),
                },
                '$' => self.dollar(),
                '`' => self.backquoted(),
                // `[` alone is a program, and `{}` alone is what find and xargs replace.
                '[' if raw == "[" => self.text.push(c),
                '{' | '}' if raw == "{}" => self.text.push(c),
                '*' | '?' | '[' => {
                    self.becomes(Shape::Pattern);
                    self.text.push(WILD);
                }
                '~' if previous.is_none()
                    && (self.rest.is_empty() || self.rest.starts_with('/')) =>
                {
                    self.home = true;
                }
                '~' if matches!(previous, None | Some('=' | ':')) => self.becomes(Shape::Unknown),
                // zsh replaces `=name` with the path of the program.
                '=' if previous.is_none() => self.becomes(Shape::Unknown),
                '{' | '}' => self.becomes(Shape::Unknown),
                '(' | ')' | '<' | '>' | '|' | '&' | ';' => self.lose(),
                c => self.text.push(c),
            }
            previous = Some(c);
        }
    }

    /// Gives up on the word and on finding the commands in it.
    fn lose(&mut self) {
        self.becomes(Shape::Unknown);
        self.unread = true;
        self.rest = "";
    }

    fn double_quoted(&mut self) {
        loop {
            match self.next() {
                None => return self.lose(),
                Some('"') => return,
                Some('$') => self.dollar(),
                Some('`') => self.backquoted(),
                Some('\\') => match self.next() {
                    Some('\n') => {}
                    Some(c @ ('"' | '\\' | '$' | '`')) => self.text.push(c),
                    Some(c) => self.text.extend(['\\', c]),
                    None => return self.lose(),
                },
                Some(c) => self.text.push(c),
            }
        }
    }

    fn dollar(&mut self) {
        self.becomes(Shape::Unknown);
        match self.rest.chars().next() {
            Some('(') => match substitution(self.rest) {
                Some((inside, rest)) => {
                    self.scripts.push(inside.to_owned());
                    self.rest = rest;
                }
                None => self.lose(),
            },
            // `${x:-$(…)}` can hold commands, and its end is hard to find.
            Some('{') => match self.rest.split_once('}') {
                Some((inside, rest))
                    if !inside.contains(['$', '`', '"', '\'', '\\', '<', '>', '(', '@']) =>
                {
                    self.rest = rest
                }
                _ => self.lose(),
            },
            // `$'…'` and `$"…"` have their own quoting rules.
            Some('\'' | '"') => self.lose(),
            _ => {}
        }
    }

    fn backquoted(&mut self) {
        self.becomes(Shape::Unknown);
        match self.rest.split_once('`') {
            Some((inside, rest)) if !inside.contains('\\') => {
                self.scripts.push(inside.to_owned());
                self.rest = rest;
            }
            _ => self.lose(),
        }
    }
}

/// Splits `(inside)rest`. Gives up where a parenthesis may not be one: in comments and `case`.
fn substitution(text: &str) -> Option<(&str, &str)> {
    let mut depth = 0_usize;
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            '(' => depth += 1,
            ')' => {
                depth = depth.checked_sub(1)?;
                if depth == 0 {
                    let inside = text.get(1..at)?;
                    let hides = inside.contains('#') || inside.contains("case");
                    return if hides { None } else { Some((inside, text.get(at + 1..)?)) };
                }
            }
            '\'' => while characters.next()?.1 != '\'' {},
            '"' => loop {
                match characters.next()?.1 {
                    '"' => break,
                    '\\' => {
                        characters.next()?;
                    }
                    // Quotes nest inside substitutions inside quotes.
                    '$' | '`' => return None,
                    _ => {}
                }
            },
            '\\' => {
                characters.next()?;
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_decoded_as_the_shell_does() {
        for (raw, text) in [
            ("git", "git"),
            ("'a b'", "a b"),
            ("\"a b\"", "a b"),
            ("a\\ b", "a b"),
            ("g\"i\"'t'", "git"),
            ("\"a\\\"b\\n\"", "a\"b\\n"),
            ("a\\\nb", "ab"),
            ("HEAD~1", "HEAD~1"),
            ("HEAD^", "HEAD^"),
            ("[", "["),
            ("{}", "{}"),
            ("''", ""),
            ("a=b", "a=b"),
        ] {
            assert_eq!(decode(raw).word, Word::Literal(text.into()), "{raw}");
        }
    }

    #[test]
    fn words_known_only_at_run_time_are_opaque() {
        for raw in [
            "$x", "a$x", "\"$x\"", "{a,b}", "~root/x", "a=~/x", "$'a'", "=ls", "`ls`", "$(ls)",
            "'", "~/*.rs",
        ] {
            assert!(matches!(decode(raw).word, Word::Opaque(_)), "{raw}");
        }
        for (raw, text) in [
            ("*.rs", "\0.rs"),
            ("-*", "-\0"),
            ("src/*.rs", "src/\0.rs"),
            ("./a?", "./a\0"),
            ("a[bc]", "a\0bc]"),
            ("B'EGIN{*}#'*", "BEGIN{*}#\0"),
            ("con[f]ig", "con\0f]ig"),
            ("\\*?", "*\0"),
        ] {
            let expected = Word::Glob { raw: raw.into(), marked: text.into() };
            assert_eq!(decode(raw).word, expected, "{raw}");
        }
        for (raw, rest) in [("~/x", "x"), ("~", ""), ("~/'a b'", "a b")] {
            let expected = Word::Home { raw: raw.into(), rest: rest.into() };
            assert_eq!(decode(raw).word, expected, "{raw}");
        }
    }

    #[test]
    fn the_commands_in_a_word_are_found_or_it_is_said_that_they_were_not() {
        assert_eq!(decode("a$(rm 'x)' y)b").scripts, ["rm 'x)' y"]);
        assert_eq!(decode("\"$(a (b) c) `d`\"").scripts, ["a (b) c", "d"]);
        for raw in [
            "${x:-$(rm)}",
            "$(case x in x) rm;; esac)",
            "$(a # )\n)",
            "$'a'",
            "`a \\`rm\\` `",
            "$(a \"$(b)\")",
        ] {
            assert!(decode(raw).unread, "{raw}");
        }
    }
}
