//! Our own tokens have a recognisable prefix; where a child prints one, it is masked before it is
//! stored or shown.

use plexus_core::auth::TOKEN_PREFIX;
use plexus_store::JsonText;

/// What stands in a token's place.
const MASK: &str = "[token removed]";

/// How JSON may write any letter.
const LETTER_ESCAPE: &str = "\\u";

/// The shortest run of token characters after the prefix that counts as a token; ours have 43.
const MIN_TOKEN_CHARS: usize = 16;

/// How much of a text that comes in pieces is held back at most while it may be a token; ours are
/// much shorter.
const MAX_HELD_BYTES: usize = 256;

/// Masks every token of ours in `text`.
#[must_use]
pub fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(TOKEN_PREFIX) {
        let (before, from) = rest.split_at(at);
        let secret = &from[TOKEN_PREFIX.len()..];
        let length = secret.bytes().take_while(|byte| is_token_byte(*byte)).count();
        out.push_str(before);
        if length >= MIN_TOKEN_CHARS {
            out.push_str(MASK);
        } else {
            out.push_str(&from[..TOKEN_PREFIX.len() + length]);
        }
        rest = &secret[length..];
    }
    out.push_str(rest);
    out
}

/// Masks tokens in the strings of a JSON text, keys included, also where some of their letters are
/// written as escapes. Everything else of the text stays as it is.
pub(crate) fn json(body: JsonText) -> JsonText {
    let source = body.as_str();
    if !source.contains(TOKEN_PREFIX) && !source.contains(LETTER_ESCAPE) {
        return body;
    }
    let mut masked = String::with_capacity(source.len());
    let mut rest = source;
    while let Some(start) = rest.find('"') {
        let (before, from) = rest.split_at(start);
        let (literal, after) = from.split_at(literal_length(from));
        masked.push_str(before);
        match serde_json::from_str::<String>(literal) {
            Ok(decoded) if text(&decoded) != decoded => {
                masked.push_str(&serde_json::Value::from(text(&decoded)).to_string());
            }
            Ok(_) => masked.push_str(literal),
            // No text, for example half of a surrogate pair: masked as it is written.
            Err(_) => masked.push_str(&text(literal)),
        }
        rest = after;
    }
    masked.push_str(rest);
    JsonText::parse(masked).unwrap_or_else(|_| JsonText::from(serde_json::Value::from(MASK)))
}

/// How many bytes the string literal at the beginning of `from` has, with its quotes.
fn literal_length(from: &str) -> usize {
    let mut escaped = false;
    for (at, byte) in from.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    from.len()
}

/// Masks tokens in a text that comes in pieces: what may be the beginning of one is held back until
/// its end is seen.
#[derive(Debug, Default)]
pub(crate) struct Pieces {
    held: String,
    /// Whether a token that was too long to hold has been masked already: the rest of it is
    /// dropped.
    in_token: bool,
}

impl Pieces {
    /// Takes the next piece, and returns what may be shown by now.
    pub(crate) fn push(&mut self, piece: &str) -> String {
        let mut piece = piece;
        if self.in_token {
            piece = piece.trim_start_matches(|c: char| u8::try_from(c).is_ok_and(is_token_byte));
            self.in_token = piece.is_empty();
        }
        self.held.push_str(piece);
        let rest = self.held.split_off(unfinished_from(&self.held));
        let mut shown = text(&self.held);
        self.held = rest;
        if self.held.len() > MAX_HELD_BYTES {
            shown.push_str(MASK);
            self.held.clear();
            self.in_token = true;
        }
        shown
    }

    /// Forgets what is held back: the text has ended, and comes whole as an event.
    pub(crate) fn end(&mut self) {
        *self = Self::default();
    }
}

/// Where a text may begin to be a token whose end has not come yet.
fn unfinished_from(text: &str) -> usize {
    let whole_prefix = text
        .match_indices(TOKEN_PREFIX)
        .map(|(at, _)| at)
        .find(|at| text[at + TOKEN_PREFIX.len()..].bytes().all(is_token_byte));
    let part_of_prefix =
        || (1..TOKEN_PREFIX.len()).rev().find(|length| text.ends_with(&TOKEN_PREFIX[..*length]));
    whole_prefix.unwrap_or_else(|| text.len() - part_of_prefix().unwrap_or(0))
}

fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_masked_and_everything_else_stays() {
        let token = format!("{TOKEN_PREFIX}{}", "aB3-_".repeat(8));
        assert_eq!(text(&format!("a {token} b {token}")), format!("a {MASK} b {MASK}"));
        for plain in ["", "plx", "plx_", "plx_short", "complx_y is a word", "plx_ plx_ plx_"] {
            assert_eq!(text(plain), plain);
        }
        let body = JsonText::from(serde_json::json!({"text": format!("\"{token}\"\n")}));
        assert_eq!(json(body).to_value(), serde_json::json!({"text": format!("\"{MASK}\"\n")}));
    }

    #[test]
    fn a_token_with_escaped_letters_is_masked_in_keys_and_values() {
        let token = format!("{TOKEN_PREFIX}{}", "aB3-_".repeat(8));
        let written = token.replace('p', "\\u0070").replace("B3", "\\u00423");
        let body = format!(r#"{{ "{written}" : ["\n{written}", 1.50, "\u00e9\\u0070lx_"] }}"#);
        let expected = format!(r#"{{ "{MASK}" : ["\n{MASK}", 1.50, "\u00e9\\u0070lx_"] }}"#);
        assert_eq!(json(JsonText::parse(body).unwrap()).as_str(), expected);
    }

    #[test]
    fn a_token_is_masked_however_it_is_cut_into_pieces() {
        let token = format!("{TOKEN_PREFIX}{}", "aB3-_".repeat(8));
        let whole = format!("see {token}, and a plx_short help pl");
        for size in 1..whole.len() {
            let mut pieces = Pieces::default();
            let mut shown: String = whole
                .as_bytes()
                .chunks(size)
                .map(|piece| pieces.push(std::str::from_utf8(piece).unwrap()))
                .collect();
            // What is held back at the end could still have become a token.
            shown.push_str(&pieces.held);
            assert_eq!(shown, text(&whole), "in pieces of {size} bytes");
        }
    }

    #[test]
    fn an_endless_token_is_masked_once_and_held_back_in_bounds() {
        let mut pieces = Pieces::default();
        let mut shown = pieces.push(&format!("a {TOKEN_PREFIX}"));
        for _ in 0..1_000 {
            shown.push_str(&pieces.push("abcdefghij"));
            assert!(pieces.held.len() <= MAX_HELD_BYTES);
        }
        shown.push_str(&pieces.push("xyz b"));
        assert_eq!(shown, format!("a {MASK} b"));
    }

    #[test]
    fn held_back_text_does_not_reach_the_next_text() {
        let mut pieces = Pieces::default();
        assert_eq!(pieces.push("help"), "hel");
        pieces.end();
        assert_eq!(pieces.push("lx_ and on"), "lx_ and on");
    }
}
