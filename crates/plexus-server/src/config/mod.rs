//! The server's configuration: flags over `PLEXUS_*` over `plexus.toml` over defaults.
//!
//! [`Config`] is the whole of it. Its serialised form is also the list of its keys, so a key that
//! is added here is at once a key of the file, a variable (`limits.body_bytes` is
//! `PLEXUS_LIMITS_BODY_BYTES`) and something that `--set` takes. `layers` puts them over each
//! other; `paths` knows where files are.

mod acp;
mod codex;
mod cone;
mod layers;
mod paths;
mod prices;
mod reach;
mod store_url;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use plexus_confine::Tier;
use plexus_confine::egress::HostPattern;
use plexus_engine::settings::{Prestart, Settings, ToolNames};
use plexus_engine::wall::WallSettings;
use plexus_store::Durability;
use plexus_wire::{ChannelChoice, Confine};
use serde::{Deserialize, Serialize};

pub use acp::AcpAgent;
pub use codex::CodexConfig;
pub use cone::ConeConfig;
pub use layers::{ConfigError, Sources, load};
use paths::user_config_file;
pub use plexus_notify::notify::Notify;
pub use plexus_notify::receiver::Webhook;
pub use prices::ModelPrice;
pub use reach::TlsConfig;
pub use store_url::StoreUrl;

use crate::wall::MachineWalls;

/// Everything that can be configured.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Where to listen; port 0 takes a free one.
    pub listen: String,
    /// Whether an address that other machines can reach may be listened on.
    pub allow_non_loopback: bool,
    /// More names under which this server may be reached, each `host` or `host:port`.
    pub allowed_hosts: Vec<String>,
    /// The address by which people elsewhere reach this server, for links and buttons in messages:
    /// `https://box.example`. Empty for where it listens.
    pub public_url: String,
    /// The encrypted listener, for other machines.
    pub tls: TlsConfig,
    /// The CLI that children run: a path, `sim` for the built-in simulator, or empty for `claude`
    /// from `PATH` and else the simulator.
    pub claude_bin: PathBuf,
    /// The CLI of Codex: a path, `sim` for the built-in simulator, or empty for `codex` from
    /// `PATH`. Where there is none, Codex counts as not installed.
    pub codex_bin: PathBuf,
    /// How permission requests travel when a session does not say.
    pub channel: ChannelChoice,
    /// How long a permission request waits when its session does not say, in seconds; 0 is for
    /// ever.
    pub approval_timeout_secs: u64,
    /// How long an agent waits for a decision before it is parked without a process, in seconds; 0
    /// never parks one.
    pub park_after_secs: u64,
    /// Whether children write partial messages, for live text.
    pub live_deltas: bool,
    /// Under which names MCP lists the methods of sessions: `agents`, or `claudecode`, their older
    /// name. Both can be called.
    pub tool_names: ToolNames,
    /// `full`: every commit survives power loss; `normal`: it survives the death of the server.
    pub sync: Sync,
    /// What is logged, as `tracing` filters say it: `info`, `plexus_activations=debug`, …
    pub log: String,
    /// How it is written.
    pub log_format: LogFormat,
    /// Traces and logs for a collector.
    pub otel: Otel,
    /// Records that ended more than this many days ago are pruned, once a day; 0 keeps everything.
    pub prune_after_days: u64,
    /// Programs outside that are told what happens.
    pub webhooks: Vec<Webhook>,
    /// Services outside that show people what happens.
    pub notify: Vec<Notify>,
    /// The wall around children.
    pub confine: ConfineConfig,
    /// Every bound.
    pub limits: Limits,
    /// Idle children that wait for the next prompt.
    pub warm: Warm,
    /// What is configured of Codex.
    pub codex: CodexConfig,
    /// Conversations with a model itself.
    pub cone: ConeConfig,
    /// Agents of the Agent Client Protocol, by their names: the program of a known one, or the
    /// whole profile of another.
    pub agents: BTreeMap<String, toml::Table>,
    /// Where everything durable is.
    pub store: StoreConfig,
    /// This server among others that share its store.
    pub node: Node,
}

/// The wall around children.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ConfineConfig {
    /// The profile of a session that names none, where this machine can build it.
    pub profile: Confine,
    /// The mechanisms that must hold: `full`, `landlock`, or `auto` for the best of this machine.
    pub tier: WallTier,
    /// Further paths that every wall lets its program read and execute.
    pub read: Vec<PathBuf>,
    /// Hosts that every `workspace` wall lets through unasked: `example.org`, `*.example.org`,
    /// `example.org:8443`.
    pub hosts: Vec<HostPattern>,
}

