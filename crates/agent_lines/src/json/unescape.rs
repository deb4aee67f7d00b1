//! Decodes the contents of a JSON string that has escapes.

use super::block::{SHORT_BYTES, first_backslash};

/// Decodes `inner`, the bytes between the quotes of a string that [`scan`](super::scan) has
/// accepted. Half a surrogate pair becomes the replacement character.
pub(super) fn unescape(inner: &str) -> String {
    let bytes = inner.as_bytes();
    // No escape is shorter than the character it stands for, so the text fits. The extra bytes are
    // room for the last copy, which has a fixed length.
    let mut text = vec![0; bytes.len() + SHORT_BYTES];
    let (mut read, mut written) = (0, 0);
    while let (Some(from), Some(to)) = (
        bytes.get(read..).and_then(|rest| rest.first_chunk::<SHORT_BYTES>()),
        text.get_mut(written..).and_then(|rest| rest.first_chunk_mut::<SHORT_BYTES>()),
    ) {
        // The whole chunk is copied, and then only the bytes before the escape count. This is
        // cheaper than a copy of exactly those bytes.
        *to = *from;
        let plain = first_backslash(from);
        read += plain;
        written += plain;
        if plain < SHORT_BYTES {
            (read, written) = decode_one(bytes, read, &mut text, written);
        }
    }
    while let Some(&byte) = bytes.get(read) {
        if byte == b'\\' {
            (read, written) = decode_one(bytes, read, &mut text, written);
        } else {
            text[written] = byte;
            (read, written) = (read + 1, written + 1);
        }
    }
    text.truncate(written);
    // Copied and decoded bytes are both UTF-8, so this never replaces anything.
    String::from_utf8(text)
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

/// Decodes the escape at `read` to `written`, and returns the offset after each.
#[inline]
fn decode_one(bytes: &[u8], read: usize, text: &mut [u8], written: usize) -> (usize, usize) {
    let (character, used) = decode(bytes.get(read..).unwrap_or_default());
    let written = match text.get_mut(written) {
        Some(place) if character.is_ascii() => {
            *place = character as u8;
            written + 1
        }
        _ => written + character.encode_utf8(&mut text[written..]).len(),
    };
    (read + used, written)
}

/// Returns the character of the escape at the beginning of `bytes`, and the length of that escape.
fn decode(bytes: &[u8]) -> (char, usize) {
    let character = match bytes.get(1) {
        Some(b'b') => '\u{8}',
        Some(b'f') => '\u{c}',
        Some(b'n') => '\n',
        Some(b'r') => '\r',
        Some(b't') => '\t',
        Some(b'u') => return decode_unicode(bytes),
        Some(&same) => char::from(same),
        None => char::REPLACEMENT_CHARACTER,
    };
    (character, 2)
}

fn decode_unicode(bytes: &[u8]) -> (char, usize) {
    match (code_unit(bytes, 0), code_unit(bytes, 6)) {
        (Some(high @ 0xD800..=0xDBFF), Some(low @ 0xDC00..=0xDFFF)) => {
            let scalar = 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
            (char::from_u32(scalar).unwrap_or(char::REPLACEMENT_CHARACTER), 12)
        }
        (Some(unit), _) => (char::from_u32(unit).unwrap_or(char::REPLACEMENT_CHARACTER), 6),
        (None, _) => (char::REPLACEMENT_CHARACTER, 6),
    }
}

fn code_unit(bytes: &[u8], at: usize) -> Option<u32> {
    let escape = bytes.get(at..at + 6)?;
    let digits = std::str::from_utf8(escape.strip_prefix(b"\\u")?).ok()?;
    u32::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::unescape;

    proptest! {
        #[test]
        fn escapes_of_serde_json_are_decoded(text in any::<String>()) {
            let json = serde_json::to_string(&text).expect("a string");
            prop_assert_eq!(unescape(&json[1..json.len() - 1]), text);
        }

        #[test]
        fn code_units_and_escapes_mix(pieces in prop::collection::vec(prop::sample::select(vec![
            "plain text that is longer than a step", "\\n", "\\\\", "\\\"", "\\/",
            "\\u0041", "\\u00e4", "\\u20ac", "\\ud83e\\udd80", "ä", "🦀",
        ]), 0..30)) {
            let inner = pieces.concat();
            let expected: String = serde_json::from_str(&format!("\"{inner}\"")).expect("valid");
            prop_assert_eq!(unescape(&inner), expected);
        }
    }

    #[test]
    fn half_a_pair_is_replaced() {
        assert_eq!(unescape("a\\ud83eb\\udd80\\ud83e"), "a\u{fffd}b\u{fffd}\u{fffd}");
    }
}
