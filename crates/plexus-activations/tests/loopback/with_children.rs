//! Children that really ask, over the control channel: the shim holds them, the simulator plays
//! them.

use std::collections::BTreeSet;
use std::time::Duration;

use plexus_core::Caller;
use plexus_store::ReadLimit;
use serde_json::{Value, json};

use crate::common::{SimulatedHub, types};

/// Longer than any test takes.
const HOUR: Duration = Duration::from_secs(60 * 60);

const MAKE: &str = "sim:\ntool Write {\"file_path\":\"made.txt\",\"content\":\"x\"}\nsay after it";

/// A call that leaves a file at once and its result never.
const SLOW: &str = "sim:\ntool Bash {\"command\":\"touch ran; sleep 3600\"}";

fn of_type<'a>(events: &'a [Value], kind: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["type"] == kind).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_answers_a_child_and_nobody_is_asked() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("s", json!({})).await;
    let pattern = format!("Write({}/**)", hub.work().display());
    let rule = hub.ok("loopback.rule_add", json!({"decision": "allow", "pattern": pattern})).await
        ["rule_id"]
        .clone();
    let events = hub.chat_to_end(&session, MAKE).await;
    assert_eq!(of_type(&events, "approval_resolved")[0]["decided_by"], json!({"rule": rule}));
    assert!(hub.work().join("made.txt").exists());
    let decided =
        hub.ok("loopback.history", json!({"session_id": session})).await["decisions"][0].clone();
    assert_eq!(decided["status"], "allowed");
    assert!(
        decided["delivered_at"].is_number(),
        "the child's echo proves that it has the answer: {decided}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changed_is_told_as_it_was_allowed() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("s", json!({})).await;
    let chat = hub.chat(&session, MAKE).await;
    let asked = hub.wait_for_approval(&session).await;
    let other = json!({"file_path": hub.work().join("other.txt"), "content": "of the operator"});
    let answer = json!({"approval_id": asked["id"], "approve": true, "updated_input": other});
    hub.ok("loopback.respond", answer).await;
    assert_eq!(hub.wait_for_end(&session, chat).await, "complete");
    let told = hub.ok("agents.changes", json!({"session_id": session})).await;
    assert_eq!(told["source"], "edits", "{told:#}");
    let paths: Vec<&Value> =
        told["changes"].as_array().unwrap().iter().map(|change| &change["path"]).collect();
    assert_eq!(paths, ["other.txt"], "{told:#}");
    assert!(told.to_string().contains("of the operator"), "{told:#}");
}

