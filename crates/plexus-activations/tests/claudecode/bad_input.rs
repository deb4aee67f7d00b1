//! Bad input: a typed error with a hint, and nothing created by halves.

use plexus_core::CallError;
use serde_json::{Value, json};

use crate::common::SimulatedHub;

fn kind(error: &CallError) -> String {
    error.kind.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_create_refuses() {
    let hub = SimulatedHub::new().await;
    hub.create("taken", json!({})).await;
    let missing = hub.work().join("missing");
    let file = hub.work().join("file");
    std::fs::write(&file, "").unwrap();
    let inside = hub.data().join("runs");
    std::fs::create_dir_all(&inside).unwrap();
    let above = hub.data().parent().unwrap().to_owned();
    let long = "x".repeat(5000);
    let cases: Vec<(&str, Value, &str)> = vec![
        ("taken", json!({}), "conflict"),
        ("", json!({}), "invalid"),
        ("  ", json!({}), "invalid"),
        ("a\nb", json!({}), "invalid"),
        (&long, json!({}), "invalid"),
        ("n", json!({"working_dir": missing}), "invalid"),
        ("n", json!({"working_dir": file}), "invalid"),
        ("n", json!({"working_dir": "relative"}), "invalid"),
        ("n", json!({"working_dir": hub.data()}), "invalid"),
        ("n", json!({"working_dir": inside}), "invalid"),
        ("n", json!({"working_dir": above}), "invalid"),
        ("n", json!({"add_dirs": [above]}), "invalid"),
        ("n", json!({"env": {"A=B": "c"}}), "invalid"),
        ("n", json!({"may_decide": ["Bash("]}), "invalid"),
        ("n", json!({"no_such_parameter": 1}), "invalid"),
        ("n", json!({"parent": "00000000-0000-7000-8000-000000000000"}), "not_found"),
    ];
    for (name, more, expected) in cases {
        let error =
            hub.call("claudecode.create", hub.create_params(name, more.clone())).await.unwrap_err();
        assert_eq!(kind(&error), expected, "{name:?} {more}: {error:?}");
        if expected != "not_found" {
            assert!(
                !error.hint.is_empty() || error.message.contains("no_such_parameter"),
                "{more}: {error:?}"
            );
        }
    }
    let list = hub.ok("claudecode.list", json!({})).await;
    assert_eq!(list["sessions"].as_array().unwrap().len(), 1, "something was created by halves");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nul_is_refused_by_the_name_of_its_field() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("s", json!({})).await;
    let create = |more: Value| ("claudecode.create", hub.create_params("n", more));
    let dir = format!("{}\0", hub.work().display());
    let chat = json!({"session_id": session, "prompt": "a\0b"});
    let rule = json!({"decision": "deny", "pattern": "Bash", "reason": "a\0b"});
    let cases = [
        (create(json!({"name": "a\0b"})), "name"),
        (create(json!({"model": "a\0b"})), "model"),
        (create(json!({"system_prompt": "a\0b"})), "system_prompt"),
        (create(json!({"env": {"KEY": "a\0b"}})), "env.KEY"),
        (create(json!({"env": {"K\0Y": "ab"}})), "env.K\0Y"),
        (create(json!({"allowed_tools": ["Read", "Wr\0te"]})), "allowed_tools[1]"),
        (create(json!({"disallowed_tools": ["Wr\0te"]})), "disallowed_tools[0]"),
        (create(json!({"may_decide": ["Wr\0te"]})), "may_decide[0]"),
        (create(json!({"working_dir": dir})), "working_dir"),
        (create(json!({"add_dirs": [dir]})), "add_dirs[0]"),
        (("claudecode.chat_async", chat.clone()), "prompt"),
        (("claudecode.chat", chat), "prompt"),
        (("claudecode.send", json!({"session_id": session, "text": "a\0b"})), "text"),
        (("claudecode.cancel", json!({"session_id": session, "reason": "a\0b"})), "reason"),
        (("loopback.rule_add", rule), "reason"),
    ];
    for ((method, params), field) in cases {
        let error = hub.call(method, params.clone()).await.unwrap_err();
        assert_eq!(kind(&error), "invalid", "{method} {params}: {error:?}");
        assert_eq!(error.field.as_deref(), Some(field), "{method} {params}: {error:?}");
    }
    let list = hub.ok("claudecode.list", json!({})).await;
    assert_eq!(list["sessions"].as_array().unwrap().len(), 1, "something was created");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_chats_and_readers_refuse() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("s", json!({})).await;
    hub.chat_to_end(&session, "sim:\nsay x").await;
    let unknown = "00000000-0000-7000-8000-000000000000";
    let cases = [
        ("claudecode.chat_async", json!({"session_id": unknown, "prompt": "x"}), "not_found"),
        ("claudecode.chat_async", json!({"name": "S", "prompt": "x"}), "not_found"),
        ("claudecode.chat_async", json!({"prompt": "x"}), "invalid"),
        (
            "claudecode.chat_async",
            json!({"session_id": session, "name": "s", "prompt": "x"}),
            "invalid",
        ),
        ("claudecode.chat_async", json!({"session_id": session, "prompt": " "}), "invalid"),
        (
            "claudecode.chat_async",
            json!({"session_id": session, "prompt": "x".repeat(10 * 1024 * 1024 + 1)}),
            "invalid",
        ),
        (
            "claudecode.chat_async",
            json!({"session_id": session, "prompt": "x", "wait_ms": 1}),
            "invalid",
        ),
        ("claudecode.poll", json!({"session_id": session, "from_seq": 99}), "invalid"),
        ("claudecode.poll", json!({"session_id": session, "limit": 0}), "invalid"),
        ("claudecode.poll", json!({"session_id": session, "limit": 1001}), "invalid"),
        ("claudecode.poll", json!({"session_id": session, "wait_ms": 60_001}), "invalid"),
        ("claudecode.poll", json!({"session_id": session, "cursor": "nonsense"}), "invalid"),
        (
            "claudecode.poll",
            json!({"session_id": session, "from_seq": 0, "consumer": "c"}),
            "invalid",
        ),
        ("claudecode.poll", json!({"session_id": session, "chat": 7}), "not_found"),
        ("claudecode.poll", json!({"session_id": unknown}), "not_found"),
        ("claudecode.get", json!({"session_id": "nonsense"}), "invalid"),
        ("claudecode.cancel", json!({"session_id": session}), "conflict"),
        ("claudecode.send", json!({"session_id": session, "text": "x"}), "conflict"),
        ("claudecode.send", json!({"session_id": session, "text": ""}), "invalid"),
        ("claudecode.fork", json!({"session_id": session, "new_name": "s"}), "conflict"),
        (
            "claudecode.fork",
            json!({"session_id": session, "new_name": "f", "at": unknown}),
            "not_found",
        ),
        (
            "claudecode.cursor_delete",
            json!({"session_id": session, "consumer": "nobody"}),
            "not_found",
        ),
        ("claudecode.render_context", json!({"session_id": session, "end": unknown}), "not_found"),
        ("claudecode.list", json!({"limit": 0}), "invalid"),
        ("claudecode.nonsense", json!({}), "not_found"),
    ];
    for (method, params, expected) in cases {
        let shown: String = params.to_string().chars().take(200).collect();
        let error = match hub.call(method, params).await {
            Err(error) => error,
            Ok(answer) => panic!("{method} {shown} was taken: {answer}"),
        };
        assert_eq!(kind(&error), expected, "{method} {shown}: {error:?}");
    }
    assert_eq!(hub.session(&session).await["chat"], 0, "something was started by halves");
    let names: Vec<Value> = hub.ok("claudecode.list", json!({})).await["sessions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["name"].clone())
        .collect();
    assert_eq!(names, [json!("s")]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_model_is_passed_on() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("model", json!({"model": "no such model $(x)"})).await;
    let events = hub.chat_to_end(&session, "sim:\nsay whatever").await;
    assert_eq!(events.last().unwrap()["type"], "complete");
}
