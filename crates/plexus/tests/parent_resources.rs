//! A parent that listens instead of polling: it is told when its sessions, which are MCP resources,
//! change, and hears of nobody else's.
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

#[path = "support/parent.rs"]
mod parent;

use futures::StreamExt as _;
use parent::Parent;
use serde_json::{Value, json};
use testkit::server::{ServerOptions, TestServer};
use testkit::wait::PATIENCE;

impl Parent<'_> {
    /// Reads a resource.
    async fn read(&self, uri: &str) -> Value {
        let read = self.ask("resources/read", json!({"uri": uri})).await;
        let text = read["result"]["contents"][0]["text"]
            .as_str()
            .unwrap_or_else(|| panic!("{uri}: {read}"));
        serde_json::from_str(text).unwrap()
    }

    /// Listens to a resource.
    async fn subscribe(&self, uri: &str) {
        let answer = self.ask("resources/subscribe", json!({"uri": uri})).await;
        assert_eq!(answer["result"], json!({}), "{uri}: {answer}");
    }

    /// Opens the stream on which the server tells of changes.
    async fn listen(&self) -> Updates {
        let request = self.http.get(format!("{}/mcp", self.server.url().unwrap()));
        let response = self.with_headers(request).send().await.unwrap();
        Updates {
            chunks: response.bytes_stream().map(|chunk| chunk.map(|bytes| bytes.to_vec())).boxed(),
            text: String::new(),
            all: String::new(),
        }
    }
}

/// What the server tells without being asked.
struct Updates {
    chunks: futures::stream::BoxStream<'static, reqwest::Result<Vec<u8>>>,
    /// What no wait has used up yet.
    text: String,
    /// Everything that was said.
    all: String,
}

impl Updates {
    /// Waits until the resource at `uri` is said to have changed, and forgets what was said before.
    async fn wait_for(&mut self, uri: &str, server: &TestServer) {
        let told = async {
            loop {
                if let Some(at) = self.text.find(uri) {
                    self.text.drain(..at + uri.len());
                    return;
                }
                let chunk = self.chunks.next().await.expect("the stream goes on").unwrap();
                let said = std::str::from_utf8(&chunk).unwrap();
                self.text.push_str(said);
                self.all.push_str(said);
            }
        };
        if tokio::time::timeout(PATIENCE, told).await.is_err() {
            let sessions = server.call("claudecode.list", json!({})).await;
            panic!(
                "no notification about {uri}; told: {}\n{sessions:?}\n{}",
                self.all,
                server.log()
            );
        }
    }
}

async fn server() -> TestServer {
    let options = ServerOptions {
        plexus_bin: Some(env!("CARGO_BIN_EXE_plexus").into()),
        ..ServerOptions::default()
    };
    TestServer::with(options).await.unwrap()
}

#[tokio::test]
async fn a_parent_that_listens_learns_that_its_child_is_done() {
    let (server, folder) = (server().await, tempfile::tempdir().unwrap());
    let parent = Parent::begin(&server, "parent").await;
    let listed = parent.ask("resources/templates/list", json!({})).await;
    let templates = listed["result"]["resourceTemplates"].as_array().unwrap();
    let mut uris: Vec<_> =
        templates.iter().filter_map(|template| template["uriTemplate"].as_str()).collect();
    uris.sort_unstable();
    assert_eq!(
        uris,
        [
            "plexus://sessions/{session_id}",
            "plexus://sessions/{session_id}/conversation",
            "plexus://sessions/{session_id}/events",
        ]
    );
    let listed = parent.ask("resources/list", json!({})).await;
    assert_eq!(listed["result"]["resources"][0]["uri"], "plexus://approvals", "{listed}");

    let id = parent.create(folder.path().to_str().unwrap()).await;
    let uri = format!("plexus://sessions/{id}");
    let mut updates = parent.listen().await;
    assert_eq!(parent.ask("resources/subscribe", json!({"uri": uri})).await["result"], json!({}));
    let prompt = json!({"session_id": id, "prompt": "sim:\nsay the work is done"});
    server.call_as(&parent.token, "claudecode.chat_async", prompt).await.unwrap().unwrap();
    // Each notification is a reason to look again; nothing is read between two of them.
    let read = loop {
        updates.wait_for(&uri, &server).await;
        let shown = parent.read(&uri).await;
        match shown["session"]["status"].as_str().unwrap() {
            "running" => {}
            "complete" => break shown,
            _ => panic!("the child did not do its work: {shown}\n{}", server.log()),
        }
    };
    assert_eq!(read["session"]["id"], json!(id));
    let conversation =
        parent.ask("resources/read", json!({"uri": format!("{uri}/conversation")})).await;
    assert!(conversation.to_string().contains("the work is done"), "{conversation}");
}

