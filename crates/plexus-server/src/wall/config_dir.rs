//! The directory in which a confined agent keeps its configuration: one for each session.
//!
//! What the user configured is linked and readable, logins are linked and writable, and the agent's
//! own state is the session's. The program within the wall can write the directory, so nothing
//! in it is followed: links are made anew, and copies are taken by descriptor.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::os::unix::fs::{OpenOptionsExt as _, symlink};
use std::path::{Path, PathBuf};

use plexus_engine::driver::AgentHome;
use plexus_engine::wall::{ConfigDir, Site};
use rustix::fs::{Dir, FileType, Mode, OFlags, openat};

/// The most files and directories of a conversation that a fork copies. Each subagent has one.
const MAX_COPIED_FILES: usize = 10_000;
/// The most bytes of them. The agent that wrote them may have made a file of any length, which
/// holds nothing.
const MAX_COPIED_BYTES: u64 = 1024 * 1024 * 1024;
/// The file of a session that says that the conversation it began with has been copied. The agent
/// cannot reach it.
const COPIED: &str = "copied";
/// Linked files that are no login: the agent does not write them.
const SETTINGS_OF_THE_USER: &[&str] = &[".gitconfig"];
/// How deep the directories of a conversation may lie in each other.
const MAX_DEPTH: usize = 8;

/// The directory, and what lies elsewhere and belongs to it.
pub(super) struct Made {
    /// The directory itself, without links.
    pub(super) dir: PathBuf,
    pub(super) read: Vec<PathBuf>,
    pub(super) write: Vec<PathBuf>,
    /// What commands of the agent may read of the directory itself.
    pub(super) commands_read: Vec<PathBuf>,
}

/// Makes the directory, or what is missing in it.
pub(super) fn prepare(needs: &ConfigDir, site: &Site<'_>, home: Option<&Path>) -> io::Result<Made> {
    super::make_dir(&site.config_dir)?;
    let dir = site.config_dir.canonicalize()?;
    if needs.starts_anew {
        clear(&dir, needs.conversations)?;
    }
    let named = site.env.get(OsStr::new(needs.variable)).map(PathBuf::from);
    let origin = named.clone().or_else(|| home.map(|home| home.join(needs.in_home)));
    let linked = |names: &[&str]| -> io::Result<Vec<PathBuf>> {
        let mut linked = Vec::new();
        for name in names {
            let found = origin.as_ref().and_then(|origin| origin.join(name).canonicalize().ok());
            if let Some(found) = found {
                link(&found, &dir.join(name))?;
                linked.push(found);
            }
        }
        Ok(linked)
    };
    let (read, write) = (linked(needs.read)?, linked(needs.logins)?);
    if let Some(name) = needs.state
        && dir.join(name).symlink_metadata().is_err()
        && let Some(from) = named.as_deref().or(home)
        && let Ok(mut from) = File::open(from.join(name))
    {
        let mut options = fs::OpenOptions::new();
        let mut to = options.write(true).create_new(true).mode(0o600).open(dir.join(name))?;
        io::copy(&mut from, &mut to)?;
    }
    let conversations = dir.join(needs.conversations);
    if let Some(source) = &site.copied_from
        && conversations.symlink_metadata().is_err()
        && let Ok(from) = open_dir(rustix::fs::CWD.as_fd(), source.as_os_str())
        && let Ok(from) = open_dir(from.as_fd(), OsStr::new(needs.conversations))
    {
        copy(&from, &conversations, MAX_DEPTH, &mut Left::default())?;
    }
    let mut commands_read = Vec::new();
    for name in needs.commands_read {
        let place = dir.join(name);
        // An agent may have put a link there: then its commands read nothing.
        match place.symlink_metadata() {
            Ok(meta) if !meta.is_dir() => continue,
            Ok(_) => {}
            Err(_) => super::make_dir(&place)?,
        }
        commands_read.push(place);
    }
    Ok(Made { dir, read, write, commands_read })
}

/// Removes what an earlier run left, but for the conversations.
fn clear(dir: &Path, conversations: &str) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true if entry.file_name() == conversations => {}
            true => plexus_engine::files::remove_all(&entry.path())?,
            false => fs::remove_file(entry.path())?,
        }
    }
    Ok(())
}

