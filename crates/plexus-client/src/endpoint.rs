//! Where the server is: an address with its token, or a data directory that holds both.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use plexus_wire::SecretToken;
use serde::Deserialize;

use crate::error::ClientError;

/// The file of a data directory that says where its server is.
const ANNOUNCEMENT: &str = "server.json";

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
                // Only a file that is not there means that no server runs.
                let announced = std::fs::read(&path).map_err(|source| match source.kind() {
                    ErrorKind::NotFound => ClientError::NoServer(dir.clone()),
                    _ => ClientError::Announcement { path, source },
                })?;
                let announced: Announcement = serde_json::from_slice(&announced)
                    .map_err(|_| ClientError::NoServer(dir.clone()))?;
                let path = dir.join("operator.token");
                let token = std::fs::read_to_string(&path)
                    .map_err(|source| ClientError::Token { path, source })?;
                Ok(Address::new(&announced.url, SecretToken::new(token.trim())))
            }
        }
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
    fn only_a_file_that_is_missing_means_that_no_server_runs() {
        let dir = std::env::temp_dir().join(format!("plexus-endpoint-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let problem = || Endpoint::DataDir(dir.clone()).address().unwrap_err();
        assert!(matches!(problem(), ClientError::NoServer(_)), "{:?}", problem());
        // Root may read every file, so the file is one that nobody can read.
        std::fs::create_dir(dir.join(ANNOUNCEMENT)).unwrap();
        assert!(matches!(problem(), ClientError::Announcement { .. }), "{:?}", problem());
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
