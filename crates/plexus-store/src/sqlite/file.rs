//! Decides what may be opened: a file of ours, of a version we know, on a disk of this machine.
//! Nothing here writes.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;
use std::sync::Arc;

use crate::contract::StoreError;
use crate::tables::schema::Dialect;

/// "PLXS", in the header of every database of ours, which tells it from files of other programs.
pub(super) const APPLICATION_ID: i32 = 0x504c_5853;

/// What exists at the database's path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Existing {
    /// Nothing yet.
    Nothing,
    /// A database of ours.
    Ours,
}

/// Turns an error of the file system into ours.
pub(super) fn io_error(what: &str, path: &Path, error: std::io::Error) -> StoreError {
    StoreError::Unavailable {
        message: format!("{what} {}: {error}", path.display()),
        source: Some(Arc::new(error)),
    }
}

/// Reads the header of the file at `path` directly, because opening it with SQLite could already
/// create files beside it.
pub(super) fn inspect(path: &Path) -> Result<Existing, StoreError> {
    let mut file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Existing::Nothing),
        Err(error) => return Err(io_error("open", path, error)),
    };
    let length = file.metadata().map_err(|error| io_error("look at", path, error))?.len();
    if length == 0 {
        return Ok(Existing::Nothing);
    }
    let mut header = [0_u8; 100];
    match file.read_exact(&mut header) {
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => {
            return Err(StoreError::Corrupt {
                message: format!("{} ends within its header", path.display()),
            });
        }
        Err(error) => return Err(io_error("read", path, error)),
    }
    if header[..16] != *b"SQLite format 3\0" {
        return Err(StoreError::Foreign {
            message: format!("{} is no SQLite database", path.display()),
        });
    }
    let number = |at: usize| {
        u32::from_be_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
    };
    if number(68).cast_signed() != APPLICATION_ID {
        return Err(StoreError::Foreign {
            message: format!("{} is a database of another program", path.display()),
        });
    }
    check_version(i64::from(number(60)))?;
    let page = match u16::from_be_bytes([header[16], header[17]]) {
        1 => 65_536,
        size => u64::from(size),
    };
    // With a log beside it the header may be older than the log; SQLite resolves that. Without one
    // the header gives the length of the file.
    let has_log = wal_path(path).metadata().is_ok_and(|log| log.len() > 0);
    if !has_log && number(24) == number(92) && length < u64::from(number(28)) * page {
        return Err(StoreError::Corrupt {
            message: format!("{} has been cut off", path.display()),
        });
    }
    Ok(Existing::Ours)
}

/// Refuses a version that this build does not know yet.
pub(super) fn check_version(found: i64) -> Result<(), StoreError> {
    let known = Dialect::Sqlite.newest();
    if found > known { Err(StoreError::Newer { found, known }) } else { Ok(()) }
}

/// Returns the path of the write-ahead log of a database.
pub(super) fn wal_path(path: &Path) -> std::path::PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push("-wal");
    name.into()
}

/// File systems on which neither locks nor shared memory can be trusted, by the kernel's magic
/// number.
const NETWORK: &[(u32, &str)] = &[
    (0x0000_6969, "NFS"),
    (0x0000_517b, "SMB"),
    (0xff53_4d42, "CIFS"),
    (0xfe53_4d42, "SMB2"),
    (0x0102_1997, "9P"),
    (0x00c3_6400, "Ceph"),
    (0x5346_414f, "AFS"),
    (0x6b41_4653, "AFS"),
    (0x0bd0_0bd0, "Lustre"),
    (0x7375_7245, "Coda"),
    (0x0116_1970, "GFS2"),
];

/// Refuses a directory on a network file system.
pub(super) fn refuse_network(dir: &Path) -> Result<(), StoreError> {
    let stat = rustix::fs::statfs(dir)
        .map_err(|error| io_error("look at the file system of", dir, error.into()))?;
    match network_name(stat.f_type as i64) {
        None => Ok(()),
        Some(name) => Err(StoreError::Foreign {
            message: format!(
                "{} lies on a network file system ({name}), where a database is not safe",
                dir.display()
            ),
        }),
    }
}

/// Returns the name of a network file system, if this number is one.
fn network_name(kind: i64) -> Option<&'static str> {
    // The kernel's number is 32 bits wide; some platforms sign-extend it.
    let kind = u32::try_from(kind & 0xffff_ffff).unwrap_or(0);
    NETWORK.iter().find(|(number, _)| *number == kind).map(|(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_file_systems_are_known_by_their_number() {
        assert_eq!(network_name(0x6969), Some("NFS"));
        assert_eq!(network_name(i64::from(0xff53_4d42_u32.cast_signed())), Some("CIFS"));
        assert_eq!(network_name(0xef53), None, "ext4 is a disk of this machine");
        assert_eq!(network_name(0x0102_1994), None, "tmpfs is too");
    }
}
