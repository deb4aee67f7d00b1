//! The data directory: who may read it, the operator's token, and what a running server announces
//! there.

use std::fs::{DirBuilder, File, OpenOptions, Permissions, TryLockError};
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use plexus_client::TOKEN_FILE;
use plexus_core::{SecretToken, ServerId, SessionId};
use plexus_engine::Identity;
use plexus_store::sqlite::LOCK_FILE;
use serde::{Deserialize, Serialize};

use crate::serve::tls::{OWN_CERT_FILE, OWN_KEY_FILE};

/// The file that says where a server is.
pub const ANNOUNCEMENT_FILE: &str = "server.json";

/// The file that says which server this is among others that share its store.
pub const NODE_FILE: &str = "node.json";

/// Why a data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataDirProblem {
    /// The system says no.
    #[error("{what} {}: {source}", path.display())]
    Io {
        /// What was tried.
        what: &'static str,
        /// With what.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// It holds something else.
    #[error("use {} as a data directory: it holds other files and no plexus.db; name an empty or \
        a new directory", .0.display())]
    Foreign(PathBuf),
    /// Another server has it.
    #[error("use {}: another server has it open; stop that one first, or use another data \
        directory", .0.display())]
    Locked(PathBuf),
    /// The identity is not one.
    #[error("read {}: it holds no identity of a server; remove it to get a new one", .0.display())]
    Identity(PathBuf),
    /// No token could be made.
    #[error("make the operator's token: {0}")]
    Token(#[source] plexus_store::StoreError),
}

/// What a running server announces.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Announcement {
    /// Where it listens.
    pub url: String,
    /// Its process.
    pub pid: u32,
    /// Its version.
    pub version: String,
}

/// A data directory that belongs to us and to nobody else.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    /// The lock, where no store in the directory holds it.
    lock: Option<File>,
}

/// What a server is among others that share its store.
#[derive(Serialize, Deserialize)]
struct Identified {
    id: ServerId,
}

impl DataDir {
    /// Makes the directory (0700) if it is not there, and sees to it that only its owner can read
    /// it.
    ///
    /// # Errors
    /// When it cannot be made, or holds what is not ours: then nothing is changed.
    pub fn prepare(path: &Path) -> Result<Self, DataDirProblem> {
        let io = |what| move |source| DataDirProblem::Io { what, path: path.to_owned(), source };
        if path.is_dir() {
            let entries = std::fs::read_dir(path).map_err(io("read"))?;
            let (mut ours, mut any) = (false, false);
            for entry in entries {
                let name = entry.map_err(io("read"))?.file_name();
                any = true;
                ours |= OURS.iter().any(|known| name == *known);
            }
            if any && !ours {
                return Err(DataDirProblem::Foreign(path.to_owned()));
            }
        } else if path.exists() {
            let problem = "it is a file and not a directory; name another with --data-dir";
            return Err(io("use")(std::io::Error::new(ErrorKind::NotADirectory, problem)));
        } else {
            DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(io("create"))?;
        }
        let mode = path.metadata().map_err(io("look at"))?.permissions().mode();
        if mode & 0o077 != 0 {
            std::fs::set_permissions(path, Permissions::from_mode(0o700))
                .map_err(io("close to others"))?;
        }
        let path = path.canonicalize().map_err(io("look at"))?;
        Ok(Self { path, lock: None })
    }

    /// Returns the path, without links in it.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the sessions that have a directory in `runs/`.
    ///
    /// # Errors
    /// When `runs/` is there and cannot be read.
    pub fn sessions_with_runs(&self) -> Result<Vec<SessionId>, DataDirProblem> {
        plexus_engine::node::sessions_with_runs(&self.path).map_err(|source| DataDirProblem::Io {
            what: "read",
            path: self.path.join("runs"),
            source,
        })
    }

    /// Keeps other servers out, where the store lies elsewhere: two of one identity would fence
    /// each other. The kernel lets go when the process ends.
    ///
    /// # Errors
    /// When another server has it.
    pub fn lock(&mut self) -> Result<(), DataDirProblem> {
        let path = self.path.join(LOCK_FILE);
        let open =
            OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file =
            open.map_err(|source| DataDirProblem::Io { what: "open", path: path.clone(), source })?;
        match file.try_lock() {
            Ok(()) => self.lock = Some(file),
            Err(TryLockError::WouldBlock) => return Err(DataDirProblem::Locked(self.path.clone())),
            Err(TryLockError::Error(source)) => {
                return Err(DataDirProblem::Io { what: "lock", path, source });
            }
        }
        Ok(())
    }

    /// Returns the identity of the server that has its data here; makes one at the first start.
    /// Call it only with the lock held.
    ///
    /// # Errors
    /// When it can be neither read nor written.
    pub fn node_id(&self) -> Result<ServerId, DataDirProblem> {
        let path = self.path.join(NODE_FILE);
        match std::fs::read(&path) {
            Ok(text) => {
                let known: Identified =
                    serde_json::from_slice(&text).map_err(|_| DataDirProblem::Identity(path))?;
                return Ok(known.id);
            }
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(source) => return Err(DataDirProblem::Io { what: "read", path, source }),
        }
        let new = Identified { id: ServerId::generate() };
        let written = serde_json::to_vec(&new)
            .map_err(std::io::Error::from)
            .and_then(|json| plexus_files::write_private(&path, &json));
        written.map_err(|source| DataDirProblem::Io { what: "write", path, source })?;
        Ok(new.id)
    }

