//! Creates files of the run directory: private to the user, and complete from the moment they are
//! visible.

use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::io::{self, Write as _};
use std::os::unix::fs::{
    DirBuilderExt as _, FileTypeExt as _, OpenOptionsExt as _, PermissionsExt as _,
};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use rustix::fs::OFlags;
use rustix::io::Errno;

/// The mode of every directory here: it holds prompts and answers, which no other user may read.
pub const DIR_MODE: u32 = 0o700;

/// The mode of every file here.
pub const FILE_MODE: u32 = 0o600;

/// Writes `bytes` to `path` so that a reader sees the old file or the whole new one, never a part.
/// It writes to a temporary name beside it and renames that. The temporary name starts with a dot,
/// and readers of these directories skip such names.
pub fn write_by_rename(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = temporary_beside(path)?;
    let written = create_private(&temporary).and_then(|mut file| file.write_all(bytes));
    plexus_fault::point!("file.rename.before");
    let renamed = written.and_then(|()| std::fs::rename(&temporary, path));
    if renamed.is_err() {
        // The first error is the one to report. Readers skip a temporary file that cannot be
        // removed.
        drop(std::fs::remove_file(&temporary));
    }
    renamed
}

/// Creates a file that must not exist yet, readable by this user alone. A link in its place is
/// refused, not followed.
pub(crate) fn create_private(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path)
}

/// Creates a directory of mode 0700, or sets the mode of the one that is there.
pub(super) fn make_dir(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(DIR_MODE).create(path) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            if std::fs::symlink_metadata(path)?.is_dir() {
                std::fs::set_permissions(path, Permissions::from_mode(DIR_MODE))
            } else {
                Err(error)
            }
        }
        other => other,
    }
}

/// Creates `path` when it is missing and sets its modification time to now. Links are not followed.
pub(super) fn touch(path: &Path) -> io::Result<()> {
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .mode(FILE_MODE)
        .custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed())
        .open(path)?;
    file.set_modified(SystemTime::now())
}

/// Creates a named pipe that [`ring`] can write to, and opens it so that reading never blocks and
/// never reaches an end.
pub(crate) fn make_bell(path: &Path) -> io::Result<File> {
    let mode = rustix::fs::Mode::from_raw_mode(FILE_MODE);
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0)?;
    open_bell(OpenOptions::new().read(true).write(true), path)
}

/// Writes one byte to the bell, if it exists and somebody has it open. A full pipe counts as rung.
pub(super) fn ring(path: &Path) -> io::Result<()> {
    match open_bell(OpenOptions::new().write(true), path).and_then(|mut bell| bell.write(b"!")) {
        Ok(_) => Ok(()),
        Err(error)
            if matches!(
                Errno::from_io_error(&error),
                Some(Errno::NOENT | Errno::NXIO | Errno::AGAIN)
            ) =>
        {
            Ok(())
        }
        Err(error) => Err(error),
    }
}

fn open_bell(how: &mut OpenOptions, path: &Path) -> io::Result<File> {
    let bell =
        how.custom_flags((OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed()).open(path)?;
    // Only a pipe: a byte must not end up in a file.
    if bell.metadata()?.file_type().is_fifo() {
        Ok(bell)
    } else {
        Err(io::ErrorKind::InvalidInput.into())
    }
}

fn temporary_beside(path: &Path) -> io::Result<PathBuf> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    Ok(path.with_file_name(format!(".{name}.{}.{count}.tmp", std::process::id())))
}
