//! The MCP channel: one process a chat, which asks through the server's own door.

use serde_json::{Value, json};

use crate::site::{Site, texts};

const WRITE: &str =
    "sim:\nsay I will write it.\ntool Write {\"file_path\":\"note.txt\",\"content\":\"hello\"}\nsay It is written.";

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_asks_is_answered_and_completes_and_the_next_resumes() {
    let site = Site::new().await;
    let session = site.create("mcp", json!({"channel": "mcp"})).await;
    site.chat(&session, WRITE).await;
    let approval = site.approval(&session).await;
    assert_eq!(approval["tool_name"], "Write");
    assert!(!site.work().join("note.txt").exists());
    site.allow(&approval).await;
    let (status, events) = site.end(&session).await;
    let kinds: Vec<&str> = events.iter().map(|event| event["type"].as_str().unwrap()).collect();
    assert_eq!(status, "complete");
    // The question comes by its own connection, what the agent says through its journal: which of the two is stored first is open.
    let asked = |kind: &&&str| ["awaiting_approval", "approval_resolved"].contains(*kind);
    let said: Vec<&str> = kinds.iter().filter(|kind| !asked(kind)).copied().collect();
    assert_eq!(kinds.iter().filter(asked).copied().collect::<Vec<_>>(), ["awaiting_approval", "approval_resolved"]);
    assert_eq!(said, ["start", "notice", "content", "tool_use", "tool_result", "content", "complete"]);
    assert_eq!(std::fs::read_to_string(site.work().join("note.txt")).unwrap(), "hello");
    site.chat(&session, "sim:\nrecall").await;
    let (status, events) = site.end(&session).await;
    assert_eq!((status.as_str(), texts(&events)), ("complete", vec![WRITE]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denial_reaches_the_child_and_cancel_ends_it() {
    let site = Site::new().await;
    let session = site.create("mcp-denied", json!({"channel": "mcp"})).await;
    site.chat(&session, WRITE).await;
    let approval = site.approval(&session).await;
    let answer = json!({"approval_id": approval["id"], "approve": false, "message": "not in this house"});
    site.call("loopback.respond", answer).await;
    let (status, events) = site.end(&session).await;
    assert_eq!(status, "complete");
    let result = events.iter().find(|event| event["type"] == "tool_result").unwrap();
    assert_eq!(result["output"], "not in this house");
    site.chat(&session, WRITE).await;
    site.approval(&session).await;
    site.call("claudecode.cancel", json!({"session_id": session})).await;
    let (status, _) = site.end(&session).await;
    assert_eq!(status, "cancelled");
    let pending = site.call("loopback.pending", json!({})).await;
    assert_eq!(pending["approvals"], json!([]));
    assert!(!site.work().join("note.txt").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_channel_cannot_do_is_said() {
    let site = Site::new().await;
    let session = site.create("mcp-send", json!({"channel": "mcp"})).await;
    site.chat(&session, "sim:\nsay here\nhang").await;
    site.wait_for(&session, "the first words", |page: &Value| page.to_string().contains("here")).await;
    let token = site.server.token().unwrap();
    let refused = site
        .server
        .call_as(token, "claudecode.send", json!({"session_id": session, "text": "x"}))
        .await
        .unwrap()
        .unwrap_err();
    assert_eq!(refused.kind(), "invalid");
}
