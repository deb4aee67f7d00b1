//! The process of `codex app-server`: its arguments, its home and the first lines that it reads.
//!
//! No shell is involved, and the prompt is never an argument. Files in the repository decide
//! nothing unless the session trusts them; [`codex_app::Launch`] has the switches.

use std::ffi::OsString;
use std::path::Path;

use codex_app::send::{
    AccountRead, Initialize, ThreadFork, ThreadOptions, ThreadResume, ThreadStart,
};
use codex_app::{ClientLine, ClientRequest, Trust};
use plexus_engine::driver::{
    AgentHome, Channel, Conversation, Launch, LaunchError, McpDoor, OutLine, Plan, Stdin,
};
use plexus_engine::mcp::HUB_SERVER;
use plexus_engine::session::SessionConfig;
use plexus_engine::wall::{ConfigDir, WallNeeds};
use plexus_wire::{AgentMcpServer, Confine, ProjectSettings, Supervise};
use serde_json::{Map, Value, json};

use super::CodexOptions;
use super::memory::Mode;
use super::write::{Ours, out};

/// The variable that holds the token of a child that supervises others. Its name contains `TOKEN`,
/// so Codex hides it from the commands that it runs.
const HUB_TOKEN: &str = "PLEXUS_HUB_TOKEN";

/// How long a call of a child to this server may take, in seconds: waiting for an event or an
/// answer may take a day.
const LONGEST_CALL_SECS: u64 = 24 * 3_600;

/// Notifications that nobody reads. Some are long and come many times a turn.
const UNWANTED: [&str; 7] = [
    "account/rateLimits/updated",
    "item/commandExecution/outputDelta",
    "item/fileChange/outputDelta",
    "item/reasoning/summaryTextDelta",
    "item/reasoning/textDelta",
    "thread/readState/changed",
    "turn/diff/updated",
];

/// The text of a message while it is written; unwanted where nobody watches live.
const LIVE_TEXT: &str = "item/agentMessage/delta";

/// Says what a wall around Codex must provide. Codex stores its login in a file, and its settings
/// name the server of its model, so no key can stay outside.
pub(super) fn wall() -> WallNeeds {
    WallNeeds {
        config: Some(ConfigDir {
            variable: "CODEX_HOME",
            in_home: ".codex",
            read: &["config.toml", "AGENTS.md"],
            logins: &["auth.json"],
            state: None,
            conversations: "sessions",
            // A rule or a hook in this directory would let commands run unasked.
            starts_anew: true,
            commands_read: &[],
        }),
        login_hosts: ["api.openai.com", "chatgpt.com", "auth.openai.com"].map(str::to_owned).into(),
        ..WallNeeds::default()
    }
}

/// Says what to start.
pub(super) fn plan(options: &CodexOptions, launch: &Launch<'_>) -> Result<Plan, LaunchError> {
    let config = launch.config;
    if launch.channel == Channel::Mcp {
        return Err(LaunchError("codex asks over its own protocol, not over MCP".to_owned()));
    }
    if !config.disallowed_tools.is_empty() {
        let why = "codex has no disallowed_tools; write rules instead";
        return Err(LaunchError(why.to_owned()));
    }
    let args = arguments(launch)?;
    let mut env: Vec<(OsString, OsString)> =
        vec![("CODEX_HOME".into(), options.home.clone().into_os_string())];
    if let Some(door) = &launch.hub_door {
        env.push((HUB_TOKEN.into(), door.token.expose().into()));
    }
    Ok(Plan {
        home: Some(home(options)?),
        args,
        env,
        stdin: Stdin::Lines(first_lines(launch)?),
        ..Plan::default()
    })
}

/// Returns what a session's child asks about.
pub(super) fn mode(config: &SessionConfig) -> Mode {
    match (config.loopback_enabled, config.supervise, config.confine) {
        (false, _, Confine::None) => Mode::Silent,
        (false, _, Confine::Workspace | Confine::Strict) => Mode::SilentlyWalled,
        (true, Supervise::All, _) => Mode::Strict,
        (true, Supervise::Default, Confine::None) => Mode::Sandboxed,
        (true, Supervise::Default, Confine::Workspace | Confine::Strict) => Mode::Walled,
    }
}

impl Mode {
    /// Returns the policy, the sandbox, and the sandbox's name when the agent reports its settings.
    ///
    /// `untrusted` goes with no sandbox: an allowed command that the sandbox stops would run a
    /// second time without it, unasked. Within a wall Codex's own sandbox is off too: it needs
    /// mounts, which a wall forbids, and the wall confines more.
    pub(super) fn settings(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Strict => ("untrusted", "danger-full-access", "dangerFullAccess"),
            Self::Sandboxed => ("on-request", "workspace-write", "workspaceWrite"),
            Self::Silent => ("never", "workspace-write", "workspaceWrite"),
            Self::Walled => ("on-request", "danger-full-access", "dangerFullAccess"),
            Self::SilentlyWalled => ("never", "danger-full-access", "dangerFullAccess"),
        }
    }
}

