//! Turns the inside of a JSON string with escapes into its text.

/// Decodes `inner`, the bytes between the quotes of a string that [`scan`](super::scan) has accepted. Half a surrogate
/// pair becomes the replacement character.
pub(crate) fn unescape(inner: &str) -> String {
    let mut text = String::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = rest.find('\\') {
        let (plain, escape) = rest.split_at(at);
        text.push_str(plain);
        let (character, used) = decode(escape.as_bytes());
        text.push(character);
        rest = escape.get(used..).unwrap_or_default();
    }
    text.push_str(rest);
    text
}

/// The character of the escape that `bytes` begins with, and its length.
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
