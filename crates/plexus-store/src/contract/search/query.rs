//! What somebody typed into a search: words and phrases, all of which must occur.
//!
//! There are no operators. What looks like one is looked for as a word, and a note says so, because
//! a search that silently means something else finds the wrong things.

use super::words::{Word, words_of};
use crate::contract::error::StoreError;

/// How long a query may be.
pub const MAX_QUERY_BYTES: usize = 1_000;

/// How many words a query may have: each is one more list to intersect.
pub const MAX_QUERY_WORDS: usize = 32;

/// A query as it is understood.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SearchQuery {
    pub(crate) terms: Vec<Term>,
    /// What was not understood, in words for the person who typed it.
    pub notes: Vec<String>,
}

/// Words that must follow each other.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Term {
    pub(crate) words: Vec<String>,
    /// Whether the last word may go on.
    pub(crate) prefix: bool,
}

/// A piece of a query: what was typed, and whether it stood in quotes.
struct Piece<'q> {
    text: &'q str,
    quoted: bool,
}

impl SearchQuery {
    /// Reads a query. An empty one finds everything.
    ///
    /// # Errors
    /// `Invalid` for one that is too long, or in which nothing can be looked for.
    pub fn read(text: &str) -> Result<Self, StoreError> {
        if text.len() > MAX_QUERY_BYTES {
            return Err(StoreError::invalid(format_args!(
                "search: the query has {} bytes, and at most {MAX_QUERY_BYTES} are read",
                text.len()
            )));
        }
        let mut query = Self::default();
        for piece in pieces(text, &mut query.notes) {
            query.add(&piece);
        }
        let count: usize = query.terms.iter().map(|term| term.words.len()).sum();
        if count > MAX_QUERY_WORDS {
            return Err(StoreError::invalid(format_args!(
                "search: the query has {count} words, and at most {MAX_QUERY_WORDS} are looked for"
            )));
        }
        if query.terms.is_empty() && !text.trim().is_empty() {
            return Err(StoreError::invalid(format_args!(
                "search for {text:?}: it has no letter and no digit, so there is no word to look for"
            )));
        }
        Ok(query)
    }

    /// Whether it finds everything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    fn add(&mut self, piece: &Piece<'_>) {
        let Piece { text, quoted } = *piece;
        if !quoted {
            if text == "AND" {
                self.notes.push("AND was left out: every word must occur anyway".to_owned());
                return;
            }
            self.note(text);
        }
        let words: Vec<String> = words_of(text).into_iter().map(|word| word.text).collect();
        if words.is_empty() {
            self.notes.push(format!("{text} was left out: it has no letter and no digit"));
            return;
        }
        self.terms.push(Term { words, prefix: !quoted && text.ends_with('*') });
    }

    /// Notes what looks like an operator.
    fn note(&mut self, text: &str) {
        let name = text.split_once(':').map(|(name, _)| name);
        let note = match name {
            _ if matches!(text, "OR" | "NOT" | "NEAR") => {
                format!(
                    "{text} is looked for as a word: there are no operators, and every word must occur"
                )
            }
            _ if text.len() > 1 && text.starts_with('-') => {
                format!("{text} is looked for like any word: a minus leaves nothing out")
            }
            _ if text.contains(['(', ')']) => format!("the brackets in {text} mean nothing"),
            Some("tool" | "session" | "kind" | "since" | "until") => {
                format!("{text} is looked for as words: give that as a filter of its own")
            }
            _ if text.trim_end_matches('*').contains('*') => {
                format!("in {text} only a * at the end stands for the rest of a word")
            }
            _ => return,
        };
        self.notes.push(note);
    }

    /// Returns where the terms occur among the words of a text, as ranges of words.
    pub(crate) fn found_in(&self, words: &[Word]) -> Vec<std::ops::Range<usize>> {
        let mut found = Vec::new();
        let mut at = 0;
        while at < words.len() {
            match self.terms.iter().filter(|term| term.fits(&words[at..])).map(Term::len).max() {
                Some(count) => {
                    found.push(at..at + count);
                    at += count;
                }
                None => at += 1,
            }
        }
        found
    }
}