/// Says whether the child of a session is known to have the newest answer.
async fn has_arrived(hub: &SimulatedHub, session: &str) -> bool {
    let history = hub.ok("loopback.history", json!({"session_id": session})).await;
    history["decisions"][0]["delivered_at"].is_number()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_has_arrived_is_stored_with_what_comes_after_it() {
    const CALLS: usize = 10;
    let hub = SimulatedHub::with(|settings| settings.linger = HOUR).await;
    let session = hub.create("s", json!({})).await;
    let call = "tool Write {\"file_path\":\"made.txt\",\"content\":\"x\"}\n";
    let chat = hub.chat(&session, &format!("sim:\n{}", call.repeat(CALLS))).await;
    let asked = hub.wait_for_approval(&session).await;
    let before = hub.store().newest_commit().await.unwrap();
    hub.respond(&asked, true).await;
    for _ in 1..CALLS {
        hub.allow_next(&session).await;
    }
    assert_eq!(hub.wait_for_end(&session, chat).await, "complete");
    // Only the note of an arrival makes a commit that has no event, if it is stored alone.
    let commits = hub.store().newest_commit().await.unwrap() - before;
    let feed = hub.store().read_commits(before, ReadLimit::events(1_000)).await.unwrap();
    assert!(!feed.has_more, "a page has them all");
    let with_events: BTreeSet<u64> = feed.events.iter().map(|event| event.commit).collect();
    let alone = commits - with_events.len() as u64;
    assert!(
        alone < CALLS as u64 / 2,
        "{alone} of {commits} commits for {CALLS} calls have no event"
    );
    assert!(has_arrived(&hub, &session).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_has_arrived_is_stored_while_its_call_runs() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("s", json!({})).await;
    let chat = hub.chat(&session, SLOW).await;
    hub.allow_next(&session).await;
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    while !has_arrived(&hub, &session).await {
        assert!(tokio::time::Instant::now() < deadline, "the arrival is not stored");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    hub.ok("claudecode.cancel", json!({"session_id": session})).await;
    assert_eq!(hub.wait_for_end(&session, chat).await, "cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_call_that_ran_has_its_answer_on_record_however_its_chat_ends() {
    let hub = SimulatedHub::with(|settings| settings.linger = HOUR).await;
    let session = hub.create("s", json!({})).await;
    let chat = hub.chat(&session, SLOW).await;
    hub.allow_next(&session).await;
    let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
    while !hub.work().join("ran").exists() {
        assert!(tokio::time::Instant::now() < deadline, "the call does not run");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    hub.ok("claudecode.cancel", json!({"session_id": session})).await;
    assert_eq!(hub.wait_for_end(&session, chat).await, "cancelled");
    assert!(has_arrived(&hub, &session).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_waits_is_reminded_of() {
    let hub = SimulatedHub::new().await;
    let session =
        hub.create("s", json!({"loopback_timeout_secs": 3_600, "escalate_after_secs": 1})).await;
    hub.chat(&session, MAKE).await;
    let reminder = |page: &Value| {
        page.to_string()
            .contains("still waiting for the operator to decide about Write; it is denied in 3")
    };
    hub.wait_for(&session, "a reminder", reminder).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn expiry_reaches_a_child_as_a_denial() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("s", json!({"loopback_timeout_secs": 2})).await;
    let events = hub.chat_to_end(&session, MAKE).await;
    assert!(!json!(events).to_string().contains("in 0 s"), "{events:#?}");
    let resolved = of_type(&events, "approval_resolved")[0];
    assert_eq!(
        (&resolved["approved"], &resolved["decided_by"]),
        (&json!(false), &json!("deadline"))
    );
    assert_eq!(of_type(&events, "tool_result")[0]["output"], "denied: nobody answered within 2 s");
    assert!(!hub.work().join("made.txt").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_ends_takes_its_questions_with_it() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("s", json!({})).await;
    let chat = hub.chat(&session, MAKE).await;
    let asked = hub.wait_for_approval(&session).await;
    hub.ok("claudecode.cancel", json!({"session_id": session})).await;
    assert_eq!(hub.wait_for_end(&session, chat).await, "cancelled");
    hub.end_children().await;
    let decided =
        hub.ok("loopback.history", json!({"session_id": session})).await["decisions"][0].clone();
    assert_eq!((&decided["approval_id"], &decided["status"]), (&asked["id"], &json!("cancelled")));
    assert_eq!(decided["decided_by"], "agent_ended");
    let late = hub
        .call("loopback.respond", json!({"approval_id": asked["id"], "approve": true}))
        .await
        .unwrap_err();
    assert_eq!(late.standing.unwrap()["status"], "cancelled");
    assert!(!hub.work().join("made.txt").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pending_question_survives_a_restart_and_is_asked_once() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("s", json!({})).await;
    let chat = hub.chat(&session, MAKE).await;
    let asked = hub.wait_for_approval(&session).await;
    let (hub, picked_up) = hub.restart().await;
    assert_eq!(picked_up, 1);
    let still = hub.wait_for_approval(&session).await;
    assert_eq!(still, asked);
    let (hub, _) = hub.restart().await;
    hub.respond(&still, true).await;
    assert_eq!(hub.wait_for_end(&session, chat).await, "complete");
    let events = hub.events(&session, chat).await;
    assert_eq!(types(&events).iter().filter(|kind| **kind == "awaiting_approval").count(), 1);
    assert_eq!(types(&events).iter().filter(|kind| **kind == "tool_result").count(), 1);
    assert_eq!(std::fs::read_to_string(hub.work().join("made.txt")).unwrap(), "x");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_session_hears_in_its_own_chat_that_its_child_asks() {
    let hub = SimulatedHub::new().await;
    let parent =
        hub.create("parent", json!({"may_decide": ["Write"], "escalate_after_secs": 600})).await;
    let chat = hub.chat(&parent, "sim:\nsay I watch\nhang").await;
    hub.wait_for_event(&parent, "content").await;
    let child = hub.create("child", json!({"parent": parent})).await;
    let child_chat = hub.chat(&child, MAKE).await;
    let request = hub.wait_for_event(&parent, "tool_request").await;
    assert_eq!(
        (&request["session_id"], &request["session_name"]),
        (&json!(child), &json!("child"))
    );
    assert_eq!(request["tool_name"], "Write");
    let as_parent = Caller::Session(parent.parse().unwrap());
    let yes = json!({"approval_id": request["approval_id"], "approve": true});
    hub.call_as(as_parent, "loopback.respond", yes).await.unwrap();
    assert_eq!(hub.wait_for_end(&child, child_chat).await, "complete");
    let events = hub.events(&child, child_chat).await;
    assert_eq!(of_type(&events, "approval_resolved")[0]["decided_by"], json!({"session": parent}));
    hub.ok("claudecode.cancel", json!({"session_id": parent})).await;
    hub.wait_for_end(&parent, chat).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_parent_that_only_uses_calls_that_seem_to_block_never_hangs() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("s", json!({})).await;
    let script = "sim:\ntool Write {\"file_path\":\"one.txt\",\"content\":\"1\"}\ntool Write {\"file_path\":\"two.txt\",\"content\":\"2\"}\nsay done";
    let mut page = hub
        .ok("claudecode.chat", json!({"session_id": session, "prompt": script, "wait_ms": 30_000}))
        .await;
    let mut answered = 0;
    while page["status"] != "complete" {
        for approval in page["pending_approvals"].as_array().unwrap() {
            hub.respond(approval, true).await;
            answered += 1;
        }
        page = hub.ok("claudecode.poll", json!({"session_id": session, "wait_ms": 30_000})).await;
    }
    assert_eq!(answered, 2);
}
