//! A parent outside Plexus with an MCP session, written by hand.

use std::sync::atomic::{AtomicU64, Ordering};

use reqwest::{RequestBuilder, Response};
use serde_json::{Value, json};
use testkit::server::TestServer;
use testkit::wait::{PATIENCE, within};

/// A parent's MCP session, written by hand.
pub(crate) struct Parent<'a> {
    pub(crate) server: &'a TestServer,
    pub(crate) http: reqwest::Client,
    pub(crate) token: String,
    session: String,
    /// The id of the next request: in one session each has its own.
    requests: AtomicU64,
}

impl<'a> Parent<'a> {
    pub(crate) async fn begin(server: &'a TestServer, name: &str) -> Self {
        let identity = server.call("identity.parent", json!({"name": name})).await.unwrap();
        let token = identity["token"].as_str().unwrap().to_owned();
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let mut parent =
            Self { server, http, token, session: String::new(), requests: AtomicU64::new(1) };
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}});
        let response = parent
            .post(json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}))
            .await;
        parent.session = response.headers()["mcp-session-id"].to_str().unwrap().to_owned();
        let answer = last_message(&response.text().await.unwrap());
        assert_eq!(answer["result"]["capabilities"]["resources"]["subscribe"], true, "{answer}");
        parent.post(json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        parent
    }

    pub(crate) fn with_headers(&self, request: RequestBuilder) -> RequestBuilder {
        let request = request
            .bearer_auth(&self.token)
            .header("accept", "application/json, text/event-stream");
        if self.session.is_empty() {
            return request;
        }
        request.header("mcp-session-id", &self.session).header("mcp-protocol-version", "2025-11-25")
    }

    async fn post(&self, message: Value) -> Response {
        let request = self.http.post(format!("{}/mcp", self.server.url().unwrap())).json(&message);
        within("an answer", PATIENCE, self.with_headers(request).send()).await.unwrap()
    }

    /// Makes a request and returns the whole answer.
    pub(crate) async fn ask(&self, method: &str, params: Value) -> Value {
        let id = self.requests.fetch_add(1, Ordering::Relaxed);
        let response = self
            .post(json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params}))
            .await;
        last_message(&within("the answer's end", PATIENCE, response.text()).await.unwrap())
    }

    /// Creates a session with a simulated child and returns its id.
    pub(crate) async fn create(&self, working_dir: &str) -> String {
        let params = json!({"name": "child", "working_dir": working_dir});
        let created =
            self.server.call_as(&self.token, "claudecode.create", params).await.unwrap().unwrap();
        created["id"].as_str().unwrap().to_owned()
    }
}

fn last_message(text: &str) -> Value {
    let data = text
        .lines()
        .rev()
        .find_map(|line| line.strip_prefix("data:").filter(|data| !data.trim().is_empty()));
    serde_json::from_str(data.unwrap_or(text)).unwrap_or_else(|_| panic!("no message in {text:?}"))
}
