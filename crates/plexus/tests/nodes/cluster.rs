//! Servers that share a database, and what tests ask of them.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::server::{ServerOptions, TestServer};

/// How long anything that a test waits for may take, on a loaded machine.
pub(crate) const DEADLINE: Duration = Duration::from_secs(180);

/// The lease where no server is meant to lose it: a busy machine may be silent for long.
pub(crate) const LONG_LEASE: u64 = 120;

/// The lease where a server is meant to lose it: short, so that a test is over soon, and long
/// enough that a busy machine does not lose it by accident.
pub(crate) const SHORT_LEASE: u64 = 20;

/// Servers on one database, with folders that all of them see.
pub(crate) struct Cluster {
    pub(crate) nodes: Vec<TestServer>,
    folder: TempDir,
}

impl Cluster {
    /// Starts a server for each URL: the same database, perhaps through a proxy.
    pub(crate) async fn start(urls: &[&str], lease_secs: u64) -> Self {
        let leases: Vec<_> = urls.iter().map(|url| (*url, lease_secs)).collect();
        Self::with_leases(&leases).await
    }

    /// Starts a server for each URL, with its lease.
    pub(crate) async fn with_leases(leases: &[(&str, u64)]) -> Self {
        let folder = tempfile::Builder::new().prefix("plexus-nodes-").tempdir().unwrap();
        for dir in ["work", "home"] {
            std::fs::create_dir(folder.path().join(dir)).unwrap();
        }
        let mut nodes = Vec::new();
        for (n, (url, lease_secs)) in leases.iter().enumerate() {
            let options = options(n, url, *lease_secs, folder.path());
            nodes.push(TestServer::with(options).await.unwrap());
        }
        Self { nodes, folder }
    }

    /// A folder that goes with the cluster.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    pub(crate) async fn call(&self, node: usize, method: &str, params: Value) -> Value {
        match self.nodes[node].call(method, params).await {
            Ok(answer) => answer,
            Err(error) => panic!("{method} at {node}: {error:#}\n{}", self.nodes[node].log()),
        }
    }

    pub(crate) async fn create(&self, node: usize, name: &str) -> String {
        let params = json!({"name": name, "working_dir": self.work()});
        self.call(node, "claudecode.create", params).await["id"].as_str().unwrap().to_owned()
    }

    pub(crate) async fn chat(&self, node: usize, session: &str, prompt: &str) -> u64 {
        let started = self
            .call(node, "claudecode.chat_async", json!({"session_id": session, "prompt": prompt}))
            .await;
        started["chat"].as_u64().unwrap()
    }

    /// Waits until the newest chat is as wanted, as one server sees it. Calls that the server
    /// refuses meanwhile are retried.
    pub(crate) async fn wait_for(
        &self,
        node: usize,
        session: &str,
        what: &str,
        wanted: impl Fn(&Value) -> bool,
    ) -> Value {
        let began = Instant::now();
        loop {
            let read = json!({"session_id": session, "from_seq": 0, "limit": 1000});
            let page = self.nodes[node].call("claudecode.poll", read).await;
            if let Ok(page) = &page
                && wanted(page)
            {
                return page.clone();
            }
            assert!(
                began.elapsed() < DEADLINE,
                "{what} did not come at {node}: {page:#?}\n{}",
                self.nodes[node].log()
            );
            let seen = page.ok().map_or(json!(0), |page| page["total_events"].clone());
            let rest = json!({"session_id": session, "from_seq": seen, "wait_ms": 200});
            if self.nodes[node].call("claudecode.poll", rest).await.is_err() {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }

    /// Waits for the end of the newest chat, as one server sees it, and returns its status and its
    /// events: numbered without gap or repeat.
    pub(crate) async fn end(&self, node: usize, session: &str) -> (String, Vec<Value>) {
        let ended = |page: &Value| {
            !["running", "awaiting_permission", "idle"].contains(&page["status"].as_str().unwrap())
        };
        let page = self.wait_for(node, session, "the end of the chat", ended).await;
        let events = page["events"].as_array().unwrap();
        for (n, event) in events.iter().enumerate() {
            assert_eq!(event["seq"], n, "a gap or a repeat");
        }
        (
            page["status"].as_str().unwrap().to_owned(),
            events.iter().map(|event| event["event"].clone()).collect(),
        )
    }

    /// Waits for a permission request, as one server sees it.
    pub(crate) async fn approval(&self, node: usize, session: &str) -> Value {
        let waits = |page: &Value| {
            page["pending_approvals"].as_array().is_some_and(|list| !list.is_empty())
        };
        self.wait_for(node, session, "a permission request", waits).await["pending_approvals"][0]
            .clone()
    }

    pub(crate) async fn allow(&self, node: usize, approval: &Value) {
        self.call(
            node,
            "loopback.respond",
            json!({"approval_id": approval["id"], "approve": true}),
        )
        .await;
    }

    /// The processes of the run `n` of a session, as the server that holds it wrote them down.
    pub(crate) fn pids(&self, node: usize, session: &str, n: u32) -> Vec<u32> {
        let file =
            self.nodes[node].data_dir().join("runs").join(session).join(format!("{n}/pid.json"));
        let pids: Value = serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap();
        ["shim_pid", "child_pid"]
            .iter()
            .map(|key| u32::try_from(pids[key].as_u64().unwrap()).unwrap())
            .collect()
    }
}

/// The options of the `n`-th server. Every log line is there when a test fails.
pub(crate) fn options(n: usize, url: &str, lease_secs: u64, folder: &Path) -> ServerOptions {
    let set = [
        format!("node.name=n{n}"),
        format!("node.lease_secs={lease_secs}"),
        "limits.grace_secs=1".to_owned(),
    ];
    ServerOptions {
        plexus_bin: Some(env!("CARGO_BIN_EXE_plexus").into()),
        claude_bin: Some("sim".into()),
        arguments: set.iter().flat_map(|set| ["--set".into(), set.into()]).collect(),
        env: vec![
            ("DATABASE_URL".to_owned(), url.to_owned()),
            ("HOME".to_owned(), folder.join("home").display().to_string()),
        ],
        ..ServerOptions::default()
    }
}

/// A script that asks to write a file, and says something before and after.
pub(crate) fn writes(name: &str) -> String {
    format!(
        "sim:\nsay before\ntool Write {{\"file_path\":\"{name}\",\"content\":\"hello\"}}\nsay after"
    )
}

/// The texts of all `content` events.
pub(crate) fn texts(events: &[Value]) -> Vec<&str> {
    events
        .iter()
        .filter(|event| event["type"] == "content")
        .map(|event| event["text"].as_str().unwrap())
        .collect()
}
