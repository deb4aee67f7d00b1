//! A server with a folder for its sessions to work in.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::server::TestServer;

/// How long anything that a test waits for may take, on a loaded machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(180);

/// A server and where its sessions work.
pub(crate) struct Site {
    pub(crate) server: TestServer,
    folder: TempDir,
}

impl Site {
    pub(crate) async fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("plexus-site-").tempdir().unwrap();
        std::fs::create_dir(folder.path().join("work")).unwrap();
        Self { server: TestServer::start().await.unwrap(), folder }
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    pub(crate) async fn call(&self, method: &str, params: Value) -> Value {
        match self.server.call(method, params).await {
            Ok(answer) => answer,
            Err(error) => panic!("{method}: {error:#}\n{}", self.server.log()),
        }
    }

    pub(crate) async fn create(&self, name: &str, more: Value) -> String {
        let env = json!({"CLAUDE_CONFIG_DIR": self.folder.path().join("config")});
        let mut params = json!({"name": name, "working_dir": self.work(), "env": env});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.call("claudecode.create", params).await["id"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn chat(&self, session: &str, prompt: &str) -> u64 {
        let started = self.call("claudecode.chat_async", json!({"session_id": session, "prompt": prompt})).await;
        started["chat"].as_u64().unwrap()
    }

    /// Waits until the newest chat is as wanted.
    pub(crate) async fn wait_for(&self, session: &str, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let page = self.call("claudecode.poll", json!({"session_id": session, "from_seq": 0, "limit": 1000})).await;
            if wanted(&page) {
                return page;
            }
            assert!(began.elapsed() < DEADLINE, "{what} did not come: {page:#}\n{}", self.server.log());
            let rest = json!({"session_id": session, "from_seq": page["total_events"], "wait_ms": 200});
            self.call("claudecode.poll", rest).await;
        }
    }

    /// Waits for the end of the newest chat and returns its status and its events, numbered without gap or repeat.
    pub(crate) async fn end(&self, session: &str) -> (String, Vec<Value>) {
        let ended = |page: &Value| !["running", "awaiting_permission"].contains(&page["status"].as_str().unwrap());
        let page = self.wait_for(session, "the end of the chat", ended).await;
        let events = page["events"].as_array().unwrap();
        for (n, event) in events.iter().enumerate() {
            assert_eq!(event["seq"], n, "a gap or a repeat");
        }
        (page["status"].as_str().unwrap().to_owned(), events.iter().map(|event| event["event"].clone()).collect())
    }

    /// Waits for a permission request.
    pub(crate) async fn approval(&self, session: &str) -> Value {
        let waits = |page: &Value| page["pending_approvals"].as_array().is_some_and(|list| !list.is_empty());
        self.wait_for(session, "a permission request", waits).await["pending_approvals"][0].clone()
    }

    pub(crate) async fn allow(&self, approval: &Value) {
        self.call("loopback.respond", json!({"approval_id": approval["id"], "approve": true})).await;
    }
}

/// The texts of all `content` events.
pub(crate) fn texts(events: &[Value]) -> Vec<&str> {
    events.iter().filter(|event| event["type"] == "content").map(|event| event["text"].as_str().unwrap()).collect()
}
