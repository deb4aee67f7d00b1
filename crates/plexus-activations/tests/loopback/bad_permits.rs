//! Malformed permission requests over MCP, to a real server: each is a denial whose reason a model
//! can read, or refused before it is a request at all; nothing is left waiting.

use serde_json::{Value, json};
use testkit::server::TestServer;

use crate::childless_hub::within;
use crate::common::DEADLINE;
use crate::http::{child_token, create};

/// A child's MCP session, written by hand.
struct Client {
    server: TestServer,
    http: reqwest::Client,
    token: String,
    session: Option<String>,
    _folder: tempfile::TempDir,
}

impl Client {
    async fn begin() -> Self {
        let server = TestServer::start().await.unwrap();
        let folder = tempfile::tempdir().unwrap();
        let asker = create(&server, folder.path(), "asker", json!({"channel": "mcp"})).await;
        let token = child_token(&server, &asker).await;
        let http = reqwest::Client::builder().no_proxy().build().unwrap();
        let mut client = Self { server, http, token, session: None, _folder: folder };
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}});
        let begin = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
        let response = client.post(begin.to_string().into_bytes()).await;
        client.session = Some(response.headers()["mcp-session-id"].to_str().unwrap().to_owned());
        client
            .post(
                json!({"jsonrpc": "2.0", "method": "notifications/initialized"})
                    .to_string()
                    .into_bytes(),
            )
            .await;
        client
    }

    async fn post(&self, body: Vec<u8>) -> reqwest::Response {
        let request =
            self.http.post(format!("{}/mcp", self.server.url().unwrap())).bearer_auth(&self.token);
        let mut request = request.header("accept", "application/json, text/event-stream");
        if let Some(session) = &self.session {
            request = request
                .header("mcp-session-id", session)
                .header("mcp-protocol-version", "2025-11-25");
        }
        within("an answer", request.header("content-type", "application/json").body(body).send())
            .await
            .unwrap()
    }

    /// Calls a tool with these arguments, as they are written, and returns the status and the whole
    /// answer.
    async fn call(&self, tool: &str, arguments: &[u8]) -> (u16, Value) {
        let head = format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"{tool}","arguments":"#
        );
        let response = self.post([head.as_bytes(), arguments, b"}}"].concat()).await;
        let status = response.status().as_u16();
        let text = tokio::time::timeout(DEADLINE, response.text())
            .await
            .expect("the answer's end")
            .unwrap();
        let data = text
            .lines()
            .rev()
            .find_map(|line| line.strip_prefix("data:").filter(|data| !data.trim().is_empty()));
        (status, serde_json::from_str(data.unwrap_or(&text)).unwrap_or(Value::Null))
    }

    /// Asks for permission in a way that cannot be taken, and returns why it was denied.
    async fn denied(&self, arguments: &[u8]) -> String {
        let (status, answer) = self.call("loopback_permit", arguments).await;
        let result = &answer["result"];
        assert_eq!(
            (status, result["content"].as_array().map(Vec::len)),
            (200, Some(1)),
            "{answer:.300}"
        );
        assert_ne!(result["isError"], true, "{answer:.300}");
        assert!(result.get("structuredContent").is_none_or(Value::is_null), "{answer:.300}");
        let told: Value =
            serde_json::from_str(result["content"][0]["text"].as_str().unwrap()).unwrap();
        assert_eq!(told["behavior"], "deny", "{told:.300}");
        told["message"].as_str().unwrap().to_owned()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_permit_is_denied_in_words_and_nothing_waits() {
    let client = Client::begin().await;
    let deep = format!(
        r#"{{"tool_name":"Bash","tool_use_id":"t","input":{{"command":{}{}}}}}"#,
        "[".repeat(2_000),
        "]".repeat(2_000)
    );
    let cases: [(&[u8], &str); 13] = [
        (b"{}", "tool_name"),
        (br#"{"tool_name":"Bash"}"#, "input"),
        (br#"{"tool_name":"Bash","input":{}}"#, "tool_use_id"),
        (br#"{"tool_name":1,"input":{},"tool_use_id":"t"}"#, "string"),
        (br#"{"tool_name":"Bash","input":{},"tool_use_id":7}"#, "string"),
        (br#"{"tool_name":"Bash","input":{},"tool_use_id":null}"#, "string"),
        (br#"{"tool_name":"Bash","input":"ls","tool_use_id":"t"}"#, "map"),
        (br#"{"tool_name":"Bash","input":[],"tool_use_id":"t"}"#, "map"),
        (br#"{"tool_name":"Bash","input":null,"tool_use_id":"t"}"#, "map"),
        (br#"{"tool_name":"","input":{},"tool_use_id":"t"}"#, "tool_name"),
        (br#"{"tool_name":"Bash","input":{},"tool_use_id":""}"#, "tool_use_id"),
        (b"[]", ""),
        (deep.as_bytes(), ""),
    ];
    for (arguments, why) in cases {
        let shown = String::from_utf8_lossy(&arguments[..arguments.len().min(100)]);
        let words = client.denied(arguments).await;
        assert!(words.len() > 20 && words.contains(why), "{shown}: {words}");
    }
    let long =
        format!(r#"{{"tool_name":"{}","input":{{}},"tool_use_id":"t"}}"#, "x".repeat(2_000_000));
    client.denied(long.as_bytes()).await;
    assert_eq!(
        client.server.call("loopback.pending", json!({})).await.unwrap()["approvals"],
        json!([])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_call_of_the_permission_tool_is_refused_and_nothing_waits() {
    let client = Client::begin().await;
    // Not UTF-8, not JSON, larger than a request may be, and another tool than there is.
    let (status, _) = client.call("loopback_permit", b"{\"tool_name\":\"\xff\xfe\"}").await;
    assert_eq!(status, 400);
    let (status, _) = client.call("loopback_permit", b"{").await;
    assert_eq!(status, 400);
    let huge = format!(
        r#"{{"tool_name":"Bash","tool_use_id":"t","input":{{"command":"{}"}}}}"#,
        "x".repeat(17 * 1024 * 1024)
    );
    let (status, _) = client.call("loopback_permit", huge.as_bytes()).await;
    assert_eq!(status, 413);
    for tool in
        ["loopback_permits", "", "loopback.permit.x", "claudecode_create", "loopback_respond"]
    {
        let (_, answer) =
            client.call(tool, br#"{"tool_name":"Bash","input":{},"tool_use_id":"t"}"#).await;
        let refused = answer.get("error").is_some() || answer["result"]["isError"] == true;
        assert!(refused, "{tool}: {answer:.300}");
    }
    assert_eq!(
        client.server.call("loopback.pending", json!({})).await.unwrap()["approvals"],
        json!([])
    );
    // The session is none the worse for it.
    assert!(client.denied(b"{}").await.contains("tool_name"));
}
