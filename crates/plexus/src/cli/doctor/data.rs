//! The data directory: who may read it, what it holds, how much room is left, and whether the clock
//! agrees with it.

use std::fs::OpenOptions;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::Path;

use plexus_client::Client;
use plexus_client::wire::EventId;
use plexus_store::{SqliteOptions, SqliteStore, Store, StoreError};

use super::Finding;
use crate::data_dir::{TOKEN_FILE, clock_behind};

/// Looks at who may read and write it.
pub(super) fn look(dir: &Path) -> Finding {
    const WHAT: &str = "data";
    match dir.metadata() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
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

/// Looks at the token's file: the token opens every door, so nobody else may read it.
pub(super) fn look_at_token(dir: &Path) -> Finding {
    const WHAT: &str = "token";
    let path = dir.join(TOKEN_FILE);
    let found = match path.metadata() {
        Ok(found) => found,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Finding::good(WHAT, "made at the first start");
        }
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
                "a backup can take its place; the file was left as it is",
            );
        }
    };
    let finding = match store.integrity().await {
        Ok(problems) if problems.is_empty() => Finding::good(WHAT, "whole"),
        Ok(problems) => Finding::bad(
            WHAT,
            problems.join("; "),
            "put a backup in its place; keep the file, it may still be read",
        ),
        Err(error) => Finding::bad(WHAT, error.to_string(), "is the disk well?"),
    };
    match store.close().await {
        Ok(()) => finding,
        Err(error) => Finding::bad(WHAT, error.to_string(), "is the disk well?"),
    }
}

/// Looks at how much room is left.
pub(super) fn look_at_disk(data_dir: &Path) -> Finding {
    const WHAT: &str = "disk";
    const ENOUGH_MIB: u64 = 512;
    match rustix::fs::statvfs(existing(data_dir)) {
        Ok(stat) => {
            let free = stat.f_bavail.saturating_mul(stat.f_frsize) / (1024 * 1024);
            if free < ENOUGH_MIB {
                Finding::bad(
                    WHAT,
                    format!("{free} MiB left where the data is"),
                    "make room: children stand still when the disk is full",
                )
            } else {
                Finding::good(WHAT, format!("{free} MiB left"))
            }
        }
        Err(error) => Finding::odd(WHAT, format!("could not look: {error}"), ""),
    }
}

/// Looks at the clock, by which deadlines count. A clock that was set back keeps every waiting
/// approval open for longer than it should.
pub(super) fn look_at_clock(dir: &Path) -> Finding {
    const WHAT: &str = "clock";
    match clock_behind(dir) {
        Some(behind) => Finding::bad(
            WHAT,
            format!(
                "the data was written {} s in the future: the clock was set back",
                behind.as_secs()
            ),
            "set it (timedatectl set-ntp true); deadlines of what waits count wrong until then",
        ),
        None => Finding::good(WHAT, "not behind the data"),
    }
}

/// The nearest directory above that exists.
fn existing(path: &Path) -> &Path {
    path.ancestors().find(|folder| folder.is_dir()).unwrap_or(Path::new("/"))
}

/// Writes a file and removes it: permissions alone do not tell of a file system that is read-only
/// or full.
fn try_to_write(dir: &Path) -> std::io::Result<()> {
    let path = dir.join(format!(".plexus-doctor-{}", EventId::generate()));
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
    std::fs::remove_file(&path)
}

fn unwritable(what: &'static str, dir: &Path, error: &std::io::Error) -> Finding {
    let words = format!("could not write into {}: {error}", dir.display());
    Finding::bad(
        what,
        words,
        "make it yours (ls -ld shows whose it is), or name another with --data-dir",
    )
}
