//! The token that a caller signs in with.

use std::fmt;

/// A token as it came over the wire or out of its file. Never prints.
#[derive(Clone)]
pub struct SecretToken(String);

impl SecretToken {
    /// Wraps a token.
    pub fn new(token: impl Into<String>) -> Self {
        Self(token.into())
    }

    /// Returns the token itself: for comparing its hash, writing its 0600 file, or sending it as a
    /// header. For nothing else.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for SecretToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SecretToken(…)")
    }
}
