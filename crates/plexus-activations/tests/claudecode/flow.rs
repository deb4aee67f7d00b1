//! The ordinary way: create, chat, ask, answer, complete, and on to the next chat.

use serde_json::{Value, json};

use crate::common::{DEADLINE, SimulatedHub, texts, types};

/// A script that writes a file after permission.
pub(crate) const WRITE: &str = "sim:\nsay I will write it.\ntool Write {\"file_path\":\"note.txt\",\"content\":\"hello\"}\nsay It is written.";

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_asks_is_answered_and_completes() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("writer", json!({})).await;
    assert_eq!(hub.session(&session).await["status"], "idle");
    let chat = hub.chat(&session, WRITE).await;
    let approval = hub.wait_for_approval(&session).await;
    assert_eq!(approval["tool_name"], "Write");
    assert_eq!(hub.session(&session).await["status"], "awaiting_permission");
    assert!(!hub.work().join("note.txt").exists(), "it wrote before it was allowed to");
    hub.respond(&approval, true).await;
    assert_eq!(hub.wait_for_end(&session, chat).await, "complete");
    let events = hub.events(&session, chat).await;
    let expected = [
        "start",
        "notice",
        "content",
        "tool_use",
        "awaiting_approval",
        "approval_resolved",
        "tool_result",
        "content",
        "complete",
    ];
    assert_eq!(types(&events), expected);
    assert_eq!(texts(&events), ["I will write it.", "It is written."]);
    assert_eq!(std::fs::read_to_string(hub.work().join("note.txt")).unwrap(), "hello");
    let end = events.last().unwrap();
    let session = hub.session(&session).await;
    assert_eq!(end["new_head"], session["head"]);
    assert_eq!(end["claude_session_id"], session["claude_session_id"]);
    assert_eq!(
        end["usage"],
        json!({"input_tokens": 200, "output_tokens": 40, "cost_usd": 0.0016, "num_turns": 2})
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denial_reaches_the_child_with_its_words() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("denied", json!({})).await;
    let chat = hub.chat(&session, WRITE).await;
    let approval = hub.wait_for_approval(&session).await;
    let answer =
        json!({"approval_id": approval["id"], "approve": false, "message": "not in this house"});
    hub.ok("loopback.respond", answer).await;
    assert_eq!(hub.wait_for_end(&session, chat).await, "complete");
    let events = hub.events(&session, chat).await;
    let result = events.iter().find(|event| event["type"] == "tool_result").unwrap();
    assert_eq!(
        (&result["output"], &result["is_error"]),
        (&json!("not in this house"), &json!(true))
    );
    assert!(!hub.work().join("note.txt").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_edited_input_is_what_runs() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("edited", json!({})).await;
    let chat = hub.chat(&session, WRITE).await;
    let approval = hub.wait_for_approval(&session).await;
    let edited = json!({"file_path": "other.txt", "content": "edited"});
    let answer = json!({"approval_id": approval["id"], "approve": true, "updated_input": edited});
    hub.ok("loopback.respond", answer).await;
    assert_eq!(hub.wait_for_end(&session, chat).await, "complete");
    assert_eq!(std::fs::read_to_string(hub.work().join("other.txt")).unwrap(), "edited");
    assert!(!hub.work().join("note.txt").exists());
    let events = hub.events(&session, chat).await;
    let resolved = events.iter().find(|event| event["type"] == "approval_resolved").unwrap();
    assert_eq!(resolved["updated_input"], edited);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_chat_is_served_by_the_same_warm_process() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("warm", json!({})).await;
    let first = hub.chat_to_end(&session, "sim:\nsay one").await;
    assert_eq!(hub.children(), 1, "the child stays for the next prompt");
    let second = hub.chat_to_end(&session, "sim:\nsay two\nrecall").await;
    assert_eq!(texts(&first), ["one"]);
    assert_eq!(types(&second), ["start", "content", "content", "complete"]);
    assert_eq!(texts(&second), ["two", "sim:\nsay one"]);
    assert_eq!(hub.runs(&session).await, 1);
    // Each chat has its own cost, although the CLI counts on through the process.
    for events in [&first, &second] {
        let cost = events.last().unwrap()["usage"]["cost_usd"].as_f64().unwrap();
        assert!((cost - 0.0008).abs() < 1e-9, "{cost}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_after_the_process_has_left_resumes_the_conversation() {
    let hub = SimulatedHub::with(|settings| settings.max_warm = 0).await;
    let session = hub.create("resumed", json!({})).await;
    hub.chat_to_end(&session, "sim:\nsay one").await;
    let second = hub.chat_to_end(&session, "sim:\nrecall").await;
    assert_eq!(texts(&second), ["sim:\nsay one"]);
    assert_eq!(hub.runs(&session).await, 2);
    let cost = second.last().unwrap()["usage"]["cost_usd"].as_f64().unwrap();
    assert!(
        (cost - 0.0008).abs() < 1e-9,
        "the conversation's earlier cost is not this chat's: {cost}"
    );
    let spent = hub.session(&session).await["spent"]["cost_usd"].as_f64().unwrap();
    assert!((spent - 0.0016).abs() < 1e-9, "{spent}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_chat_while_one_runs_is_busy() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("busy", json!({})).await;
    hub.chat(&session, "sim:\nhang").await;
    let again = hub
        .call("claudecode.chat_async", json!({"session_id": session, "prompt": "sim:\nsay x"}))
        .await;
    let error = again.unwrap_err();
    assert_eq!(serde_json::to_value(error.kind).unwrap(), "busy");
    assert!(error.retry_after_ms.is_some());
    assert_eq!(hub.session(&session).await["chat"], 0, "nothing was started by halves");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_idempotency_key_finds_the_chat_it_started() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("once", json!({})).await;
    let params = json!({"session_id": session, "prompt": "sim:\nsay once", "idempotency_key": "k"});
    let first = hub.ok("claudecode.chat_async", params.clone()).await;
    assert_eq!(hub.ok("claudecode.chat_async", params.clone()).await["chat"], first["chat"]);
    hub.wait_for_end(&session, 0).await;
    let found = json!({"type": "started", "session_id": session, "chat": 0, "status": "complete"});
    assert_eq!(hub.ok("claudecode.chat_async", params).await, found);
    assert_eq!(hub.session(&session).await["chat"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn chat_returns_at_the_end_or_as_soon_as_something_waits_for_a_decision() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("waiting", json!({})).await;
    let ended =
        hub.ok("claudecode.chat", json!({"session_id": session, "prompt": "sim:\nsay done"})).await;
    assert_eq!(ended["status"], "complete");
    assert_eq!(types(&shown(&ended)), ["start", "notice", "content", "complete"]);
    // Nobody answers, and yet it returns, long before its wait is over.
    let asked = hub.ok("claudecode.chat", json!({"session_id": session, "prompt": WRITE})).await;
    assert_eq!(asked["status"], "awaiting_permission");
    assert_eq!(asked["pending_approvals"][0]["tool_name"], "Write");
    hub.respond(&asked["pending_approvals"][0], true).await;
    assert_eq!(hub.wait_for_end(&session, 1).await, "complete");
    let params = json!({"session_id": session, "prompt": "sim:\nhang", "wait_ms": 50});
    assert_eq!(hub.ok("claudecode.chat", params).await["status"], "running");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_steers_the_running_chat() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("steered", json!({})).await;
    let chat = hub.chat(&session, WRITE).await;
    let approval = hub.wait_for_approval(&session).await;
    let sent =
        hub.ok("claudecode.send", json!({"session_id": session, "text": "also be brief"})).await;
    assert_eq!(sent["type"], "sent");
    hub.respond(&approval, true).await;
    assert_eq!(hub.wait_for_end(&session, chat).await, "complete");
    let events = hub.events(&session, chat).await;
    assert!(texts(&events).iter().any(|text| text.contains("also be brief")), "{events:#?}");
    assert_eq!(hub.session(&session).await["chat"], 0, "it made no chat of its own");
    // Readers see the message and its author before they see what the agent made of it.
    let steered = json!({"type": "steered", "by": "operator", "text": "also be brief"});
    let at = events.iter().position(|event| *event == steered).expect("a steered event");
    let echo = |event: &Value| event["text"].as_str().is_some_and(|text| text.contains("brief"));
    assert!(events.iter().skip(at + 1).any(echo), "{events:#?}");
    let rendered = hub.ok("claudecode.render_context", json!({"session_id": session})).await;
    let messages = rendered["messages"].as_array().unwrap();
    let said = json!({"type": "text", "text": "also be brief"});
    let by_user = |message: &&Value| message["role"] == "user";
    assert!(
        messages
            .iter()
            .filter(by_user)
            .any(|message| { message["content"].as_array().unwrap().contains(&said) }),
        "{rendered:#}"
    );
    let head = hub.session(&session).await["head"].clone();
    let path = hub.ok("arbor.node_get_path", json!({"node_id": head["node_id"]})).await;
    let kinds: Vec<&Value> =
        path["nodes"].as_array().unwrap().iter().map(|n| &n["data"]["handle"]["meta"][1]).collect();
    assert!(kinds.contains(&&json!("steered")), "{kinds:?}");
    let late = hub
        .call("claudecode.send", json!({"session_id": session, "text": "too late"}))
        .await
        .unwrap_err();
    assert_eq!(serde_json::to_value(late.kind).unwrap(), "conflict");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_of_a_parent_session_says_which() {
    let hub = SimulatedHub::new().await;
    let parent = hub.ok("identity.parent", json!({"name": "planner"})).await;
    let parent: plexus_core::SessionId = parent["session_id"].as_str().unwrap().parse().unwrap();
    let session = hub.create("child", json!({"parent": parent})).await;
    hub.chat(&session, WRITE).await;
    hub.wait_for_approval(&session).await;
    let send = json!({"session_id": session, "text": "hurry"});
    let caller = plexus_core::Caller::Session(parent);
    hub.call_as(caller, "claudecode.send", send).await.unwrap();
    let told = hub.wait_for_event(&session, "steered").await;
    assert_eq!(told, json!({"type": "steered", "by": {"session": parent}, "text": "hurry"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mode_that_is_set_while_a_chat_begins_or_ends_stays_and_so_does_the_conversation() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("modes", json!({})).await;
    let setting = async {
        for n in 0.. {
            let mode = ["ask", "accept_edits", "allow_all"][n % 3];
            hub.ok(
                "loopback.mode_set",
                json!({"session_id": session, "mode": mode, "expires_in_secs": 600}),
            )
            .await;
            assert_eq!(hub.session(&session).await["mode"]["mode"], mode, "nobody else sets modes");
        }
    };
    let chatting = async {
        for n in 0..20 {
            // Each chat notes the conversation when it begins and what it has cost when it ends.
            let events = hub.chat_to_end(&session, "sim:\nsay hello").await;
            assert_eq!(types(&events).last(), Some(&"complete"), "chat {n}");
            let conversation = hub.session(&session).await["claude_session_id"].clone();
            assert_eq!(events.last().unwrap()["claude_session_id"], conversation);
            assert!(conversation.is_string());
        }
    };
    tokio::select! {
        () = chatting => {}
        () = setting => {}
    }
}

fn shown(page: &Value) -> Vec<Value> {
    page["events"].as_array().unwrap().iter().map(|event| event["event"].clone()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_child_that_floods_hears_the_answer_to_its_question() {
    // It asks, and then writes faster than anybody reads: there is always another line to look at.
    let ask = json!({"type": "control_request", "request_id": "q1", "request": {
        "subtype": "can_use_tool", "tool_name": "Write", "tool_use_id": "t1",
        "input": {"file_path": "x", "content": "y"},
    }});
    let agent = format!(
        r#"yes '{{"type":"keep_alive"}}' | head -c 2000000 > blob; echo '{ask}'
        ( while :; do cat blob; sleep 0.05; done ) & flood=$!
        while IFS= read -r line; do case "$line" in *q1*) echo "$line" > answered;; esac; done
        kill $flood"#
    );
    let hub = SimulatedHub::with(|settings| {
        let leading = ["-c", &agent, "sh"].map(Into::into).to_vec();
        let program = plexus_engine::ProgramLine { program: "/bin/sh".into(), leading };
        settings.install(plexus_wire::FIRST_AGENT, program);
    })
    .await;
    let session = hub.create("flood", json!({})).await;
    hub.chat(&session, "anything").await;
    let approval = hub.wait_for_approval(&session).await;
    hub.respond(&approval, true).await;
    let answered = hub.work().join("answered");
    // The shell makes the file before it writes: only a whole line is the answer.
    let whole = || std::fs::read_to_string(&answered).ok().filter(|line| line.ends_with('\n'));
    let heard = || std::future::ready(whole());
    let heard = testkit::eventually_async("the answer", DEADLINE, heard).await;
    assert!(heard.contains("allow"), "{heard}");
    hub.end_children().await;
}
