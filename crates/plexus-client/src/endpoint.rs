//! Where the server is: an address with its token, or a data directory that holds both.

use std::path::{Path, PathBuf};

use plexus_wire::SecretToken;
use serde::Deserialize;

use crate::error::ClientError;

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
    serde_json::from_slice(&std::fs::read(data_dir.join("server.json")).ok()?).ok()
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
                let announced =
                    read_announcement(dir).ok_or_else(|| ClientError::NoServer(dir.clone()))?;
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
