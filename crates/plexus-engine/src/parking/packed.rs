//! A transcript as it is kept in a shared store: compressed, and no longer than the store takes.

use std::io::{self, Read as _, Write as _};

use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use plexus_store::limits::MAX_TRANSCRIPT_BYTES;

use super::transcript::MAX_BYTES;

/// Compresses a transcript; `None` when even the compressed form is too long for the store.
pub(crate) fn pack(text: &str) -> io::Result<Option<Vec<u8>>> {
    pack_within(text, MAX_TRANSCRIPT_BYTES)
}

fn pack_within(text: &str, bound: usize) -> io::Result<Option<Vec<u8>>> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(text.as_bytes())?;
    Ok(Some(packed.finish()?).filter(|packed| packed.len() <= bound))
}

/// Decompresses a transcript; an error when it is longer than a parked one may be.
pub(crate) fn unpack(packed: &[u8]) -> io::Result<String> {
    unpack_within(packed, MAX_BYTES)
}

fn unpack_within(packed: &[u8], bound: u64) -> io::Result<String> {
    let mut text = String::new();
    GzDecoder::new(packed).take(bound + 1).read_to_string(&mut text)?;
    if text.len() as u64 > bound {
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
    fn a_torn_or_too_long_transcript_is_refused() {
        let packed = pack("{\"a\":1}\n").unwrap().unwrap();
        assert!(unpack(&packed[..packed.len() - 1]).is_err());
        assert!(unpack(b"{}").is_err());
        let long = pack(&" ".repeat(10_000)).unwrap().unwrap();
        assert_eq!(unpack_within(&long, 10_000).unwrap().len(), 10_000);
        assert!(unpack_within(&long, 9_999).is_err());
        assert_eq!(pack_within(&" ".repeat(10_000), long.len() - 1).unwrap(), None);
    }
}
