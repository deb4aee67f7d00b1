//! A chat is charged for its own work only, even when another process works on the same
//! conversation, and however the process before it ended.

use serde_json::{Value, json};

use crate::common::{DEADLINE, SimulatedHub};

const HELLO: &str = "sim:\nsay hello";

fn cost(events: &[Value]) -> f64 {
    events.last().unwrap()["usage"]["cost_usd"].as_f64().unwrap()
}

/// That a chat cost as much as another one, which said the same.
#[track_caller]
fn assert_same(what: &str, cost: f64, one: f64) {
    assert!((cost - one).abs() < 1e-9, "{what}: {cost}, and one chat costs {one}");
}

async fn fork(hub: &SimulatedHub, session: &str, name: &str) -> String {
    let forked = hub.ok("claudecode.fork", json!({"session_id": session, "new_name": name})).await;
    forked["id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_on_a_copy_of_a_conversation_is_charged_for_itself_wherever_the_original_stands() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("trunk", json!({})).await;
    let one = cost(&hub.chat_to_end(&session, HELLO).await);
    assert!(one > 0.0);
    assert_same("the next on the same process", cost(&hub.chat_to_end(&session, HELLO).await), one);
    // The process is still there, and has noted nothing.
    let ephemeral = json!({"session_id": session, "prompt": HELLO, "ephemeral": true});
    let chat = hub.ok("claudecode.chat_async", ephemeral).await["chat"].as_u64().unwrap();
    assert_eq!(hub.wait_for_end(&session, chat).await, "complete");
    assert_same("an ephemeral one", cost(&hub.events(&session, chat).await), one);
    let (early, late) = (fork(&hub, &session, "early").await, fork(&hub, &session, "late").await);
    assert_same("a fork beside it", cost(&hub.chat_to_end(&early, HELLO).await), one);
    let (hub, _) = left(hub).await.restart().await;
    assert_same("a fork after it has left", cost(&hub.chat_to_end(&late, HELLO).await), one);
    assert_same("a new process", cost(&hub.chat_to_end(&session, HELLO).await), one);
    let spent = hub.session(&session).await["spent"]["cost_usd"].as_f64().unwrap();
    assert_same("all that the session had", spent, one * 4.0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_after_a_process_that_was_killed_is_charged_for_itself() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("killed", json!({})).await;
    let one = cost(&hub.chat_to_end(&session, HELLO).await);
    hub.chat_to_end(&session, HELLO).await;
    let (shim, child) = hub.pids(&session, 0);
    testkit::process::kill(child);
    testkit::process::wait_until_gone(shim, DEADLINE);
    assert_same("a new process", cost(&hub.chat_to_end(&session, HELLO).await), one);
    assert_eq!(hub.runs(&session).await, 2);
}

/// Has every process leave in order.
async fn left(hub: SimulatedHub) -> SimulatedHub {
    hub.end_children().await;
    hub
}
