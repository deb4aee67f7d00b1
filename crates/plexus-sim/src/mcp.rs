//! The MCP servers of `--mcp-config`: connecting, listing their tools, and calling them with rmcp's
//! client.
//!
//! A connection is made at the start, and again whenever it is needed and lost. So a server that
//! starts late still works, and a lost one is reconnected. Some failures are left to the transport
//! to repair: a lost stream with event ids, and a session that the server no longer knows.

use std::collections::{BTreeMap, HashMap};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use http::{HeaderName, HeaderValue};
use rmcp::model::{
    CallToolRequest, CallToolRequestParams, ClientCapabilities, ClientConfig, ClientRequest,
    Implementation, MetaObject, ProtocolVersion, RequestMetaObject, ServerResult,
};
use rmcp::service::{ClientLifecycleMode, ClientServiceExt, PeerRequestOptions, RunningService};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::common::client_side_sse::FixedInterval;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{RoleClient, ServiceError};
use serde::Deserialize;
use serde_json::{Map, Value};
use tokio::sync::{Mutex, OnceCell};

use crate::wire::{McpServerStatus, VERSION};

/// How long the first turn waits for servers that do not answer; its `init` then lists them as
/// `pending`.
const PATIENCE_AT_START: Duration = Duration::from_secs(5);
/// The timeout of a silent call over HTTP whose server entry sets no limit; progress resets it.
const SILENT_CALL_LIMIT: Duration = Duration::from_secs(300);
/// How many times a lost stream is reconnected before its call is given up, as in the CLI.
const RECONNECTS: usize = 2;
/// The pause before the second reconnect. The CLI pauses as long as the server asked for, which is
/// this for ours; rmcp forgets that interval after the first reconnect.
const SECOND_LOOK: Duration = Duration::from_secs(15);

type Connection = RunningService<RoleClient, ClientConfig>;

/// All servers of the configuration.
#[derive(Default)]
pub(crate) struct Servers {
    servers: BTreeMap<String, Server>,
    started: OnceCell<()>,
}

struct Server {
    entry: Entry,
    connection: Mutex<Option<Arc<Live>>>,
    status: std::cell::Cell<&'static str>,
}

struct Live {
    connection: Connection,
    /// Names of the tools as the server gives them.
    tools: Vec<String>,
    /// A stdio server's process; it ends with the connection.
    _process: Option<tokio::process::Child>,
}

#[derive(Deserialize)]
struct ConfigFile {
    #[serde(default, rename = "mcpServers")]
    servers: BTreeMap<String, Entry>,
}

/// One server entry of the configuration.
#[derive(Deserialize, Clone, Debug, Default)]
#[serde(default)]
struct Entry {
    r#type: Option<String>,
    url: Option<String>,
    headers: BTreeMap<String, String>,
    command: Option<String>,
    args: Vec<String>,
    env: BTreeMap<String, String>,
    /// Milliseconds; a hard limit for each call.
    timeout: Option<u64>,
}

/// An unusable `--mcp-config`.
#[derive(Debug, thiserror::Error)]
#[error("Error: Invalid MCP configuration:\n{0}")]
pub(crate) struct ConfigError(String);

/// Why a call got no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum CallError {
    /// No server has a tool of that name, or its server cannot be reached.
    #[error("no such tool; available are: {available}")]
    NoSuchTool { available: String },
    /// The call was made and failed.
    #[error("{0}")]
    Failed(String),
}

impl Servers {
    /// Reads the configuration, from files and inline JSON.
    pub(crate) fn new(configs: &[String]) -> Result<Self, ConfigError> {
        let mut servers = BTreeMap::new();
        for config in configs {
            let text = if config.trim_start().starts_with('{') {
                config.clone()
            } else {
                std::fs::read_to_string(config)
                    .map_err(|_| ConfigError(format!("MCP config file not found: {config}")))?
            };
            let file: ConfigFile =
                serde_json::from_str(&text).map_err(|error| ConfigError(error.to_string()))?;
            servers.extend(file.servers.into_iter().map(|(name, entry)| {
                let status = std::cell::Cell::new("pending");
                (name, Server { entry: entry.expanded(), connection: Mutex::default(), status })
            }));
        }
        Ok(Self { servers, started: OnceCell::new() })
    }

