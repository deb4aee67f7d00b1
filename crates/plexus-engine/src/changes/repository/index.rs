//! Reads the index of a repository: which content each file had when git last looked at it.
//!
//! An agent may have written it, so nothing in it is believed that could lead out of the directory
//! or take more memory than a bound allows. At worst it says that a file had a content that the
//! repository has, too.

use std::collections::BTreeMap;

use super::super::content::{ContentId, Hashing};
use super::super::snapshot::{Entry, Kind, MAX_FILES, MAX_PATH, Stat, Time, is_plain};

/// How many bytes all paths of an index may have together.
const MAX_PATHS: usize = 64 * 1024 * 1024;

/// Flags of an entry: more flags follow, and its place in a conflict.
const EXTENDED: u16 = 0x4000;
const STAGE: u16 = 0x3000;
/// A flag of those that follow: the file will be added, and has no content yet.
const INTENT_TO_ADD: u16 = 0x2000;

/// Returns the files below a directory that an index names, by their path from there. `None` when
/// the index is damaged, too large, or needs another file.
pub(super) fn parse(
    bytes: &[u8],
    hashing: Hashing,
    below: &[u8],
) -> Option<BTreeMap<Vec<u8>, Entry>> {
    let mut rest = Bytes(bytes);
    if rest.take(4)? != b"DIRC" {
        return None;
    }
    let version = rest.u32()?;
    if !(2..=4).contains(&version) {
        return None;
    }
    let count = rest.u32()?;
    let (mut entries, mut path, mut paths) = (BTreeMap::new(), Vec::new(), 0);
    for _ in 0..count {
        let begins = rest.0.len();
        let ctime = Time { s: rest.u32()?, ns: rest.u32()? };
        let mtime = Time { s: rest.u32()?, ns: rest.u32()? };
        let _device = rest.u32()?;
        let (ino, mode) = (rest.u32()?, rest.u32()?);
        let _owners = (rest.u32()?, rest.u32()?);
        let size = rest.u32()?;
        let id = ContentId::new(rest.take(hashing.len())?);
        let flags = rest.u16()?;
        let more = if flags & EXTENDED != 0 && version > 2 { rest.u16()? } else { 0 };
        if version == 4 {
            let gone = rest.varint()?;
            path.truncate(path.len().checked_sub(gone)?);
            path.extend_from_slice(rest.until_nul()?);
        } else {
            path.clear();
            path.extend_from_slice(rest.until_nul()?);
            // Entries end at a multiple of eight bytes.
            let length = begins - rest.0.len();
            rest.take(length.next_multiple_of(8) - length)?;
        }
        if path.len() > MAX_PATH {
            return None;
        }
        let kind = match mode {
            0o100_755 => Kind::Program,
            0o120_000 => Kind::Link,
            _ if mode & 0o170_000 == 0o100_000 => Kind::File,
            // A nested repository, or a directory of a sparse index.
            _ => continue,
        };
        let Some(path) = from(&path, below).filter(|path| is_plain(path)) else { continue };
        if flags & STAGE != 0 || more & INTENT_TO_ADD != 0 {
            continue;
        }
        paths += path.len();
        if paths > MAX_PATHS || entries.len() == MAX_FILES {
            return None;
        }
        entries.insert(
            path.to_vec(),
            Entry { kind, stat: Stat { size, ino, mtime, ctime }, id: Some(id) },
        );
    }
    // A split index has its entries in another file.
    (!rest.0.starts_with(b"link")).then_some(entries)
}

/// The part of a path below a directory.
fn from<'a>(path: &'a [u8], below: &[u8]) -> Option<&'a [u8]> {
    if below.is_empty() {
        return Some(path);
    }
    path.strip_prefix(below)?.strip_prefix(b"/")
}

/// What is left to read.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn u32(&mut self) -> Option<u32> {
        Some(u32::from_be_bytes(self.take(4)?.try_into().ok()?))
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes(self.take(2)?.try_into().ok()?))
    }

    fn until_nul(&mut self) -> Option<&'a [u8]> {
        let length = memchr::memchr(0, self.0)?;
        let taken = self.take(length)?;
        self.take(1)?;
        Some(taken)
    }

    /// Reads a number in groups of seven bits, the highest first, as offsets in packs are written.
    fn varint(&mut self) -> Option<usize> {
        let mut value = 0_usize;
        loop {
            let byte = self.take(1)?[0];
            value = value.checked_mul(128)?.checked_add(usize::from(byte & 0x7f))?;
            if byte & 0x80 == 0 {
                return Some(value);
            }
            value = value.checked_add(1)?;
        }
    }
}
