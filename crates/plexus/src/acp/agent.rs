//! Which kind of agent a new session gets. The one place that knows by which method a session of a
//! kind is created.

use plexus_client::ClientError;
use plexus_client::wire::{CreateParams, SessionCreated, method};

use super::server::Server;

/// The kinds that `--agent` takes.
pub(crate) const KINDS: [&str; 1] = [CLAUDE_CODE];

/// What a session is without `--agent`.
pub(crate) const CLAUDE_CODE: &str = "claude_code";

/// Creates a session of this kind, which is one of [`KINDS`].
pub(super) async fn create(
    server: &Server,
    _kind: &str,
    params: &CreateParams,
) -> Result<SessionCreated, ClientError> {
    server.call::<method::claudecode::Create>(params).await
}