    /// Connects to all servers, once; later calls return at once.
    pub(crate) async fn start(&self) {
        let connect = || async {
            let all = self.servers.values().map(|server| async {
                // The status shows a failure; the first call tries again.
                let _ = tokio::time::timeout(PATIENCE_AT_START, server.live()).await;
            });
            futures::future::join_all(all).await;
        };
        self.started.get_or_init(connect).await;
    }

    pub(crate) fn status(&self) -> Vec<McpServerStatus> {
        let one = |(name, server): (&String, &Server)| McpServerStatus {
            name: name.clone(),
            status: server.status.get(),
            source: "dynamic",
        };
        self.servers.iter().map(one).collect()
    }

    /// Returns the tools of all connected servers, by the names that the model uses.
    pub(crate) async fn tools(&self) -> Vec<String> {
        let mut tools = Vec::new();
        for (name, server) in &self.servers {
            if let Some(live) = server.connection.lock().await.as_ref() {
                tools.extend(live.tools.iter().map(|tool| model_name(name, tool)));
            }
        }
        tools
    }

    /// Calls a tool by the name that the model uses, and returns the result as the server wrote it.
    pub(crate) async fn call(
        &self,
        name: &str,
        arguments: Map<String, Value>,
        tool_use_id: &str,
    ) -> Result<Value, CallError> {
        for (server_name, server) in &self.servers {
            if !name.starts_with(&model_name(server_name, "")) {
                continue;
            }
            let Ok(live) = server.live().await else { continue };
            if let Some(tool) = live.tools.iter().find(|tool| model_name(server_name, tool) == name)
            {
                return server.call(&live, tool.clone(), arguments, tool_use_id).await;
            }
        }
        Err(CallError::NoSuchTool { available: self.tools().await.join(", ") })
    }
}

impl Server {
    /// Returns the connection, and reconnects if it is lost.
    async fn live(&self) -> Result<Arc<Live>, String> {
        let mut slot = self.connection.lock().await;
        if let Some(live) = slot.as_ref().filter(|live| !live.connection.is_closed()) {
            return Ok(Arc::clone(live));
        }
        match self.entry.connect().await {
            Ok(live) => {
                self.status.set("connected");
                let live = Arc::new(live);
                *slot = Some(Arc::clone(&live));
                Ok(live)
            }
            Err(error) => {
                self.status.set("failed");
                *slot = None;
                Err(error)
            }
        }
    }

    async fn call(
        &self,
        live: &Live,
        tool: String,
        arguments: Map<String, Value>,
        tool_use_id: &str,
    ) -> Result<Value, CallError> {
        let params = CallToolRequestParams::new(tool).with_arguments(arguments);
        let mut meta = MetaObject::new();
        meta.insert("claudecode/toolUseId".to_owned(), Value::String(tool_use_id.to_owned()));
        let options = match self.entry.timeout {
            Some(millis) => PeerRequestOptions::with_timeout(Duration::from_millis(millis)),
            None if self.entry.url.is_some() => {
                PeerRequestOptions::with_timeout(SILENT_CALL_LIMIT).reset_timeout_on_progress()
            }
            None => PeerRequestOptions::no_options(),
        }
        .with_meta(RequestMetaObject(meta));
        let request = ClientRequest::CallToolRequest(CallToolRequest::new(params));
        let call = async {
            live.connection.send_request_with_option(request, options).await?.await_response().await
        };
        match call.await {
            Ok(ServerResult::CallToolResult(result)) => {
                serde_json::to_value(result).map_err(|error| CallError::Failed(error.to_string()))
            }
            Ok(_) => Err(CallError::Failed(
                "the server answered something else than a tool result".to_owned(),
            )),
            Err(ServiceError::McpError(error)) => {
                Err(CallError::Failed(error.message.into_owned()))
            }
            Err(error) => Err(CallError::Failed(error.to_string())),
        }
    }
}

impl Entry {
    fn expanded(mut self) -> Self {
        self.url = self.url.map(|url| expand(&url));
        self.command = self.command.map(|command| expand(&command));
        for text in self.headers.values_mut().chain(self.env.values_mut()).chain(&mut self.args) {
            *text = expand(text);
        }
        self
    }

