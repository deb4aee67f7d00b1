//! The files of a directory at one moment: what the kernel says of each, and the name of its
//! content.
//!
//! Nothing is run for it. The files are read through a directory that is held open, never through a
//! link, and each within a bound. A snapshot that is taken later reads only the files that the
//! kernel says were touched since the earlier one.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::Metadata;
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use plexus_files::HeldDir;

use super::content::{ContentId, Hashing};
use super::ignored::{Rules, full};

/// How many files a snapshot has at most. The largest repositories have twice as many.
pub(super) const MAX_FILES: usize = 200_000;

/// How long a path may be; the kernel opens no longer one.
pub(super) const MAX_PATH: usize = 4_096;

/// How long a file may be whose content is named and compared.
pub(super) const MAX_CONTENT: usize = 2 * 1024 * 1024;

/// How many bytes of files one snapshot reads. The contents of further files have no name.
const MAX_READ: u64 = 1024 * 1024 * 1024;

/// How long before a snapshot a file must have been touched last for its times to be proof that it
/// was not touched again: clocks of file systems are coarse.
const SETTLED: Duration = Duration::from_secs(2);

/// The files of a directory at one moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Snapshot {
    /// When it was taken. A file that was touched later is read again.
    pub(super) taken: Time,
    /// The files, by their path from the directory.
    pub(super) files: BTreeMap<Vec<u8>, Entry>,
}

/// A file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Entry {
    pub(super) kind: Kind,
    pub(super) stat: Stat,
    /// The name of its content; `None` when it was not read.
    pub(super) id: Option<ContentId>,
}

/// What a path leads to. Git tells no other kinds apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// A file.
    File,
    /// A file that its owner may execute.
    Program,
    /// A symbolic link. Its content is where it leads.
    Link,
    /// A nested repository, which is not entered.
    Repository,
    /// A directory that cannot be read.
    Closed,
    /// A pipe, a socket or a device.
    Other,
}

/// What the kernel says of a file that was not touched, as far as an index of git keeps it.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) struct Stat {
    pub(super) size: u32,
    pub(super) ino: u32,
    pub(super) mtime: Time,
    pub(super) ctime: Time,
}

/// A time, in seconds since 1970.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Debug)]
pub(super) struct Time {
    pub(super) s: u32,
    pub(super) ns: u32,
}

/// When to give up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Deadline(Instant);

/// A difference between two snapshots.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Difference<'a> {
    pub(super) path: &'a [u8],
    pub(super) before: Option<&'a Entry>,
    pub(super) after: Option<&'a Entry>,
}

/// A directory and what to leave out of it.
pub(super) struct Directory<'a> {
    pub(super) held: &'a HeldDir,
    /// Its full name, which the rules are about.
    pub(super) name: &'a Path,
    pub(super) rules: Rules,
    pub(super) hashing: Hashing,
}

impl Snapshot {
    /// Takes a snapshot. The names of contents come from an earlier one where a file was not
    /// touched since; `read` gets each content that was read and differs from the earlier one.
    /// Files of the earlier one are in it also where the rules leave them out.
    ///
    /// # Errors
    /// When there are too many files, it takes too long, or the directory cannot be read.
    pub(super) fn take(
        dir: &Directory<'_>,
        earlier: &Self,
        deadline: Deadline,
        mut read: impl FnMut(&ContentId, &[u8]) -> io::Result<()>,
    ) -> io::Result<Self> {
        let taken = Time::now().before(SETTLED);
        let mut files = walk(dir, deadline)?;
        for path in earlier.files.keys() {
            deadline.check()?;
            if !files.contains_key(path) {
                let found = dir.held.stat(Path::new(OsStr::from_bytes(path)));
                if let Some(entry) = found.filter(|found| !found.is_dir()).map(|it| entry(&it)) {
                    add(&mut files, path.clone(), entry)?;
                }
            }
        }
        let mut left = MAX_READ;
        for (path, entry) in &mut files {
            let known = earlier.files.get(path).filter(|known| known.kind.is_like(entry.kind));
            if let Some(known) =
                known.filter(|it| it.stat == entry.stat && it.is_before(earlier.taken))
            {
                entry.id.clone_from(&known.id);
                continue;
            }
            deadline.check()?;
            left = left.saturating_sub(u64::from(entry.stat.size).min(MAX_CONTENT as u64));
            if left == 0 {
                continue;
            }
            let path = Path::new(OsStr::from_bytes(path));
            // What cannot be read, or changes while it is read, has a content without a name.
            let Some(content) = content(dir.held, path, entry.kind) else { continue };
            entry.id = dir.hashing.name(&content);
            if let Some(id) = &entry.id
                && known.and_then(|known| known.id.as_ref()) != Some(id)
            {
                read(id, &content)?;
            }
        }
        Ok(Self { taken, files })
    }

