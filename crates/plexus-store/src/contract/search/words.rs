//! The words of a text, by one rule for both engines: a word is a run of letters and digits, in
//! lower case.
//!
//! The engines have rules of their own, which differ: PostgreSQL would take `src/main.rs` for one
//! word, SQLite for three. They get words that are cut already.

use std::ops::Range;

/// How many characters of a word count. Longer ones are encoded data, and both sides of a
/// comparison are cut alike.
const MAX_WORD_CHARS: usize = 64;

/// How many words of one text are indexed: PostgreSQL has no positions above 16,383.
pub(crate) const MAX_WORDS: usize = 16_000;

/// A word and where it stands in its text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Word {
    /// The word in lower case, cut to its bound.
    pub(crate) text: String,
    /// Its bytes in the text.
    pub(crate) at: Range<usize>,
}

/// Returns the first [`MAX_WORDS`] words of a text.
pub(crate) fn words_of(text: &str) -> Vec<Word> {
    let mut words: Vec<Word> = Vec::new();
    let mut open = false;
    let mut chars = 0;
    for (at, c) in text.char_indices() {
        if !c.is_alphanumeric() {
            open = false;
            continue;
        }
        let end = at + c.len_utf8();
        let alone = stands_alone(c);
        if !open || alone {
            if words.len() == MAX_WORDS {
                break;
            }
            words.push(Word { text: c.to_lowercase().collect(), at: at..end });
            chars = 1;
        } else if let Some(word) = words.last_mut() {
            word.at.end = end;
            chars += 1;
            if chars <= MAX_WORD_CHARS {
                word.text.extend(c.to_lowercase());
            }
        }
        open = !alone;
    }
    words
}

/// Whether a character is a word by itself: Chinese and Japanese are written without spaces.
fn stands_alone(c: char) -> bool {
    matches!(c, '\u{3040}'..='\u{30ff}' | '\u{3400}'..='\u{9fff}' | '\u{f900}'..='\u{faff}'
        | '\u{20000}'..='\u{3ffff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_at_everything_that_is_no_letter_or_digit() {
        let words = |text: &str| -> Vec<String> {
            words_of(text).into_iter().map(|word| word.text).collect()
        };
        assert_eq!(words("Read src/main.rs, v2"), ["read", "src", "main", "rs", "v2"]);
        assert_eq!(words("read_file()"), ["read", "file"]);
        assert_eq!(words("ÜBER straße"), ["über", "straße"]);
        assert_eq!(words("日本go語"), ["日", "本", "go", "語"]);
        assert_eq!(words(" -- '\"\0"), Vec::<String>::new());
        assert_eq!(words(&"x".repeat(1_000)), ["x".repeat(MAX_WORD_CHARS)]);
        assert_eq!(words(&"x ".repeat(MAX_WORDS + 5)).len(), MAX_WORDS);
    }

    #[test]
    fn a_word_knows_its_place_in_the_text() {
        let text = "ab, Straße";
        let places: Vec<_> = words_of(text).into_iter().map(|word| &text[word.at]).collect();
        assert_eq!(places, ["ab", "Straße"]);
    }
}
