//! `SIGKILL`, again and again: the child never notices, and every line of it becomes exactly one
//! event.

use serde_json::json;

use crate::simulated_server::{DEADLINE, SimulatedServer, texts};

pub(crate) async fn while_a_child_streams() {
    let mut setup = SimulatedServer::new().await;
    let session = setup.create("streams", json!({})).await;
    let script: String = (0..60).map(|n| format!("\nsay {n}\nsleep 30")).collect();
    setup.chat(&session, &format!("sim:{script}")).await;
    for round in 0..3u64 {
        setup
            .wait_for(&session, "more events", |page| {
                page["total_events"].as_u64().unwrap() > 3 + round * 8
            })
            .await;
        setup.server.crash_and_restart().await.unwrap();
    }
    let (status, events) = setup.end(&session).await;
    assert_eq!(status, "complete");
    assert_eq!(texts(&events), (0..60).map(|n| n.to_string()).collect::<Vec<_>>());
}

pub(crate) async fn while_a_child_waits_for_permission() {
    let mut setup = SimulatedServer::new().await;
    let session = setup.create("asks", json!({})).await;
    setup
        .chat(
            &session,
            "sim:\ntool Write {\"file_path\":\"note.txt\",\"content\":\"hello\"}\nsay done",
        )
        .await;
    let approval = setup.approval(&session).await;
    setup.server.crash_and_restart().await.unwrap();
    let still = setup.approval(&session).await;
    assert_eq!(still["id"], approval["id"]);
    setup.allow(&still).await;
    // Killed again right after the decision: it is sent once more if it was not taken.
    setup.server.crash_and_restart().await.unwrap();
    let (status, events) = setup.end(&session).await;
    assert_eq!(status, "complete");
    let asked = events.iter().filter(|event| event["type"] == "awaiting_approval").count();
    let written = events.iter().filter(|event| event["type"] == "tool_result").count();
    assert_eq!((asked, written), (1, 1), "{events:#?}");
    assert_eq!(std::fs::read_to_string(setup.work().join("note.txt")).unwrap(), "hello");
}

pub(crate) async fn and_away_while_the_child_finishes_and_leaves() {
    let mut setup = SimulatedServer::new().await;
    let session = setup.create("away", json!({"allowed_tools": ["Bash"]})).await;
    let input = json!({"command": "while ! test -e go; do sleep 0.05; done"});
    let script = format!(
        "sim:\nsay begun\ntool Bash {input}\nburst 300 30\nstderr goodbye\nsleep 50\nexit 7"
    );
    setup.chat(&session, &script).await;
    setup.wait_for(&session, "the first words", |page| page.to_string().contains("begun")).await;
    setup.server.kill_9().unwrap();
    std::fs::write(setup.work().join("go"), "").unwrap();
    let exit = setup.server.data_dir().join("runs").join(&session).join("0/exit.json");
    testkit::eventually_async("exit.json", DEADLINE, || {
        std::future::ready(exit.exists().then_some(()))
    })
    .await;
    setup.server.start_again().await.unwrap();
    let (status, events) = setup.end(&session).await;
    assert_eq!((status.as_str(), texts(&events).len()), ("failed", 301));
    let last = events.last().unwrap()["message"].as_str().unwrap();
    assert!(last.contains("exit code 7") && last.contains("goodbye"), "{last}");
}

pub(crate) async fn a_stopped_server_leaves_its_children_running() {
    let mut setup = SimulatedServer::new().await;
    let session = setup.create("stays", json!({})).await;
    setup.chat(&session, "sim:\nsay begun\nsleep 1000\nsay still here").await;
    setup.wait_for(&session, "the first words", |page| page.to_string().contains("begun")).await;
    assert_eq!(setup.server.stop().await.unwrap(), Some(0));
    setup.server.start_again().await.unwrap();
    let (status, events) = setup.end(&session).await;
    assert_eq!((status.as_str(), texts(&events)), ("complete", vec!["begun", "still here"]));
}
