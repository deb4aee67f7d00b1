//! How a session is made.

use std::collections::BTreeMap;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::arbor::Position;
use crate::budget::Budget;
use crate::ids::SessionId;
use crate::json::Object;
use crate::mcp_servers::AgentMcpServer;
use crate::schema::tagged;
use crate::session::{ChannelChoice, ProjectSettings, Supervise};
use crate::wall::Confine;

/// Parameters of `create`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct CreateParams {
    /// A name, unique among the sessions you create.
    #[serde(deserialize_with = "crate::text::one::<crate::text::SessionName, _>")]
    #[schemars(length(min = 1, max = 256))]
    pub name: String,
    /// Where the agent works; the directory must exist. `~` is the home of the server's user.
    #[serde(deserialize_with = "crate::text::work_dir")]
    pub working_dir: PathBuf,
    /// The agent: `claude_code` (which it is without), `codex`, or another that `agents.kinds`
    /// lists.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::text::maybe::<crate::text::Name, _>"
    )]
    pub agent: Option<String>,
    /// The session that is to be its parent. Only the operator may say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub parent: Option<SessionId>,
    /// After how many seconds an unanswered permission request goes to your own parent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub escalate_after_secs: Option<u64>,
    /// The model, as the CLI names it.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::text::maybe::<crate::text::Text, _>"
    )]
    pub model: Option<String>,
    /// Added to the agent's own instructions.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::text::maybe::<crate::text::Text, _>"
    )]
    pub system_prompt: Option<String>,
    /// Whether permission requests come to you (true). Without it, what would ask is denied.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loopback_enabled: Option<bool>,
    /// How many seconds a permission request waits before it is denied; 0 waits for ever. Default:
    /// 300.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loopback_timeout_secs: Option<u64>,
    /// `default`, or `all`: ask also about what the CLI would run unasked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub supervise: Option<Supervise>,
    /// Whether it may create and supervise sessions of its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub can_spawn: Option<bool>,
    /// Whether it may use `cone`, and pass that on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub can_use_cone: Option<bool>,
    /// Which calls of its own children it may allow, as patterns such as `Bash(git diff:*)`.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::text::maybe_list::<crate::text::Text, _>"
    )]
    #[schemars(length(max = 1_000))]
    pub may_decide: Option<Vec<String>>,
    /// What is read of the repository: `instructions` (`CLAUDE.md`; the default), `ignore`
    /// (nothing), or `trust` (settings and hooks too; operator only).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project_settings: Option<ProjectSettings>,
    /// How permission requests travel: `auto`, `control` or `mcp`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub channel: Option<ChannelChoice>,
    /// Calls that it may make unasked: rules of this session.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::text::maybe_list::<crate::text::Text, _>"
    )]
    #[schemars(length(max = 1_000))]
    pub allowed_tools: Option<Vec<String>>,
    /// Tools that it may not use.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::text::maybe_list::<crate::text::Text, _>"
    )]
    #[schemars(length(max = 1_000))]
    pub disallowed_tools: Option<Vec<String>>,
    /// More directories it may work in.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::text::maybe_work_dirs"
    )]
    #[schemars(length(max = 64))]
    pub add_dirs: Option<Vec<PathBuf>>,
    /// Variables for its environment.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::text::maybe_variables"
    )]
    pub env: Option<BTreeMap<String, String>>,
    /// MCP servers by name; calls of their tools are asked about. Only for agents with this power
    /// (`agents.kinds`).
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::mcp_servers::maybe_servers"
    )]
    #[schemars(length(max = 32))]
    pub mcp_servers: Option<BTreeMap<String, AgentMcpServer>>,
    /// The wall around its children: `workspace` (the default where this machine can build it),
    /// `strict`, or `none`. Never looser than its parent's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub confine: Option<Confine>,
    /// Limits for it and everything below it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub budget: Option<Budget>,
    /// Anything you want to find again; an object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Object>,
    /// Whether its agent is started before the first prompt.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prestart: Option<bool>,
}

impl CreateParams {
    /// A session that works in a directory, with every default.
    pub fn new(name: impl Into<String>, working_dir: impl Into<PathBuf>) -> Self {
        Self {
            name: name.into(),
            working_dir: working_dir.into(),
            agent: None,
            parent: None,
            escalate_after_secs: None,
            model: None,
            system_prompt: None,
            loopback_enabled: None,
            loopback_timeout_secs: None,
            supervise: None,
            can_spawn: None,
            can_use_cone: None,
            may_decide: None,
            project_settings: None,
            channel: None,
            allowed_tools: None,
            disallowed_tools: None,
            add_dirs: None,
            env: None,
            mcp_servers: None,
            confine: None,
            budget: None,
            metadata: None,
            prestart: None,
        }
    }
}

/// A result of `create`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "created")]
#[schemars(rename = "SessionCreated", transform = tagged("created"))]
pub struct SessionCreated {
    /// The new session.
    pub id: SessionId,
    /// Its tree and the node after which its first chat starts.
    pub head: Position,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::text::{MAX_ADD_DIRS, MAX_LIST_TEXTS};

    #[test]
    fn a_directory_is_named_from_the_root_or_from_home() {
        let read = |dir: &str| {
            let params = json!({"name": "n", "working_dir": dir, "add_dirs": [dir]});
            serde_json::from_value::<CreateParams>(params)
        };
        for dir in ["/", "/w", "~", "~/w"] {
            assert_eq!(read(dir).unwrap().working_dir, PathBuf::from(dir));
        }
        for dir in ["", "w", "./w", "../w", "~other", "~other/w"] {
            assert!(read(dir).is_err(), "{dir:?}");
        }
    }

    #[test]
    fn a_list_has_a_bounded_number_of_entries() {
        let read = |field: &str, entries: usize| {
            let mut params = json!({"name": "n", "working_dir": "/w"});
            params[field] = vec!["/w"; entries].into();
            serde_json::from_value::<CreateParams>(params)
        };
        for (field, most) in [
            ("add_dirs", MAX_ADD_DIRS),
            ("may_decide", MAX_LIST_TEXTS),
            ("allowed_tools", MAX_LIST_TEXTS),
            ("disallowed_tools", MAX_LIST_TEXTS),
        ] {
            assert!(read(field, most).is_ok(), "{field}");
            let refused = read(field, most + 1).unwrap_err().to_string();
            assert!(refused.contains(&format!("there are 0 to {most}")), "{field}: {refused}");
        }
    }
}
