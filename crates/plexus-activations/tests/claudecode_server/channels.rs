//! What a chat does on both channels, in the same words: `control`, where one process serves many
//! chats, and `mcp`, where each chat has a process of its own that asks through the server's door.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::cases::Cases;

use crate::simulated_server::{SimulatedServer, exists, texts, types, until};

/// Adds each case for each channel.
macro_rules! on_both_channels {
    ($($case:ident,)*) => {
        pub(crate) fn add_to(cases: Cases) -> Cases {
            cases
                $(.case(concat!("channels::control::", stringify!($case)), || $case("control"))
                .case(concat!("channels::mcp::", stringify!($case)), || $case("mcp")))*
        }
    };
}

on_both_channels! {
    a_chat_asks_is_answered_and_completes,
    a_denial_reaches_the_child_with_its_words,
    two_chats_in_a_row_share_the_conversation,
    ten_consumers_at_different_speeds_each_see_everything_once_and_in_order,
    a_fork_shares_the_past_and_goes_its_own_way,
    a_second_chat_while_one_runs_is_busy,
    a_message_into_a_running_chat_steers_it_or_is_refused,
    cancel_while_starting,
    cancel_while_streaming,
    cancel_in_a_tool,
    cancel_while_it_waits_for_permission,
}

const WRITE: &str = "sim:\nsay I will write it.\ntool Write {\"file_path\":\"note.txt\",\"content\":\"hello\"}\nsay It is written.";

async fn begin(channel: &str) -> (SimulatedServer, String) {
    let setup = SimulatedServer::new().await;
    let session = setup.create("s", json!({"channel": channel})).await;
    (setup, session)
}

async fn a_chat_asks_is_answered_and_completes(channel: &str) {
    let (setup, session) = begin(channel).await;
    assert_eq!(setup.session(&session).await["status"], "idle");
    setup.chat(&session, WRITE).await;
    let approval = setup.approval(&session).await;
    assert_eq!(approval["tool_name"], "Write");
    assert_eq!(setup.session(&session).await["status"], "awaiting_permission");
    assert!(!setup.work().join("note.txt").exists(), "it wrote before it was allowed to");
    setup.allow(&approval).await;
    let (status, events) = setup.end(&session).await;
    assert_eq!(status, "complete");
    // Over MCP the question comes over a connection of its own and the agent's text through the
    // journal, so either may be stored first.
    let asked = |kind: &&str| ["awaiting_approval", "approval_resolved"].contains(kind);
    let (asked, said): (Vec<&str>, Vec<&str>) = types(&events).into_iter().partition(asked);
    assert_eq!(asked, ["awaiting_approval", "approval_resolved"]);
    assert_eq!(
        said,
        ["start", "notice", "content", "tool_use", "tool_result", "content", "complete"]
    );
    assert!(
        events[1]["message"].as_str().unwrap().contains(&format!("the {channel} channel")),
        "{}",
        events[1]
    );
    assert_eq!(std::fs::read_to_string(setup.work().join("note.txt")).unwrap(), "hello");
}

async fn a_denial_reaches_the_child_with_its_words(channel: &str) {
    let (setup, session) = begin(channel).await;
    setup.chat(&session, WRITE).await;
    let approval = setup.approval(&session).await;
    let answer =
        json!({"approval_id": approval["id"], "approve": false, "message": "not in this house"});
    setup.call("loopback.respond", answer).await;
    let (status, events) = setup.end(&session).await;
    assert_eq!(status, "complete");
    let result = events.iter().find(|event| event["type"] == "tool_result").unwrap();
    assert_eq!(
        (&result["output"], &result["is_error"]),
        (&json!("not in this house"), &json!(true))
    );
    assert!(!setup.work().join("note.txt").exists());
}