/// The mechanisms of a wall that must hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WallTier {
    /// The best that this machine has.
    Auto,
    /// Namespaces, Landlock and seccomp.
    Full,
    /// Landlock and seccomp.
    Landlock,
}

impl Default for ConfineConfig {
    fn default() -> Self {
        let (profile, tier) = (Confine::Workspace, WallTier::Auto);
        Self { profile, tier, read: Vec::new(), hosts: Vec::new() }
    }
}

impl ConfineConfig {
    /// Returns the tier that must hold, where one must.
    #[must_use]
    pub fn wanted_tier(&self) -> Option<Tier> {
        match self.tier {
            WallTier::Auto => None,
            WallTier::Full => Some(Tier::Full),
            WallTier::Landlock => Some(Tier::Landlock),
        }
    }

    /// Returns the walls of a server with its data in `data_dir`.
    ///
    /// # Errors
    /// When this program's own file cannot be found.
    pub fn walls(&self, data_dir: &std::path::Path) -> std::io::Result<WallSettings> {
        let tier = self.wanted_tier();
        let walls = MachineWalls::new(data_dir, tier, self.read.clone(), self.hosts.clone())?;
        Ok(WallSettings { walls: Some(Arc::new(walls)), default: self.profile })
    }
}

/// Where everything durable is.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct StoreConfig {
    /// `postgres://user:password@host/name` for a database that several servers share; empty for
    /// the SQLite file in the data directory. The variable `DATABASE_URL` says the same, and is the
    /// better place for a password than a command line.
    pub url: StoreUrl,
}

/// A server among others that share its store.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Node {
    /// What people call it; empty for the name of the machine.
    pub name: String,
    /// Where the other servers reach it; empty for where it listens.
    pub url: String,
    /// How long the others wait for a server that went away before they end what it left open, in
    /// seconds. A server that cannot reach the database ends its own children after two thirds of
    /// it.
    pub lease_secs: u64,
}

/// How the store treats the disk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sync {
    /// Every commit is flushed.
    Full,
    /// Commits are flushed now and then.
    Normal,
}

/// How log lines are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFormat {
    /// For people.
    Text,
    /// For programs.
    Json,
}

/// Where traces and logs go besides stderr.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Otel {
    /// The address of an OpenTelemetry collector that takes OTLP over HTTP, such as
    /// `http://127.0.0.1:4318`; empty sends nothing, unless OpenTelemetry's own variables name one.
    pub endpoint: String,
}

/// Every bound that can be configured.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Limits {
    /// Children that run at the same time.
    pub running_children: usize,
    /// How long each step of ending a child may take, in seconds.
    pub grace_secs: u64,
    /// Largest request body, in bytes.
    pub body_bytes: usize,
    /// Open connections, WebSockets included.
    pub connections: usize,
    /// Open connections of one caller.
    pub connections_per_caller: usize,
    /// Open long polls and streams.
    pub streams: usize,
    /// Open long polls and streams of one caller.
    pub streams_per_caller: usize,
    /// Calls under way.
    pub calls: usize,
    /// Calls of one caller under way.
    pub calls_per_caller: usize,
    /// Bytes of requests, answers and stream items in memory.
    pub held_bytes: usize,
    /// The same for one caller.
    pub held_bytes_per_caller: usize,
    /// How long a client may take to send its headers, in seconds.
    pub header_timeout_secs: u64,
    /// How long a client may take to send its body, in seconds.
    pub body_timeout_secs: u64,
    /// How long a client may read nothing of what is sent to it, in seconds.
    pub stall_timeout_secs: u64,
    /// How long a WebSocket without a call is kept, in seconds.
    pub socket_idle_secs: u64,
    /// MCP sessions kept.
    pub mcp_sessions: usize,
    /// MCP sessions of one caller.
    pub mcp_sessions_per_caller: usize,
    /// How long an idle MCP session is kept, in seconds.
    pub mcp_idle_secs: u64,
}

