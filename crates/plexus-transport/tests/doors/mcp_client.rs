//! An MCP client written by hand, because a test of the door should show the wire format.

use futures::StreamExt;
use reqwest::{Response, StatusCode};
use serde_json::{Value, json};

use crate::support::{Server, soon};

pub(crate) struct McpClient<'a> {
    pub(crate) server: &'a Server,
    pub(crate) token: &'a str,
    pub(crate) session: Option<String>,
    next: u64,
}

impl<'a> McpClient<'a> {
    /// Returns a client before its first message.
    pub(crate) fn new(server: &'a Server, token: &'a str) -> Self {
        Self { server, token, session: None, next: 1 }
    }

    /// Returns a client with a session.
    pub(crate) async fn begin(server: &'a Server, token: &'a str) -> (Self, Value) {
        let mut client = Self::new(server, token);
        let answer = client.initialize().await;
        let initialized =
            client.post(&json!({"jsonrpc": "2.0", "method": "notifications/initialized"})).await;
        assert_eq!(initialized.status(), StatusCode::ACCEPTED);
        (client, answer["result"].clone())
    }

    /// Sends only the first request, which begins the session.
    pub(crate) async fn initialize(&mut self) -> Value {
        let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "0"}});
        let initialize = self.request("initialize", params);
        let response = self.post(&initialize).await;
        assert_eq!(response.status(), StatusCode::OK);
        self.session = Some(response.headers()["mcp-session-id"].to_str().unwrap().to_owned());
        Events::of(response).answer().await
    }

    fn request(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        json!({"jsonrpc": "2.0", "id": self.next, "method": method, "params": params})
    }

    pub(crate) async fn post(&self, message: &Value) -> Response {
        self.post_text(message.to_string()).await
    }

    pub(crate) async fn post_text(&self, text: String) -> Response {
        self.post_to("/mcp", text).await
    }

    async fn post_to(&self, path: &str, text: String) -> Response {
        let mut request =
            self.server.http.post(self.server.url(path)).bearer_auth(self.token).body(text);
        request = request
            .header("content-type", "application/json")
            .header("accept", "application/json, text/event-stream");
        if let Some(session) = &self.session {
            request = request
                .header("mcp-session-id", session)
                .header("mcp-protocol-version", "2025-11-25");
        }
        soon("the response", request.send()).await.unwrap()
    }

    pub(crate) async fn get(&self, last_event: Option<&str>) -> Response {
        let mut request = self.server.http.get(self.server.url("/mcp")).bearer_auth(self.token);
        request = request.header("accept", "text/event-stream");
        if let Some(session) = &self.session {
            request = request
                .header("mcp-session-id", session)
                .header("mcp-protocol-version", "2025-11-25");
        }
        if let Some(id) = last_event {
            request = request.header("last-event-id", id);
        }
        soon("the response", request.send()).await.unwrap()
    }

    /// Makes a request and returns its whole answer.
    pub(crate) async fn ask(&mut self, method: &str, params: Value) -> Value {
        let request = self.request(method, params);
        let response = self.post(&request).await;
        assert_eq!(response.status(), StatusCode::OK, "{request}");
        Events::of(response).answer().await
    }

    /// Lists every tool, not only those of the short list.
    pub(crate) async fn every_tool(&mut self) -> Vec<Value> {
        let request = self.request("tools/list", json!({}));
        let path = format!("/mcp?{}", plexus_transport::FULL_QUERY);
        let response = self.post_to(&path, request.to_string()).await;
        let answer = Events::of(response).answer().await;
        answer["result"]["tools"].as_array().unwrap().clone()
    }

    /// Calls a tool and returns its result.
    pub(crate) async fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let mut answer =
            self.ask("tools/call", json!({"name": tool, "arguments": arguments})).await;
        answer["result"].take()
    }
}

/// One event of an SSE stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Event {
    pub(crate) id: Option<String>,
    pub(crate) retry: Option<u64>,
    pub(crate) data: String,
}

/// The events of a response, as they come.
pub(crate) struct Events {
    chunks: futures::stream::BoxStream<'static, reqwest::Result<bytes::Bytes>>,
    buffer: String,
}

impl Events {
    pub(crate) fn of(response: Response) -> Self {
        assert!(
            response.headers()["content-type"].to_str().unwrap().starts_with("text/event-stream"),
            "{response:?}"
        );
        Self { chunks: response.bytes_stream().boxed(), buffer: String::new() }
    }

    /// Returns the next event that is not only a comment, or `None` at the end of the stream or
    /// connection.
    pub(crate) async fn next(&mut self) -> Option<Event> {
        loop {
            while let Some((text, rest)) = self.buffer.split_once("\n\n") {
                let mut event = Event::default();
                let mut is_comment = true;
                for line in text.lines() {
                    let (field, value) = line.split_once(':').unwrap_or((line, ""));
                    let value = value.strip_prefix(' ').unwrap_or(value);
                    is_comment &= field.is_empty();
                    match field {
                        "id" => event.id = Some(value.to_owned()),
                        "retry" => event.retry = value.parse().ok(),
                        "data" => event.data.push_str(value),
                        _ => {}
                    }
                }
                self.buffer = rest.to_owned();
                if !is_comment {
                    return Some(event);
                }
            }
            match soon("an event", self.chunks.next()).await {
                Some(Ok(chunk)) => self.buffer.push_str(std::str::from_utf8(&chunk).unwrap()),
                Some(Err(_)) | None => return None,
            }
        }
    }

    /// Returns the answer, which is the last event.
    pub(crate) async fn answer(mut self) -> Value {
        loop {
            let event = self.next().await.expect("an answer before the end of the stream");
            if event.data.is_empty() {
                continue;
            }
            let message: Value = serde_json::from_str(&event.data).unwrap();
            if message.get("id").is_some() {
                return message;
            }
        }
    }
}