async fn two_chats_in_a_row_share_the_conversation(channel: &str) {
    let (setup, session) = begin(channel).await;
    let first = setup.chat_to_end(&session, "sim:\nsay one").await;
    let second = setup.chat_to_end(&session, "sim:\nsay two\nrecall").await;
    assert_eq!((texts(&first), texts(&second)), (vec!["one"], vec!["two", "sim:\nsay one"]));
    let notices = |events: &[Value]| types(events).iter().filter(|kind| **kind == "notice").count();
    // The notice says which process it is: over MCP each chat has its own.
    assert_eq!(notices(&first) + notices(&second), if channel == "mcp" { 2 } else { 1 });
    let streams =
        setup.call("claudecode.streams", json!({"session_id": session})).await["streams"].clone();
    let numbers: Vec<&Value> =
        streams.as_array().unwrap().iter().map(|stream| &stream["chat"]).collect();
    assert_eq!(numbers, [&json!(0), &json!(1)]);
}

async fn ten_consumers_at_different_speeds_each_see_everything_once_and_in_order(channel: &str) {
    let (setup, session) = begin(channel).await;
    setup.chat(&session, "sim:\nburst 60 20").await;
    let readers = (0..10u64).map(|n| read_as(&setup, &session, n));
    let second = async {
        setup.end(&session).await;
        setup.chat(&session, "sim:\nburst 30 20").await;
    };
    let (all, ()) = futures::future::join(futures::future::join_all(readers), second).await;
    let texts = |count: usize| (0..count).map(|n| format!("content {n}"));
    let chat = |events: usize| {
        let process =
            if channel == "mcp" || events == 60 { vec!["notice".to_owned()] } else { vec![] };
        ["start".to_owned()]
            .into_iter()
            .chain(process)
            .chain(texts(events))
            .chain(["complete".to_owned()])
    };
    let expected: Vec<String> = chat(60).chain(chat(30)).collect();
    for (n, seen) in all.into_iter().enumerate() {
        assert_eq!(seen, expected, "reader {n}");
    }
}

/// Reads two chats as a named consumer, the `n`-th with pages and pauses of its own; hands each
/// cursor back with the next call.
async fn read_as(setup: &SimulatedServer, session: &str, n: u64) -> Vec<String> {
    let mut seen = Vec::new();
    let mut cursor = Value::Null;
    while seen.iter().filter(|event| *event == "complete").count() < 2 {
        let mut params = json!({"session_id": session, "consumer": format!("reader-{n}"), "limit": 1 + n * 7, "wait_ms": 1000});
        if cursor.is_string() {
            params["cursor"] = cursor;
        }
        let page = setup.call("claudecode.poll", params).await;
        for event in page["events"].as_array().unwrap().iter().map(|event| &event["event"]) {
            let number = event["text"].as_str().and_then(|text| text.split(' ').next());
            let kind = event["type"].as_str().unwrap();
            seen.push(number.map_or(kind.to_owned(), |number| format!("{kind} {number}")));
        }
        cursor = page["cursor"].clone();
        tokio::time::sleep(Duration::from_millis(n)).await;
    }
    seen
}

async fn a_fork_shares_the_past_and_goes_its_own_way(channel: &str) {
    let (setup, session) = begin(channel).await;
    setup.chat_to_end(&session, "sim:\nsay shared").await;
    let forked =
        setup.call("claudecode.fork", json!({"session_id": session, "new_name": "branch"})).await;
    let branch = forked["id"].as_str().unwrap();
    assert_eq!(forked["head"], setup.session(&session).await["head"]);
    let on_branch = setup.chat_to_end(branch, "sim:\nsay on the branch\nrecall").await;
    let on_trunk = setup.chat_to_end(&session, "sim:\nsay on the trunk\nrecall").await;
    assert_eq!(texts(&on_branch), ["on the branch", "sim:\nsay shared"]);
    assert_eq!(texts(&on_trunk), ["on the trunk", "sim:\nsay shared"]);
    let (trunk, fork) = (setup.session(&session).await, setup.session(branch).await);
    assert_ne!(trunk["claude_session_id"], fork["claude_session_id"]);
    assert_eq!(trunk["head"]["tree_id"], fork["head"]["tree_id"]);
    let again = setup.chat_to_end(branch, "sim:\nrecall").await;
    assert!(
        texts(&again)[0].contains("on the branch") && !texts(&again)[0].contains("on the trunk"),
        "{again:#?}"
    );
}