    /// Forgets the names of all contents, so that every file is read.
    pub(super) fn distrust(&mut self) {
        self.taken = Time::default();
        self.files.values_mut().for_each(|entry| entry.id = None);
    }

    /// Returns what differs in a later snapshot, by path.
    pub(super) fn differences<'a>(
        &'a self,
        later: &'a Self,
    ) -> impl Iterator<Item = Difference<'a>> {
        let gone = self.files.iter().filter_map(|(path, entry)| {
            let after = later.files.get(path);
            let is_same = after.is_some_and(|after| entry.is_same(after));
            (!is_same).then_some(Difference { path, before: Some(entry), after })
        });
        let new = later.files.iter().filter(|(path, _)| !self.files.contains_key(*path));
        let new = new.map(|(path, entry)| Difference { path, before: None, after: Some(entry) });
        let mut all: Vec<_> = gone.chain(new).collect();
        all.sort_by_key(|difference| difference.path);
        all.into_iter()
    }

    /// Writes it as bytes.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = format!("{} {}\n", self.taken.s, self.taken.ns).into_bytes();
        for (path, Entry { kind, stat, id }) in &self.files {
            let Stat { size, ino, mtime, ctime } = stat;
            let id = id.as_ref().map_or_else(|| "-".to_owned(), ToString::to_string);
            let (kind, times) = (kind.letter(), [mtime.s, mtime.ns, ctime.s, ctime.ns]);
            let [a, b, c, d] = times;
            bytes.extend(format!("{kind} {size} {ino} {a} {b} {c} {d} {id} ").into_bytes());
            bytes.extend_from_slice(path);
            bytes.push(0);
        }
        bytes
    }

    /// Reads what [`Snapshot::to_bytes`] wrote.
    pub(super) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (head, rest) = bytes.split_at(memchr::memchr(b'\n', bytes)?);
        let (s, ns) = std::str::from_utf8(head).ok()?.split_once(' ')?;
        let taken = Time { s: s.parse().ok()?, ns: ns.parse().ok()? };
        let lines = rest[1..].split(|byte| *byte == 0).filter(|line| !line.is_empty());
        let files = lines.map(|line| {
            let mut words = line.splitn(9, |byte| *byte == b' ');
            let mut word = || std::str::from_utf8(words.next()?).ok();
            let kind = Kind::of_letter(word()?)?;
            let mut number = || word()?.parse().ok();
            let (size, ino) = (number()?, number()?);
            let mtime = Time { s: number()?, ns: number()? };
            let ctime = Time { s: number()?, ns: number()? };
            let id = match word()? {
                "-" => None,
                id => Some(id.parse().ok()?),
            };
            let path = words.next()?.to_vec();
            Some((path, Entry { kind, stat: Stat { size, ino, mtime, ctime }, id }))
        });
        Some(Self { taken, files: files.collect::<Option<_>>()? })
    }
}

/// Reads the content of a file or where a link leads; `None` when it is too long or of another
/// kind.
pub(super) fn content(held: &HeldDir, path: &Path, kind: Kind) -> Option<Vec<u8>> {
    match kind {
        Kind::File | Kind::Program => held.read(path, MAX_CONTENT as u64).ok(),
        Kind::Link => Some(held.link(path).ok()?.as_os_str().as_bytes().to_vec()),
        Kind::Repository | Kind::Closed | Kind::Other => None,
    }
}

/// Whether a path that others wrote names a file that a walk could find.
pub(super) fn is_plain(path: &[u8]) -> bool {
    let is_plain = |part: &[u8]| !matches!(part, b"" | b"." | b".." | b".git");
    path.split(|byte| *byte == b'/').all(is_plain)
}

/// Lists everything below a directory but directories and what the rules leave out.
fn walk(dir: &Directory<'_>, deadline: Deadline) -> io::Result<BTreeMap<Vec<u8>, Entry>> {
    let mut files = BTreeMap::new();
    // An agent chose how deep the directories lie, so nothing here recurses.
    let mut left = vec![(Vec::new(), dir.rules.clone())];
    while let Some((at, rules)) = left.pop() {
        deadline.check()?;
        let path = Path::new(OsStr::from_bytes(&at));
        let names = dir.held.dir(path).and_then(|here| {
            let names = here.names(Path::new(""), MAX_FILES + 1)?;
            Ok((here, names))
        });
        let (here, names) = match names {
            Ok(found) => found,
            Err(error) if at.is_empty() => return Err(error),
            Err(_) => {
                add(&mut files, at, Entry::plain(Kind::Closed))?;
                continue;
            }
        };
        if !at.is_empty() && names.iter().any(|name| name == ".git") {
            add(&mut files, at, Entry::plain(Kind::Repository))?;
            continue;
        }
        let rules = rules.and_of(&here, Path::new(""), &full(dir.name, &at));
        for name in names {
            let Some(found) = here.stat(Path::new(&name)) else { continue };
            let mut path = at.clone();
            if !path.is_empty() {
                path.push(b'/');
            }
            path.extend_from_slice(name.as_bytes());
            let is_dir = found.is_dir();
            if name == ".git" || rules.ignores(&full(dir.name, &path), is_dir) {
                continue;
            }
            if is_dir {
                left.push((path, rules.clone()));
            } else {
                add(&mut files, path, entry(&found))?;
            }
        }
        if left.len() > MAX_FILES {
            return Err(too_many());
        }
    }
    Ok(files)
}

