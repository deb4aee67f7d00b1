//! Our own tokens have a recognisable prefix; where a child prints one, it is masked before it is stored or shown.

use plexus_core::auth::TOKEN_PREFIX;
use plexus_store::JsonText;

/// What stands in a token's place.
const MASK: &str = "[token removed]";

/// The shortest run of token characters behind the prefix that counts as a token; ours have 43.
const MIN_TOKEN_CHARS: usize = 16;

/// Masks every token of ours in `text`.
#[must_use]
pub fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find(TOKEN_PREFIX) {
        let (before, from) = rest.split_at(at);
        let secret = &from[TOKEN_PREFIX.len()..];
        let length = secret.bytes().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_')).count();
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

/// Masks tokens in JSON. A token has no character that JSON escapes, and neither has the mask, so the text stays JSON.
pub(crate) fn json(body: JsonText) -> JsonText {
    if !body.as_str().contains(TOKEN_PREFIX) {
        return body;
    }
    let masked = text(body.as_str());
    JsonText::parse(masked).unwrap_or(body)
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
}
