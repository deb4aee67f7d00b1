//! How a door turns a token into a [`Caller`]: through [`Authenticator`], which the server's
//! identity module implements.

use async_trait::async_trait;
use plexus_wire::{CallError, Caller, SecretToken};
use tokio::sync::watch;

/// The prefix of every token of ours, so that tokens can be removed from a child's output.
pub const TOKEN_PREFIX: &str = "plx_";

/// Takes answers from receivers of outgoing messages (webhooks). Each answer brings a one-time
/// token of its own.
#[async_trait]
pub trait Answers: Send + Sync + 'static {
    /// Takes one answer, a JSON object, and returns what it did.
    async fn answer(&self, body: &[u8]) -> Result<serde_json::Value, CallError>;
}

/// What a one-time code was exchanged for.
#[derive(Clone, Debug)]
pub struct SignedIn {
    /// The token.
    pub token: SecretToken,
    /// The name of the device that was paired, if the code paired one.
    pub device: Option<String>,
}

/// Maps a token to its caller.
#[async_trait]
pub trait Authenticator: Send + Sync + 'static {
    /// Returns the caller that `token` stands for, or `unauthorized`. A failure of the store is
    /// `unavailable` and never yields a caller.
    async fn authenticate(&self, token: &SecretToken) -> Result<Caller, CallError>;

    /// Returns a counter that changes whenever tokens were revoked: what was opened with one is then
    /// checked at once. By default it never changes, and tokens are checked now and then.
    fn revocations(&self) -> watch::Receiver<u64> {
        watch::channel(0).1
    }

    /// Takes a one-time code and returns the token it stands for. A code works once and for a short
    /// time.
    async fn exchange(&self, _code: &SecretToken) -> Result<SignedIn, CallError> {
        Err(CallError::unauthorized("sign in with a code: this server gives none out"))
    }
}
