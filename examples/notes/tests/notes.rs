//! The notes through the doors of a real server: listed, called and resolved, each by whom it may.

use plexus::{Plexus, PlexusBuilder};
use plexus_notes::Notes;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// A server with notes, and its folder.
struct Server {
    url: String,
    operator: String,
    http: reqwest::Client,
    folder: tempfile::TempDir,
    shutdown: CancellationToken,
    served: tokio::task::JoinHandle<()>,
}

fn built(folder: &tempfile::TempDir) -> Plexus {
    let notes = Notes::open(folder.path().join("notes.json")).unwrap();
    PlexusBuilder::new(folder.path().join("data")).with_activation(notes).build().unwrap()
}

impl Server {
    async fn start(folder: tempfile::TempDir) -> Self {
        let plexus = built(&folder);
        let operator = plexus.operator_token().expose().to_owned();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let shutdown = CancellationToken::new();
        let stop = shutdown.clone();
        let served = tokio::spawn(async move {
            plexus.serve(listener, stop).await.unwrap();
        });
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        Self { url, operator, http, folder, shutdown, served }
    }

    async fn stop(self) -> tempfile::TempDir {
        self.shutdown.cancel();
        self.served.await.unwrap();
        self.folder
    }

    async fn call(&self, token: &str, method: &str, params: Value) -> Result<Value, Value> {
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let request = self.http.post(format!("{}/rpc", self.url)).bearer_auth(token).json(&body);
        let answer: Value = request.send().await.unwrap().json().await.unwrap();
        match answer.get("error") {
            Some(error) => Err(error["data"].clone()),
            None => Ok(answer["result"].clone()),
        }
    }

    /// A parent's token and a session of it.
    async fn parent(&self, name: &str) -> (String, String) {
        let identity = self.call(&self.operator, "identity.parent", json!({"name": name})).await;
        let token = identity.unwrap()["token"].as_str().unwrap().to_owned();
        let work = self.folder.path().join("work");
        std::fs::create_dir_all(&work).unwrap();
        let params = json!({"name": "child", "working_dir": work});
        let created = self.call(&token, "agents.create", params).await.unwrap();
        (token, created["id"].as_str().unwrap().to_owned())
    }

    /// One message to the MCP door: the answer, and the session if it begins one.
    async fn mcp(
        &self,
        token: &str,
        session: Option<&str>,
        message: Value,
    ) -> (Value, Option<String>) {
        let mut request = self
            .http
            .post(format!("{}/mcp", self.url))
            .bearer_auth(token)
            .header("accept", "application/json, text/event-stream")
            .json(&message);
        if let Some(session) = session {
            request = request
                .header("mcp-session-id", session)
                .header("mcp-protocol-version", "2025-11-25");
        }
        let response = request.send().await.unwrap();
        let began = response.headers().get("mcp-session-id");
        let began = began.map(|id| id.to_str().unwrap().to_owned());
        let text = response.text().await.unwrap();
        let mut data = text.lines().filter_map(|line| line.strip_prefix("data:"));
        let last = data.rfind(|data| !data.trim().is_empty()).unwrap_or(&text);
        (serde_json::from_str(last).unwrap_or_default(), began)
    }
}

#[tokio::test]
async fn a_note_stands_in_the_tree_and_resolves_for_those_who_see_the_session() {
    let server = Server::start(tempfile::tempdir().unwrap()).await;
    let (parent, session) = server.parent("parent").await;
    let (stranger, _) = server.parent("stranger").await;

    let note = json!({"session_id": session, "text": "look at the tests first"});
    let added = server.call(&parent, "notes.add", note.clone()).await.unwrap();
    let handle = json!({"handle": added["note"]["handle"]});
    let resolved = server.call(&parent, "plexus.resolve_handle", handle.clone()).await.unwrap();
    assert_eq!(resolved["note"], added["note"]);
    let listed = server.call(&parent, "notes.list", json!({"session_id": session})).await.unwrap();
    assert_eq!(listed["notes"], json!([added["note"]]));

    let tree = server.call(&parent, "agents.get_tree", json!({"session_id": session})).await;
    let tree = json!({"tree_id": tree.unwrap()["tree_id"]});
    let drawn = server.call(&parent, "arbor.tree_render", tree).await.unwrap();
    assert_eq!(drawn["text"], "  note: look at the tests first");

    for (method, params) in [
        ("notes.add", note),
        ("notes.list", json!({"session_id": session})),
        ("plexus.resolve_handle", handle.clone()),
    ] {
        let refused = server.call(&stranger, method, params).await.unwrap_err();
        assert_eq!(refused["kind"], "not_found", "{method}: {refused}");
    }

    // The next server finds the note again.
    let operator = server.operator.clone();
    let server = Server::start(server.stop().await).await;
    let again = server.call(&operator, "plexus.resolve_handle", handle).await.unwrap();
    assert_eq!(again["note"], added["note"]);
    let health = server.call(&operator, "plexus.health", json!({})).await.unwrap();
    assert_eq!(health["activations"]["notes"], json!({"notes": 1}));
    server.stop().await;
}

#[tokio::test]
async fn the_methods_are_tools_over_mcp() {
    let server = Server::start(tempfile::tempdir().unwrap()).await;
    let (parent, session) = server.parent("parent").await;
    let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}});
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
    let (_, mcp) = server.mcp(&parent, None, hello).await;
    let ready = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    server.mcp(&parent, mcp.as_deref(), ready).await;
    let list = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/list", "params": {}});
    let (tools, _) = server.mcp(&parent, mcp.as_deref(), list).await;
    let tools = tools["result"]["tools"].to_string();
    assert!(tools.contains("\"notes_add\"") && tools.contains("\"notes_list\""), "{tools}");
    let params =
        json!({"name": "notes_add", "arguments": {"session_id": session, "text": "hello"}});
    let call = json!({"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": params});
    let (added, _) = server.mcp(&parent, mcp.as_deref(), call).await;
    assert_eq!(added["result"]["structuredContent"]["note"]["text"], "hello", "{added}");
    server.stop().await;
}

#[tokio::test]
async fn a_second_activation_of_the_name_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let notes = || Notes::open(folder.path().join("notes.json")).unwrap();
    let twice = PlexusBuilder::new(folder.path().join("data"))
        .with_activation(notes())
        .with_activation(notes())
        .build();
    assert!(matches!(twice, Err(plexus::BuildError::Register(_))));
}
