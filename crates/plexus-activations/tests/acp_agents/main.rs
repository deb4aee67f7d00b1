//! Agents of the Agent Client Protocol that behave badly, each a small shell script: clear errors,
//! within bounds, and nothing that nobody was asked about.
#![cfg(unix)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

#[path = "../common/mod.rs"]
mod common;

use std::sync::Arc;
use std::time::Duration;

use plexus_agents::acp::{Homes, Profile};
use plexus_agents::{Acp, ClaudeCode};
use plexus_core::{Caller, ErrorKind};
use plexus_engine::agents::Drivers;
use plexus_engine::session::SessionConfig;
use plexus_engine::{ProgramLine, Settings};
use plexus_wire::{FIRST_AGENT, Supervise};
use serde_json::{Value, json};

use crate::common::{SimulatedHub, texts, types};

/// Answers the handshake in the mode `ask`, and reads the prompt; its id is then in `$id`.
const OPEN: &str = r#"
read hello; read open
echo '{"id":"plexus-hello","result":{"protocolVersion":1}}'
echo '{"id":"plexus-open","result":{"sessionId":"s","modes":{"currentModeId":"ask"}}}'
prompt() { read line; id=$(printf '%s' "$line" | sed 's/.*"id":"\([^"]*\)".*/\1/'); }
end() { echo "{\"id\":\"$id\",\"result\":{\"stopReason\":\"end_turn\"}}"; }
update() { echo "{\"method\":\"session/update\",\"params\":{\"sessionId\":\"s\",\"update\":$1}}"; }
say() { update "{\"sessionUpdate\":\"agent_message_chunk\",\"content\":{\"type\":\"text\",\"text\":\"$1\"}}"; }
prompt
"#;

/// A hub whose agent `scripted` runs this script.
async fn hub_playing(script: &str, change: impl FnOnce(&mut Settings)) -> SimulatedHub {
    hub_playing_with(script, "request", change).await
}

/// The same, with another place of a call's whole input.
async fn hub_playing_with(
    script: &str,
    input: &str,
    change: impl FnOnce(&mut Settings),
) -> SimulatedHub {
    let profile = json!({
        "label": "Scripted", "program": "/bin/sh", "args": ["-c", script],
        "asks_for": "everything", "modes": ["ask"], "input": input,
    });
    let table = toml::Table::try_from(profile).unwrap();
    let driver = Acp::new(Profile::of("scripted", table).unwrap(), Homes::default());
    let drivers = Drivers::default().with("scripted", Arc::new(driver));
    SimulatedHub::with_drivers(drivers, |settings| {
        let program = ProgramLine { program: "/bin/sh".into(), leading: Vec::new() };
        settings.install("scripted", program);
        change(settings);
    })
    .await
}

/// Plays one chat to its end, and returns its events.
async fn chat(hub: &SimulatedHub) -> Vec<Value> {
    let session = hub.create("bad", json!({"agent": "scripted"})).await;
    hub.chat_to_end(&session, "go").await
}

