//! Carries a call to another server that shares the store, over its JSON-RPC door.

use async_trait::async_trait;
use plexus_client::{Client, ClientError};
use plexus_core::{CallError, SecretToken};
use plexus_engine::node::Relay;
use serde_json::Value;

/// Calls the other server as any client would.
pub(crate) struct HttpRelay;

#[async_trait]
impl Relay for HttpRelay {
    async fn call(
        &self,
        url: &str,
        token: &SecretToken,
        method: &str,
        params: Value,
    ) -> Result<Value, CallError> {
        let client = Client::connect(url, token.clone());
        match client.call_by_name(method, params).await {
            Ok(answer) => Ok(answer),
            Err(ClientError::Call(error)) => Err(error),
            Err(error) => {
                tracing::warn!(url, method, %error, "another server could not be reached");
                Err(CallError::unavailable(format_args!(
                    "{method}: the server at {url} has this session and cannot be reached from here"
                ))
                .with_hint(format_args!(
                    "ask it at {url}, or set node.url there to an address that this one reaches"
                )))
            }
        }
    }
}
