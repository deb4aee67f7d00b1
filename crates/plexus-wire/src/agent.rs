//! Kinds of agents: which there are, and what each can do.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::schema::tagged;

/// The agent of a session that names none, and of every session of the first stage.
pub const FIRST_AGENT: &str = "claude_code";

/// What an agent can do. A method that needs a power which the session's agent has not says so.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct AgentPowers {
    /// Whether an allow may carry another input than the one that was asked about.
    pub edit_input: bool,
    /// How the reason of a denial reaches the agent.
    pub deny_reason: DenyReason,
    /// Whether a message can be put into a running chat.
    pub steer: bool,
    /// Whether an ended conversation can be taken up again.
    pub resume: bool,
    /// Where a conversation can be forked.
    pub fork: ForkPower,
    /// Whether a process can wait for the next prompt.
    pub warm: bool,
    /// Whether a waiting agent can be parked without a process.
    pub park: bool,
    /// What is known of what a chat costs.
    pub cost: CostPower,
    /// Whether the agent says who let a tool run, so that a tool nobody allowed shows.
    pub says_who_accepted: bool,
    /// What the agent asks about.
    pub asks_for: AsksFor,
    /// Whether a session can give it MCP servers.
    #[serde(default)]
    pub mcp_servers: bool,
    /// Whether a prompt may have images.
    #[serde(default)]
    pub images: bool,
}

/// How the reason of a denial reaches an agent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(rename_all = "snake_case")]
pub enum DenyReason {
    /// It does not.
    #[default]
    None,
    /// With the denial itself.
    InAnswer,
    /// As a message of its own, beside the denial.
    AsNextMessage,
}

/// Where the conversation of an agent can be forked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(rename_all = "snake_case")]
pub enum ForkPower {
    /// Nowhere.
    #[default]
    None,
    /// Behind everything that was said.
    Head,
    /// Behind each chat that completed.
    Anywhere,
}

/// What is known of what a chat costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(rename_all = "snake_case")]
pub enum CostPower {
    /// Nothing.
    #[default]
    None,
    /// How many tokens it used.
    Tokens,
    /// How much money, and how many tokens.
    Usd,
}

/// What an agent asks about before it does it, from the least to the most.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize, JsonSchema,
)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(rename_all = "snake_case")]
pub enum AsksFor {
    /// What its own configuration says, which nobody here has checked.
    #[default]
    Configured,
    /// Everything that changes anything.
    Changes,
    /// Everything, when the session says so.
    Everything,
}

/// One agent that the server knows.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct AgentKind {
    /// The name that `create` takes.
    pub agent: String,
    /// Whose protocol it speaks: `claude_code`, `codex` or `acp`.
    pub kind: String,
    /// Whether its program can be used on this server's machine.
    pub usable: bool,
    /// The program and its version; of one that cannot be used, why and what to do about it.
    pub about: String,
    /// What it can do.
    pub powers: AgentPowers,
}

/// A result of `kinds`: the default agent first.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "kinds")]
#[schemars(rename = "AgentKinds", transform = tagged("kinds"))]
pub struct AgentKinds {
    /// The agents.
    pub agents: Vec<AgentKind>,
}
