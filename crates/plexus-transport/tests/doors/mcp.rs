//! MCP over HTTP: tools, results, sessions, cancellation.

use std::sync::Arc;
use std::time::Duration;

use plexus_transport::Limits;
use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::mcp_client::{Events, McpClient};
use crate::support::{CHILD, HubState, OPERATOR, PARENT, Server, soon, until};

fn names(tools: &Value) -> Vec<&str> {
    tools["result"]["tools"]
        .as_array()
        .unwrap()
        .iter()
        .map(|tool| tool["name"].as_str().unwrap())
        .collect()
}

#[tokio::test]
async fn each_caller_is_shown_its_own_tools() {
    let server = Server::start(&Arc::default()).await;
    for (token, seen, hidden) in [
        (
            OPERATOR,
            vec!["test_echo", "test_sleep", "test_secret", "test_either"],
            vec!["test_ask", "test_count", "test_ask_again"],
        ),
        (PARENT, vec!["test_echo", "test_sleep"], vec!["test_secret", "test_ask"]),
        (
            CHILD,
            vec!["test_echo", "test_ask"],
            vec!["test_sleep", "test_secret", "test_ask_again", "test_ask_end"],
        ),
    ] {
        let (mut client, info) = McpClient::begin(&server, token).await;
        assert_eq!(info["instructions"], "Echo first.");
        assert_eq!(info["serverInfo"]["name"], "plexus");
        let tools = client.ask("tools/list", json!({})).await;
        let names = names(&tools);
        assert!(seen.iter().all(|name| names.contains(name)), "{token}: {names:?}");
        assert!(!hidden.iter().any(|name| names.contains(name)), "{token}: {names:?}");
    }
}

#[tokio::test]
async fn a_request_without_an_id_is_refused_and_one_with_a_number_is_answered() {
    let server = Server::start(&Arc::default()).await;
    let (client, _) = McpClient::begin(&server, PARENT).await;
    let params = json!({"name": "test_echo", "arguments": {"text": "a"}});
    for id in [json!(7), json!("seven")] {
        let call = json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params});
        let answer = Events::of(client.post(&call).await).answer().await;
        let text = &answer["result"]["structuredContent"]["text"];
        assert_eq!((&answer["id"], text), (&id, &json!("a")), "{answer}");
    }
    for call in [
        json!({"jsonrpc": "2.0", "method": "tools/call", "params": params}),
        json!({"jsonrpc": "2.0", "id": null, "method": "tools/call", "params": params}),
    ] {
        let refused = client.post(&call).await;
        assert_eq!(refused.status(), StatusCode::BAD_REQUEST, "{call}");
        let body: Value = refused.json().await.unwrap();
        assert_eq!(body["error"]["code"], -32600, "{body}");
        assert!(body["error"]["message"].as_str().unwrap().contains("needs an id"), "{body}");
    }
}

#[tokio::test]
async fn a_tool_says_what_it_is() {
    let server = Server::start(&Arc::default()).await;
    let (mut client, _) = McpClient::begin(&server, OPERATOR).await;
    let tools = client.every_tool().await;
    let echo = tools.iter().find(|tool| tool["name"] == "test_echo").unwrap();
    assert_eq!(echo["description"], "Says what it was told.");
    assert_eq!(echo["inputSchema"]["required"], json!(["text"]));
    assert_eq!(echo["outputSchema"]["type"], "object");
    assert_eq!(echo["annotations"]["readOnlyHint"], true);
    assert_eq!(echo["annotations"]["destructiveHint"], false);
}

