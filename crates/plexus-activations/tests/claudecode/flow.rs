//! The ordinary way: create, chat, ask, answer, complete, and on to the next chat.

use serde_json::json;

use crate::common::{World, texts, types};

/// A script that writes a file after permission.
const WRITE: &str =
    "sim:\nsay I will write it.\ntool Write {\"file_path\":\"note.txt\",\"content\":\"hello\"}\nsay It is written.";

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_asks_is_answered_and_completes() {
    let world = World::new().await;
    let session = world.create("writer", json!({})).await;
    let chat = world.chat(&session, WRITE).await;
    let approval = world.wait_for_approval(&session).await;
    assert_eq!(approval["tool_name"], "Write");
    assert_eq!(
        world.ok("claudecode.get", json!({"session_id": session})).await["session"]["status"],
        "awaiting_permission"
    );
    assert!(!world.work().join("note.txt").exists(), "it wrote before it was allowed to");
    world.respond(&approval, true).await;
    assert_eq!(world.wait_for_end(&session, chat).await, "complete");
    let events = world.events(&session, chat).await;
    assert_eq!(
        types(&events),
        [
            "start",
            "notice",
            "content",
            "tool_use",
            "awaiting_approval",
            "approval_resolved",
            "tool_result",
            "content",
            "complete"
        ]
    );
    assert_eq!(texts(&events), ["I will write it.", "It is written."]);
    assert_eq!(std::fs::read_to_string(world.work().join("note.txt")).unwrap(), "hello");
}