/// The words of the error with which a chat of this script ends.
async fn error_of(script: &str) -> String {
    let hub = hub_playing(script, |_| {}).await;
    let events = chat(&hub).await;
    let last = events.last().unwrap();
    assert_eq!(last["type"], "error", "{events:#?}");
    hub.end_children().await;
    assert_eq!(hub.processes(), []);
    last["message"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_is_none_fails_its_chat_with_the_reason() {
    let greets = "read a; echo '{\"id\":\"plexus-hello\",\"result\":{\"protocolVersion\":2}}'; cat";
    for (script, expected) in [
        ("echo I am no agent; echo oh no >&2; exit 3", "exit code 3"),
        ("read a; exit 0", "exit code 0"),
        (greets, "version 2"),
        ("read a; echo '{\"id\":\"plexus-hello\",\"result\":{}}'; cat", "does not speak"),
    ] {
        let error = error_of(script).await;
        assert!(error.contains(expected), "{script}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_never_gets_ready_is_ended() {
    let silent = "trap '' TERM; while :; do sleep 1; done";
    let hub = hub_playing(silent, |settings| settings.handshake = Duration::from_secs(1)).await;
    let events = chat(&hub).await;
    let error = events.last().unwrap()["message"].as_str().unwrap();
    assert!(error.contains("not ready"), "{error}");
    hub.end_children().await;
    assert_eq!(hub.processes(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_whose_input_never_becomes_whole_ends_the_chat() {
    let ask = r#"
update '{"sessionUpdate":"tool_call","toolCallId":"c","title":"shell","status":"pending"}'
echo '{"id":7,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"c"},"options":[{"optionId":"a","kind":"allow_once","name":"A"},{"optionId":"r","kind":"reject_once","name":"R"}]}}'
cat"#;
    let script = format!("{OPEN}{ask}");
    let hub = hub_playing_with(&script, "update", |settings| {
        settings.whole_question = Duration::from_secs(1);
    })
    .await;
    let events = chat(&hub).await;
    let error = events.last().unwrap()["message"].as_str().unwrap();
    assert!(error.contains("whole input"), "{events:#?}");
    assert!(!types(&events).contains(&"awaiting_approval"), "{events:#?}");
    hub.end_children().await;
    assert_eq!(hub.processes(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_power_that_an_agent_has_not_is_refused_by_its_name() {
    let ask = r#"
echo '{"id":7,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"c","title":"shell","rawInput":{"command":"ls"}},"options":[{"optionId":"a","kind":"allow_once","name":"A"},{"optionId":"r","kind":"reject_once","name":"R"}]}}'
read answer; say done; end; cat"#;
    let hub = hub_playing(&format!("{OPEN}{ask}"), |_| {}).await;
    let servers = json!({"x": {"type": "stdio", "command": "x"}});
    let given = json!({"name": "given", "agent": "scripted", "working_dir": hub.work(),
        "mcp_servers": servers});
    let refused = hub.call("agents.create", given).await.unwrap_err();
    assert!(refused.to_string().contains("mcp_servers"), "{refused}");
    let session = hub.create("bad", json!({"agent": "scripted"})).await;
    let images = json!([{"mime_type": "image/png", "data": "AAAA"}]);
    let seen = json!({"session_id": session, "prompt": "see", "images": images});
    let refused = hub.call("agents.chat_async", seen).await.unwrap_err();
    assert!(refused.to_string().contains("power images"), "{refused}");
    hub.chat(&session, "go").await;
    let approval = hub.wait_for_approval(&session).await;
    let edit = json!({"approval_id": approval["id"], "approve": true,
        "input_digest": approval["input_digest"], "updated_input": {"command": "pwd"}});
    let refused = hub.call("loopback.respond", edit).await.unwrap_err();
    assert!(refused.to_string().contains("edit_input"), "{refused}");
    let steer = json!({"session_id": session, "text": "sooner"});
    let refused = hub.call("agents.send", steer).await.unwrap_err();
    assert!(refused.to_string().contains("steer"), "{refused}");
    hub.respond(&approval, true).await;
    hub.wait_for_end(&session, 0).await;
    let fork = json!({"session_id": session, "new_name": "other"});
    let refused = hub.call("agents.fork", fork).await.unwrap_err();
    assert!(refused.to_string().contains("fork"), "{refused}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unfinished_text_of_a_killed_agent_is_kept() {
    let hub = hub_playing(&format!("{OPEN}say half; kill -9 $$"), |_| {}).await;
    let events = chat(&hub).await;
    assert_eq!(texts(&events), ["half"], "{events:#?}");
    assert_eq!(events.last().unwrap()["type"], "error", "{events:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_moves_its_mode_is_stopped() {
    let moved = r#"update '{"sessionUpdate":"current_mode_update","currentModeId":"yolo"}'; cat"#;
    let error = error_of(&format!("{OPEN}{moved}")).await;
    assert!(error.contains("yolo"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_ran_unasked_stops_the_run() {
    let ran = r#"update '{"sessionUpdate":"tool_call","toolCallId":"c","title":"shell",
        "status":"completed"}'; cat"#;
    let error = error_of(&format!("{OPEN}{}", ran.replace('\n', " "))).await;
    assert!(error.contains("nobody here allowed"), "{error}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_that_cannot_be_allowed_once_is_refused_and_asks_nobody() {
    let ask = r#"
echo '{"id":7,"method":"session/request_permission","params":{"sessionId":"s","toolCall":{"toolCallId":"c","title":"shell"},"options":[{"optionId":"a","kind":"allow_always","name":"A"}]}}'
read answer
case "$answer" in *error*) say refused;; *) say allowed;; esac
end; cat"#;
    let hub = hub_playing(&format!("{OPEN}{ask}"), |_| {}).await;
    let events = chat(&hub).await;
    assert_eq!(texts(&events), ["refused"], "{events:#?}");
    assert!(!types(&events).contains(&"awaiting_approval"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_flood_and_answers_to_nobody_lose_nothing() {
    let flood = r#"
i=0; while [ $i -lt 3000 ]; do say x; i=$((i+1)); done
echo '{"id":99,"result":{}}'
echo '{"id":"plexus-open","result":{"sessionId":"other"}}'
echo 'not of the protocol'
say y; end; cat"#;
    let hub = hub_playing(&format!("{OPEN}{flood}"), |_| {}).await;
    let events = chat(&hub).await;
    assert_eq!(events.last().unwrap()["type"], "complete", "{:#?}", events.last());
    assert_eq!(texts(&events).concat(), format!("{}y", "x".repeat(3000)));
    assert!(events.len() < 20, "{} events", events.len());
}

/// A driver whose agent is never started, for its profile.
fn driver_that(name: &str, more: &Value) -> Arc<Acp> {
    let mut profile = json!({"label": name, "program": "/bin/sh"});
    profile.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    let table = toml::Table::try_from(profile).unwrap();
    Arc::new(Acp::new(Profile::of(name, table).unwrap(), Homes::default()))
}

/// What a session that was just created asks about.
async fn supervision(hub: &SimulatedHub, created: &Value) -> Supervise {
    let id = created["id"].as_str().unwrap().parse().unwrap();
    SessionConfig::of(&hub.store().session(id).await.unwrap()).unwrap().supervise
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_creates_no_agent_that_asks_about_less_than_itself() {
    let everything = json!({"asks_for": "everything", "modes": ["ask"]});
    let changes = json!({"asks_for": "changes", "modes": ["ask"]});
    let drivers = Drivers::default()
        .with(FIRST_AGENT, Arc::new(ClaudeCode))
        .with("asks", driver_that("asks", &everything))
        .with("changes", driver_that("changes", &changes))
        .with("own_way", driver_that("own_way", &json!({})));
    let hub = SimulatedHub::with_drivers(drivers, |_| {}).await;
    for (supervise, agent, is_created) in [
        ("default", "asks", true),
        ("default", "changes", true),
        ("default", "own_way", false),
        ("all", "asks", true),
        ("all", "changes", false),
        ("all", "own_way", false),
    ] {
        let name = format!("{supervise} {agent}");
        let grants = json!({"can_spawn": true, "supervise": supervise});
        let parent = hub.create(&name, grants).await;
        let caller = Caller::Session(parent.parse().unwrap());
        let params = hub.create_params("child", json!({"agent": agent, "supervise": "default"}));
        let made = hub.call_as(caller, "agents.create", params).await;
        if !is_created {
            let refused = made.unwrap_err();
            assert_eq!(refused.kind, ErrorKind::Forbidden, "{name}: {refused:?}");
            assert_eq!(refused.field.as_deref(), Some("agent"), "{name}: {refused:?}");
            continue;
        }
        assert_eq!(supervision(&hub, &made.unwrap()).await, Supervise::All, "{name}");
    }
    // An agent that does not ask may run what its creator would be asked about.
    let parent = hub.create("loud", json!({"can_spawn": true})).await;
    let caller = Caller::Session(parent.parse().unwrap());
    let silent = hub.create_params("silent", json!({"agent": "asks", "loopback_enabled": false}));
    let refused = hub.call_as(caller, "agents.create", silent).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Forbidden, "{refused:?}");
    assert_eq!(refused.field.as_deref(), Some("loopback_enabled"), "{refused:?}");
    // A fork is as its source, so one of a source that asks about less is refused too.
    hub.create("loose", json!({"agent": "asks", "supervise": "default", "parent": parent})).await;
    hub.create("strict", json!({"agent": "asks", "supervise": "all", "parent": parent})).await;
    for (source, is_forked) in [("loose", false), ("strict", true)] {
        let params = json!({"name": source, "new_name": format!("fork of {source}")});
        let forked = hub.call_as(caller, "agents.fork", params).await;
        assert_eq!(forked.is_ok(), is_forked, "{source}: {forked:?}");
        if let Err(refused) = forked {
            assert_eq!(refused.kind, ErrorKind::Forbidden, "{refused:?}");
            assert_eq!(refused.field.as_deref(), Some("supervise"), "{refused:?}");
        }
    }
    // Of its own kind it creates one that is supervised as it is, and the operator creates any.
    let parent = hub.create("own kind", json!({"can_spawn": true})).await;
    let caller = Caller::Session(parent.parse().unwrap());
    let params = hub.create_params("child", json!({}));
    let child = hub.call_as(caller, "agents.create", params).await.unwrap();
    assert_eq!(supervision(&hub, &child).await, Supervise::Default);
    hub.create("of the operator", json!({"agent": "own_way", "parent": parent})).await;
    // Nobody is asked about calls of a parent outside, which runs no agent here.
    let outside = hub.ok("identity.parent", json!({"name": "outside"})).await;
    let caller = Caller::Session(outside["session_id"].as_str().unwrap().parse().unwrap());
    let params = hub.create_params("of a parent outside", json!({"agent": "own_way", "env": {}}));
    let child = hub.call_as(caller, "agents.create", params).await.unwrap();
    assert_eq!(supervision(&hub, &child).await, Supervise::Default);
}
