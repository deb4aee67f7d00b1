//! The data directory: who may read it, what it holds, how much room is left, and whether the clock
//! agrees with it.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use plexus_client::wire::EventId;
use plexus_client::{Client, TOKEN_FILE};
use plexus_store::{SqliteOptions, SqliteStore, Store, StoreError};

use super::Finding;
use crate::data_dir::clock_behind;
use plexus_render::screen::counted;

/// Looks at who may read and write it.
pub(super) fn look(dir: &Path) -> Finding {
    const WHAT: &str = "data";
    match dir.metadata() {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            let nearest = existing(dir);
            match try_to_write(nearest) {
                Ok(()) => {
                    Finding::good(WHAT, format!("{} is made at the first start", dir.display()))
                }
                Err(error) => unwritable(WHAT, nearest, &error),
            }
        }
        Err(error) => Finding::bad(
            WHAT,
            format!("{}: {error}", dir.display()),
            "name another with --data-dir",
        ),
        Ok(found) if !found.is_dir() => Finding::bad(
            WHAT,
            format!("{} is not a directory", dir.display()),
            "name another with --data-dir",
        ),
        Ok(found) if found.permissions().mode() & 0o077 != 0 => Finding::odd(
            WHAT,
            format!("{} can be read by others", dir.display()),
            format!("chmod 700 {}; `plexus serve` does so too", dir.display()),
        ),
        Ok(_) => match try_to_write(dir) {
            Ok(()) => Finding::good(WHAT, dir.display().to_string()),
            Err(error) => unwritable(WHAT, dir, &error),
        },
    }
}

/// Looks at the rule file, without which in order no server starts.
pub(super) fn look_at_rules(dir: &Path) -> Finding {
    const WHAT: &str = "rules";
    match crate::serve::count_rules(dir) {
        Ok(None) => Finding::good(WHAT, "no loopback.toml"),
        Ok(Some(count)) => {
            Finding::good(WHAT, format!("loopback.toml read, {}", counted(count as u64, "rule")))
        }
        Err(error) => {
            let next = match error.downcast_ref().map(io::Error::kind) {
                Some(ErrorKind::NotADirectory) => return not_looked_at(WHAT),
                Some(ErrorKind::PermissionDenied) => {
                    "make it readable to you (ls -l shows whose it is): no server starts before"
                }
                _ => "repair it: no server starts with it",
            };
            Finding::bad(WHAT, format!("{error:#}"), next)
        }
    }
}

/// A file of the data directory is not at fault where that is no directory: [`look`] says so.
fn not_looked_at(what: &'static str) -> Finding {
    Finding::odd(what, "could not be looked at: the data directory is not a directory", "")
}

/// Looks at the token's file: the token opens every door, so nobody else may read it.
pub(super) fn look_at_token(dir: &Path) -> Finding {
    const WHAT: &str = "token";
    let path = dir.join(TOKEN_FILE);
    let found = match path.metadata() {
        Ok(found) => found,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            return Finding::good(WHAT, "made at the first start");
        }
        Err(error) if error.kind() == ErrorKind::NotADirectory => return not_looked_at(WHAT),
        Err(error) => {
            let next = "it must belong to you; `plexus serve` makes a new one when it is gone";
            return Finding::bad(WHAT, format!("{}: {error}", path.display()), next);
        }
    };
    if found.uid() != rustix::process::geteuid().as_raw() {
        let words = format!("{} belongs to another user", path.display());
        return Finding::bad(
            WHAT,
            words,
            "run Plexus as that user, or name another directory with --data-dir",
        );
    }
    if found.permissions().mode() & 0o077 != 0 {
        return Finding::bad(
            WHAT,
            format!("others can read {}, and with it they can run programs as you", path.display()),
            format!("plexus stop; rm {}; the next start makes a new one", path.display()),
        );
    }
    Finding::good(WHAT, "only you can read it")
}

