//! What a decider sees, what is digested and what the child receives is what it asked for; else it
//! is denied.

use std::sync::Arc;

use plexus_core::{Call, Caller, Reply, SessionId, digest::input_digest};
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::childless_hub::{ChildlessHub, answer};

/// Keys that serde_json reserves for itself, written plainly and with escapes. An object that has
/// one is not read as an object.
const HOSTILE: [&str; 4] = [
    "$serde_json::private::RawValue",
    "$serde_json::private::Number",
    r"\u0024serde_json::private::RawValue",
    r"$serde_json::private::\u0052awValue",
];
/// Keys that only look like them.
const HARMLESS: [&str; 4] =
    ["$serde_json", "serde_json::private::RawValue", "$serde_json::private", r"\u0061"];

/// Ways to hide a value in an input.
const WRAPS: [&str; 5] = [
    r#"{"sql":@}"#,
    r#"{"a":[1,@]}"#,
    r#"{"z":null,"a":{"b":@}}"#,
    r#"{"a":[[{"x":@,"y":"\u0024"}]]}"#,
    r#"{"deep":[[[[[[[[[[[[[[[[@]]]]]]]]]]]]]]]]}"#,
];

fn inputs(keys: &[&str]) -> Vec<String> {
    let objects = keys.iter().flat_map(|key| {
        [
            format!(r#"{{"{key}":"\"select 1\""}}"#),
            format!(r#"{{"b":1,"{key}":"1"}}"#),
            format!(r#"{{"{key}":"not JSON"}}"#),
        ]
    });
    objects.flat_map(|object| WRAPS.map(|wrap| wrap.replace('@', &object))).collect()
}

/// Asks with exactly this text as the input.
async fn permit(hub: Arc<ChildlessHub>, session: SessionId, id: String, input: String) -> Value {
    let params = format!(r#"{{"tool_name":"X","tool_use_id":"{id}","input":{input}}}"#);
    let params = RawValue::from_string(params).unwrap();
    let call = Call::plain(Caller::Child(session));
    match hub.hub.call(call, "loopback.permit", Some(params)).await {
        Ok(Reply::Value(answer)) => {
            serde_json::from_str(answer.give().await.unwrap().get()).unwrap()
        }
        Ok(Reply::Stream(_)) => panic!("a stream"),
        // The door turns what is refused into a denial.
        Err(error) => json!({"behavior": "deny", "message": error.message}),
    }
}

#[tokio::test]
async fn a_hostile_key_is_denied_at_any_depth_and_shown_to_nobody() {
    let hub = Arc::new(ChildlessHub::new().await);
    let session = hub.create("s", json!({})).await;
    for (n, input) in inputs(&HOSTILE).into_iter().enumerate() {
        let told = permit(Arc::clone(&hub), session, format!("t{n}"), input.clone()).await;
        assert_eq!(told["behavior"], "deny", "{input}");
        let message = told["message"].as_str().unwrap();
        assert!(message.contains("private::"), "{input} was denied for {message:?}");
    }
    assert_eq!(hub.ok("loopback.pending", json!({})).await["approvals"], json!([]));
    assert_eq!(hub.ok("loopback.history", json!({})).await["decisions"], json!([]));
}

#[tokio::test]
async fn every_other_input_is_shown_digested_and_sent_as_it_was_asked() {
    let hub = Arc::new(ChildlessHub::new().await);
    let session = hub.create("s", json!({})).await;
    for (n, input) in inputs(&HARMLESS).into_iter().enumerate() {
        let id = format!("t{n}");
        let asked: Value = serde_json::from_str(&input).unwrap();
        let task = tokio::spawn(permit(Arc::clone(&hub), session, id.clone(), input.clone()));
        let pending = hub.pending_for(session, &id).await;
        assert_eq!(pending["input"], asked, "{input}");
        assert_eq!(pending["input_digest"], input_digest(&asked), "{input}");
        hub.respond(Caller::Operator, &pending, true).await.unwrap();
        assert_eq!(answer(task).await, json!({"behavior": "allow", "updatedInput": asked}));
    }
}

#[tokio::test]
async fn an_edit_or_a_rule_test_with_a_hostile_key_is_refused() {
    let hub = Arc::new(ChildlessHub::new().await);
    let session = hub.create("s", json!({})).await;
    let (_task, asked) = hub.ask(session, "t", "X", json!({"a": 1})).await;
    for input in inputs(&HOSTILE) {
        for (method, params) in [
            (
                "loopback.respond",
                format!(
                    r#"{{"approval_id":{},"approve":true,"updated_input":{input}}}"#,
                    asked["id"]
                ),
            ),
            ("loopback.rule_test", format!(r#"{{"tool_name":"X","input":{input}}}"#)),
        ] {
            let params = RawValue::from_string(params).unwrap();
            let call = Call::plain(Caller::Operator);
            let error = hub.hub.call(call, method, Some(params)).await.unwrap_err();
            assert_eq!(error.kind, plexus_core::ErrorKind::Invalid, "{method} {input}");
        }
    }
}
