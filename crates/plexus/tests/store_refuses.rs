//! While the store cannot be written, requests wait and nobody is told of anything; then everything
//! goes on. On both channels. And what a server stored that it owes its agent is sent by the next
//! one.

#![allow(clippy::expect_used, clippy::unwrap_used, reason = "in a test, a panic is the answer")]

use std::path::PathBuf;

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::server::{ServerOptions, TestServer};
use testkit::wait::{PATIENCE, eventually_async};

struct RefusingServer {
    server: TestServer,
    folder: TempDir,
}

impl RefusingServer {
    async fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("plexus-refuses-").tempdir().unwrap();
        std::fs::create_dir(folder.path().join("work")).unwrap();
        let faults = folder.path().display().to_string();
        let server = TestServer::with(ServerOptions {
            plexus_bin: Some(env!("CARGO_BIN_EXE_plexus").into()),
            claude_bin: Some("sim".into()),
            env: vec![
                ("PLEXUS_FAULT".into(), "store.commit:error".into()),
                ("PLEXUS_FAULT_DIR".into(), faults),
            ],
            ..ServerOptions::default()
        });
        Self { server: server.await.unwrap(), folder }
    }

    fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// The disk refuses every commit while this file exists.
    fn refusal(&self) -> PathBuf {
        self.folder.path().join("store.commit")
    }

    async fn begin(&self, name: &str, channel: &str, script: &str) {
        let env = json!({"CLAUDE_CONFIG_DIR": self.folder.path().join("claude")});
        let create =
            json!({"name": name, "working_dir": self.work(), "channel": channel, "env": env});
        self.server.call("claudecode.create", create).await.unwrap();
        self.server
            .call("claudecode.chat_async", json!({"name": name, "prompt": script}))
            .await
            .unwrap();
    }

    async fn pending(&self, name: &str) -> Value {
        eventually_async(&format!("the question of {name}"), PATIENCE, || async {
            let page = self.server.call("loopback.pending", json!({})).await.unwrap();
            page["approvals"]
                .as_array()
                .unwrap()
                .iter()
                .find(|approval| approval["session_name"] == name)
                .cloned()
        })
        .await
    }

    async fn ends(&self, name: &str) -> Value {
        eventually_async(&format!("the end of {name}"), PATIENCE, || async {
            let status =
                self.server.call("claudecode.get", json!({"name": name})).await.unwrap()["session"]
                    ["status"]
                    .take();
            ["complete", "failed"].iter().any(|end| status == *end).then_some(status)
        })
        .await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_wait_while_the_store_cannot_be_written_and_nobody_is_told_otherwise() {
    let place = RefusingServer::new().await;
    place.begin("asked", "control", "sim:\ntool Bash {\"command\":\"touch asked\"}").await;
    let approval = place.pending("asked").await;
    // These two ask when the disk no longer takes anything.
    let until_told = "while ! test -e ask-now; do sleep 0.05; done; exit 0";
    for channel in ["control", "mcp"] {
        let waits = json!({"command": until_told}).to_string();
        let script =
            format!("sim:\ntool Bash {waits}\ntool Bash {{\"command\":\"touch {channel}\"}}");
        place.begin(channel, channel, &script).await;
        let waits = place.pending(channel).await;
        place
            .server
            .call("loopback.respond", json!({"approval_id": waits["id"], "approve": true}))
            .await
            .unwrap();
    }
    std::fs::write(place.refusal(), "").unwrap();
    std::fs::write(place.work().join("ask-now"), "").unwrap();
    let answer = json!({"approval_id": approval["id"], "approve": true});
    let token = place.server.token().unwrap();
    for _ in 0..20 {
        let refused = place
            .server
            .call_as(token, "loopback.respond", answer.clone())
            .await
            .unwrap()
            .unwrap_err();
        assert_eq!(refused.kind(), "unavailable", "{refused}");
    }
    for file in ["asked", "control", "mcp"] {
        assert!(!place.work().join(file).exists(), "{file} ran, and nobody could have allowed it");
    }
    let waiting = place.server.call("loopback.pending", json!({})).await.unwrap();
    assert_eq!(waiting["approvals"][0]["id"], approval["id"], "it waits still");

    std::fs::remove_file(place.refusal()).unwrap();
    place.server.call("loopback.respond", answer).await.unwrap();
    for channel in ["control", "mcp"] {
        let question = place.pending(channel).await;
        assert_eq!(question["input"]["command"], format!("touch {channel}"));
        place
            .server
            .call("loopback.respond", json!({"approval_id": question["id"], "approve": true}))
            .await
            .unwrap();
    }
    for name in ["asked", "control", "mcp"] {
        assert_eq!(place.ends(name).await, "complete", "{}", place.server.log());
        assert!(place.work().join(name).exists(), "{name} was allowed and did not run");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_that_was_stored_is_sent_by_the_next_server() {
    let folder = tempfile::Builder::new().prefix("plexus-owes-").tempdir().unwrap();
    let server = TestServer::with(ServerOptions {
        plexus_bin: Some(env!("CARGO_BIN_EXE_plexus").into()),
        claude_bin: Some("sim".into()),
        env: vec![
            ("PLEXUS_FAULT".into(), "owed.committed:kill".into()),
            ("PLEXUS_FAULT_DIR".into(), folder.path().display().to_string()),
        ],
        ..ServerOptions::default()
    });
    let mut server = server.await.unwrap();
    let create = json!({"name": "owed", "working_dir": folder.path(), "channel": "control",
        "env": {"CLAUDE_CONFIG_DIR": folder.path().join("claude")}});
    server.call("agents.create", create).await.unwrap();
    // It asks what nobody serves, and waits for the answer. No approval says that it does.
    let chat = json!({"name": "owed", "prompt": "sim:\nrequest from_the_future\nsay it goes on"});
    server.call("agents.chat_async", chat).await.unwrap();
    eventually_async("the server is killed", PATIENCE, async || {
        folder.path().join("owed.committed@1").exists().then_some(())
    })
    .await;
    server.crash_and_restart().await.unwrap();
    let page = eventually_async("the end of the chat", PATIENCE, async || {
        let poll = json!({"name": "owed", "from_seq": 0});
        let page = server.call("agents.poll", poll).await.unwrap();
        (page["status"] == "complete").then_some(page)
    })
    .await;
    assert!(page["events"].to_string().contains("it goes on"), "{page:#}");
}
