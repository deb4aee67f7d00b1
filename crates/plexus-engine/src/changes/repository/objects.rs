//! Reads contents from the objects of a repository, loose or packed.
//!
//! An agent may have written or truncated any of these files. So they are read piece by piece and
//! never mapped into memory, where a truncated file would end the process; no number in them
//! decides how much memory is used; and a content counts only if it has the name that was asked
//! for.

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};

use flate2::read::ZlibDecoder;
use plexus_files::HeldDir;

use super::super::content::{ContentId, Hashing};
use super::super::snapshot::{Deadline, MAX_CONTENT};

/// How many packs are looked into, each through two descriptors. `git gc` keeps them below 50.
const MAX_PACKS: usize = 100;

/// How many deltas a content may be built from. Git writes at most 50, and 4,095 when told to.
const MAX_DELTAS: usize = 4_096;

/// How many bytes may be unpacked for one content: what the deltas apply to, and the deltas.
const MAX_UNPACKED: usize = 64 * 1024 * 1024;

/// How many bytes the deltas of one content may make together.
const MAX_MADE: usize = 512 * 1024 * 1024;

/// The objects of a repository.
pub(in super::super) struct Objects {
    dir: HeldDir,
    hashing: Hashing,
    packs: Vec<Pack>,
}

struct Pack {
    index: File,
    pack: File,
    /// How many objects are in it.
    count: u64,
}

impl Objects {
    /// Opens the directory `objects` of a repository.
    pub(in super::super) fn open(dir: HeldDir, hashing: Hashing) -> Self {
        let names = dir.names(Path::new("pack"), 10 * MAX_PACKS).unwrap_or_default();
        let names = names.iter().map(|name| Path::new("pack").join(name));
        let indexes = names.filter(|path| path.extension().is_some_and(|it| it == "idx"));
        let packs = indexes.filter_map(|path| Pack::open(&dir, &path)).take(MAX_PACKS).collect();
        Self { dir, hashing, packs }
    }

    /// Reads a content of at most [`MAX_CONTENT`] bytes; `None` when it is not there or is damaged.
    pub(in super::super) fn read(&self, id: &ContentId, deadline: Deadline) -> Option<Vec<u8>> {
        let is_right = |content: &Vec<u8>| self.hashing.name(content).as_ref() == Some(id);
        let packed = || {
            self.packs.iter().find_map(|pack| {
                let found = pack.find(id.bytes(), deadline)?;
                Some(pack.read(found, self.hashing, deadline)).flatten().filter(is_right)
            })
        };
        self.loose(id).filter(is_right).or_else(packed)
    }

    fn loose(&self, id: &ContentId) -> Option<Vec<u8>> {
        let name = id.to_string();
        let path = PathBuf::from(name.get(..2)?).join(name.get(2..)?);
        let mut content = BufReader::new(ZlibDecoder::new(self.dir.file(&path).ok()?));
        let mut head = Vec::new();
        while head.last() != Some(&0) {
            let mut byte = [0];
            content.read_exact(&mut byte).ok()?;
            head.push(byte[0]);
            if head.len() > 32 {
                return None;
            }
        }
        at_most(content, MAX_CONTENT)
    }
}

/// Reads everything, unless it is more than `most` bytes.
fn at_most(from: impl Read, most: usize) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(most as u64 + 1).read_to_end(&mut bytes).ok()?;
    (bytes.len() <= most).then_some(bytes)
}

/// Where the tables of a pack's index begin: after its head, and after the first table, which says
/// how many names begin with each byte or a lower one.
const FAN_OUT: u64 = 8;
const NAMES: u64 = FAN_OUT + 256 * 4;

impl Pack {
    /// Opens a pack by its index; `None` for what is no pair of these.
    fn open(dir: &HeldDir, path: &Path) -> Option<Self> {
        let index = dir.file(path).ok()?;
        // Older ones were written before 2008.
        if bytes_at::<8>(&index, 0)? != *b"\xfftOc\0\0\0\x02" {
            return None;
        }
        let pack = dir.file(&path.with_extension("pack")).ok()?;
        if bytes_at::<4>(&pack, 0)? != *b"PACK" {
            return None;
        }
        let count = u64::from(u32_at(&index, NAMES - 4)?);
        Some(Self { index, pack, count })
    }

