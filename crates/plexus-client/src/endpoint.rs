//! Where the server is: an address with its token, or a data directory that holds both.

use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use plexus_wire::SecretToken;
use serde::Deserialize;

use crate::error::ClientError;

/// The file of a data directory that says where its server is.
const ANNOUNCEMENT: &str = "server.json";

/// The file of a data directory that holds the operator's token.
pub const TOKEN_FILE: &str = "operator.token";

/// The file of a data directory that its server locks, and releases last.
pub const LOCK_FILE: &str = "plexus.lock";

/// A server that finds its port taken says so in these words; the command that started it then
/// tries another port.
pub const PORT_TAKEN: &str = "has the port";

/// What a running server writes into `server.json`.
#[derive(Clone, PartialEq, Eq, Debug, Deserialize)]
#[non_exhaustive]
pub struct Announcement {
    /// The address it listens on.
    pub url: String,
    /// Its process.
    pub pid: u32,
    /// Its version.
    pub version: String,
}

/// Reads the announcement of the server of a data directory; `None` when there is none.
#[must_use]
pub fn read_announcement(data_dir: &Path) -> Option<Announcement> {
    serde_json::from_slice(&std::fs::read(data_dir.join(ANNOUNCEMENT)).ok()?).ok()
}

/// Reads the operator's token of a data directory.
///
/// # Errors
/// When the file cannot be read; the first start of a server makes it.
pub fn read_operator_token(data_dir: &Path) -> Result<SecretToken, ClientError> {
    let path = data_dir.join(TOKEN_FILE);
    let token = std::fs::read_to_string(&path);
    let token = token.map_err(|source| ClientError::Token { path, source })?;
    Ok(SecretToken::new(token.trim()))
}

#[derive(Clone, Debug)]
pub(crate) enum Endpoint {
    Fixed(Address),
    /// Looked up anew for every connection: a server that was restarted may listen elsewhere.
    DataDir(PathBuf),
}

#[derive(Clone, Debug)]
pub(crate) struct Address {
    /// The address, without a trailing slash.
    pub(crate) url: String,
    pub(crate) token: SecretToken,
}

impl Endpoint {
    pub(crate) fn address(&self) -> Result<Address, ClientError> {
        match self {
            Self::Fixed(address) => Ok(address.clone()),
            Self::DataDir(dir) => {
                let path = dir.join(ANNOUNCEMENT);
                let announced = std::fs::read(&path).map_err(|source| unread(dir, source))?;
                let announced: Announcement = serde_json::from_slice(&announced)
                    .map_err(|_| ClientError::NoServer(dir.clone()))?;
                Ok(Address::new(&announced.url, read_operator_token(dir)?))
            }
        }
    }
}

/// Says what it means that the announcement in `dir` could not be read.
fn unread(dir: &Path, source: io::Error) -> ClientError {
    match source.kind() {
        // These stay until somebody changes the directory.
        ErrorKind::PermissionDenied | ErrorKind::NotADirectory | ErrorKind::IsADirectory => {
            ClientError::Announcement { path: dir.join(ANNOUNCEMENT), source }
        }
        // The next try may succeed: the file appears, or a descriptor becomes free.
        _ => ClientError::NoServer(dir.to_owned()),
    }
}

impl Address {
    pub(crate) fn new(url: &str, token: SecretToken) -> Self {
        Self { url: url.trim_end_matches('/').to_owned(), token }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_another_try_cannot_read_either_is_no_absence() {
        let folder = tempfile::tempdir().unwrap();
        let dir = folder.path();
        let problem = |dir: &Path| Endpoint::DataDir(dir.to_owned()).address().unwrap_err();
        assert!(matches!(problem(dir), ClientError::NoServer(_)), "{:?}", problem(dir));
        for passing in [ErrorKind::StaleNetworkFileHandle.into(), io::Error::other("no descriptor")]
        {
            assert!(unread(dir, passing).is_absence());
        }
        // Root may read every file, so nobody can read the ones of this test.
        let (is_dir, is_file) = (dir.join("is_dir"), dir.join("is_file"));
        std::fs::create_dir_all(is_dir.join(ANNOUNCEMENT)).unwrap();
        std::fs::write(&is_file, "").unwrap();
        for dir in [is_dir, is_file] {
            assert!(matches!(problem(&dir), ClientError::Announcement { .. }), "{dir:?}");
            assert!(!problem(&dir).is_absence());
        }
    }
}
