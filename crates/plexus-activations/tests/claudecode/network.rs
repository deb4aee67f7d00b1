//! Questions about hosts. The egress process of a session asks them at any time: something that the
//! agent left running connects between two chats, too.

use plexus_core::Caller;
use serde_json::{Value, json};

use crate::common::{DEADLINE, SimulatedHub};

/// Asks about a host as an egress process does, and waits for the answer.
async fn ask(hub: &SimulatedHub, session: &str, question: &str) -> Value {
    let params = json!({"tool_name": "Network", "tool_use_id": question,
        "input": {"host": "example.org", "port": 443}});
    let caller = Caller::Child(session.parse().unwrap());
    let asking = hub.call_as(caller, "loopback.permit", params);
    tokio::time::timeout(DEADLINE, asking).await.expect("an answer").unwrap()
}

/// Waits until so many questions are pending, and returns them, oldest first.
async fn pending(hub: &SimulatedHub, count: usize) -> Vec<Value> {
    let what = format!("{count} questions");
    testkit::eventually_async(&what, DEADLINE, || async {
        let found = hub.ok("loopback.pending", json!({})).await["approvals"].clone();
        found.as_array().filter(|found| found.len() == count).cloned()
    })
    .await
}

/// Asks, and is gone once there are so many questions: the server is killed, or loses the
/// connection.
async fn ask_and_vanish(hub: &SimulatedHub, session: &str, question: &str, count: usize) {
    tokio::select! {
        answer = ask(hub, session, question) => panic!("nobody answered: {answer}"),
        _ = pending(hub, count) => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_between_two_chats_ends_with_the_process() {
    let hub = SimulatedHub::with(|settings| settings.max_warm = 1).await;
    let session = hub.create("asks", json!({"loopback_timeout_secs": 0})).await;
    hub.chat_to_end(&session, "sim:\nsay done").await;
    let leaves = async {
        pending(&hub, 1).await;
        // The child that is idle longest makes room.
        let other = hub.create("other", json!({})).await;
        hub.chat_to_end(&other, "sim:\nsay done").await;
        pending(&hub, 0).await;
    };
    let (answer, ()) = tokio::join!(ask(&hub, &session, "network-1"), leaves);
    assert_eq!(answer["behavior"], "deny", "{answer}");
    let history = hub.ok("loopback.history", json!({"session_id": session})).await;
    let decisions = history["decisions"].as_array().unwrap();
    let told: Vec<_> = decisions.iter().map(|it| (&it["status"], &it["decided_by"])).collect();
    assert_eq!(told, [(&json!("cancelled"), &json!("agent_ended"))], "{history:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_asked_once_whichever_chat_is_open_and_whichever_server_runs() {
    let hub = SimulatedHub::new().await;
    let more = json!({"loopback_timeout_secs": 0, "allowed_tools": ["Bash"]});
    let session = hub.create("asks", more).await;
    let input = json!({"command": "while ! test -e go; do sleep 0.05; done"});
    let chat = hub.chat(&session, &format!("sim:\nsay here\ntool Bash {input}")).await;
    hub.wait_for_event(&session, "content").await;
    ask_and_vanish(&hub, &session, "network-1", 1).await;
    std::fs::write(hub.work().join("go"), "").unwrap();
    assert_eq!(hub.wait_for_end(&session, chat).await, "complete");
    ask_and_vanish(&hub, &session, "network-2", 2).await;

    let (hub, picked_up) = hub.restart().await;
    assert_eq!(picked_up, 1);
    let asked = pending(&hub, 2).await;
    // The first again, between two chats. It is answered with the approval that it had.
    let answers = hub.respond(&asked[0], true);
    let (answer, ()) = tokio::join!(ask(&hub, &session, "network-1"), answers);
    assert_eq!(answer["behavior"], "allow", "{answer}");
    // The second in the next chat of the same process.
    hub.chat(&session, "sim:\nsay again\nhang").await;
    hub.wait_for_event(&session, "content").await;
    let answers = hub.respond(&asked[1], true);
    let (answer, ()) = tokio::join!(ask(&hub, &session, "network-2"), answers);
    assert_eq!(answer["behavior"], "allow", "{answer}");
    assert_eq!(hub.runs(&session).await, 1);
    assert_eq!(pending(&hub, 0).await, Vec::<Value>::new());
    let history = hub.ok("loopback.history", json!({"session_id": session})).await;
    let decisions = history["decisions"].as_array().unwrap().iter();
    let questions = decisions.filter(|it| it["tool_name"] != "Bash").count();
    assert_eq!(questions, 2, "{history:#}");
}