#[tokio::test]
async fn the_short_list_names_an_activation_of_others_and_leaves_its_output_schema_out() {
    let server = Server::start(&Arc::default()).await;
    let (mut client, _) = McpClient::begin(&server, PARENT).await;
    let tools = client.ask("tools/list", json!({})).await;
    let names = names(&tools);
    assert!(names.contains(&"test_echo") && names.contains(&"plexus_call"), "{names:?}");
    assert!(!names.contains(&"plexus_version"), "{names:?}");
    let tools = tools["result"]["tools"].as_array().unwrap();
    let echo = tools.iter().find(|tool| tool["name"] == "test_echo").unwrap();
    assert!(echo.get("outputSchema").is_none(), "{echo}");
    let relayed = json!({"method": "test.echo", "params": {"text": "a"}});
    let result = client.call("plexus_call", relayed).await;
    assert_eq!(result["structuredContent"]["text"], "a", "{result}");
}

#[tokio::test]
async fn a_handle_is_taken_as_an_object_or_as_its_text() {
    let server = Server::start(&Arc::default()).await;
    let (mut client, _) = McpClient::begin(&server, OPERATOR).await;
    let tools = client.every_tool().await;
    let tool = tools.iter().find(|tool| tool["name"] == "plexus_resolve_handle").unwrap();
    let forms = tool["inputSchema"]["$defs"]["Handle"]["anyOf"].as_array().unwrap();
    let kinds: Vec<&Value> = forms.iter().map(|form| &form["type"]).collect();
    assert_eq!(kinds, [&json!("object"), &json!("string")]);
    let id = "2521206c-8130-5001-93af-ced7d73e8917";
    let object = json!({"plugin_id": id, "version": "1.0.0", "method": "kind", "meta": ["a", "b"]});
    for (handle, kind) in [
        // The handle is valid, but nothing here owns it.
        (object, "not_found"),
        (json!(format!("{id}@1.0.0::kind:a:b")), "not_found"),
        (json!("no handle"), "invalid"),
    ] {
        let result = client.call("plexus_resolve_handle", json!({"handle": handle})).await;
        let text = result["content"][0]["text"].as_str().unwrap();
        let error: Value = serde_json::from_str(text).unwrap();
        assert_eq!(error["kind"], kind, "{handle}: {error}");
    }
}

#[tokio::test]
async fn an_ordinary_result_is_text_and_structured_and_a_failure_is_an_error_result() {
    let server = Server::start(&Arc::default()).await;
    let (mut client, _) = McpClient::begin(&server, OPERATOR).await;
    let result = client.call("test_echo", json!({"text": "ü"})).await;
    let expected = json!({"text": "ü", "caller": "Operator"});
    assert_eq!(result["structuredContent"], expected);
    let text = result["content"][0]["text"].as_str().unwrap();
    assert_eq!(serde_json::from_str::<Value>(text).unwrap(), expected);

    for (arguments, kind) in [
        (json!({"text": "fail"}), "conflict"),
        (json!({"text": "a", "more": 1}), "invalid"),
        (json!({}), "invalid"),
    ] {
        let result = client.call("test_echo", arguments).await;
        assert_eq!(result["isError"], true);
        let error: Value =
            serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(error["kind"], kind, "{error}");
        assert!(result.get("structuredContent").is_none());
    }
}

#[tokio::test]
async fn a_tool_that_is_not_for_the_caller_is_forbidden_and_an_unknown_one_is_an_error() {
    let server = Server::start(&Arc::default()).await;
    let (mut client, _) = McpClient::begin(&server, CHILD).await;
    let result = client.call("test_secret", json!({"text": "a"})).await;
    assert!(result["content"][0]["text"].as_str().unwrap().contains("forbidden"), "{result}");
    for name in ["test_nothing", "test_ask_again", "test_count", "echo", ""] {
        let answer = client.ask("tools/call", json!({"name": name, "arguments": {}})).await;
        assert_eq!(answer["error"]["code"], -32602, "{name}: {answer}");
    }
    let answer = client.ask("no/such/method", json!({})).await;
    assert_eq!(answer["error"]["code"], -32601, "{answer}");
}

