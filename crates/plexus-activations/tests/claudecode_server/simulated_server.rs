//! A server with a folder for its sessions to work in.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use plexus_shim::layout::RunDir;
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::server::{RpcError, ServerOptions, TestServer};

/// How long anything that a test waits for may take, on a loaded machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(180);

/// A server and where its sessions work.
pub(crate) struct SimulatedServer {
    pub(crate) server: TestServer,
    folder: TempDir,
}

impl SimulatedServer {
    pub(crate) async fn new() -> Self {
        Self::with(ServerOptions::default()).await
    }

    pub(crate) async fn with(options: ServerOptions) -> Self {
        let folder = tempfile::Builder::new().prefix("plexus-test-").tempdir().unwrap();
        std::fs::create_dir(folder.path().join("work")).unwrap();
        Self { server: TestServer::with(options).await.unwrap(), folder }
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

    /// Calls a method of which the test expects that it is refused.
    pub(crate) async fn refused(&self, method: &str, params: Value) -> RpcError {
        let token = self.server.token().unwrap();
        match self.server.call_as(token, method, params).await.unwrap() {
            Err(refused) => refused,
            Ok(answer) => panic!("{method} was answered {answer}"),
        }
    }

    pub(crate) async fn create(&self, name: &str, more: Value) -> String {
        let env = json!({"CLAUDE_CONFIG_DIR": self.folder.path().join("config")});
        let mut params = json!({"name": name, "working_dir": self.work(), "env": env});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        self.call("claudecode.create", params).await["id"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn chat(&self, session: &str, prompt: &str) -> u64 {
        let started = self
            .call("claudecode.chat_async", json!({"session_id": session, "prompt": prompt}))
            .await;
        started["chat"].as_u64().unwrap()
    }

    /// Starts a chat and waits for its end; returns its events.
    pub(crate) async fn chat_to_end(&self, session: &str, prompt: &str) -> Vec<Value> {
        self.chat(session, prompt).await;
        let (status, events) = self.end(session).await;
        assert_eq!(status, "complete", "{events:#?}");
        events
    }

    pub(crate) async fn session(&self, session: &str) -> Value {
        self.call("claudecode.get", json!({"session_id": session})).await["session"].clone()
    }

    /// Waits until the newest chat is as wanted.
    pub(crate) async fn wait_for(
        &self,
        session: &str,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Value {
        let began = Instant::now();
        loop {
            let page = self
                .call(
                    "claudecode.poll",
                    json!({"session_id": session, "from_seq": 0, "limit": 1000}),
                )
                .await;
            if wanted(&page) {
                return page;
            }
            assert!(
                began.elapsed() < DEADLINE,
                "{what} did not come: {page:#}\n{}",
                self.server.log()
            );
            let rest =
                json!({"session_id": session, "from_seq": page["total_events"], "wait_ms": 200});
            self.call("claudecode.poll", rest).await;
        }
    }

    /// Waits until the newest chat has said this.
    pub(crate) async fn wait_for_words(&self, session: &str, words: &str) {
        let said = |page: &Value| texts(&shown(page)).iter().any(|text| text.contains(words));
        self.wait_for(session, words, said).await;
    }

    /// Waits for the end of the newest chat and returns its status and its events, numbered without
    /// gap or repeat.
    pub(crate) async fn end(&self, session: &str) -> (String, Vec<Value>) {
        let ended = |page: &Value| {
            !["running", "awaiting_permission"].contains(&page["status"].as_str().unwrap())
        };
        let first = self.wait_for(session, "the end of the chat", ended).await;
        let mut events: Vec<Value> = Vec::new();
        loop {
            let from = json!({"session_id": session, "chat": first["chat"], "from_seq": events.len(), "limit": 1000});
            let page = self.call("claudecode.poll", from).await;
            for event in page["events"].as_array().unwrap() {
                assert_eq!(event["seq"], events.len(), "a gap or a repeat");
                events.push(event["event"].clone());
            }
            if page["has_more"] == false {
                return (first["status"].as_str().unwrap().to_owned(), events);
            }
        }
    }

    /// Waits for a permission request.
    pub(crate) async fn approval(&self, session: &str) -> Value {
        let waits = |page: &Value| {
            page["pending_approvals"].as_array().is_some_and(|list| !list.is_empty())
        };
        self.wait_for(session, "a permission request", waits).await["pending_approvals"][0].clone()
    }

    pub(crate) async fn allow(&self, approval: &Value) {
        self.call("loopback.respond", json!({"approval_id": approval["id"], "approve": true}))
            .await;
    }

    pub(crate) async fn cancel(&self, session: &str) {
        self.call("claudecode.cancel", json!({"session_id": session, "reason": "enough"})).await;
    }

    /// The directory of the `n`-th run of a session.
    pub(crate) fn run_dir(&self, session: &str, n: u32) -> RunDir {
        RunDir::new(self.server.data_dir().join("runs").join(session).join(n.to_string()))
    }

    /// The processes of the `n`-th run of a session: its shim, and its child.
    pub(crate) fn pids(&self, session: &str, n: u32) -> (u32, u32) {
        let pids = self.run_dir(session, n).read_pid().unwrap().unwrap();
        (u32::try_from(pids.shim_pid).unwrap(), u32::try_from(pids.child_pid).unwrap())
    }

    /// Waits until no shim, no agent and no tool of this server lives.
    pub(crate) async fn nothing_lives(&self) {
        let mark = self.folder.path().display().to_string();
        let gone = || {
            std::future::ready(testkit::process::marked(&mark).unwrap().is_empty().then_some(()))
        };
        testkit::eventually_async("the end of every process", DEADLINE, gone).await;
    }
}

/// Waits until a file is there.
pub(crate) async fn exists(path: &Path) {
    let there = || std::future::ready(path.exists().then_some(()));
    testkit::eventually_async(&path.display().to_string(), DEADLINE, there).await;
}

/// A tool call that goes on until a file is there. [`awaited`] is there as soon as it runs.
pub(crate) fn until(file: &str) -> String {
    let command = format!("touch {}; while ! test -e {file}; do sleep 0.05; done", awaited(file));
    format!("tool Bash {}", json!({ "command": command }))
}

/// The file that says that a call of [`until`] runs: the server has answered it.
pub(crate) fn awaited(file: &str) -> String {
    format!("{file}.awaited")
}

/// The events of a page.
pub(crate) fn shown(page: &Value) -> Vec<Value> {
    page["events"].as_array().unwrap().iter().map(|event| event["event"].clone()).collect()
}

/// The types of some events, in order.
pub(crate) fn types(events: &[Value]) -> Vec<&str> {
    events.iter().map(|event| event["type"].as_str().unwrap()).collect()
}

/// The texts of all `content` events.
pub(crate) fn texts(events: &[Value]) -> Vec<&str> {
    events
        .iter()
        .filter(|event| event["type"] == "content")
        .map(|event| event["text"].as_str().unwrap())
        .collect()
}
