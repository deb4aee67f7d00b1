//! Resources: read, subscribed to, and refused to callers that may not see them.

use std::sync::Arc;

use serde_json::{Value, json};

use crate::mcp_client::{Events, McpClient};
use crate::support::{CHILD, HubState, OPERATOR, Server, until};

async fn next_update(events: &mut Events) -> Value {
    loop {
        let event = events.next().await.expect("a notification before the end");
        if !event.data.is_empty() {
            let message: Value = serde_json::from_str(&event.data).unwrap();
            if message["method"] == "notifications/resources/updated" {
                return message["params"]["uri"].clone();
            }
        }
    }
}

#[tokio::test]
async fn resources_are_listed_and_read_by_those_for_whom_they_are() {
    let state = Arc::<HubState>::default();
    state.answer("k", json!(1));
    let server = Server::start(&state).await;
    let (mut client, info) = McpClient::begin(&server, OPERATOR).await;
    assert_eq!(info["capabilities"]["resources"]["subscribe"], true);
    let listed = client.ask("resources/list", json!({})).await;
    assert_eq!(listed["result"]["resources"][0]["uri"], "test://questions");
    let templates = client.ask("resources/templates/list", json!({})).await;
    assert_eq!(
        templates["result"]["resourceTemplates"][0]["uriTemplate"],
        "test://questions/{key}"
    );
    let read = client.ask("resources/read", json!({"uri": "test://questions/k"})).await;
    let contents = &read["result"]["contents"][0];
    assert_eq!(
        (&contents["text"], &contents["mimeType"]),
        (&json!(r#"{"answer":1}"#), &json!("application/json"))
    );
    for uri in ["test://questions/none", "test://nothing", "test://questions/k/k", ""] {
        let refused = client.ask("resources/read", json!({"uri": uri})).await;
        assert_eq!(refused["error"]["code"], -32002, "{uri}: {refused}");
    }
    let (mut child, info) = McpClient::begin(&server, CHILD).await;
    assert!(info["capabilities"].get("resources").is_none());
    let refused = child.ask("resources/read", json!({"uri": "test://questions/k"})).await;
    assert_eq!(refused["error"]["code"], -32002, "{refused}");
    let refused = child.ask("resources/subscribe", json!({"uri": "test://questions"})).await;
    assert!(refused["error"]["code"].is_i64(), "{refused}");
}

#[tokio::test]
async fn a_listener_is_told_of_changes_until_it_stops() {
    let state = Arc::<HubState>::default();
    let server = Server::start(&state).await;
    let (mut client, _) = McpClient::begin(&server, OPERATOR).await;
    let mut events = Events::of(client.get(None).await);
    for uri in ["test://questions", "test://questions/k"] {
        let answer = client.ask("resources/subscribe", json!({"uri": uri})).await;
        assert_eq!(answer["result"], json!({}), "{answer}");
    }
    assert_eq!(state.working(), 2);
    state.answer("k", json!(1));
    let mut told = [next_update(&mut events).await, next_update(&mut events).await];
    told.sort_by_key(Value::to_string);
    assert_eq!(told, [json!("test://questions"), json!("test://questions/k")]);
    client.ask("resources/unsubscribe", json!({"uri": "test://questions"})).await;
    until("the end of one subscription", || state.working() == 1).await;
    state.answer("k", json!(2));
    assert_eq!(next_update(&mut events).await, "test://questions/k");

    let session = client.session.clone().unwrap();
    let delete = server
        .http
        .delete(server.url("/mcp"))
        .bearer_auth(OPERATOR)
        .header("mcp-session-id", session);
    delete.send().await.unwrap();
    until("the end of all subscriptions with the session", || state.working() == 0).await;
}