    /// Returns where in the pack an object begins.
    fn find(&self, name: &[u8], deadline: Deadline) -> Option<u64> {
        if deadline.is_over() {
            return None;
        }
        let (first, length) = (u64::from(*name.first()?), name.len() as u64);
        let before = |byte: u64| Some(u64::from(u32_at(&self.index, FAN_OUT + 4 * byte)?));
        let mut low = if first == 0 { 0 } else { before(first - 1)? };
        let mut high = before(first)?.min(self.count);
        let mut found = vec![0; name.len()];
        while low < high {
            let middle = low.midpoint(high);
            self.index.read_exact_at(&mut found, NAMES + middle * length).ok()?;
            match found.as_slice().cmp(name) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return self.offset(middle, length),
            }
        }
        None
    }

    fn offset(&self, at: u64, length: u64) -> Option<u64> {
        // After the names and four bytes of a checksum for each.
        let offsets = NAMES + self.count * (length + 4);
        let offset = u32_at(&self.index, offsets + 4 * at)?;
        if offset & 0x8000_0000 == 0 {
            return Some(u64::from(offset));
        }
        let far = u64::from(offset & 0x7fff_ffff);
        let bytes = bytes_at::<8>(&self.index, offsets + 4 * self.count + 8 * far)?;
        Some(u64::from_be_bytes(bytes))
    }

    /// Reads the object that begins at an offset, by what it differs in from others.
    fn read(&self, mut at: u64, hashing: Hashing, deadline: Deadline) -> Option<Vec<u8>> {
        let (mut deltas, mut left) = (Vec::new(), MAX_UNPACKED);
        let mut content = loop {
            if deadline.is_over() || deltas.len() > MAX_DELTAS {
                return None;
            }
            let mut bytes = BufReader::new(From { file: &self.pack, at });
            let (kind, size) = head(&mut bytes)?;
            let base = match kind {
                1..=4 => None,
                6 => Some(at.checked_sub(distance(&mut bytes)?)?),
                7 => {
                    let mut name = vec![0; hashing.len()];
                    bytes.read_exact(&mut name).ok()?;
                    Some(self.find(&name, deadline)?)
                }
                _ => return None,
            };
            left = left.checked_sub(size)?;
            let unpacked = at_most(ZlibDecoder::new(bytes), size)?;
            match base {
                None => break unpacked,
                Some(base) => {
                    deltas.push(unpacked);
                    at = base;
                }
            }
        };
        let mut left = MAX_MADE;
        while let Some(delta) = deltas.pop() {
            content = apply(&delta, &content)?;
            left = left.checked_sub(content.len())?;
        }
        (content.len() <= MAX_CONTENT).then_some(content)
    }
}

/// Reads a file from an offset on, without moving a position that others share.
struct From<'a> {
    file: &'a File,
    at: u64,
}

impl Read for From<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

fn bytes_at<const N: usize>(file: &File, at: u64) -> Option<[u8; N]> {
    let mut bytes = [0; N];
    file.read_exact_at(&mut bytes, at).ok()?;
    Some(bytes)
}

fn u32_at(file: &File, at: u64) -> Option<u32> {
    bytes_at(file, at).map(u32::from_be_bytes)
}

fn byte(bytes: &mut impl Read) -> Option<u8> {
    let mut byte = [0];
    bytes.read_exact(&mut byte).ok()?;
    Some(byte[0])
}

/// Reads the kind of an object in a pack and its size.
fn head(bytes: &mut impl Read) -> Option<(u8, usize)> {
    let mut next = byte(bytes)?;
    let kind = (next >> 4) & 7;
    let (mut size, mut shift) = (u64::from(next & 0x0f), 4);
    while next & 0x80 != 0 {
        next = byte(bytes)?;
        if shift > 32 {
            return None;
        }
        size |= u64::from(next & 0x7f) << shift;
        shift += 7;
    }
    Some((kind, usize::try_from(size).ok()?))
}

/// Reads how far before a delta the object lies that it applies to.
fn distance(bytes: &mut impl Read) -> Option<u64> {
    let mut next = byte(bytes)?;
    let mut value = u64::from(next & 0x7f);
    while next & 0x80 != 0 {
        next = byte(bytes)?;
        value = value.checked_add(1)?.checked_mul(128)?.checked_add(u64::from(next & 0x7f))?;
    }
    (value > 0).then_some(value)
}

/// Applies a delta: pieces of the base and new bytes, one after the other.
fn apply(delta: &[u8], base: &[u8]) -> Option<Vec<u8>> {
    let mut delta = delta.iter().copied();
    let size = |delta: &mut dyn Iterator<Item = u8>| {
        let (mut size, mut shift) = (0_u64, 0);
        loop {
            let next = delta.next()?;
            if shift > 56 {
                return None;
            }
            size |= u64::from(next & 0x7f) << shift;
            shift += 7;
            if next & 0x80 == 0 {
                return usize::try_from(size).ok();
            }
        }
    };
    let (before, after) = (size(&mut delta)?, size(&mut delta)?);
    if before != base.len() || after > MAX_UNPACKED {
        return None;
    }
    let mut made = Vec::new();
    while let Some(code) = delta.next() {
        if code & 0x80 != 0 {
            let mut number = |bits: u8, shift: u8| {
                (0..bits).try_fold(0_usize, |number, bit| {
                    let is_there = code & (1 << (bit + shift)) != 0;
                    let byte = if is_there { delta.next()? } else { 0 };
                    Some(number | usize::from(byte) << (8 * bit))
                })
            };
            let offset = number(4, 0)?;
            let length = match number(3, 4)? {
                0 => 0x10000,
                length => length,
            };
            made.extend_from_slice(base.get(offset..offset.checked_add(length)?)?);
        } else if code == 0 {
            return None;
        } else {
            let from = made.len();
            made.extend(delta.by_ref().take(usize::from(code)));
            if made.len() - from != usize::from(code) {
                return None;
            }
        }
        if made.len() > after {
            return None;
        }
    }
    (made.len() == after).then_some(made)
}