#[tokio::test]
async fn a_session_exists_only_for_the_caller_that_began_it() {
    let server = Server::start(&Arc::default()).await;
    let (client, _) = McpClient::begin(&server, PARENT).await;
    let mut thief = McpClient::new(&server, OPERATOR);
    thief.session = client.session.clone();
    let ping = json!({"jsonrpc": "2.0", "id": 9, "method": "ping"});
    assert_eq!(thief.post(&ping).await.status(), StatusCode::NOT_FOUND);
    assert_eq!(thief.get(None).await.status(), StatusCode::NOT_FOUND);
    let delete = server
        .http
        .delete(server.url("/mcp"))
        .bearer_auth(OPERATOR)
        .header("mcp-session-id", client.session.as_ref().unwrap());
    assert_eq!(delete.send().await.unwrap().status(), StatusCode::NOT_FOUND);
    assert_eq!(client.post(&ping).await.status(), StatusCode::OK);

    let delete = server
        .http
        .delete(server.url("/mcp"))
        .bearer_auth(PARENT)
        .header("mcp-session-id", client.session.as_ref().unwrap());
    assert_eq!(delete.send().await.unwrap().status(), StatusCode::NO_CONTENT);
    assert_eq!(client.post(&ping).await.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn an_unknown_session_is_404_and_no_session_is_400() {
    let server = Server::start(&Arc::default()).await;
    let mut client = McpClient::new(&server, CHILD);
    let ask = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "test_ask", "arguments": {"key": "k"}}});
    let list = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/list"});
    assert_eq!(client.post(&list).await.status(), StatusCode::BAD_REQUEST);
    client.session = Some("6a5c0000-0000-4000-8000-000000000000".into());
    for message in [&ask, &list] {
        assert_eq!(client.post(message).await.status(), StatusCode::NOT_FOUND);
    }
    assert_eq!(client.get(None).await.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn idle_sessions_go_and_one_more_pushes_out_the_oldest_idle_one() {
    let limits = Limits { mcp_sessions: 2, ..Limits::default() };
    let server = Server::with(&Arc::default(), limits).await;
    let ping = json!({"jsonrpc": "2.0", "id": 9, "method": "ping"});
    let (first, _) = McpClient::begin(&server, PARENT).await;
    let (second, _) = McpClient::begin(&server, PARENT).await;
    // An open stream keeps the older session in use.
    let stream = first.get(None).await;
    assert_eq!(stream.status(), StatusCode::OK);
    let (third, _) = McpClient::begin(&server, OPERATOR).await;
    assert_eq!(second.post(&ping).await.status(), StatusCode::NOT_FOUND);
    assert_eq!(first.post(&ping).await.status(), StatusCode::OK);
    let also = third.get(None).await;
    assert_eq!(also.status(), StatusCode::OK);
    let refused = McpClient::new(&server, PARENT)
        .post(&json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}}}))
        .await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refused.headers()["retry-after"], "1");
    assert_eq!(server.doors.stats().mcp_sessions, 2);
    drop((stream, also));

    let limits = Limits { mcp_idle: Duration::from_secs(1), ..Limits::default() };
    let server = Server::with(&Arc::default(), limits).await;
    // Only its first request: a second one might already come after the end.
    let mut idle = McpClient::new(&server, PARENT);
    idle.initialize().await;
    until("the end of the idle session", || server.doors.stats().mcp_sessions == 0).await;
    assert_eq!(idle.post(&ping).await.status(), StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn the_sessions_of_a_child_end_with_its_token() {
    let state = Arc::<HubState>::default();
    let limits = Limits { token_check: Duration::from_millis(100), ..Limits::default() };
    let server = Server::with(&state, limits).await;
    let _of_the_child = McpClient::begin(&server, CHILD).await;
    let (of_the_parent, _) = McpClient::begin(&server, PARENT).await;
    assert_eq!(server.doors.stats().mcp_sessions, 2);
    state.revoked.lock().unwrap().push(CHILD.to_owned());
    until("the end of the child's session", || server.doors.stats().mcp_sessions == 1).await;
    let ping = json!({"jsonrpc": "2.0", "id": 9, "method": "ping"});
    assert_eq!(of_the_parent.post(&ping).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn a_cancelled_call_drops_its_work() {
    let state = Arc::<HubState>::default();
    let server = Server::start(&state).await;
    let (client, _) = McpClient::begin(&server, OPERATOR).await;
    let sleep = json!({"jsonrpc": "2.0", "id": 77, "method": "tools/call", "params": {"name": "test_sleep", "arguments": {"ms": 600_000}}});
    let open = client.post(&sleep).await;
    until("the work", || state.working() == 1).await;
    let cancel =
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 77}});
    assert_eq!(client.post(&cancel).await.status(), StatusCode::ACCEPTED);
    until("the end of the work", || state.working() == 0).await;
    drop(open);
}

