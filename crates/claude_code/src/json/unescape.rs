//! Turns the inside of a JSON string with escapes into its text.

/// Decodes `inner`, the bytes between the quotes of a string that [`scan`](super::scan) has accepted. Half a surrogate
/// pair becomes the replacement character.
pub(crate) fn unescape(inner: &str) -> String {
    let bytes = inner.as_bytes();
    // No escape is shorter than what it stands for.
    let mut text = vec![0; bytes.len()];
    let (mut read, mut written) = (0, 0);
    while let Some(&byte) = bytes.get(read) {
        if byte == b'\\' {
            let (character, used) = decode(&bytes[read..]);
            written += character.encode_utf8(&mut text[written..]).len();
            read += used;
        } else {
            text[written] = byte;
            written += 1;
            read += 1;
        }
    }
    text.truncate(written);
    // What was copied is UTF-8 and so is what was decoded: this never replaces anything.
    String::from_utf8(text).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
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
