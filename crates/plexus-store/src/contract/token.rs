//! Tokens, by their hash. The token itself is never stored.

use plexus_core::{Caller, SessionId};
use serde::Serialize;

use super::run::RunKey;
use super::time::UnixMillis;

/// The SHA-256 of a token.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct TokenHash(pub [u8; 32]);

impl TokenHash {
    /// Hashes a token.
    #[must_use]
    pub fn of(token: &str) -> Self {
        use sha2::Digest as _;
        Self(sha2::Sha256::digest(token.as_bytes()).into())
    }
}

impl std::fmt::Debug for TokenHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("TokenHash(…)")
    }
}

/// A token and the caller it stands for.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Token {
    /// Its hash.
    pub hash: TokenHash,
    /// The caller that uses it. A session named here must exist, and the token is removed with it.
    pub caller: Caller,
    /// The run with which it ends.
    pub run: Option<RunKey>,
    /// When it expires. Reads return it even then: the code that authenticates compares.
    pub expires_at: Option<UnixMillis>,
}

/// Which tokens are revoked. There may be none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RevokeTokens {
    /// This one.
    One(TokenHash),
    /// Those of a run.
    Run(RunKey),
    /// Those that stand for a session or its child.
    Session(SessionId),
    /// Those that have expired.
    Expired {
        /// The current time.
        now: UnixMillis,
    },
}