#[tokio::test]
async fn a_parent_neither_reads_nor_hears_of_the_sessions_of_another() {
    let (server, folder) = (server().await, tempfile::tempdir().unwrap());
    let (owner, other) =
        (Parent::begin(&server, "owner").await, Parent::begin(&server, "other").await);
    let id = owner.create(folder.path().to_str().unwrap()).await;
    for rest in ["", "/conversation", "/events"] {
        let uri = format!("plexus://sessions/{id}{rest}");
        for method in ["resources/read", "resources/subscribe"] {
            let (mine, theirs) = (
                owner.ask(method, json!({"uri": uri})).await,
                other.ask(method, json!({"uri": uri})).await,
            );
            assert!(mine.get("result").is_some(), "{method} {uri}: {mine}");
            assert_eq!(theirs["error"]["code"], -32002, "{method} {uri}: {theirs}");
        }
    }
    // A refused subscription leaves nothing behind that would notify later: when both sessions
    // change, each parent hears of its own.
    let own = other.create(folder.path().to_str().unwrap()).await;
    let listened =
        other.ask("resources/subscribe", json!({"uri": format!("plexus://sessions/{own}")})).await;
    assert_eq!(listened["result"], json!({}), "{listened}");
    let (mut owner_hears, mut other_hears) = (owner.listen().await, other.listen().await);
    for (parent, session) in [(&owner, &id), (&other, &own)] {
        let prompt = json!({"session_id": session, "prompt": "sim:\nsay hi"});
        server.call_as(&parent.token, "claudecode.chat_async", prompt).await.unwrap().unwrap();
    }
    owner_hears.wait_for(&id, &server).await;
    other_hears.wait_for(&own, &server).await;
    assert!(!other_hears.all.contains(&id), "another parent was told: {}", other_hears.all);
}

#[tokio::test]
async fn a_parent_that_listens_learns_what_waits_for_it_and_another_hears_nothing() {
    const APPROVALS: &str = "plexus://approvals";
    let (server, folder) = (server().await, tempfile::tempdir().unwrap());
    let (owner, other) =
        (Parent::begin(&server, "owner").await, Parent::begin(&server, "other").await);
    let (mut owner_hears, mut other_hears) = (owner.listen().await, other.listen().await);
    for parent in [&owner, &other] {
        parent.subscribe(APPROVALS).await;
        assert_eq!(parent.read(APPROVALS).await["approvals"], json!([]));
    }
    let id = owner.create(folder.path().to_str().unwrap()).await;
    let prompt = json!({"session_id": id, "prompt": "hello"});
    server.call_as(&owner.token, "claudecode.chat_async", prompt).await.unwrap().unwrap();
    owner_hears.wait_for(APPROVALS, &server).await;
    let waiting = owner.read(APPROVALS).await;
    assert_eq!(waiting["approvals"][0]["session_id"], json!(id), "{waiting}");
    assert_eq!(other.read(APPROVALS).await["approvals"], json!([]));
    let events = owner.read(&format!("plexus://sessions/{id}/events")).await;
    let last = events["events"]
        .as_array()
        .and_then(|events| events.last())
        .unwrap_or_else(|| panic!("{events}"));
    assert_eq!(last["event"]["approval_id"], waiting["approvals"][0]["id"], "{events}");

    let answer =
        json!({"approval_id": waiting["approvals"][0]["id"], "approve": false, "message": "no"});
    server.call_as(&owner.token, "loopback.respond", answer).await.unwrap().unwrap();
    owner_hears.wait_for(APPROVALS, &server).await;
    assert_eq!(owner.read(APPROVALS).await["approvals"], json!([]));
    // The other parent's stream works, and its first notification comes after all this.
    let own = other.create(folder.path().to_str().unwrap()).await;
    other.subscribe(&format!("plexus://sessions/{own}")).await;
    let prompt = json!({"session_id": own, "prompt": "sim:\nsay hi"});
    server.call_as(&other.token, "claudecode.chat_async", prompt).await.unwrap().unwrap();
    other_hears.wait_for(&own, &server).await;
    assert!(!other_hears.all.contains(APPROVALS), "another parent was told: {}", other_hears.all);
}
