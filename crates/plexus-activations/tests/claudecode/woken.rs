//! A parent that waits is woken when it has something to do, and told the answer of who is done.

use serde_json::{Value, json};

use crate::common::SimulatedHub;

/// Says much, asks once, says more, and ends with an answer.
const TALKATIVE: &str = "sim:\nburst 8 20\ntool Write {\"file_path\":\"n.txt\",\"content\":\"x\"}\nburst 8 20\nsay It is done.";

/// Waits as long as one may until a session asks or ends.
async fn turn(hub: &SimulatedHub, after: &Value) -> Value {
    let params = json!({"after": after, "wake_on": "asks_or_ends", "wait_ms": 60_000});
    hub.ok("claudecode.wait", params).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_is_woken_only_when_a_child_asks_or_ends() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("talks", json!({})).await;
    let bystander = hub.create("bystander", json!({})).await;
    hub.chat(&bystander, "sim:\nhang").await;
    hub.chat(&session, TALKATIVE).await;
    let (mut after, mut told) = (json!(0), Vec::new());
    while told.last() != Some(&"complete".to_owned()) {
        let news = turn(&hub, &after).await;
        after = news["after"].clone();
        let [only] = news["sessions"].as_array().unwrap().as_slice() else { panic!("{news:#}") };
        assert_eq!(only["session_id"], json!(session));
        let status = only["status"].as_str().unwrap().to_owned();
        if status == "awaiting_permission" {
            assert_eq!(only.get("answer"), None, "it has not ended");
            hub.respond(&hub.wait_for_approval(&session).await, true).await;
        } else {
            let answer = json!({"chat": 0, "seq": 22, "text": "It is done."});
            assert_eq!(only["answer"], answer);
            assert_eq!(hub.session(&session).await["answer"], answer);
        }
        told.push(status);
    }
    assert_eq!(told, ["awaiting_permission", "complete"]);
    let quiet = json!({"after": after, "wake_on": "asks_or_ends", "wait_ms": 50});
    assert_eq!(hub.ok("claudecode.wait", quiet).await["sessions"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wait_for_approvals_can_also_hear_of_ends() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("ends", json!({})).await;
    let wait = async |after: Value| {
        hub.ok("loopback.wait_for_approval", json!({"after": after, "wait_ms": 60_000})).await
    };
    let none = hub.ok("loopback.wait_for_approval", json!({"after": 0})).await;
    assert_eq!(none["type"], "timeout");
    hub.chat(&session, "sim:\nburst 8 20\nsay No question.").await;
    let ended = wait(none["after"].clone()).await;
    assert_eq!(ended["approvals"], json!([]));
    assert_eq!(ended["ended"][0]["answer"]["text"], "No question.");
    hub.chat(&session, TALKATIVE).await;
    let asked = wait(ended["after"].clone()).await;
    assert_eq!((&asked["approvals"][0]["tool_name"], asked.get("ended")), (&json!("Write"), None));
    // Without `after` nobody hears of ends, as ever.
    hub.ok("claudecode.cancel", json!({"session_id": session})).await;
    hub.wait_for_end(&session, 1).await;
    let plain = hub.ok("loopback.wait_for_approval", json!({"wait_ms": 50})).await;
    assert_eq!(plain, json!({"type": "timeout"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_answer_is_cut_where_many_sessions_are_told() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("long", json!({})).await;
    hub.chat_to_end(&session, "sim:\nburst 1 10000").await;
    let whole = hub.session(&session).await["answer"].clone();
    assert_eq!((whole["text"].as_str().unwrap().len(), whole.get("cut")), (10_000, None));
    let told = hub.ok("claudecode.wait", json!({})).await["sessions"][0]["answer"].clone();
    assert_eq!((told["text"].as_str().unwrap().len(), &told["cut"]), (4_096, &json!(true)));
    // A page of sessions has no answers.
    let listed = hub.ok("claudecode.list", json!({})).await;
    assert_eq!(listed["sessions"][0].get("answer"), None);
}
