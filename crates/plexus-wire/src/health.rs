//! What the server is doing, and the servers that share its store.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::ServerId;
use crate::said::Said;
use crate::schema::tagged;
use crate::time::{Millis, Seconds};

/// The state of a server.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(rename_all = "snake_case")]
pub enum ServerState {
    /// Its lease is valid.
    Alive,
    /// Its lease has run out, and nobody has taken over yet.
    Expired,
    /// It left, and nothing of it was open.
    Retired,
    /// Another server ended what it had open.
    TakenOver,
}

/// One server of those that share a store: what operators call a node.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct ServerNode {
    /// Its id.
    pub id: ServerId,
    /// What people call it.
    pub name: String,
    /// Where the others reach it.
    pub url: String,
    /// `alive`, `expired`, `retired` or `taken_over`.
    pub state: Said<ServerState>,
    /// Which of its registrations this is.
    pub epoch: u64,
    /// How much of its lease is left, in milliseconds, by the database's clock.
    pub lease_left_ms: u64,
    /// How long ago it was heard from, in milliseconds, by the database's clock.
    pub heartbeat_age_ms: u64,
    /// Its runs that have not ended.
    pub open_runs: u64,
    /// Whether it is the server that answers.
    pub this: bool,
}

/// How much there is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Counts {
    /// Sessions.
    pub sessions: u64,
    /// Open chats.
    pub chats_running: u64,
    /// Chats that ended well.
    pub chats_complete: u64,
    /// Chats that failed.
    pub chats_failed: u64,
    /// Chats that were cancelled.
    pub chats_cancelled: u64,
    /// Events ever appended.
    pub events: u64,
    /// Approvals that wait.
    pub approvals_pending: u64,
    /// Approvals that were allowed.
    pub approvals_allowed: u64,
    /// Approvals that were denied.
    pub approvals_denied: u64,
    /// Approvals that expired.
    pub approvals_expired: u64,
    /// Approvals that were cancelled.
    pub approvals_cancelled: u64,
    /// Runs that have not ended.
    pub runs_open: u64,
    /// The newest commit.
    pub commits: u64,
    /// Change lists that wait for the writer.
    pub queue_entries: u64,
    /// The size of the store on disk, in bytes; 0 in memory.
    pub bytes_on_disk: u64,
}

/// What the server is doing.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "ok")]
#[schemars(rename = "HealthState", transform = tagged("ok"))]
pub struct HealthState {
    /// Children that live, warm ones included.
    pub children: u64,
    /// What the store holds.
    pub counts: Counts,
    /// The servers that share the store; absent where this one has it to itself.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<ServerNode>,
}

/// What `claudecode` says in `plexus.health`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct SessionsHealth {
    /// Children that live, warm ones included.
    pub children: u64,
    /// Those of them that wait for their next prompt.
    pub warm: u64,
    /// How many more may start before a chat is `busy`, warm ones that would leave included.
    pub room: u64,
}

/// What `loopback` says in `plexus.health`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct ApprovalsHealth {
    /// Permission requests that wait.
    pub pending: u64,
    /// Since when the oldest of them waits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oldest_since: Option<Seconds>,
}

/// What `health` says in `plexus.health`: how the store is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct StoreHealth {
    /// The newest commit.
    pub commits: u64,
    /// Change lists that wait for the writer.
    pub queue_entries: u64,
    /// How many servers share the store and are alive; 0 where this one has it to itself.
    pub servers_alive: u64,
}

/// What `server` says in `plexus.health`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct ServerHealth {
    /// When this process began to serve.
    pub started_at: Millis,
    /// Whether it was asked to stop.
    pub stopping: bool,
}
