//! A small MCP server over HTTP with a permit tool, written by hand so that a test controls exactly
//! what goes over the wire.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::thread;

use serde_json::{Value, json};

/// How the server answers a tool call.
pub(crate) enum Reply {
    /// The result of the call, as JSON.
    Result(Value),
    /// A JSON-RPC error.
    Error(&'static str),
    /// The whole HTTP response, written unchanged; then the connection is closed.
    Raw(String),
    /// No response until the client disconnects.
    Never,
}

type Decide = dyn Fn(&Call) -> Reply + Send + Sync;

/// One HTTP request to the server.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) http_method: String,
    /// Header names in lower case.
    pub(crate) headers: Vec<(String, String)>,
    /// The JSON-RPC message; null for a GET.
    pub(crate) message: Value,
}

impl Call {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn tool(&self) -> &str {
        self.message["params"]["name"].as_str().unwrap_or_default()
    }

    pub(crate) fn arguments(&self) -> &Value {
        &self.message["params"]["arguments"]
    }
}

/// A running server. Its threads end with the test process.
pub(crate) struct PermitServer {
    port: u16,
    calls: Arc<Mutex<Vec<Call>>>,
}

impl PermitServer {
    /// Starts a server that answers tool calls as `decide` says. `GET` requests are passed to it
    /// too, without a message.
    pub(crate) fn start(decide: impl Fn(&Call) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_with("", decide)
    }

    fn start_with(
        headers: &'static str,
        decide: impl Fn(&Call) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let calls = Arc::new(Mutex::new(Vec::new()));
        let (seen, decide) = (Arc::clone(&calls), Arc::new(decide));
        thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                let (seen, decide) = (Arc::clone(&seen), Arc::clone(&decide));
                thread::spawn(move || serve(connection, headers, &seen, &*decide));
            }
        });
        Self { port, calls }
    }

    /// The same with a session id, for a server that can forget a session.
    pub(crate) fn with_session(decide: impl Fn(&Call) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_with("Mcp-Session-Id: s\r\n", decide)
    }

    /// Starts a server whose permit tool always returns one text.
    pub(crate) fn saying(text: impl Fn(&Value) -> String + Send + Sync + 'static) -> Self {
        Self::start(move |call| Reply::Result(text_result(&text(call.arguments()))))
    }

    /// Starts a server that allows every call with its original input.
    pub(crate) fn allowing() -> Self {
        Self::saying(|asked| {
            json!({"behavior": "allow", "updatedInput": asked["input"]}).to_string()
        })
    }

    /// Returns the value of `--mcp-config`.
    pub(crate) fn config(&self) -> String {
        json!({"mcpServers": {"plexus": {
            "type": "http", "url": format!("http://127.0.0.1:{}/mcp", self.port),
            "headers": {"Authorization": "Bearer ${SIM_TEST_TOKEN}"},
        }}})
        .to_string()
    }

    /// Returns the tool calls so far.
    pub(crate) fn tool_calls(&self) -> Vec<Call> {
        let calls = self.calls.lock().unwrap();
        calls.iter().filter(|call| call.message["method"] == "tools/call").cloned().collect()
    }

    pub(crate) fn all_calls(&self) -> Vec<Call> {
        self.calls.lock().unwrap().clone()
    }
}

/// Returns the flags of the MCP channel.
pub(crate) fn permit_flags(config: &str) -> [&str; 5] {
    [
        "--strict-mcp-config",
        "--mcp-config",
        config,
        "--permission-prompt-tool",
        "mcp__plexus__loopback_permit",
    ]
}

pub(crate) fn text_result(text: &str) -> Value {
    json!({"content": [{"type": "text", "text": text}]})
}

fn serve(connection: TcpStream, headers: &str, seen: &Mutex<Vec<Call>>, decide: &Decide) {
    let mut writer = connection.try_clone().unwrap();
    let mut reader = BufReader::new(connection);
    while let Some(call) = read_call(&mut reader) {
        seen.lock().unwrap().push(call.clone());
        let id = &call.message["id"];
        let reply = match call.message["method"].as_str() {
            Some("initialize") => Reply::Result(json!({
                "protocolVersion": "2025-11-25", "capabilities": {"tools": {}},
                "serverInfo": {"name": "permit", "version": "1"},
            })),
            Some("tools/list") => Reply::Result(json!({"tools": [
                {"name": "loopback.permit", "inputSchema": {"type": "object"}},
                {"name": "status", "inputSchema": {"type": "object"}},
            ]})),
            Some("tools/call") | None => decide(&call),
            Some(method) if method.starts_with("notifications/") => Reply::Result(Value::Null),
            Some(_) => Reply::Error("method not found"),
        };
        let body = match reply {
            Reply::Result(result) => json!({"jsonrpc": "2.0", "id": id, "result": result}),
            Reply::Error(message) => {
                json!({"jsonrpc": "2.0", "id": id, "error": {"code": -32601, "message": message}})
            }
            Reply::Raw(text) => {
                let _ = writer.write_all(text.as_bytes());
                return;
            }
            Reply::Never => {
                // The client closes the connection when it gives up.
                let _ = reader.read(&mut [0]);
                return;
            }
        }
        .to_string();
        let response = if id.is_null() {
            "HTTP/1.1 202 Accepted\r\nContent-Length: 0\r\n\r\n".to_owned()
        } else {
            let length = body.len();
            format!(
                "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
            )
        };
        if writer.write_all(response.as_bytes()).is_err() {
            return;
        }
    }
}

fn read_call(reader: &mut BufReader<TcpStream>) -> Option<Call> {
    let mut line = String::new();
    reader.read_line(&mut line).ok().filter(|read| *read > 0)?;
    let http_method = line.split(' ').next()?.to_owned();
    let mut headers = Vec::new();
    loop {
        line.clear();
        reader.read_line(&mut line).ok()?;
        let Some((name, value)) = line.trim_end().split_once(':') else { break };
        headers.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut call = Call { http_method, headers, message: Value::Null };
    if let Some(length) = call.header("content-length").and_then(|length| length.parse().ok()) {
        let mut body = vec![0; length];
        reader.read_exact(&mut body).ok()?;
        call.message = serde_json::from_slice(&body).unwrap_or(Value::Null);
    }
    Some(call)
}
