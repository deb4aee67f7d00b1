//! A child with more open questions than a session may have: those beyond the limit are denied, and
//! everything still ends.

use plexus_store::limits::MAX_PENDING_PER_SESSION;
use serde_json::{Value, json};

use crate::common::{DEADLINE, SimulatedHub};

/// How many questions the child asks at once.
const ASKED: usize = MAX_PENDING_PER_SESSION + 44;

async fn crowd(hub: &SimulatedHub) -> (String, u64) {
    let session = hub.create("crowd", json!({"supervise": "all"})).await;
    let calls: Vec<String> =
        (0..ASKED).map(|n| format!(r#"Read {{"file_path":"{n}.txt"}}"#)).collect();
    let chat = hub.chat(&session, &format!("sim:\nparallel {}", calls.join(" ;; "))).await;
    // The last of them is denied, so everything was read.
    let denied = "wait for an answer, the most it may have";
    let all_read = |page: &Value| {
        let events = page["events"].as_array().unwrap();
        let notices = events.iter().filter(|event| {
            event["event"]["message"].as_str().is_some_and(|text| text.contains(denied))
        });
        notices.count() == ASKED - MAX_PENDING_PER_SESSION
    };
    hub.wait_for(&session, "a denial of each question beyond the limit", all_read).await;
    (session, chat)
}

async fn open_questions(hub: &SimulatedHub) -> usize {
    let page = hub.ok("loopback.pending", json!({"limit": 1000})).await;
    page["approvals"].as_array().unwrap().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_ends_a_chat_with_more_questions_than_may_wait() {
    let hub = SimulatedHub::new().await;
    let (session, chat) = crowd(&hub).await;
    assert_eq!(open_questions(&hub).await, MAX_PENDING_PER_SESSION);
    hub.ok("claudecode.cancel", json!({"session_id": session})).await;
    // Asked twice, the process itself is ended.
    let _over = hub.call("claudecode.cancel", json!({"session_id": session})).await;
    assert_eq!(hub.wait_for_end(&session, chat).await, "cancelled");
    assert_eq!(open_questions(&hub).await, 0);
    hub.ok("claudecode.delete", json!({"session_id": session})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn delete_answers_after_a_restart_with_more_questions_than_may_wait() {
    let hub = SimulatedHub::new().await;
    let (session, _) = crowd(&hub).await;
    let (hub, picked_up) = hub.restart().await;
    assert_eq!((picked_up, open_questions(&hub).await), (1, MAX_PENDING_PER_SESSION));
    hub.ok("claudecode.delete", json!({"session_id": session})).await;
    assert_eq!(open_questions(&hub).await, 0);
    let gone = || std::future::ready(hub.processes().is_empty().then_some(()));
    testkit::eventually_async("the end of every process", DEADLINE, gone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_child_with_more_questions_than_may_wait_has_failed() {
    let hub = SimulatedHub::new().await;
    let (session, chat) = crowd(&hub).await;
    testkit::process::kill(hub.pids(&session, 0).1);
    assert_eq!(hub.wait_for_end(&session, chat).await, "failed");
    assert_eq!(open_questions(&hub).await, 0);
}
