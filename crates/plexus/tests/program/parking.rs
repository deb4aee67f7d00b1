//! Agents that are parked before their time, by a machine that is short of memory and by `plexus
//! stop --park`; and what may have changed until they are woken.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::server::{ServerOptions, TestServer};
use testkit::wait::eventually_async;

use crate::installation::{DEADLINE, executable, text};

struct Parking {
    server: TestServer,
    folder: TempDir,
}

impl Parking {
    /// A server that parks nobody for an hour, on a machine that is short of memory.
    async fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("plexus-parking-").tempdir().unwrap();
        let at = |name: &str| folder.path().join(name).display().to_string();
        // A CLI that changes what it was told, while there is a file `tamper`. It is asked for its
        // version before its transcript is looked at.
        let script = format!(
            "#!/bin/sh\n\
             if test \"$1\" != --version && test -e {}; then sed -i s/ECHO/TAMPERED/ {}/projects/plexus-sim/*; fi\n\
             exec {} sim \"$@\"\n",
            at("tamper"),
            at("claude"),
            env!("CARGO_BIN_EXE_plexus")
        );
        executable(&folder.path().join("agent"), &script);
        std::fs::write(folder.path().join("memory.short"), "").unwrap();
        let server = TestServer::with(ServerOptions {
            plexus_bin: Some(env!("CARGO_BIN_EXE_plexus").into()),
            claude_bin: Some(folder.path().join("agent")),
            arguments: ["--set", "park_after_secs=3600"].map(Into::into).into(),
            env: vec![
                ("PLEXUS_FAULT".into(), "memory.short:error".into()),
                ("PLEXUS_FAULT_DIR".into(), folder.path().display().to_string()),
                ("CLAUDE_CONFIG_DIR".into(), at("claude")),
            ],
            ..ServerOptions::default()
        });
        Self { server: server.await.unwrap(), folder }
    }

    fn work(&self, name: &str) -> PathBuf {
        self.folder.path().join("work").join(name)
    }

    /// Starts a session of this name in a directory of its own, which asks about one command.
    async fn asks(&self, name: &str) {
        std::fs::create_dir_all(self.work(name)).unwrap();
        let create =
            json!({"name": name, "working_dir": self.work(name), "loopback_timeout_secs": 0});
        self.server.call("agents.create", create).await.unwrap();
        let run = json!({"command": "echo ECHO >> ran"});
        let chat = json!({"name": name, "prompt": format!("sim:\ntool Bash {run}")});
        self.server.call("agents.chat_async", chat).await.unwrap();
    }

    async fn until_parked(&self, names: &[&str]) {
        eventually_async(&format!("{names:?} are parked"), DEADLINE, async || {
            let list = self.server.call("agents.list", json!({})).await.unwrap();
            let mut sessions = list["sessions"].as_array().unwrap().iter();
            let is_parked =
                |it: &Value| it["parked"] == true && it["status"] == "awaiting_permission";
            (sessions.len() == names.len() && sessions.all(is_parked)).then_some(())
        })
        .await;
    }

    /// The question of a session.
    async fn question(&self, name: &str) -> Value {
        eventually_async(&format!("the question of {name}"), DEADLINE, async || {
            let found = self.server.call("loopback.pending", json!({"name": name})).await.unwrap();
            found["approvals"].get(0).cloned()
        })
        .await
    }

    /// Allows what a session asks, and returns how its chat ended and what it said.
    async fn allowed(&self, name: &str) -> (String, String) {
        let answer = json!({"approval_id": self.question(name).await["id"], "approve": true});
        self.server.call("loopback.respond", answer).await.unwrap();
        eventually_async(&format!("the end of {name}"), DEADLINE, async || {
            let poll = json!({"name": name, "from_seq": 0});
            let page = self.server.call("agents.poll", poll).await.unwrap();
            let status = page["status"].as_str().unwrap().to_owned();
            ["complete", "failed"]
                .contains(&status.as_str())
                .then(|| (status, page["events"].to_string()))
        })
        .await
    }

    fn ran(&self, name: &str) -> String {
        std::fs::read_to_string(self.work(name).join("ran")).unwrap_or_default()
    }
}

fn plexus(data_dir: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_plexus"));
    command.args(arguments).env("PLEXUS_DATA_DIR", data_dir).env("NO_COLOR", "1");
    let output = command.output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_is_parked_before_its_time_and_wakes_only_where_nothing_changed() {
    let mut parking = Parking::new().await;
    for name in ["early", "moved", "tampered"] {
        parking.asks(name).await;
    }
    parking.until_parked(&["early", "moved", "tampered"]).await;
    std::fs::remove_file(parking.folder.path().join("memory.short")).unwrap();

    parking.asks("late").await;
    let call = parking.question("late").await["tool_use_id"].as_str().unwrap().to_owned();
    eventually_async("the call of the last one is in its transcript", DEADLINE, async || {
        let folder = parking.folder.path().join("claude/projects/plexus-sim");
        let files = std::fs::read_dir(folder).ok()?.flatten();
        let mut texts = files.filter_map(|file| std::fs::read_to_string(file.path()).ok());
        texts.any(|text| text.contains(&call)).then_some(())
    })
    .await;
    let told = plexus(&parking.server.data_dir(), &["stop", "--park"]);
    assert!(!told.contains("keep running") && !told.contains("keeps running"), "{told}");
    parking.server.kill_9().unwrap();
    parking.server.start_again().await.unwrap();
    parking.until_parked(&["early", "moved", "tampered", "late"]).await;
    let listed = plexus(&parking.server.data_dir(), &["ps"]);
    assert_eq!(listed.matches("parked").count(), 4, "{listed}");

    for name in ["early", "late"] {
        let (status, told) = parking.allowed(name).await;
        assert_eq!((status.as_str(), parking.ran(name).as_str()), ("complete", "ECHO\n"), "{told}");
    }
    // Another directory lies where its own was.
    std::fs::rename(parking.work("moved"), parking.work("gone")).unwrap();
    std::fs::create_dir(parking.work("moved")).unwrap();
    let (status, told) = parking.allowed("moved").await;
    assert_eq!(status, "failed", "{told}");
    assert!(told.contains("is no longer the directory that it was"), "{told}");
    // The CLI asks about another command than the one that was approved.
    std::fs::write(parking.folder.path().join("tamper"), "").unwrap();
    let (status, told) = parking.allowed("tampered").await;
    assert_eq!(status, "complete", "{told}");
    assert!(told.contains("another input than the one that was decided"), "{told}");
    for name in ["moved", "gone", "tampered"] {
        assert_eq!(parking.ran(name), "", "{name} ran");
    }
}