/// Makes the home directory of an agent part of its wall: it is writable, and so are the logins
/// that are linked into it. Settings of the user that are linked stay as they are.
pub(super) fn open_home(home: &AgentHome, site: &Site<'_>) -> io::Result<Made> {
    let dir = home.dir.canonicalize()?;
    // Once, before the agent's first start: afterwards its links could lead anywhere.
    let mark = site.config_dir.with_file_name(COPIED);
    if let Some(source) = &site.copied_from
        && !mark.exists()
        && let Ok(from) = open_dir(rustix::fs::CWD.as_fd(), source.as_os_str())
    {
        copy(&from, &dir, MAX_DEPTH, &mut Left::default())?;
        File::create(&mark)?;
    }
    let (mut read, mut write) = (Vec::new(), Vec::new());
    for (name, target) in &home.links {
        let Ok(target) = target.canonicalize() else { continue };
        if SETTINGS_OF_THE_USER.contains(&name.as_str()) {
            read.push(target);
        } else {
            write.push(target);
        }
    }
    Ok(Made { dir, read, write, commands_read: Vec::new() })
}

/// Makes a link, in place of whatever an agent may have put there.
fn link(target: &Path, name: &Path) -> io::Result<()> {
    match name.symlink_metadata() {
        Ok(meta) if meta.is_symlink() && fs::read_link(name)? == target => return Ok(()),
        Ok(meta) if meta.is_dir() => plexus_engine::files::remove_all(name)?,
        Ok(_) => fs::remove_file(name)?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    symlink(target, name)
}

fn open_dir(at: rustix::fd::BorrowedFd<'_>, name: &OsStr) -> io::Result<OwnedFd> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
    Ok(openat(at, name, flags, Mode::empty())?)
}

/// How much may still be copied.
struct Left {
    files: usize,
    bytes: u64,
}

impl Default for Left {
    fn default() -> Self {
        Self { files: MAX_COPIED_FILES, bytes: MAX_COPIED_BYTES }
    }
}

/// Copies plain files and directories. The source belongs to another agent, which may put a link to
/// anything into it at any moment: each name is opened below its directory and never followed.
fn copy(from: &OwnedFd, to: &Path, depth: usize, left: &mut Left) -> io::Result<()> {
    super::make_dir(to)?;
    if depth == 0 {
        return Ok(());
    }
    for entry in Dir::read_from(from)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if matches!(name, b"." | b"..") {
            continue;
        }
        if left.files == 0 {
            return Ok(());
        }
        left.files -= 1;
        let name: &OsStr = std::os::unix::ffi::OsStrExt::from_bytes(name);
        let target = to.join(name);
        match entry.file_type() {
            FileType::Directory => {
                copy(&open_dir(from.as_fd(), name)?, &target, depth - 1, left)?;
            }
            FileType::RegularFile => copy_file(from, name, &target, left)?,
            _ => {}
        }
    }
    Ok(())
}

fn copy_file(dir: &OwnedFd, name: &OsStr, to: &Path, left: &mut Left) -> io::Result<()> {
    // A pipe that took the file's place in between must not hold us.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let from = File::from(openat(dir, name, flags, Mode::empty())?);
    let found = from.metadata()?;
    if !found.is_file() || found.len() > left.bytes {
        return Ok(());
    }
    let mut options = fs::OpenOptions::new();
    match options.write(true).create_new(true).mode(0o600).open(to) {
        // A file that the copy already has stays.
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        to => {
            let copied = io::copy(&mut from.take(left.bytes), &mut to?)?;
            left.bytes -= copied;
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_fork_copies_is_bounded() {
        let folder = tempfile::tempdir().unwrap();
        let (source, to) = (folder.path().join("source"), folder.path().join("to"));
        fs::create_dir(&source).unwrap();
        fs::write(source.join("said"), "hello").unwrap();
        File::create(source.join("holes")).unwrap().set_len(MAX_COPIED_BYTES + 1).unwrap();
        let from = open_dir(rustix::fs::CWD.as_fd(), source.as_os_str()).unwrap();
        let mut left = Left::default();
        copy(&from, &to, MAX_DEPTH, &mut left).unwrap();
        assert_eq!(fs::read_to_string(to.join("said")).unwrap(), "hello");
        assert!(!to.join("holes").exists());
        assert_eq!(left.bytes, MAX_COPIED_BYTES - 5);
        let none = folder.path().join("none");
        let from = open_dir(rustix::fs::CWD.as_fd(), source.as_os_str()).unwrap();
        copy(&from, &none, MAX_DEPTH, &mut Left { files: 0, ..Left::default() }).unwrap();
        assert_eq!(fs::read_dir(&none).unwrap().count(), 0);
    }
}
