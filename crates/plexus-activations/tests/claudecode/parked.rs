//! Parking beside other questions: of chats before, and of a process that is woken.

use std::sync::Arc;
use std::time::Duration;

use plexus_core::{Call, Caller, Reply};
use plexus_engine::Settings;
use serde_json::{Value, json};

use crate::common::{DEADLINE, SimulatedHub};

/// Parks nobody by itself.
const NEVER: Duration = Duration::from_secs(60 * 60);

async fn until_parked(hub: &SimulatedHub, session: &str) {
    let parked = async || (hub.session(session).await["parked"] == json!(true)).then_some(());
    testkit::eventually_async("the agent is parked", DEADLINE, parked).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_parked_also_after_a_question_of_a_cancelled_chat() {
    let hub = SimulatedHub::with(|settings| settings.park_after = Some(NEVER)).await;
    let session = hub.create("warm", json!({"channel": "control"})).await;
    let first = hub.chat(&session, "sim:\ntool Bash {\"command\":\"echo first >> ran\"}").await;
    hub.wait_for_approval(&session).await;
    hub.ok("agents.cancel", json!({"session_id": session, "reason": "the test says so"})).await;
    assert_eq!(hub.wait_for_end(&session, first).await, "cancelled");
    let second = hub.chat(&session, "sim:\ntool Bash {\"command\":\"echo second >> ran\"}").await;
    let asked = hub.wait_for_approval(&session).await;
    // It writes its transcript a moment after it asks.
    let parked = async || (hub.park_children().await == 1).then_some(());
    testkit::eventually_async("the agent can be parked", DEADLINE, parked).await;
    until_parked(&hub, &session).await;
    hub.respond(&asked, true).await;
    assert_eq!(hub.wait_for_end(&session, second).await, "complete");
    assert_eq!(std::fs::read_to_string(hub.work().join("ran")).unwrap(), "second\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_woken_process_that_dies_leaves_no_other_question_open() {
    let soon = |settings: &mut Settings| settings.park_after = Some(Duration::from_millis(1));
    let hub = Arc::new(SimulatedHub::with(soon).await);
    let session = hub.create("woken", json!({"channel": "control"})).await;
    let run = json!({"command": "echo ran >> ran; while ! test -e go; do sleep 0.05; done"});
    let chat = hub.chat(&session, &format!("sim:\ntool Bash {run}")).await;
    let asked = hub.wait_for_approval(&session).await;
    until_parked(&hub, &session).await;
    hub.respond(&asked, true).await;
    let ran = hub.work().join("ran");
    let runs = async || ran.exists().then_some(());
    testkit::eventually_async("the call runs", DEADLINE, runs).await;
    // Something of the same process asks meanwhile, over the other channel.
    let (asker, child) = (Arc::clone(&hub), session.parse().unwrap());
    let waits: tokio::task::JoinHandle<Value> = tokio::spawn(async move {
        let input = json!({"command": "make"});
        let params = json!({"tool_name": "Bash", "input": input, "tool_use_id": "meanwhile"});
        let params = plexus_core::method::raw(&params).unwrap();
        let call = Call::plain(Caller::Child(child));
        let reply = asker.hub().call(call, "loopback.permit", Some(params)).await.unwrap();
        let Reply::Value(answer) = reply else { panic!("a permit answered with a stream") };
        serde_json::from_str(answer.give().await.unwrap().get()).unwrap()
    });
    hub.wait_for_approval(&session).await;
    let (_, cli) = hub.pids(&session, 1);
    testkit::process::kill(cli);
    let answer = tokio::time::timeout(DEADLINE, waits).await.unwrap().unwrap();
    assert_eq!(answer["behavior"], "deny", "{answer}");
    assert_eq!(hub.wait_for_end(&session, chat).await, "complete");
    assert_eq!(hub.ok("loopback.pending", json!({})).await["approvals"], json!([]));
    // The call was allowed once, and may have run: nobody runs it again.
    assert_eq!(std::fs::read_to_string(ran).unwrap(), "ran\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_waited_when_its_shim_and_its_server_died_is_parked() {
    let hub = SimulatedHub::with(|settings| settings.park_after = Some(NEVER)).await;
    let session = hub.create("lost", json!({"channel": "control"})).await;
    let chat = hub.chat(&session, "sim:\ntool Bash {\"command\":\"echo ran >> ran\"}").await;
    let asked = hub.wait_for_approval(&session).await;
    let call = asked["tool_use_id"].as_str().unwrap().to_owned();
    let transcripts = hub.work().parent().unwrap().join("config/projects/plexus-sim");
    let written = async || {
        let mut files = std::fs::read_dir(&transcripts).ok()?.flatten();
        let has_call = |text: String| text.contains(&call);
        files.any(|it| std::fs::read_to_string(it.path()).is_ok_and(has_call)).then_some(())
    };
    testkit::eventually_async("the call is in the transcript", DEADLINE, written).await;
    // As when a container is restarted: everything is killed, and the machine goes on.
    let processes = hub.processes();
    let down = hub.down().await;
    processes.iter().for_each(|process| testkit::process::kill(process.pid));
    let (hub, _) = down.up().await;
    until_parked(&hub, &session).await;
    assert_eq!(hub.wait_for_approval(&session).await["id"], asked["id"]);
    hub.respond(&asked, true).await;
    assert_eq!(hub.wait_for_end(&session, chat).await, "complete");
    assert_eq!(std::fs::read_to_string(hub.work().join("ran")).unwrap(), "ran\n");
}
