//! The permission server as an MCP client sees it.

#![expect(clippy::unwrap_used, reason = "a failed test is allowed to stop loudly")]

use serde_json::{Value, json};
use testkit::permit_server::{PermitAnswer, PermitServer};

async fn post(server: &PermitServer, message: &Value) -> reqwest::Response {
    let url = server.mcp_config()["mcpServers"]["plexus"]["url"].as_str().unwrap().to_owned();
    reqwest::Client::new().post(url).json(message).send().await.unwrap()
}

#[tokio::test]
async fn a_call_is_answered_with_one_text_block_of_bare_json() {
    let server = PermitServer::start(async |call| match call.tool_name.as_str() {
        "Bash" => PermitAnswer::Allow(call.input),
        _ => PermitAnswer::Deny("no".to_owned()),
    })
    .await
    .unwrap();
    let mut answers = Vec::new();
    for tool in ["Bash", "Write"] {
        let arguments = json!({"tool_name": tool, "input": {"a": 1}, "tool_use_id": "t"});
        let params = json!({"name": "loopback_permit", "arguments": arguments});
        let call = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params});
        let answer: Value = post(&server, &call).await.json().await.unwrap();
        assert_eq!(answer["result"].as_object().unwrap().len(), 1, "nothing beside the content");
        answers.push(answer["result"]["content"][0]["text"].as_str().unwrap().to_owned());
    }
    assert_eq!(
        answers,
        [r#"{"behavior":"allow","updatedInput":{"a":1}}"#, r#"{"behavior":"deny","message":"no"}"#]
    );
    assert_eq!(server.calls().len(), 2);
}

#[tokio::test]
async fn an_unknown_method_is_refused_so_that_the_client_falls_back() {
    let server = PermitServer::start(async |_| PermitAnswer::Never).await.unwrap();
    let discover = json!({"jsonrpc": "2.0", "id": 1, "method": "server/discover"});
    let answer: Value = post(&server, &discover).await.json().await.unwrap();
    assert_eq!(answer["error"]["code"], -32601);
    let notification = json!({"jsonrpc": "2.0", "method": "notifications/initialized"});
    assert_eq!(post(&server, &notification).await.status().as_u16(), 202);
}
