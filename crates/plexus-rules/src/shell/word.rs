//! One word of a command, decoded as the shell does, or marked as known only at run time.

use super::here;
use super::names::SHOWN_VARIABLES;

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
    /// One word of text that is known only when it runs: `"files: $(ls | wc -l)"`. The commands in
    /// it are known.
    Text {
        /// As it stands in the command.
        raw: String,
        /// What it begins with.
        start: String,
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
            Self::Glob { .. } | Self::Home { .. } | Self::Text { .. } | Self::Opaque(_) => None,
        }
    }

    /// Says whether the word is known only when it runs.
    pub(crate) fn is_computed(&self) -> bool {
        matches!(self, Self::Text { .. } | Self::Opaque(_))
    }

    /// Returns the text, or the word as it stands in the command when the text is not known.
    pub(crate) fn as_written(&self) -> &str {
        match self {
            Self::Literal(text) | Self::Opaque(text) => text,
            Self::Glob { raw, .. } | Self::Home { raw, .. } | Self::Text { raw, .. } => raw,
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

/// Decodes one raw word, with the present values of some variables.
pub(super) fn decode(raw: &str, variables: &[(String, Word)]) -> Decoded {
    let mut decoder = Decoder {
        rest: raw,
        variables,
        text: String::new(),
        shape: Shape::Known,
        start: None,
        home: false,
        scripts: Vec::new(),
        unread: false,
    };
    decoder.run(raw);
    let raw = here::restore(raw);
    let word = match decoder.shape {
        Shape::Known if decoder.home => {
            let rest = decoder.text.trim_start_matches('/').to_owned();
            Word::Home { raw, rest }
        }
        Shape::Known => Word::Literal(decoder.text),
        Shape::Pattern if !decoder.home => Word::Glob { raw, marked: decoder.text },
        Shape::Text if !decoder.home => {
            Word::Text { raw, start: decoder.start.unwrap_or_default() }
        }
        Shape::Pattern | Shape::Text | Shape::Unknown => Word::Opaque(raw),
    };
    Decoded { word, scripts: decoder.scripts, unread: decoder.unread }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Shape {
    Known,
    Pattern,
    /// One word, of any text.
    Text,
    Unknown,
}

/// Whether the shell splits the value of an expansion into words, and takes them for patterns.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Quotes {
    None,
    Double,
}

struct Decoder<'a> {
    rest: &'a str,
    variables: &'a [(String, Word)],
    text: String,
    shape: Shape,
    /// What stands before the first part that is only known to be text.
    start: Option<String>,
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
        if shape == Shape::Text {
            self.start.get_or_insert_with(|| self.text.clone());
        }
        self.shape = match (self.shape, shape) {
            (Shape::Pattern, Shape::Text) | (Shape::Text, Shape::Pattern) => Shape::Unknown,
            (one, other) => one.max(other),
        };
    }

    /// An expansion whose value is any text.
    fn becomes_text(&mut self, quotes: Quotes) {
        self.becomes(match quotes {
            Quotes::Double => Shape::Text,
            Quotes::None => Shape::Unknown,
        });
    }

    fn run(&mut self, raw: &str) {
        let mut previous = None;
        while let Some(c) = self.next() {
            match c {
                '\'' => match self.rest.split_once('\'') {
                    Some((inside, rest)) => {
                        match here::text_of(inside) {
                            Some(text) => self.text.push_str(&text),
                            None => self.text.push_str(inside),
                        }
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
                '$' => self.dollar(Quotes::None),
                '`' => self.backquoted(Quotes::None),
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
                '=' if raw == "=" => self.text.push(c),
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
                Some('$') => self.dollar(Quotes::Double),
                Some('`') => self.backquoted(Quotes::Double),
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

    fn dollar(&mut self, quotes: Quotes) {
        match self.rest.chars().next() {
            Some('(') => match substitution(self.rest) {
                Some((inside, rest)) => {
                    self.becomes_text(quotes);
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
                    self.rest = rest;
                    self.variable(inside.trim_start_matches('{'), quotes);
                }
                _ => self.lose(),
            },
            // `$'…'` and `$"…"` have their own quoting rules.
            Some('\'' | '"') => self.lose(),
            // A number.
            Some('?') => {
                self.rest = self.rest.get(1..).unwrap_or_default();
                self.becomes(if self.is_modified() { Shape::Unknown } else { Shape::Text });
            }
            Some(c) if c.is_ascii_alphabetic() || c == '_' => {
                let is_in_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
                let end = self.rest.find(|c| !is_in_name(c)).unwrap_or(self.rest.len());
                let (name, rest) = self.rest.split_at(end);
                self.rest = rest;
                self.variable(name, quotes);
            }
            _ => self.becomes(Shape::Unknown),
        }
    }

    /// Says whether zsh takes what follows for a part of the expansion: `$x[1]`, `$x:h`.
    fn is_modified(&self) -> bool {
        self.rest.starts_with(['[', ':'])
    }

    /// Takes the value of a variable, if it is known.
    fn variable(&mut self, name: &str, quotes: Quotes) {
        let value = self.variables.iter().rev().find(|(it, _)| it == name).map(|(_, value)| value);
        match value {
            _ if self.is_modified() => self.becomes(Shape::Unknown),
            Some(Word::Literal(text)) if quotes == Quotes::Double || is_one_word(text) => {
                self.text.push_str(text);
            }
            Some(Word::Glob { marked, .. }) if quotes == Quotes::Double => {
                self.becomes(Shape::Pattern);
                self.text.push_str(marked);
            }
            None if SHOWN_VARIABLES.contains(&name) => self.becomes_text(quotes),
            _ => self.becomes(Shape::Unknown),
        }
    }

    fn backquoted(&mut self, quotes: Quotes) {
        match self.rest.split_once('`') {
            Some((inside, rest)) if !inside.contains('\\') => {
                self.becomes_text(quotes);
                self.scripts.push(inside.to_owned());
                self.rest = rest;
            }
            _ => self.lose(),
        }
    }
}

/// Says whether a shell neither splits a text nor takes it for a pattern.
fn is_one_word(text: &str) -> bool {
    let is_plain = |c: char| c.is_alphanumeric() || "_-./+@%,".contains(c);
    !text.is_empty() && text.chars().all(is_plain)
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
            assert_eq!(decode(raw, &[]).word, Word::Literal(text.into()), "{raw}");
        }
    }

    #[test]
    fn words_known_only_at_run_time_are_opaque() {
        for raw in [
            "$x",
            "a$x",
            "\"$x\"",
            "$HOME",
            "a$(ls)",
            "\"$?[1]\"",
            "\"$HOME:h\"",
            "{a,b}",
            "~root/x",
            "a=~/x",
            "$'a'",
            "=ls",
            "`ls`",
            "$(ls)",
            "'",
            "~/*.rs",
        ] {
            assert!(matches!(decode(raw, &[]).word, Word::Opaque(_)), "{raw}");
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
            assert_eq!(decode(raw, &[]).word, expected, "{raw}");
        }
        for (raw, rest) in [("~/x", "x"), ("~", ""), ("~/'a b'", "a b")] {
            let expected = Word::Home { raw: raw.into(), rest: rest.into() };
            assert_eq!(decode(raw, &[]).word, expected, "{raw}");
        }
    }

    #[test]
    fn a_word_in_double_quotes_is_one_word_of_text() {
        for (raw, start) in [
            ("\"$(ls)\"", ""),
            ("\"a $(ls) b\"", "a "),
            ("--x=\"`ls`\"", "--x="),
            ("$?", ""),
            ("a$?", "a"),
            ("\"$HOME\"/x", ""),
        ] {
            let expected = Word::Text { raw: raw.into(), start: start.into() };
            assert_eq!(decode(raw, &[]).word, expected, "{raw}");
        }
        for raw in ["\"$(ls)\"*", "*\"$(ls)\"", "~/\"$(ls)\"", "\"$(ls)\"$x"] {
            assert!(matches!(decode(raw, &[]).word, Word::Opaque(_)), "{raw}");
        }
    }

    #[test]
    fn a_variable_of_a_loop_has_its_value() {
        let glob = Word::Glob { raw: "src/*".into(), marked: "src/\0".into() };
        let variables = [
            ("f".to_owned(), Word::Literal("a b".into())),
            ("g".to_owned(), glob),
            ("h".to_owned(), Word::Literal("x.rs".into())),
        ];
        for (raw, text) in [("\"$f\"", "a b"), ("src/${h}", "src/x.rs"), ("\"$h$f\"", "x.rsa b")] {
            assert_eq!(decode(raw, &variables).word, Word::Literal(text.into()), "{raw}");
        }
        let expected = Word::Glob { raw: "\"./$g\"".into(), marked: "./src/\0".into() };
        assert_eq!(decode("\"./$g\"", &variables).word, expected);
        for raw in ["$f", "$g", "\"$i\"", "\"$h:h\"", "\"${h%.rs}\"", "\"$h[1]\"", "\"$hx\""] {
            assert!(matches!(decode(raw, &variables).word, Word::Opaque(_)), "{raw}");
        }
    }

    #[test]
    fn the_commands_in_a_word_are_found_or_it_is_said_that_they_were_not() {
        assert_eq!(decode("a$(rm 'x)' y)b", &[]).scripts, ["rm 'x)' y"]);
        assert_eq!(decode("\"$(a (b) c) `d`\"", &[]).scripts, ["a (b) c", "d"]);
        for raw in [
            "${x:-$(rm)}",
            "$(case x in x) rm;; esac)",
            "$(a # )\n)",
            "$'a'",
            "`a \\`rm\\` `",
            "$(a \"$(b)\")",
        ] {
            assert!(decode(raw, &[]).unread, "{raw}");
        }
    }
}
