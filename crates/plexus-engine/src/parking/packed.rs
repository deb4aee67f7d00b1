//! A transcript as it is kept in a shared store: compressed, and no longer than the store takes.

use std::io::{self, Read as _, Write as _};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use plexus_store::limits::MAX_TRANSCRIPT_BYTES;

use super::transcript::MAX_BYTES;

/// Compresses a transcript; `None` when it is too long for the store all the same.
pub(crate) fn pack(text: &str) -> io::Result<Option<Vec<u8>>> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(text.as_bytes())?;
    Ok(Some(packed.finish()?).filter(|packed| packed.len() <= MAX_TRANSCRIPT_BYTES))
}

/// Reads a transcript again. One that is longer than any that is parked is an error.
pub(crate) fn unpack(packed: &[u8]) -> io::Result<String> {
    let mut text = String::new();
    GzDecoder::new(packed).take(MAX_BYTES + 1).read_to_string(&mut text)?;
    if text.len() as u64 > MAX_BYTES {
        return Err(io::Error::other("it is too long"));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transcript_comes_back_as_it_was() {
        let text = "{\"a\":\"ü\"}\n".repeat(10_000);
        let packed = pack(&text).unwrap().unwrap();
        assert!(packed.len() < text.len() / 10);
        assert_eq!(unpack(&packed).unwrap(), text);
    }

    #[test]
    fn what_is_torn_or_too_long_is_refused() {
        let packed = pack("{\"a\":1}\n").unwrap().unwrap();
        assert!(unpack(&packed[..packed.len() - 1]).is_err());
        assert!(unpack(b"{}").is_err());
        let long = " ".repeat(usize::try_from(MAX_BYTES).unwrap() + 1);
        assert!(unpack(&pack(&long).unwrap().unwrap()).is_err());
        // What cannot be compressed does not fit into the store.
        let mut seed = 1_u64;
        let noise: String = std::iter::repeat_with(|| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            char::from(b' ' + u8::try_from((seed >> 33) % 95).unwrap())
        })
        .take(MAX_TRANSCRIPT_BYTES * 2)
        .collect();
        assert_eq!(pack(&noise).unwrap(), None);
    }
}