impl Term {
    fn len(&self) -> usize {
        self.words.len()
    }

    /// Whether a text begins with it.
    fn fits(&self, text: &[Word]) -> bool {
        let Some(here) = text.get(..self.words.len()) else { return false };
        self.words.iter().zip(here).enumerate().all(|(n, (word, found))| {
            found.text == *word
                || self.prefix && n + 1 == self.words.len() && found.text.starts_with(word.as_str())
        })
    }
}

/// Cuts a query at spaces and quotes.
fn pieces<'q>(text: &'q str, notes: &mut Vec<String>) -> Vec<Piece<'q>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some((plain, quoted)) = rest.split_once('"') {
        pieces.extend(plain.split_whitespace().map(|text| Piece { text, quoted: false }));
        match quoted.split_once('"') {
            Some((phrase, after)) => {
                if !phrase.trim().is_empty() {
                    pieces.push(Piece { text: phrase, quoted: true });
                }
                rest = after;
            }
            None => {
                notes.push("a quote has no end: the rest was taken as one phrase".to_owned());
                if !quoted.trim().is_empty() {
                    pieces.push(Piece { text: quoted, quoted: true });
                }
                rest = "";
            }
        }
    }
    pieces.extend(rest.split_whitespace().map(|text| Piece { text, quoted: false }));
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn terms(text: &str) -> Vec<String> {
        let query = SearchQuery::read(text).unwrap();
        let shown = |term: &Term| term.words.join("+") + if term.prefix { "*" } else { "" };
        query.terms.iter().map(shown).collect()
    }

    #[test]
    fn words_phrases_and_beginnings_are_understood() {
        for (text, expected) in [
            ("", vec![]),
            ("Two words", vec!["two", "words"]),
            (r#"a "whole phrase" b"#, vec!["a", "whole+phrase", "b"]),
            ("src/main.rs", vec!["src+main+rs"]),
            ("migr*", vec!["migr*"]),
            (r#""migr*""#, vec!["migr"]),
            (r#"x" y"#, vec!["x", "y"]),
            (r#""" a"#, vec!["a"]),
        ] {
            assert_eq!(terms(text), expected, "{text}");
        }
    }

    #[test]
    fn search_operators_are_words_and_a_note_says_so() {
        for (text, expected, note) in [
            ("a AND b", vec!["a", "b"], "AND was left out"),
            ("a OR b", vec!["a", "or", "b"], "OR is looked for as a word"),
            ("a -b", vec!["a", "b"], "a minus leaves nothing out"),
            ("(a b)", vec!["a", "b"], "mean nothing"),
            ("tool:Bash", vec!["tool+bash"], "a filter of its own"),
            ("a*b c", vec!["a+b", "c"], "only a * at the end"),
            ("a ->", vec!["a"], "has no letter"),
            (r#"a "b c"#, vec!["a", "b+c"], "a quote has no end"),
        ] {
            let notes = SearchQuery::read(text).unwrap().notes;
            assert_eq!(terms(text), expected, "{text}");
            assert!(notes.iter().any(|said| said.contains(note)), "{text}: {notes:?}");
        }
        assert_eq!(SearchQuery::read(r#"plain "words or phrases""#).unwrap().notes, [""; 0]);
    }

    #[test]
    fn a_query_without_words_or_too_long_is_refused() {
        for text in ["-> ***", "\"", &"a ".repeat(MAX_QUERY_WORDS + 1), &"a".repeat(1_001)] {
            assert!(matches!(SearchQuery::read(text), Err(StoreError::Invalid { .. })), "{text}");
        }
    }

    #[test]
    fn the_longest_term_that_fits_is_found() {
        let query = SearchQuery::read(r#"b "b c" de*"#).unwrap();
        let words = words_of("a B, c b deep");
        assert_eq!(query.found_in(&words), [1..3, 3..4, 4..5]);
    }
}
