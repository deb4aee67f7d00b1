//! Checks and copies a whole file, with SQLite's own functions.

use std::fs::OpenOptions;
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;
use rusqlite::backup::Backup;

use super::file::io_error;
use super::sql::store_error;
use crate::contract::StoreError;
use crate::contract::limits::MAX_FAULTS;
use crate::tables::sql::{Sql as _, params, ready};

/// Returns the faults that SQLite itself finds in a file.
pub(super) fn integrity(conn: &Connection) -> Result<Vec<String>, StoreError> {
    let check = format!("PRAGMA integrity_check({MAX_FAULTS})");
    let mut faults: Vec<String> = ready(conn.all(&check, params![], |row| row.get(0)))?;
    faults.retain(|line| line != "ok");
    let references = "SELECT coalesce(rowid, 0) FROM pragma_foreign_key_check";
    let dangling: Vec<i64> = ready(conn.all(references, params![], |row| row.get(0)))?;
    faults.extend(dangling.iter().map(|row| format!("a reference to nothing: row {row}")));
    faults.truncate(MAX_FAULTS);
    Ok(faults)
}

/// Copies the whole store, as of one moment, to a file that must not exist. The file appears under
/// its name only when it is complete.
pub(super) fn backup(conn: &Connection, to: &Path) -> Result<(), StoreError> {
    if to.exists() {
        return Err(StoreError::invalid(format_args!(
            "write a backup to {}: the path exists; name another one",
            to.display()
        )));
    }
    let mut partial = to.as_os_str().to_owned();
    partial.push(".partial");
    let partial = Path::new(&partial);
    OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(partial).map_err(
        |error| match error.kind() {
            // The caller names another path; waiting does not help.
            ErrorKind::NotFound
            | ErrorKind::NotADirectory
            | ErrorKind::IsADirectory
            | ErrorKind::InvalidFilename
            | ErrorKind::PermissionDenied
            | ErrorKind::ReadOnlyFilesystem => StoreError::invalid(format_args!(
                "write a backup to {}: {error}; name a file in a directory that exists and that \
                 the server may write to",
                to.display()
            )),
            _ => io_error("create", partial, error),
        },
    )?;
    let copied = copy(conn, partial).and_then(|()| {
        std::fs::rename(partial, to).map_err(|error| io_error("rename", partial, error))?;
        sync_dir(to.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new(".")))
    });
    if copied.is_err()
        && let Err(error) = std::fs::remove_file(partial)
        && error.kind() != ErrorKind::NotFound
    {
        tracing::warn!(%error, path = %partial.display(), "could not remove an unfinished backup");
    }
    copied
}

fn copy(conn: &Connection, partial: &Path) -> Result<(), StoreError> {
    let mut target = Connection::open(partial).map_err(store_error)?;
    {
        // All pages in one step: later commits cannot restart the copy of a snapshot. It blocks
        // nobody, however long it takes.
        let backup = Backup::new(conn, &mut target).map_err(store_error)?;
        backup.run_to_completion(i32::MAX, Duration::ZERO, None).map_err(store_error)?;
    }
    target.close().map_err(|(_, error)| store_error(error))?;
    let file = std::fs::File::open(partial).map_err(|error| io_error("open", partial, error))?;
    file.sync_all().map_err(|error| io_error("flush", partial, error))
}

/// Makes the names in a directory durable.
pub(super) fn sync_dir(dir: &Path) -> Result<(), StoreError> {
    std::fs::File::open(dir)
        .and_then(|dir| dir.sync_all())
        .map_err(|error| io_error("flush", dir, error))
}
