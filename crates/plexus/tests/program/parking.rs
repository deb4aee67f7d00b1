//! Agents that are parked before their time: by a machine that is short of memory, and by `plexus stop --park`.

use std::process::Command;

use serde_json::{Value, json};
use testkit::server::{ServerOptions, TestServer};
use testkit::wait::eventually_async;

use crate::place::{DEADLINE, text};

/// The sessions that are parked, by name.
async fn parked(server: &TestServer) -> Vec<String> {
    let list = server.call("agents.list", json!({})).await.unwrap();
    let sessions = list["sessions"].as_array().unwrap().iter();
    let parked =
        sessions.filter(|it| it["parked"] == true && it["status"] == "awaiting_permission");
    parked.map(|it| it["name"].as_str().unwrap().to_owned()).collect()
}

async fn until_parked(server: &TestServer, names: &[&str]) {
    eventually_async(&format!("{names:?} are parked"), DEADLINE, async || {
        (parked(server).await == names).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_short_of_memory_and_stop_park_what_waits() {
    let folder = tempfile::Builder::new().prefix("plexus-parking-").tempdir().unwrap();
    let work = folder.path().join("work");
    std::fs::create_dir(&work).unwrap();
    // The machine is short of memory while this file exists.
    let short = folder.path().join("memory.short");
    std::fs::write(&short, "").unwrap();
    let mut server = TestServer::with(ServerOptions {
        plexus_bin: Some(env!("CARGO_BIN_EXE_plexus").into()),
        claude_bin: Some("sim".into()),
        arguments: ["--set", "park_after_secs=3600"].map(Into::into).into(),
        env: vec![
            ("PLEXUS_FAULT".into(), "memory.short:error".into()),
            ("PLEXUS_FAULT_DIR".into(), folder.path().display().to_string()),
            ("CLAUDE_CONFIG_DIR".into(), folder.path().join("claude").display().to_string()),
        ],
        ..ServerOptions::default()
    })
    .await
    .unwrap();
    let asks = async |server: &TestServer, name: &str| {
        let create = json!({"name": name, "working_dir": work, "loopback_timeout_secs": 0});
        server.call("agents.create", create).await.unwrap();
        let run = json!({"command": format!("echo {name} >> ran")});
        let chat = json!({"name": name, "prompt": format!("sim:\ntool Bash {run}")});
        server.call("agents.chat_async", chat).await.unwrap();
    };
    asks(&server, "early").await;
    until_parked(&server, &["early"]).await;
    std::fs::remove_file(&short).unwrap();

    asks(&server, "late").await;
    eventually_async("the call of the other is in its transcript", DEADLINE, async || {
        let found = server.call("loopback.pending", json!({"name": "late"})).await.unwrap();
        let call = found["approvals"][0]["tool_use_id"].as_str()?.to_owned();
        let folder = folder.path().join("claude/projects/plexus-sim");
        let files = std::fs::read_dir(folder).ok()?.flatten();
        let mut texts = files.filter_map(|file| std::fs::read_to_string(file.path()).ok());
        texts.any(|text| text.contains(&call)).then_some(())
    })
    .await;
    let plexus = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plexus"));
        command.args(arguments).env("PLEXUS_DATA_DIR", server.data_dir()).env("NO_COLOR", "1");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", text(&output.stderr));
        text(&output.stdout)
    };
    let told = plexus(&["stop", "--park"]);
    assert!(!told.contains("goes on"), "{told}");
    server.kill_9().unwrap();
    server.start_again().await.unwrap();
    until_parked(&server, &["early", "late"]).await;

    let pending = server.call("loopback.pending", json!({})).await.unwrap();
    let ids: Vec<Value> =
        pending["approvals"].as_array().unwrap().iter().map(|it| it["id"].clone()).collect();
    let all = json!({"approval_ids": ids, "approve": true});
    server.call("loopback.respond_many", all).await.unwrap();
    eventually_async("both chats are over", DEADLINE, async || {
        let list = server.call("agents.list", json!({"status": "complete"})).await.unwrap();
        (list["sessions"].as_array().unwrap().len() == 2).then_some(())
    })
    .await;
    let mut ran: Vec<String> =
        std::fs::read_to_string(work.join("ran")).unwrap().lines().map(str::to_owned).collect();
    ran.sort();
    assert_eq!(ran, ["early", "late"]);
}
