//! A server of a later version sends enum values, events and errors that this client does not know.
//! The client reads the rest, and keeps the unknown values.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use axum::Json;
use axum::Router;
use axum::routing::post;
use plexus_client::wire::{
    ApprovalPageParams, ChatEvent, ErrorKind, ListParams, NodeParams, PollParams, RenderParams,
    RulesParams, Said, SecretToken, SessionId, SessionRef,
};
use plexus_client::{Client, ClientError};
use serde_json::{Value, json};

const ID: &str = "01a1de6b-3b15-70ca-afc7-c3f165592f7c";

/// Starts a server that answers every method with unknown enum values and fields.
async fn newer_server() -> Client {
    async fn answer(Json(call): Json<Value>) -> Json<Value> {
        let position = json!({"tree_id": ID, "node_id": ID});
        let handle = json!({"plugin_id": ID, "version": "9.0.0", "method": "m", "meta": []});
        let event = |event: Value| {
            json!({"seq": 0, "event": event, "timestamp": 1, "node_id": ID, "handle": handle,
                "chat": 0, "colour": "blue"})
        };
        let result = match call["method"].as_str().unwrap() {
            "agents.list" => json!({"type": "ok", "sessions": [{
                "id": ID, "name": "n", "working_dir": "/w", "model": null, "channel": "telepathy",
                "loopback_enabled": true, "can_spawn": false, "status": "dreaming", "chat": 0,
                "head": position, "spent": {"cost_usd": 0.0, "turns": 0, "input_tokens": 0,
                "output_tokens": 0, "wall_ms": 0}, "metadata": {}, "created_at": 1,
                "updated_at": 1, "mode": {"mode": "ask_twice", "until": 1}, "mood": "good"}]}),
            "agents.poll" => json!({"type": "ok", "status": "dreaming",
                "events": [
                    event(json!({"type": "dream", "of": ["sheep"]})),
                    event(json!({"type": "approval_resolved", "approval_id": ID,
                        "approved": true, "decided_by": {"committee": 3}})),
                ],
                "pending_approvals": [], "read_position": 0, "total_events": 2, "has_more": false,
                "cursor": null, "chat": 0}),
            "agents.render_context" => json!({"type": "ok", "messages": [
                {"role": "narrator", "content": [{"type": "hologram", "x": 1}]}]}),
            "loopback.history" => json!({"type": "ok", "decisions": [{
                "approval_id": ID, "session_id": ID, "tool_name": "T", "tool_use_id": "t",
                "input": {}, "input_digest": "d", "status": "postponed", "created_at": 1,
                "decided_by": {"committee": 3}}]}),
            "loopback.rules" => json!({"type": "ok", "rules": [{
                "id": ID, "decision": "ponder", "pattern": "Bash", "scope": {"team": "a"},
                "author": "committee", "expires_at": null, "uses": null, "used": 0,
                "uses_left": null, "reason": null, "matches": [], "does_not_match": [],
                "created_at": 1}]}),
            "arbor.node_get" => json!({"type": "ok", "node": {"id": ID, "tree_id": ID,
                "parent": null, "data": {"type": "picture", "url": "x"}, "created_at": 1,
                "metadata": {}}}),
            _ => {
                let data = json!({"kind": "asleep", "message": "wake up", "dream": 7});
                return Json(json!({"jsonrpc": "2.0", "id": 1,
                    "error": {"code": -32000, "message": "wake up", "data": data}}));
            }
        };
        Json(json!({"jsonrpc": "2.0", "id": 1, "result": result}))
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let app = Router::new().route("/rpc", post(answer));
    tokio::spawn(async move { axum::serve(listener, app).await });
    Client::connect(url, SecretToken::new("t"))
}

#[tokio::test]
async fn unknown_words_are_kept_and_the_rest_is_read() {
    let client = newer_server().await;
    let sessions = client.agents().list(&ListParams::default()).await.unwrap().sessions;
    let [session] = sessions.as_slice() else { panic!("{sessions:?}") };
    assert_eq!(session.name, "n");
    assert_eq!(session.status, Said::Unknown(json!("dreaming")));
    assert_eq!(session.status.to_string(), "dreaming");
    assert_eq!(session.channel, Said::Unknown(json!("telepathy")));
    assert_eq!(session.mode, Some(Said::Unknown(json!({"mode": "ask_twice", "until": 1}))));

    let history = client.loopback().history(&ApprovalPageParams::default()).await.unwrap();
    assert_eq!(history.decisions[0].status, Said::Unknown(json!("postponed")));
    assert_eq!(history.decisions[0].decided_by, Some(Said::Unknown(json!({"committee": 3}))));

    let rules = client.loopback().rules(&RulesParams::default()).await.unwrap().rules;
    assert_eq!(rules[0].decision, Said::Unknown(json!("ponder")));
    assert_eq!(rules[0].scope, Said::Unknown(json!({"team": "a"})));
    assert_eq!(rules[0].author, Said::Unknown(json!("committee")));

    let node = client.arbor().node_get(&NodeParams::new(ID.parse().unwrap())).await.unwrap();
    let picture = json!({"type": "picture", "url": "x"});
    assert_eq!(node.node.unwrap().data, Said::Unknown(picture));

    let whole = RenderParams::new(SessionRef::named("n"));
    let rendered = client.agents().render_context(&whole).await.unwrap();
    assert_eq!(rendered.messages[0].role, Said::Unknown(json!("narrator")));
    assert_eq!(rendered.messages[0].content[0], Said::Unknown(json!({"type": "hologram", "x": 1})));
}

#[tokio::test]
async fn unknown_events_are_kept_whole() {
    let client = newer_server().await;
    let session: SessionId = ID.parse().unwrap();
    let polled = client.agents().poll(&PollParams::new(session)).await.unwrap();
    assert_eq!(polled.status, Said::Unknown(json!("dreaming")));
    let events: Vec<ChatEvent> = polled.events.iter().map(|event| event.read().unwrap()).collect();
    let dream = json!({"type": "dream", "of": ["sheep"]});
    assert_eq!(events[0], ChatEvent::Other(dream));
    assert_eq!(events[1].type_name(), "approval_resolved");
    assert!(matches!(&events[1], ChatEvent::Other(whole) if whole["decided_by"]["committee"] == 3));
}

#[tokio::test]
async fn an_unknown_kind_of_error_is_an_answer_all_the_same() {
    let client = newer_server().await;
    let error = client.agents().get(&SessionRef::named("n")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal, "nothing is known to help");
    let ClientError::Call(said) = error else { panic!("{error}") };
    assert_eq!(said.kind, Said::Unknown(json!("asleep")));
    assert_eq!(said.message, "wake up");
}