/// Returns the directory of Codex's settings, login and conversations. All children share it, and
/// it is not the user's own, whose rules, hooks and MCP servers must not count.
fn home(options: &CodexOptions) -> Result<AgentHome, LaunchError> {
    let first_run = codex_app::Launch::new(&options.home).arguments();
    Ok(AgentHome {
        dir: options.home.clone(),
        // Linked, never copied: Codex writes a refreshed login through the link, and refreshing a
        // copy would invalidate the user's own.
        links: options.login.iter().map(|login| ("auth.json".to_owned(), login.clone())).collect(),
        // A rule in this directory would let commands run unasked.
        empty: vec!["rules".to_owned()],
        // First starts in parallel corrupt each other's database.
        first_run: first_run.map_err(|error| LaunchError(error.to_string()))?,
        files: Vec::new(),
    })
}

fn arguments(launch: &Launch<'_>) -> Result<Vec<OsString>, LaunchError> {
    let trust = match launch.config.project_settings {
        ProjectSettings::Ignore | ProjectSettings::Instructions => Trust::Untrusted,
        ProjectSettings::Trust => Trust::Trusted,
    };
    let mut line = codex_app::Launch::new(&launch.config.working_dir).trust(trust);
    for dir in &launch.config.add_dirs {
        line = line.writable(dir);
    }
    if mode(launch.config) == Mode::Strict {
        // This tool reads any image file unasked.
        line = line.argument("--disable").argument("view_image");
    }
    if let Some(door) = &launch.hub_door {
        line = line.argument("-c").argument(hub(door));
    }
    line.arguments().map_err(|error| LaunchError(error.to_string()))
}

/// Configures this server as an MCP server of the child. Codex asks about every call of it.
fn hub(door: &McpDoor) -> String {
    let url = Value::from(format!("{}/mcp", door.url));
    format!(
        "mcp_servers.{HUB_SERVER}={{url={url},bearer_token_env_var=\"{HUB_TOKEN}\",\
         default_tools_approval_mode=\"prompt\",tool_timeout_sec={LONGEST_CALL_SECS},required=true}}"
    )
}

/// Writes the handshake. The agent takes all of it at once, and reports at the end whether the
/// thread is open.
fn first_lines(launch: &Launch<'_>) -> Result<Vec<OutLine>, LaunchError> {
    let mut unwanted = UNWANTED.to_vec();
    if !launch.live_text {
        unwanted.push(LIVE_TEXT);
    }
    let mut initialize = Initialize::new("plexus", env!("CARGO_PKG_VERSION"));
    initialize.capabilities = Some(json!({
        "experimentalApi": true,
        "optOutNotificationMethods": unwanted,
        // Without it, Codex refuses what a managed rule leaves to a person, and asks nobody.
        "requiredHumanApproval": true,
    }));
    let options = thread_options(launch)?;
    let thread = match &launch.conversation {
        Conversation::New => {
            ClientRequest::ThreadStart(ThreadStart { options, ..ThreadStart::default() })
        }
        Conversation::Resume(id) => ClientRequest::ThreadResume(ThreadResume {
            thread_id: id.clone(),
            exclude_turns: Some(true),
            options,
            ..ThreadResume::default()
        }),
        Conversation::Wake { .. } => {
            return Err(LaunchError("Codex cannot be parked, and so not woken".to_owned()));
        }
        Conversation::Fork { of, up_to } => ClientRequest::ThreadFork(ThreadFork {
            thread_id: of.clone(),
            last_turn_id: up_to.as_ref().map(ToString::to_string),
            exclude_turns: Some(true),
            options,
            ..ThreadFork::default()
        }),
    };
    Ok(vec![
        Ours::Initialize.line(ClientRequest::Initialize(initialize)),
        out(&ClientLine::initialized()),
        Ours::Account.line(ClientRequest::AccountRead(AccountRead::default())),
        Ours::Thread.line(thread),
    ])
}

fn thread_options(launch: &Launch<'_>) -> Result<ThreadOptions, LaunchError> {
    let config = launch.config;
    let (policy, sandbox, _) = mode(config).settings();
    Ok(ThreadOptions {
        cwd: Some(utf8(&config.working_dir)?),
        model: config.model.clone(),
        approval_policy: Some(json!(policy)),
        sandbox: Some(sandbox.to_owned()),
        approvals_reviewer: Some("user".to_owned()),
        developer_instructions: config.system_prompt.clone(),
        config: given_servers(config),
    })
}

/// Returns the MCP servers that the session was given, as settings of the thread: arguments would
/// show their secrets to every process of the machine. Codex asks about every call of them.
fn given_servers(config: &SessionConfig) -> Option<Map<String, Value>> {
    let servers = config.mcp_servers.iter().map(|(name, server)| {
        let mut settings = match server {
            AgentMcpServer::Stdio { command, args, env } => {
                json!({"command": command, "args": args, "env": env})
            }
            AgentMcpServer::Http { url, headers } => json!({"url": url, "http_headers": headers}),
        };
        settings["default_tools_approval_mode"] = json!("prompt");
        settings["tool_timeout_sec"] = json!(LONGEST_CALL_SECS);
        (name.clone(), settings)
    });
    let servers: Map<String, Value> = servers.collect();
    (!servers.is_empty()).then(|| Map::from_iter([("mcp_servers".to_owned(), servers.into())]))
}

fn utf8(path: &Path) -> Result<String, LaunchError> {
    let text = path.to_str().map(str::to_owned);
    text.ok_or_else(|| LaunchError(format!("the path {} is not UTF-8", path.display())))
}