#[tokio::test]
async fn a_long_call_tells_of_its_progress() {
    let state = Arc::<HubState>::default();
    let server = Server::start(&state).await;
    let (client, _) = McpClient::begin(&server, OPERATOR).await;
    let sleep = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {
        "name": "test_sleep", "arguments": {"ms": 60_000}, "_meta": {"progressToken": "tok"}}});
    let mut events = Events::of(client.post(&sleep).await);
    let progress = loop {
        let event = soon("progress", events.next()).await.unwrap();
        if !event.data.is_empty() {
            break serde_json::from_str::<Value>(&event.data).unwrap();
        }
    };
    assert_eq!(progress["method"], "notifications/progress");
    assert_eq!(
        (&progress["params"]["progressToken"], &progress["params"]["message"]),
        (&json!("tok"), &json!("asleep"))
    );
}

#[tokio::test]
async fn the_newest_protocol_needs_no_session_and_answers_at_once() {
    let state = Arc::<HubState>::default();
    let server = Server::start(&state).await;
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "0"},
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let post = |token: &str, method: &str, message: &Value| {
        let request = server.http.post(server.url("/mcp")).bearer_auth(token).json(message);
        let request = request.header("accept", "application/json, text/event-stream");
        request.header("mcp-protocol-version", "2026-07-28").header("mcp-method", method.to_owned())
    };
    let discover =
        json!({"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": meta}});
    let answer = post(OPERATOR, "server/discover", &discover).send().await.unwrap();
    assert_eq!(answer.status(), StatusCode::OK);
    let refused = post(CHILD, "server/discover", &discover).send().await.unwrap();
    assert_eq!(
        refused.status(),
        StatusCode::NOT_FOUND,
        "a caller with resumable calls is led to a protocol that resumes"
    );

    let mut with_token = meta.clone();
    with_token["progressToken"] = json!(5);
    let sleep = json!({"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {
        "name": "test_sleep", "arguments": {"ms": 600_000}, "_meta": with_token}});
    let response = soon(
        "headers",
        post(OPERATOR, "tools/call", &sleep).header("mcp-name", "test_sleep").send(),
    )
    .await
    .unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    until("the work", || state.working() == 1).await;
    drop(response);
    until("the end of the work after the disconnect", || state.working() == 0).await;
}

#[tokio::test]
async fn a_malformed_message_is_a_bad_request() {
    let server = Server::start(&Arc::default()).await;
    let (client, _) = McpClient::begin(&server, OPERATOR).await;
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{{"name":"test_echo","arguments":{{"text":{}1{}}}}}}}"#,
        "[".repeat(100_000),
        "]".repeat(100_000)
    );
    for body in
        ["", "{", "[]", "null", "{}", r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, &deep]
    {
        let response = client.post_text(body.to_owned()).await;
        assert_eq!(response.status(), StatusCode::BAD_REQUEST, "{}", &body[..body.len().min(50)]);
    }
    assert_eq!(
        client.post(&json!({"jsonrpc": "2.0", "id": 2, "method": "ping"})).await.status(),
        StatusCode::OK
    );
}
