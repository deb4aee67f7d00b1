//! Refuses texts that the shell parser must not see, and calls the parser for the rest.
//!
//! A text is refused for one of two reasons. Shells disagree on some characters (a carriage return,
//! a no-break space), so no single parser proves what they mean. And the parser backtracks: a few
//! dozen bytes of nested `((`, `case` or a here-document whose delimiter is a substitution cost it
//! minutes or all memory, and commands come from a model that may have read hostile text. Somebody
//! is asked about a refused command.

use brush_parser::{Parser, ParserOptions, ast};

use super::here;

/// The longest command that is read. A longer one is a program in itself, and reading costs time on
/// the permission path.
const MAX_BYTES: usize = 8 * 1024;
/// The most things that open a nested construct. Parsing time grows with their nesting.
const MAX_OPENERS: usize = 16;
/// The most parentheses. Each unclosed one doubles the parser's work: 24 of them cost it seconds.
const MAX_PARENTHESES: usize = 8;
/// The most `case` words, each of which doubles the parser's work.
const MAX_CASES: usize = 2;
/// The most backquotes.
const MAX_BACKQUOTES: usize = 4;
/// The most subscripts (`a[`), which the parser tries as array assignments, each in several ways.
const MAX_SUBSCRIPTS: usize = 4;

/// A text that the parser may see.
pub(super) struct Admitted {
    pub(super) text: String,
    /// How many here-documents were replaced in it.
    pub(super) here_documents: usize,
}

/// Returns the text that the parser may see, in which words stand for plain here-documents; if
/// there is none, returns why, as a reason to ask.
pub(super) fn admit(text: &str) -> Result<Admitted, &'static str> {
    check_characters(text)?;
    let (text, here_documents) = here::lift(text);
    check_structure(&text)?;
    Ok(Admitted { text, here_documents })
}

fn check_characters(text: &str) -> Result<(), &'static str> {
    if text.len() > MAX_BYTES {
        return Err("the command is longer than is read");
    }
    if text.chars().any(|c| (c.is_control() && c != '\n' && c != '\t') || is_deceptive(c)) {
        return Err("the command has control characters or spaces that shells read differently");
    }
    Ok(())
}

fn check_structure(text: &str) -> Result<(), &'static str> {
    if text.contains("<<") {
        return Err("the command has a here-document or a here-string");
    }
    if text.contains("((") || text.contains("$[") {
        return Err("the command has arithmetic");
    }
    let count = |what: &str| text.matches(what).count();
    let openers: usize =
        ["(", "{", "if", "while", "until", "for", "select", "coproc", "function", "case"]
            .into_iter()
            .map(count)
            .sum();
    let subscripts = text
        .as_bytes()
        .windows(2)
        .filter(
            |pair| matches!(pair, [before, b'['] if before.is_ascii_alphanumeric() || matches!(before, b'_' | b'\n')),
        )
        .count();
    if openers > MAX_OPENERS
        || count("(") > MAX_PARENTHESES
        || count("case") > MAX_CASES
        || count("`") > MAX_BACKQUOTES
        || subscripts > MAX_SUBSCRIPTS
    {
        return Err("the command is nested too deeply to be read safely");
    }
    Ok(())
}

/// Returns whether a character is a space outside ASCII, or is invisible but changes how text
/// looks.
fn is_deceptive(c: char) -> bool {
    (!c.is_ascii() && c.is_whitespace())
        || matches!(c, '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' | '\u{ffa0}' | '\u{fff0}'..='\u{ffff}' | '\u{e0000}'..='\u{e0fff}')
}

/// Parses what [`admit`] let through.
pub(super) fn parse(text: &str) -> Result<ast::Program, &'static str> {
    // `bash -c` reads commands with extended patterns off.
    let options = ParserOptions { enable_extended_globbing: false, ..ParserOptions::default() };
    Parser::new(text.as_bytes(), &options)
        .parse_program()
        .map_err(|_| "the command could not be parsed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_that_would_hang_the_parser_never_reach_it() {
        for text in [
            "x <<-E$(  #\ttime f(); do function f".to_owned(),
            "((".repeat(30),
            "$((=".repeat(20),
            "case x in x) ".repeat(20),
            "a[`\\\n".repeat(30),
            "a[\"".repeat(60),
            "for ((\n".repeat(20),
            "(".repeat(4000),
            "( time ".repeat(9),
            "if ".repeat(2000),
            "{ ".repeat(2000),
            "x".repeat(MAX_BYTES + 1),
        ] {
            assert!(admit(&text).is_err(), "{text:.40}");
        }
    }
}
