//! The bare handler: axum alone, which answers like `poll` and `respond` without looking anything
//! up.

use anyhow::Result;
use axum::Router;
use axum::body::Bytes;
use axum::routing::post;
use axum::serve::ListenerExt as _;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

/// A bare server; dropping it ends it.
pub(super) struct Rival {
    pub(super) address: String,
    serving: JoinHandle<()>,
}

impl Rival {
    /// Starts a server that answers polls with `page`.
    pub(super) async fn start(page: &Value) -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let say = |words: String| {
            let words = Bytes::from(words);
            post(move |_: Bytes| async move { words })
        };
        let routes = Router::new()
            .route("/claudecode.poll", say(page.to_string()))
            .route("/loopback.respond", say(json!({"type": "ok", "approval_id": "0"}).to_string()));
        // A listener that cannot set the option still serves, only slower.
        let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
        let serving = tokio::spawn(async move {
            let ended: std::io::Result<()> = axum::serve(listener, routes).await;
            drop(ended);
        });
        Ok(Self { address, serving })
    }
}

impl Drop for Rival {
    fn drop(&mut self) {
        self.serving.abort();
    }
}