/// Looks at the store from here when no server runs; a running server owns it.
pub(super) async fn look_at_store(dir: &Path, server_runs: bool) -> Finding {
    const WHAT: &str = "store";
    if server_runs {
        return match Client::from_data_dir(dir).health().state().await {
            Ok(state) => Finding::good(
                WHAT,
                format!(
                    "{} sessions, {} events, {} children",
                    state.counts.sessions, state.counts.events, state.children
                ),
            ),
            Err(error) => Finding::bad(WHAT, error.to_string(), "the server's log says more"),
        };
    }
    if !dir.join("plexus.db").exists() {
        return Finding::good(WHAT, "none yet");
    }
    let store = match SqliteStore::open(&SqliteOptions::new(dir)) {
        Ok(store) => store,
        Err(error @ StoreError::Locked { .. }) => {
            return Finding::bad(
                WHAT,
                format!("could not {error}"),
                "it does not answer: give it a moment, then end that process and start the server \
                 again; agents go on running",
            );
        }
        Err(error) => {
            return Finding::bad(
                WHAT,
                error.to_string(),
                "put a backup in its place; the file is unchanged",
            );
        }
    };
    let lost = plexus_engine::node::sessions_with_runs(dir);
    let lost = lost.map_or_else(|_| Ok(Vec::new()), |sessions| store.lost(sessions));
    let finding = match store.integrity().await {
        Ok(problems) if problems.is_empty() => match lost {
            Ok(lost) if lost.is_empty() => Finding::good(WHAT, "whole"),
            Ok(lost) => Finding::bad(
                WHAT,
                format!(
                    "{} of runs/ are missing from it: it was replaced, emptied or cut off",
                    counted(lost.len() as u64, "session")
                ),
                "put the newest backup in its place, then plexus serve --accept-older-store",
            ),
            Err(error) => Finding::bad(WHAT, error.to_string(), "check the disk"),
        },
        Ok(problems) => Finding::bad(
            WHAT,
            problems.join("; "),
            "put a backup in its place; keep the file, it may still be read",
        ),
        Err(error) => Finding::bad(WHAT, error.to_string(), "check the disk"),
    };
    match store.close().await {
        Ok(()) => finding,
        Err(error) => Finding::bad(WHAT, error.to_string(), "check the disk"),
    }
}

/// Looks at how much room is left.
pub(super) fn look_at_disk(data_dir: &Path) -> Finding {
    match rustix::fs::statvfs(existing(data_dir)) {
        Ok(stat) => room(stat.f_bavail.saturating_mul(stat.f_frsize) / (1024 * 1024)),
        Err(error) => Finding::odd(DISK, format!("could not look: {error}"), ""),
    }
}

const DISK: &str = "disk";

/// Less room than this is reported, so that a person learns of it before the disk is full.
const ENOUGH_MIB: u64 = 512;

fn room(free_mib: u64) -> Finding {
    if free_mib < ENOUGH_MIB {
        Finding::bad(
            DISK,
            format!("{free_mib} MiB left where the data is"),
            "make room: children stop when the disk is full",
        )
    } else {
        Finding::good(DISK, format!("{free_mib} MiB left"))
    }
}

/// Looks at the clock. A clock that was set back prolongs nothing, but the times of the server and
/// those of the machine differ until it is right.
pub(super) fn look_at_clock(dir: &Path) -> Finding {
    const WHAT: &str = "clock";
    match clock_behind(dir) {
        Some(behind) => Finding::bad(
            WHAT,
            format!(
                "the data was written {} s in the future: the clock was set back",
                behind.as_secs()
            ),
            "set it (timedatectl set-ntp true); until then, the server's times are ahead of it",
        ),
        None => Finding::good(WHAT, "not earlier than the data"),
    }
}

/// The nearest directory above that exists.
fn existing(path: &Path) -> &Path {
    path.ancestors().find(|folder| folder.is_dir()).unwrap_or(Path::new("/"))
}

/// Writes a file and removes it: permissions alone do not tell of a file system that is read-only
/// or full.
fn try_to_write(dir: &Path) -> io::Result<()> {
    let path = dir.join(format!(".plexus-doctor-{}", EventId::generate()));
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    std::fs::remove_file(&path)
}

fn unwritable(what: &'static str, dir: &Path, error: &io::Error) -> Finding {
    let words = format!("could not write into {}: {error}", dir.display());
    Finding::bad(
        what,
        words,
        "make it yours (ls -ld shows whose it is), or name another with --data-dir",
    )
}

#[cfg(test)]
mod tests {
    use super::super::Verdict;
    use super::*;

    #[test]
    fn a_disk_with_hardly_any_room_is_reported() {
        for (free_mib, verdict, words) in [
            (0, Verdict::Bad, "0 MiB left where the data is"),
            (4, Verdict::Bad, "4 MiB left where the data is"),
            (ENOUGH_MIB - 1, Verdict::Bad, "511 MiB left where the data is"),
            (ENOUGH_MIB, Verdict::Good, "512 MiB left"),
        ] {
            let found = room(free_mib);
            assert_eq!((found.verdict, found.words.as_str()), (verdict, words));
            assert_eq!(found.next.contains("make room"), verdict == Verdict::Bad);
        }
    }

    #[test]
    fn the_disk_of_a_directory_that_is_not_made_yet_is_that_of_its_parent() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(existing(&folder.path().join("not/yet")), folder.path());
        let found = look_at_disk(&folder.path().join("not/yet"));
        assert!(found.words.contains(" MiB left"), "{found:?}");
    }
}
