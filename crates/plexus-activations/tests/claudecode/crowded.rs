//! A child with more open questions than a session may have: those beyond the limit are denied, and
//! everything still ends.

use plexus_store::limits::MAX_PENDING_PER_SESSION;
use serde_json::{Value, json};

use crate::common::{DEADLINE, SimulatedHub};

/// How many questions the child asks at once.
const ASKED: usize = MAX_PENDING_PER_SESSION + 44;

async fn crowd(world: &SimulatedHub) -> (String, u64) {
    let session = world.create("crowd", json!({"supervise": "all"})).await;
    let calls: Vec<String> =
        (0..ASKED).map(|n| format!(r#"Read {{"file_path":"{n}.txt"}}"#)).collect();
    let chat = world.chat(&session, &format!("sim:\nparallel {}", calls.join(" ;; "))).await;
    // The last of them is denied, so everything was read.
    let denied = "wait for an answer, the most it may have";
    let all_read = |page: &Value| {
        let events = page["events"].as_array().unwrap();
        let notices = events.iter().filter(|event| {
            event["event"]["message"].as_str().is_some_and(|text| text.contains(denied))
        });
        notices.count() == ASKED - MAX_PENDING_PER_SESSION
    };
    world.wait_for(&session, "a denial of each question beyond the limit", all_read).await;
    (session, chat)
}

async fn open_questions(world: &SimulatedHub) -> usize {
    let page = world.ok("loopback.pending", json!({"limit": 1000})).await;
    page["approvals"].as_array().unwrap().len()
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_ends_a_chat_with_more_questions_than_may_wait() {
    let world = SimulatedHub::new().await;
    let (session, chat) = crowd(&world).await;
    assert_eq!(open_questions(&world).await, MAX_PENDING_PER_SESSION);
    world.ok("claudecode.cancel", json!({"session_id": session})).await;
    // Asked twice, the process itself is ended.
    let _over = world.call("claudecode.cancel", json!({"session_id": session})).await;
    assert_eq!(world.wait_for_end(&session, chat).await, "cancelled");
    assert_eq!(open_questions(&world).await, 0);
    world.ok("claudecode.delete", json!({"session_id": session})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn delete_answers_after_a_restart_with_more_questions_than_may_wait() {
    let world = SimulatedHub::new().await;
    let (session, _) = crowd(&world).await;
    let (world, picked_up) = world.restart().await;
    assert_eq!((picked_up, open_questions(&world).await), (1, MAX_PENDING_PER_SESSION));
    world.ok("claudecode.delete", json!({"session_id": session})).await;
    assert_eq!(open_questions(&world).await, 0);
    let gone = || std::future::ready(world.processes().is_empty().then_some(()));
    testkit::eventually_async("the end of every process", DEADLINE, gone).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_killed_child_with_more_questions_than_may_wait_has_failed() {
    let world = SimulatedHub::new().await;
    let (session, chat) = crowd(&world).await;
    testkit::process::kill(world.pids(&session, 0).1);
    assert_eq!(world.wait_for_end(&session, chat).await, "failed");
    assert_eq!(open_questions(&world).await, 0);
}
