//! How a door turns a token into a [`Caller`]: through [`Authenticator`], which the server's
//! identity module implements.

use async_trait::async_trait;
use plexus_wire::{CallError, Caller, SecretToken};

/// Every token of ours begins with this, so that a child's output can be scrubbed of them.
pub const TOKEN_PREFIX: &str = "plx_";

/// Takes what comes back from whoever was told something outside. Each answer brings a one-time
/// token of its own.
#[async_trait]
pub trait Answers: Send + Sync + 'static {
    /// Takes one answer, a JSON object, and says what it did.
    async fn answer(&self, body: &[u8]) -> Result<serde_json::Value, CallError>;
}

/// Knows which caller a token stands for.
#[async_trait]
pub trait Authenticator: Send + Sync + 'static {
    /// Returns the caller behind `token`, or `unauthorized`. An error of the store is
    /// `unavailable`, never a caller.
    async fn authenticate(&self, token: &SecretToken) -> Result<Caller, CallError>;

    /// Takes a one-time code and returns the token it stands for. A code works once and for a short
    /// time.
    async fn exchange(&self, _code: &SecretToken) -> Result<SecretToken, CallError> {
        Err(CallError::unauthorized("sign in with a code: this server gives none out"))
    }
}