/// Idle children that wait for the next prompt.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Warm {
    /// How many.
    pub max: usize,
    /// For how long, in seconds.
    pub idle_secs: u64,
    /// When one is replaced although it is in use often, in seconds.
    pub max_age_secs: u64,
    /// When one is replaced because of what it has written, in bytes.
    pub max_journal_bytes: u64,
    /// Whether one is started for a session before its first prompt.
    pub prestart: Prestart,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            listen: "127.0.0.1:4445".into(),
            allow_non_loopback: false,
            allowed_hosts: Vec::new(),
            public_url: String::new(),
            tls: TlsConfig::default(),
            claude_bin: PathBuf::new(),
            codex_bin: PathBuf::new(),
            channel: ChannelChoice::Auto,
            approval_timeout_secs: 300,
            park_after_secs: 60,
            live_deltas: true,
            tool_names: ToolNames::Agents,
            sync: Sync::Full,
            log: "info".into(),
            log_format: LogFormat::Text,
            otel: Otel::default(),
            prune_after_days: 0,
            webhooks: Vec::new(),
            notify: Vec::new(),
            confine: ConfineConfig::default(),
            limits: Limits::default(),
            warm: Warm::default(),
            codex: CodexConfig::default(),
            cone: ConeConfig::default(),
            agents: BTreeMap::new(),
            store: StoreConfig::default(),
            node: Node::default(),
        }
    }
}

impl Default for Node {
    fn default() -> Self {
        Self { name: String::new(), url: String::new(), lease_secs: 60 }
    }
}

impl Default for Limits {
    fn default() -> Self {
        let doors = plexus_transport::Limits::default();
        Self {
            running_children: 64,
            grace_secs: 5,
            body_bytes: doors.body_bytes,
            connections: doors.connections,
            connections_per_caller: doors.connections_per_caller,
            streams: doors.streams,
            streams_per_caller: doors.streams_per_caller,
            calls: doors.calls,
            calls_per_caller: doors.calls_per_caller,
            held_bytes: doors.held_bytes,
            held_bytes_per_caller: doors.held_bytes_per_caller,
            header_timeout_secs: doors.header_timeout.as_secs(),
            body_timeout_secs: doors.body_timeout.as_secs(),
            stall_timeout_secs: doors.stall_timeout.as_secs(),
            socket_idle_secs: doors.socket_idle.as_secs(),
            mcp_sessions: doors.mcp_sessions,
            mcp_sessions_per_caller: doors.mcp_sessions_per_caller,
            mcp_idle_secs: doors.mcp_idle.as_secs(),
        }
    }
}

impl Default for Warm {
    fn default() -> Self {
        Self {
            max: 4,
            idle_secs: 300,
            max_age_secs: 3_600,
            max_journal_bytes: 64 * 1024 * 1024,
            prestart: Prestart::Auto,
        }
    }
}

impl Config {
    /// Returns the bounds of the doors.
    #[must_use]
    pub fn door_limits(&self) -> plexus_transport::Limits {
        let limits = &self.limits;
        plexus_transport::Limits {
            body_bytes: limits.body_bytes,
            connections: limits.connections,
            connections_per_caller: limits.connections_per_caller,
            streams: limits.streams,
            streams_per_caller: limits.streams_per_caller,
            calls: limits.calls,
            calls_per_caller: limits.calls_per_caller,
            held_bytes: limits.held_bytes,
            held_bytes_per_caller: limits.held_bytes_per_caller,
            header_timeout: Duration::from_secs(limits.header_timeout_secs),
            body_timeout: Duration::from_secs(limits.body_timeout_secs),
            stall_timeout: Duration::from_secs(limits.stall_timeout_secs),
            socket_idle: Duration::from_secs(limits.socket_idle_secs),
            mcp_sessions: limits.mcp_sessions,
            mcp_sessions_per_caller: limits.mcp_sessions_per_caller,
            mcp_idle: Duration::from_secs(limits.mcp_idle_secs),
            ..plexus_transport::Limits::default()
        }
    }

    /// Writes what is configured into the settings of the engine.
    pub fn apply_to(&self, settings: &mut Settings) {
        settings.channel = self.channel;
        settings.approval_timeout = Duration::from_secs(self.approval_timeout_secs);
        settings.park_after =
            Some(Duration::from_secs(self.park_after_secs)).filter(|after| !after.is_zero());
        settings.live_deltas = self.live_deltas;
        settings.tool_names = self.tool_names;
        settings.max_running = self.limits.running_children;
        settings.grace = Duration::from_secs(self.limits.grace_secs);
        settings.max_warm = self.warm.max;
        settings.warm_idle = Duration::from_secs(self.warm.idle_secs);
        settings.warm_max_age = Duration::from_secs(self.warm.max_age_secs);
        settings.warm_max_journal_bytes = self.warm.max_journal_bytes;
        settings.prestart = self.warm.prestart;
    }

    /// Returns how the store treats the disk.
    #[must_use]
    pub fn durability(&self) -> Durability {
        match self.sync {
            Sync::Full => Durability::Full,
            Sync::Normal => Durability::Normal,
        }
    }
}
