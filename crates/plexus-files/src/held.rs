//! A directory that an untrusted program may change, read without following any link.
//!
//! Such a program chooses the names in it, and can put a link or a pipe in the place of a file at
//! any moment. A link would lead to a file that the program itself cannot read, and a pipe would
//! block its reader, so the kernel is told to follow none and to wait for none.

use std::ffi::{OsStr, OsString};
use std::fs::{File, Metadata};
use std::io::{self, Read as _};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Dir, Mode, OFlags, ResolveFlags, openat2, readlinkat};

/// A directory, held open so that nothing can be put in its place. Every path is relative to it and
/// stays below it.
#[derive(Debug)]
pub struct HeldDir {
    fd: OwnedFd,
}

impl HeldDir {
    /// Holds a directory by its canonical path.
    ///
    /// # Errors
    /// When the path is no directory or leads through a link.
    pub fn hold(dir: &Path) -> io::Result<Self> {
        let fd = open(CWD, dir, OFlags::PATH | OFlags::DIRECTORY, ResolveFlags::NO_SYMLINKS)?;
        Ok(Self { fd })
    }

    /// Holds a directory below this one.
    ///
    /// # Errors
    /// As [`HeldDir::hold`].
    pub fn dir(&self, path: &Path) -> io::Result<Self> {
        Ok(Self { fd: self.open(path, OFlags::PATH | OFlags::DIRECTORY)? })
    }

    fn open(&self, path: &Path, flags: OFlags) -> io::Result<OwnedFd> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        open(&self.fd, path, flags, ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS)
    }

    /// Returns what is at a path, also when it is a link.
    pub fn stat(&self, path: &Path) -> Option<Metadata> {
        File::from(self.open(path, OFlags::PATH).ok()?).metadata().ok()
    }

    /// Opens a file for reading.
    ///
    /// # Errors
    /// When it cannot be opened or is something else than a file.
    pub fn file(&self, path: &Path) -> io::Result<File> {
        let file = File::from(self.open(path, OFlags::RDONLY | OFlags::NONBLOCK)?);
        if file.metadata()?.is_file() {
            Ok(file)
        } else {
            Err(io::Error::other("it is not a file"))
        }
    }

    /// Reads a file of at most `most` bytes.
    ///
    /// # Errors
    /// As [`HeldDir::file`], and [`io::ErrorKind::FileTooLarge`] when it is longer.
    pub fn read(&self, path: &Path, most: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.file(path)?.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > most {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        Ok(bytes)
    }

    /// Returns the target of a link.
    ///
    /// # Errors
    /// When there is no link at the path.
    pub fn link(&self, path: &Path) -> io::Result<PathBuf> {
        let link = self.open(path, OFlags::PATH)?;
        let target = readlinkat(&link, "", Vec::new())?;
        Ok(PathBuf::from(OsString::from_vec(target.into_bytes())))
    }

    /// Returns up to `most` names in a directory, in no order.
    ///
    /// # Errors
    /// When the directory cannot be read.
    pub fn names(&self, path: &Path, most: usize) -> io::Result<Vec<OsString>> {
        let dir = self.open(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut names = Vec::new();
        for entry in Dir::new(dir)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if !matches!(name, b"." | b"..") {
                if names.len() == most {
                    break;
                }
                names.push(OsStr::from_bytes(name).to_owned());
            }
        }
        Ok(names)
    }
}

fn open(at: impl AsFd, path: &Path, flags: OFlags, resolve: ResolveFlags) -> io::Result<OwnedFd> {
    let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    Ok(openat2(at, path, flags, Mode::empty(), resolve)?)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use rustix::fs::{FileType, mknodat};

    use super::*;

    #[test]
    fn no_path_leads_out_of_a_held_directory() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        fs::create_dir_all(top.join("held/below")).unwrap();
        fs::write(top.join("secret"), "secret").unwrap();
        fs::write(top.join("held/below/file"), "text").unwrap();
        symlink(&top, top.join("held/up")).unwrap();
        symlink("../secret", top.join("held/link")).unwrap();
        symlink("held", top.join("way")).unwrap();
        let held = HeldDir::hold(&top.join("held")).unwrap();
        assert_eq!(held.read(Path::new("below/file"), 4).unwrap(), b"text");
        assert_eq!(
            held.dir(Path::new("below")).unwrap().read(Path::new("file"), 4).unwrap(),
            b"text"
        );
        for path in ["../secret", "up/secret", "link", "below/../../secret"] {
            assert!(held.read(Path::new(path), 100).is_err(), "{path}");
            assert!(path == "link" || held.stat(Path::new(path)).is_none(), "{path}");
        }
        assert!(held.read(&top.join("secret"), 100).is_err());
        assert!(HeldDir::hold(&top.join("way")).is_err());
        assert!(HeldDir::hold(&top.join("way/below")).is_err());
        assert_eq!(held.link(Path::new("link")).unwrap(), Path::new("../secret"));
        let mut names = held.names(Path::new(""), 10).unwrap();
        names.sort();
        assert_eq!(names, ["below", "link", "up"]);
        assert_eq!(held.names(Path::new(""), 2).unwrap().len(), 2);
    }

    #[test]
    fn pipes_and_long_files_are_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let top = folder.path().canonicalize().unwrap();
        mknodat(CWD, top.join("pipe"), FileType::Fifo, Mode::RWXU, 0).unwrap();
        fs::write(top.join("long"), "12345").unwrap();
        let held = HeldDir::hold(&top).unwrap();
        assert!(held.read(Path::new("pipe"), 10).is_err());
        assert_eq!(held.read(Path::new("long"), 5).unwrap(), b"12345");
        let error = held.read(Path::new("long"), 4).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::FileTooLarge);
    }
}