async fn a_second_chat_while_one_runs_is_busy(channel: &str) {
    let (setup, session) = begin(channel).await;
    setup.chat(&session, "sim:\nhang").await;
    let busy = setup
        .refused("claudecode.chat_async", json!({"session_id": session, "prompt": "sim:\nsay x"}))
        .await;
    assert_eq!(busy.kind(), "busy");
    assert!(busy.data["retry_after_ms"].is_number(), "{busy}");
    assert_eq!(setup.session(&session).await["chat"], 0, "nothing was started by halves");
}

async fn a_message_into_a_running_chat_steers_it_or_is_refused(channel: &str) {
    let (setup, session) = begin(channel).await;
    setup.chat(&session, WRITE).await;
    let approval = setup.approval(&session).await;
    let message = json!({"session_id": session, "text": "also be brief"});
    if channel == "mcp" {
        let refused = setup.refused("claudecode.send", message).await;
        assert_eq!(refused.kind(), "invalid");
        assert!(
            refused.data["hint"].as_str().is_some_and(|hint| hint.contains("start another")),
            "{refused}"
        );
    } else {
        assert_eq!(setup.call("claudecode.send", message).await["type"], "sent");
    }
    setup.allow(&approval).await;
    let (status, events) = setup.end(&session).await;
    assert_eq!(status, "complete");
    let steered = texts(&events).iter().any(|text| text.contains("also be brief"));
    assert_eq!(steered, channel == "control", "{events:#?}");
    assert_eq!(setup.session(&session).await["chat"], 0, "it made no chat of its own");
}

/// The chat has ended as it should, nobody waits for an answer, and the session takes the next
/// chat.
async fn ends_cancelled_and_goes_on(setup: &SimulatedServer, session: &str) {
    let (status, events) = setup.end(session).await;
    assert_eq!(status, "cancelled");
    assert_eq!(events.last().unwrap(), &json!({"type": "error", "message": "cancelled: enough"}));
    assert_eq!(types(&events).iter().filter(|kind| **kind == "error").count(), 1, "{events:#?}");
    assert_eq!(setup.call("loopback.pending", json!({})).await["approvals"], json!([]));
    assert_eq!(texts(&setup.chat_to_end(session, "sim:\nsay still here").await), ["still here"]);
}

async fn cancel_while_starting(channel: &str) {
    let (setup, _) = begin(channel).await;
    for attempt in 0..4 {
        let session =
            setup.create(&format!("starting-{attempt}"), json!({"channel": channel})).await;
        setup.chat(&session, "sim:\nhang").await;
        tokio::time::sleep(Duration::from_millis(attempt * 5)).await;
        setup.cancel(&session).await;
        ends_cancelled_and_goes_on(&setup, &session).await;
    }
}

async fn cancel_while_streaming(channel: &str) {
    let (setup, session) = begin(channel).await;
    setup
        .chat(
            &session,
            "sim:\nsay first\nslowly 50 one two three four five six seven eight nine ten\nhang",
        )
        .await;
    setup.wait_for_words(&session, "first").await;
    setup.cancel(&session).await;
    ends_cancelled_and_goes_on(&setup, &session).await;
}

async fn cancel_in_a_tool(channel: &str) {
    let setup = SimulatedServer::new().await;
    let session =
        setup.create("tool", json!({"channel": channel, "allowed_tools": ["Bash"]})).await;
    let endless = json!({"command": "touch started; while :; do sleep 0.05; done"});
    setup.chat(&session, &format!("sim:\ntool Bash {endless}\n{}", until("never"))).await;
    exists(&setup.work().join("started")).await;
    setup.cancel(&session).await;
    ends_cancelled_and_goes_on(&setup, &session).await;
    setup.call("claudecode.delete", json!({"session_id": session})).await;
    setup.nothing_lives().await;
}

async fn cancel_while_it_waits_for_permission(channel: &str) {
    let (setup, session) = begin(channel).await;
    setup.chat(&session, WRITE).await;
    let approval = setup.approval(&session).await;
    setup.cancel(&session).await;
    ends_cancelled_and_goes_on(&setup, &session).await;
    let late = setup
        .refused("loopback.respond", json!({"approval_id": approval["id"], "approve": true}))
        .await;
    assert_eq!(late.kind(), "conflict");
    assert!(!setup.work().join("note.txt").exists());
}