fn add(files: &mut BTreeMap<Vec<u8>, Entry>, path: Vec<u8>, entry: Entry) -> io::Result<()> {
    if files.len() == MAX_FILES {
        return Err(too_many());
    }
    files.insert(path, entry);
    Ok(())
}

fn too_many() -> io::Error {
    io::Error::other(format!("it has more than {MAX_FILES} files"))
}

#[expect(clippy::cast_possible_truncation, reason = "an index of git truncates them, too")]
fn entry(found: &Metadata) -> Entry {
    let file_type = found.file_type();
    let kind = match () {
        () if file_type.is_symlink() => Kind::Link,
        () if !file_type.is_file() => Kind::Other,
        () if found.mode() & 0o100 != 0 => Kind::Program,
        () => Kind::File,
    };
    let ctime = Time { s: found.ctime() as u32, ns: found.ctime_nsec() as u32 };
    let mtime = Time::modified(found);
    let stat = Stat { size: found.size() as u32, ino: found.ino() as u32, mtime, ctime };
    Entry { kind, stat, id: None }
}

impl Entry {
    /// One of a kind whose content is not read.
    fn plain(kind: Kind) -> Self {
        Self { kind, stat: Stat::default(), id: None }
    }

    /// Whether it was touched last before a time.
    fn is_before(&self, time: Time) -> bool {
        self.stat.mtime < time && self.stat.ctime < time
    }

    fn is_same(&self, other: &Self) -> bool {
        let is_same_content = match (&self.id, &other.id) {
            (Some(one), Some(other)) => one == other,
            // Neither was read, and an equal time is all that is known.
            (None, None) => self.stat == other.stat || self.kind == Kind::Other,
            _ => false,
        };
        self.kind == other.kind && is_same_content
    }
}

impl Kind {
    /// Whether a content of one kind is also one of the other.
    fn is_like(self, other: Self) -> bool {
        let is_file = |kind| matches!(kind, Self::File | Self::Program);
        self == other || (is_file(self) && is_file(other))
    }

    /// Returns its mode as git writes it; `None` for what git does not keep.
    pub(super) fn mode(self) -> Option<&'static str> {
        match self {
            Self::File => Some("100644"),
            Self::Program => Some("100755"),
            Self::Link => Some("120000"),
            Self::Repository | Self::Closed | Self::Other => None,
        }
    }

    fn letter(self) -> char {
        match self {
            Self::File => 'f',
            Self::Program => 'x',
            Self::Link => 'l',
            Self::Repository => 'r',
            Self::Closed => 'c',
            Self::Other => 'o',
        }
    }

    fn of_letter(letter: &str) -> Option<Self> {
        match letter {
            "f" => Some(Self::File),
            "x" => Some(Self::Program),
            "l" => Some(Self::Link),
            "r" => Some(Self::Repository),
            "c" => Some(Self::Closed),
            "o" => Some(Self::Other),
            _ => None,
        }
    }
}

impl Time {
    #[expect(clippy::cast_possible_truncation, reason = "an index of git truncates it, too")]
    pub(super) fn modified(found: &Metadata) -> Self {
        Self { s: found.mtime() as u32, ns: found.mtime_nsec() as u32 }
    }

    #[expect(clippy::cast_possible_truncation, reason = "as those of files")]
    fn now() -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Self { s: now.as_secs() as u32, ns: now.subsec_nanos() }
    }

    #[expect(clippy::cast_possible_truncation, reason = "a few seconds")]
    fn before(self, by: Duration) -> Self {
        Self { s: self.s.saturating_sub(by.as_secs() as u32), ns: self.ns }
    }
}

impl Deadline {
    pub(super) fn after(time: Duration) -> Self {
        Self(Instant::now() + time)
    }

    pub(super) fn is_over(self) -> bool {
        Instant::now() > self.0
    }

    /// # Errors
    /// When it is over.
    pub(super) fn check(self) -> io::Result<()> {
        if self.is_over() { Err(ErrorKind::TimedOut.into()) } else { Ok(()) }
    }
}
