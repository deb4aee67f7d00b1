//! Every answer that tells of a chat tells the same: its status and its shape.

use serde_json::{Value, json};

use crate::common::SimulatedHub;
use crate::flow::WRITE;

/// The one stream of a session, as `streams` shows it.
async fn stream(hub: &SimulatedHub, session: &str) -> Value {
    let listed = hub.ok("claudecode.streams", json!({"session_id": session})).await;
    let streams = listed["streams"].as_array().unwrap();
    assert_eq!(streams.len(), 1);
    streams[0].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_and_poll_say_the_same_status() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("asks", json!({})).await;
    hub.chat(&session, WRITE).await;
    let approval = hub.wait_for_approval(&session).await;
    let polled = json!({"session_id": session, "from_seq": 0});
    assert_eq!(hub.ok("claudecode.poll", polled).await["status"], "awaiting_permission");
    let open = stream(&hub, &session).await;
    assert_eq!(open["status"], "awaiting_permission");
    let everywhere = hub.ok("claudecode.streams", json!({})).await;
    assert_eq!(everywhere["streams"][0], open);
    // The handle of the stream's node tells the same.
    let node = hub.ok("arbor.node_get", json!({"node_id": open["root_node"]})).await;
    let handle = json!({"handle": node["node"]["data"]["handle"]});
    let message = hub.ok("plexus.resolve_handle", handle.clone()).await;
    assert_eq!(message["status"], "awaiting_permission");
    hub.respond(&approval, true).await;
    assert_eq!(hub.wait_for_end(&session, 0).await, "complete");
    assert_eq!(stream(&hub, &session).await["status"], "complete");
    assert_eq!(hub.ok("plexus.resolve_handle", handle).await["status"], "complete");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_that_was_started_says_its_status() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("started", json!({})).await;
    let hang = json!({"session_id": session, "prompt": "sim:\nhang", "idempotency_key": "k"});
    let started = hub.ok("claudecode.chat_async", hang.clone()).await;
    let expected =
        json!({"type": "started", "session_id": session, "chat": 0, "status": "running"});
    assert_eq!(started, expected);
    hub.ok("claudecode.cancel", json!({"session_id": session})).await;
    hub.wait_for_end(&session, 0).await;
    // The same key finds the same chat, and says what has become of it.
    assert_eq!(hub.ok("claudecode.chat_async", hang).await["status"], "cancelled");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_busy_session_shows_the_chat_that_runs_as_streams_does() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("busy", json!({})).await;
    hub.chat(&session, WRITE).await;
    hub.wait_for_approval(&session).await;
    let again = json!({"session_id": session, "prompt": "sim:\nsay x"});
    let busy = hub.call("claudecode.chat_async", again).await.unwrap_err();
    assert_eq!(serde_json::to_value(busy.kind).unwrap(), "busy");
    // Nothing of it is the store's own: no run, no server, no uuid of the prompt.
    assert_eq!(busy.standing.unwrap(), stream(&hub, &session).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn health_reports_each_activation() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("asks", json!({})).await;
    let warm = hub.create("warm", json!({})).await;
    hub.chat_to_end(&warm, "sim:\nsay done").await;
    hub.chat(&session, WRITE).await;
    let approval = hub.wait_for_approval(&session).await;
    let report = hub.ok("plexus.health", json!({})).await["activations"].clone();
    let namespaces: Vec<&String> = report.as_object().unwrap().keys().collect();
    let all =
        ["acp", "agents", "arbor", "claudecode", "codex", "cone", "health", "identity", "loopback"];
    assert_eq!(namespaces, all);
    let sessions = &report["agents"];
    assert_eq!(report["claudecode"], *sessions);
    assert_eq!((&sessions["children"], &sessions["warm"]), (&json!(2), &json!(1)));
    assert!(sessions["room"].as_u64().unwrap() > 0);
    let waiting = json!({"pending": 1, "oldest_since": approval["created_at"]});
    assert_eq!(report["loopback"], waiting);
    assert!(report["health"]["commits"].as_u64().unwrap() > 0);
    assert_eq!(report["arbor"], json!({}));
    hub.respond(&approval, true).await;
    hub.wait_for_end(&session, 0).await;
    let report = hub.ok("plexus.health", json!({})).await["activations"].clone();
    assert_eq!(report["loopback"], json!({"pending": 0}));
}
