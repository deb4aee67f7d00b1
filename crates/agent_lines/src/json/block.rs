//! Examines 64 bytes at once: which of them are quotes, backslashes and control characters, one bit
//! each.
//!
//! A tool's output has an escape every few words. Stopping at each costs more than reading the
//! text, because the processor cannot predict where the next one is. With masks the scanner stops
//! only at the end of the string.

use wide::u8x16;

/// How many bytes are examined together.
pub(super) const BLOCK_BYTES: usize = 64;

/// One bit for each byte of a block, the first byte lowest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Masks {
    pub(super) quotes: u64,
    pub(super) backslashes: u64,
    /// Bytes below 0x20, which are not allowed in a string.
    pub(super) controls: u64,
}

/// Returns the bytes that are escaped by a backslash, in a block whose backslashes are
/// `backslashes`. On entry `carry` says whether an escaping backslash was the last byte before the
/// block; on return, whether one is the last byte of this block.
///
/// In a run of backslashes every odd one escapes the next byte. Subtracting the starts of the
/// escapes from the pattern of every second bit makes each run alternate; this is the method of
/// simdjson.
#[inline]
pub(super) fn escaped(backslashes: u64, carry: &mut bool) -> u64 {
    const EVERY_SECOND: u64 = 0xAAAA_AAAA_AAAA_AAAA;
    let first_escaped = u64::from(*carry);
    let may_escape = backslashes & !first_escaped;
    let maybe_escaped = may_escape << 1;
    let maybe_escaped_and_seconds = maybe_escaped | EVERY_SECOND;
    let alternating = maybe_escaped_and_seconds.wrapping_sub(may_escape);
    let escapes_and_escaped = alternating ^ EVERY_SECOND;
    *carry = (escapes_and_escaped & backslashes) >> 63 == 1;
    escapes_and_escaped ^ (backslashes | first_escaped)
}

/// How many bytes of a string are examined first: most strings are keys, ids and words, and end
/// within these.
pub(super) const SHORT_BYTES: usize = 16;

/// Returns the offset of the quote that ends a string, if it is among these bytes and only plain
/// bytes precede it.
#[inline]
pub(super) fn short_end(bytes: &[u8; SHORT_BYTES]) -> Option<usize> {
    let bytes = u8x16::new(*bytes);
    let quotes = bytes.simd_eq(u8x16::splat(b'"'));
    let odd = bytes.simd_eq(u8x16::splat(b'\\')) | bytes.min(u8x16::splat(0x1F)).simd_eq(bytes);
    let (quotes, odd) = (quotes.to_bitmask(), odd.to_bitmask());
    let before = quotes.wrapping_sub(1) & !quotes;
    (quotes != 0 && odd & before == 0).then_some(quotes.trailing_zeros() as usize)
}

/// Returns the offset of the first backslash, or the number of bytes when there is none.
#[inline]
pub(super) fn first_backslash(bytes: &[u8; SHORT_BYTES]) -> usize {
    let backslashes = u8x16::new(*bytes).simd_eq(u8x16::splat(b'\\')).to_bitmask();
    (backslashes.trailing_zeros() as usize).min(SHORT_BYTES)
}

/// Computes the masks of a block.
#[inline]
pub(super) fn masks(block: &[u8; BLOCK_BYTES]) -> Masks {
    let last_control = u8x16::splat(0x1F);
    let (mut quotes, mut backslashes, mut controls) = (0, 0, 0);
    for (index, part) in parts(block).into_iter().enumerate() {
        quotes |= bits(part.simd_eq(u8x16::splat(b'"')), index);
        backslashes |= bits(part.simd_eq(u8x16::splat(b'\\')), index);
        controls |= bits(part.min(last_control).simd_eq(part), index);
    }
    Masks { quotes, backslashes, controls }
}

/// Returns the bytes that may follow a backslash, apart from `u`.
#[inline]
pub(super) fn simple_escapes(block: &[u8; BLOCK_BYTES]) -> u64 {
    parts(block).into_iter().enumerate().fold(0, |found, (index, part)| {
        let any = SIMPLE_ESCAPES
            .iter()
            .fold(u8x16::ZERO, |any, &byte| any | part.simd_eq(u8x16::splat(byte)));
        found | bits(any, index)
    })
}

const SIMPLE_ESCAPES: &[u8; 8] = b"\"\\/bfnrt";

#[inline]
fn bits(part: u8x16, index: usize) -> u64 {
    u64::from(part.to_bitmask()) << (16 * index)
}

#[inline]
fn parts(block: &[u8; BLOCK_BYTES]) -> [u8x16; 4] {
    std::array::from_fn(|index| u8x16::new(std::array::from_fn(|byte| block[16 * index + byte])))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{
        BLOCK_BYTES, Masks, SHORT_BYTES, SIMPLE_ESCAPES, escaped, masks, short_end, simple_escapes,
    };

    /// Builds a mask one bit at a time.
    fn mask(block: &[u8; BLOCK_BYTES], is_set: impl Fn(u8) -> bool) -> u64 {
        block
            .iter()
            .enumerate()
            .fold(0, |mask, (index, &byte)| mask | u64::from(is_set(byte)) << index)
    }

    proptest! {
        #[test]
        fn the_fast_masks_are_the_plain_ones(bytes in prop::collection::vec(any::<u8>(), BLOCK_BYTES)) {
            let block: [u8; BLOCK_BYTES] = bytes.try_into().expect("64 bytes");
            let plain = Masks {
                quotes: mask(&block, |byte| byte == b'"'),
                backslashes: mask(&block, |byte| byte == b'\\'),
                controls: mask(&block, |byte| byte < 0x20),
            };
            prop_assert_eq!(masks(&block), plain);
            prop_assert_eq!(simple_escapes(&block), mask(&block, |byte| SIMPLE_ESCAPES.contains(&byte)));
        }

        #[test]
        fn a_short_string_ends_at_its_first_plain_quote(text in "[ab\"\\\\\n]{16}") {
            let bytes: [u8; SHORT_BYTES] = text.as_bytes().try_into().expect("16 bytes");
            let first = text.find(['"', '\\', '\n']);
            prop_assert_eq!(short_end(&bytes), first.filter(|&at| bytes[at] == b'"'));
        }

        #[test]
        fn every_second_backslash_of_a_run_is_escaped(
            blocks in prop::collection::vec(prop::collection::vec(prop::bool::weighted(0.7), BLOCK_BYTES), 1..4),
        ) {
            let (mut carry, mut hides_next) = (false, false);
            for block in blocks {
                let backslashes = block.iter().enumerate().fold(0, |mask, (index, &is)| mask | u64::from(is) << index);
                let found = escaped(backslashes, &mut carry);
                for (index, is_backslash) in block.into_iter().enumerate() {
                    prop_assert_eq!(found >> index & 1 == 1, hides_next);
                    hides_next = is_backslash && !hides_next;
                }
            }
        }
    }
}
