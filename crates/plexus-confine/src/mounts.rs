//! The calls that mount, each by descriptor, so that a link made in between leads nowhere.

use std::fs;
use std::os::fd::{AsFd as _, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat2};
use rustix::io::Errno;
use rustix::mount::{
    MountFlags, MoveMountFlags, OpenTreeFlags, mount_remount, move_mount, open_tree,
};

use crate::stage::StageError;

/// Opens a path that must contain no link, as a handle without rights.
pub(crate) fn open_plain(path: &Path) -> Result<OwnedFd, StageError> {
    openat2(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty(), ResolveFlags::NO_SYMLINKS)
        .map_err(|error| {
            let step = StageError::path("open", path, error);
            if error == Errno::LOOP {
                step.next("a link was put there since the plan")
            } else {
                step
            }
        })
}

/// Takes a copy of the mounts at a path, to be attached elsewhere.
pub(crate) fn hold(path: &Path) -> Result<OwnedFd, StageError> {
    let handle = open_plain(path)?;
    let flags = OpenTreeFlags::OPEN_TREE_CLONE
        | OpenTreeFlags::OPEN_TREE_CLOEXEC
        | OpenTreeFlags::AT_RECURSIVE
        | OpenTreeFlags::AT_EMPTY_PATH;
    open_tree(handle.as_fd(), c"", flags).map_err(|error| StageError::path("hold", path, error))
}

/// Mounts what is held at a path.
pub(crate) fn attach(tree: &OwnedFd, path: &Path) -> Result<(), StageError> {
    let point = open_plain(path)?;
    let flags = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH | MoveMountFlags::MOVE_MOUNT_T_EMPTY_PATH;
    move_mount(tree.as_fd(), c"", point.as_fd(), c"", flags)
        .map_err(|error| StageError::path("mount", path, error))
}

/// Makes the mount point of a kept tree, unless it exists.
pub(crate) fn make_point(path: &Path, tree: &OwnedFd) -> Result<(), StageError> {
    if path.symlink_metadata().is_ok() {
        return Ok(());
    }
    let fail = |error: std::io::Error| StageError::path("make", path, error);
    let meta = fstat(tree).map_err(|error| fail(error.into()))?;
    if FileType::from_raw_mode(meta.st_mode) == FileType::Directory {
        return fs::create_dir_all(path).map_err(fail);
    }
    if let Some(dir) = path.parent() {
        fs::create_dir_all(dir).map_err(fail)?;
    }
    fs::File::create_new(path).map(drop).map_err(fail)
}

/// Makes one mount read-only.
pub(crate) fn remount_read_only(mount: &Mount) -> Result<(), StageError> {
    if mount.flags.contains(MountFlags::RDONLY) {
        return Ok(());
    }
    match mount_remount(&mount.point, MountFlags::BIND | MountFlags::RDONLY | mount.flags, c"") {
        Ok(()) => Ok(()),
        // Covered by another mount: nobody reaches it by this name.
        Err(Errno::INVAL | Errno::NOENT) if !mount.is_on_top => Ok(()),
        Err(error) => Err(StageError::path("make read-only", &mount.point, error)),
    }
}

/// One line of the table of mounts.
#[derive(PartialEq, Eq, Debug)]
pub(crate) struct Mount {
    pub(crate) point: PathBuf,
    pub(crate) flags: MountFlags,
    /// Nothing is mounted over it.
    is_on_top: bool,
}

/// The mounts of this process, as `/proc/self/mountinfo` lists them.
pub(crate) struct Table {
    pub(crate) mounts: Vec<Mount>,
}

impl Table {
    pub(crate) fn read() -> Result<Self, StageError> {
        let text = fs::read_to_string("/proc/self/mountinfo")
            .map_err(|error| StageError::new("read the mounts", error))?;
        Ok(Self::parse(&text))
    }

    fn parse(text: &str) -> Self {
        let mut mounts: Vec<Mount> = text.lines().filter_map(parse_line).collect();
        // A later line of the same name lies over an earlier one, and a mount above hides those
        // that were made below it before.
        for index in 0..mounts.len() {
            let covered = mounts[index + 1..]
                .iter()
                .any(|later| mounts[index].point.starts_with(&later.point));
            mounts[index].is_on_top = !covered;
        }
        Self { mounts }
    }
}

fn parse_line(line: &str) -> Option<Mount> {
    let mut fields = line.split(' ');
    let point = unescape(fields.nth(4)?);
    let mut flags = MountFlags::empty();
    for word in fields.next()?.split(',') {
        flags |= match word {
            "ro" => MountFlags::RDONLY,
            "nosuid" => MountFlags::NOSUID,
            "nodev" => MountFlags::NODEV,
            "noexec" => MountFlags::NOEXEC,
            "noatime" => MountFlags::NOATIME,
            "nodiratime" => MountFlags::NODIRATIME,
            "relatime" => MountFlags::RELATIME,
            _ => MountFlags::empty(),
        };
    }
    Some(Mount { point: point.into(), flags, is_on_top: true })
}

/// The table writes space, tab, newline and backslash as three octal digits.
fn unescape(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        out.push_str(&rest[..at]);
        let byte = rest.get(at + 1..at + 4).and_then(|digits| u8::from_str_radix(digits, 8).ok());
        out.push(byte.map_or('\\', char::from));
        rest = rest.get(at + if byte.is_some() { 4 } else { 1 }..).unwrap_or("");
    }
    out + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_mounts_is_read_with_its_flags_and_covers() {
        let table = Table::parse(
            "1 0 8:1 / / rw,relatime - ext4 /dev/vda rw\n\
             2 1 0:5 / /a\\040b rw,nosuid,nodev,noexec - tmpfs tmpfs rw\n\
             3 1 0:6 / /a\\040b ro - tmpfs tmpfs rw\n",
        );
        let expected = [
            ("/", MountFlags::RELATIME, true),
            ("/a b", MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC, false),
            ("/a b", MountFlags::RDONLY, true),
        ]
        .map(|(point, flags, is_on_top)| Mount { point: point.into(), flags, is_on_top });
        assert_eq!(table.mounts, expected);
    }
}