    async fn connect(&self) -> Result<Live, String> {
        let info = ClientConfig::new(
            ClientCapabilities::default(),
            Implementation::new("claude-code", VERSION),
        )
        .with_protocol_version(ProtocolVersion::V_2025_11_25);
        // Like the CLI, try the newest protocol first, then fall back to `initialize`.
        let lifecycle = ClientLifecycleMode::Auto {
            preferred_versions: vec![ProtocolVersion::V_2026_07_28],
            legacy_version: Some(ProtocolVersion::V_2025_11_25),
        };
        let text = |error: rmcp::service::ClientInitializeError| error.to_string();
        let (connection, process) = match (&self.url, &self.command) {
            (Some(url), _) => {
                let transport = StreamableHttpClientTransport::with_client(
                    http_client()?,
                    self.http_config(url)?,
                );
                (info.serve_with_lifecycle(transport, lifecycle).await.map_err(text)?, None)
            }
            (None, Some(command)) => {
                let mut process = tokio::process::Command::new(command)
                    .args(&self.args)
                    .envs(&self.env)
                    .stdin(Stdio::piped())
                    .stdout(Stdio::piped())
                    .stderr(Stdio::inherit())
                    .kill_on_drop(true)
                    .spawn()
                    .map_err(|error| format!("could not start {command}: {error}"))?;
                let pipes = process
                    .stdout
                    .take()
                    .zip(process.stdin.take())
                    .ok_or("its pipes are missing")?;
                (info.serve_with_lifecycle(pipes, lifecycle).await.map_err(text)?, Some(process))
            }
            (None, None) => {
                return Err(format!(
                    "a server of type {:?} has neither url nor command",
                    self.r#type
                ));
            }
        };
        let tools = connection.list_all_tools().await.map_err(|error| error.to_string())?;
        let tools = tools.into_iter().map(|tool| tool.name.into_owned()).collect();
        Ok(Live { connection, tools, _process: process })
    }

    fn http_config(&self, url: &str) -> Result<StreamableHttpClientTransportConfig, String> {
        let mut headers = HashMap::new();
        for (name, value) in &self.headers {
            let name =
                HeaderName::try_from(name).map_err(|error| format!("header {name}: {error}"))?;
            let value =
                HeaderValue::try_from(value).map_err(|error| format!("header {name}: {error}"))?;
            headers.insert(name, value);
        }
        let mut retry = FixedInterval::default();
        retry.max_times = Some(RECONNECTS);
        retry.duration = SECOND_LOOK;
        let mut config = StreamableHttpClientTransportConfig::with_uri(url).custom_headers(headers);
        config.retry_config = Arc::new(retry);
        Ok(config)
    }
}

fn http_client() -> Result<reqwest::Client, String> {
    // Servers of a child are on loopback; a proxy from the environment would only learn their
    // tokens.
    reqwest::Client::builder().no_proxy().build().map_err(|error| error.to_string())
}

/// Returns the model's name for a tool: any unusual character becomes an underscore.
fn model_name(server: &str, tool: &str) -> String {
    let plain = |text: &str| -> String {
        text.chars()
            .map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '_' })
            .collect()
    };
    format!("mcp__{}__{}", plain(server), plain(tool))
}

/// Replaces `${NAME}` and `${NAME:-default}` with environment variables; a reference to an unset
/// one stays unchanged.
fn expand(text: &str) -> String {
    let mut expanded = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("${") {
        expanded.push_str(before);
        let Some((inside, tail)) = after.split_once('}') else {
            expanded.push_str("${");
            rest = after;
            continue;
        };
        let (name, default) =
            inside.split_once(":-").map_or((inside, None), |(name, text)| (name, Some(text)));
        match std::env::var(name).ok().or_else(|| default.map(str::to_owned)) {
            Some(value) => expanded.push_str(&value),
            None => expanded.push_str(&format!("${{{inside}}}")),
        }
        rest = tail;
    }
    expanded.push_str(rest);
    expanded
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dotted_tool_has_underscores_for_the_model() {
        assert_eq!(model_name("plexus", "loopback.permit"), "mcp__plexus__loopback_permit");
    }

    #[test]
    fn an_unset_variable_stays_as_it_is_written() {
        let path = std::env::var("PATH").unwrap();
        assert_eq!(
            expand("a ${PATH} ${PLEXUS_SIM_UNSET} ${PLEXUS_SIM_UNSET:-d} ${"),
            format!("a {path} ${{PLEXUS_SIM_UNSET}} d ${{")
        );
    }
}