    /// Reads the operator's token; makes one at the first start. Call it only with the store's lock
    /// held.
    ///
    /// # Errors
    /// When it can be neither read nor written.
    pub fn operator_token(&self) -> Result<SecretToken, DataDirProblem> {
        let path = self.path.join(TOKEN_FILE);
        let io = |what| {
            let path = path.clone();
            move |source| DataDirProblem::Io { what, path, source }
        };
        match std::fs::read_to_string(&path) {
            Ok(text) if !text.trim().is_empty() => {
                std::fs::set_permissions(&path, Permissions::from_mode(0o600))
                    .map_err(io("close to others"))?;
                return Ok(SecretToken::new(text.trim()));
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(io("read")(error)),
        }
        let token = Identity::draw().map_err(DataDirProblem::Token)?;
        plexus_files::write_private(&path, format!("{}\n", token.expose()).as_bytes())
            .map_err(io("write"))?;
        Ok(token)
    }

    /// Writes where this server is, for clients that look into the directory.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn announce(&self, url: &str) -> Result<(), DataDirProblem> {
        let path = self.path.join(ANNOUNCEMENT_FILE);
        let announcement = Announcement {
            url: url.to_owned(),
            pid: std::process::id(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let written = serde_json::to_vec(&announcement)
            .map_err(std::io::Error::from)
            .and_then(|json| plexus_files::write_private(&path, &json));
        written.map_err(|source| DataDirProblem::Io { what: "write", path, source })
    }

    /// Takes the announcement back.
    ///
    /// # Errors
    /// When the file is there and cannot be removed.
    pub fn withdraw_announcement(&self) -> Result<(), DataDirProblem> {
        let path = self.path.join(ANNOUNCEMENT_FILE);
        match std::fs::remove_file(&path) {
            Ok(()) => Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(source) => Err(DataDirProblem::Io { what: "remove", path, source }),
        }
    }
}

/// What a data directory of ours may hold before its first start is over.
const OURS: &[&str] = &[
    "plexus.db",
    LOCK_FILE,
    NODE_FILE,
    TOKEN_FILE,
    ANNOUNCEMENT_FILE,
    "plexus.toml",
    "loopback.toml",
    "server.log",
    "runs",
    OWN_CERT_FILE,
    OWN_KEY_FILE,
];

/// How far a file may lie in the future before the clock must have been set back.
const CLOCK_SLACK: Duration = Duration::from_secs(60);

/// How far the clock is behind the data, if it was set back since that was written. A server counts
/// on from the newest time in its store then; only people and receivers see the difference.
pub(crate) fn clock_behind(dir: &Path) -> Option<Duration> {
    let newest = ["plexus.db", "plexus.db-wal", ANNOUNCEMENT_FILE, TOKEN_FILE]
        .iter()
        .filter_map(|name| dir.join(name).metadata().ok()?.modified().ok())
        .max()?;
    newest.duration_since(SystemTime::now()).ok().filter(|ahead| *ahead > CLOCK_SLACK)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        path.metadata().unwrap().permissions().mode() & 0o777
    }

    #[test]
    fn a_new_directory_and_its_token_are_closed_to_others() {
        let folder = tempfile::tempdir().unwrap();
        let dir = DataDir::prepare(&folder.path().join("a/b")).unwrap();
        let token = dir.operator_token().unwrap();
        assert_eq!((mode(dir.path()), mode(&dir.path().join(TOKEN_FILE))), (0o700, 0o600));
        assert_eq!(
            dir.operator_token().unwrap().expose(),
            token.expose(),
            "the token of the first start stays"
        );
    }

    #[test]
    fn an_open_directory_of_ours_is_closed_and_one_of_others_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        std::fs::write(folder.path().join("notes.txt"), "").unwrap();
        assert!(matches!(DataDir::prepare(folder.path()), Err(DataDirProblem::Foreign(_))));
        assert_eq!(mode(folder.path()), 0o755);
        std::fs::write(folder.path().join("plexus.db"), "").unwrap();
        DataDir::prepare(folder.path()).unwrap();
        assert_eq!(mode(folder.path()), 0o700);
    }

    #[test]
    fn the_identity_of_the_first_start_stays_and_a_second_server_is_kept_out() {
        let folder = tempfile::tempdir().unwrap();
        let mut first = DataDir::prepare(folder.path()).unwrap();
        first.lock().unwrap();
        let id = first.node_id().unwrap();
        let mut second = DataDir::prepare(folder.path()).unwrap();
        assert!(matches!(second.lock(), Err(DataDirProblem::Locked(_))));
        drop(first);
        second.lock().unwrap();
        assert_eq!(second.node_id().unwrap(), id);
        std::fs::write(folder.path().join(NODE_FILE), "{}").unwrap();
        assert!(matches!(second.node_id(), Err(DataDirProblem::Identity(_))));
    }

    #[test]
    fn an_announcement_comes_and_goes() {
        let folder = tempfile::tempdir().unwrap();
        let dir = DataDir::prepare(folder.path()).unwrap();
        dir.announce("http://127.0.0.1:1").unwrap();
        let text = std::fs::read(dir.path().join(ANNOUNCEMENT_FILE)).unwrap();
        let announced: Announcement = serde_json::from_slice(&text).unwrap();
        assert_eq!(
            (announced.url.as_str(), announced.pid),
            ("http://127.0.0.1:1", std::process::id())
        );
        dir.withdraw_announcement().unwrap();
        dir.withdraw_announcement().unwrap();
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
    }
}
