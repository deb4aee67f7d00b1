//! Real agents of the Agent Client Protocol: where they are, and a sandbox in which they ask for
//! everything.

mod sandbox;

pub use sandbox::Sandbox;

use serde_json::{Map, Value, json};

use crate::real_cli::RealCli;

/// An agent that the tests run, pinned by `scripts/install-acp-agents.sh`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Agent {
    /// OpenCode.
    OpenCode,
    /// Goose.
    Goose,
    /// claude-agent-acp, which runs Claude Code.
    Claude,
    /// Gemini CLI.
    Gemini,
}

/// Set to 1, makes a missing agent a failure.
const REQUIRE: &str = "PLEXUS_REQUIRE_ACP";
const SCRIPT: &str = "scripts/install-acp-agents.sh";

impl Agent {
    /// Returns where the agent is, or what to do about its absence.
    #[must_use]
    pub fn cli(self) -> RealCli {
        let (variable, cached) = match self {
            Self::OpenCode => ("PLEXUS_REAL_OPENCODE", ".cache/acp-agents/opencode"),
            Self::Goose => ("PLEXUS_REAL_GOOSE", ".cache/acp-agents/goose"),
            Self::Claude => ("PLEXUS_REAL_CLAUDE_AGENT_ACP", ".cache/acp-agents/claude-agent-acp"),
            Self::Gemini => ("PLEXUS_REAL_GEMINI", ".cache/acp-agents/gemini"),
        };
        RealCli { variable, require_variable: REQUIRE, cached, script: SCRIPT }
    }

    /// Returns the arguments that make the program speak the protocol.
    #[must_use]
    pub fn arguments(self) -> &'static [&'static str] {
        match self {
            Self::OpenCode => &["acp"],
            Self::Goose => &["acp", "--with-builtin", "developer"],
            Self::Claude => &[],
            Self::Gemini => &["--acp"],
        }
    }

    /// Returns the tool that runs a shell command, for scripts of the Messages API.
    #[must_use]
    pub fn shell_tool(self) -> &'static str {
        match self {
            Self::OpenCode => "bash",
            Self::Goose => "shell",
            Self::Claude => "Bash",
            Self::Gemini => "run_shell_command",
        }
    }

    /// Returns the mode in which a session of the sandbox opens.
    #[must_use]
    pub fn mode(self) -> &'static str {
        match self {
            Self::OpenCode => "build",
            Self::Goose => "approve",
            Self::Claude | Self::Gemini => "default",
        }
    }

    /// Returns what a request that opens a session must carry beside its own fields.
    #[must_use]
    pub fn session_meta(self) -> Map<String, Value> {
        let Self::Claude = self else { return Map::new() };
        let asks = ["Bash", "Read", "Glob", "Grep", "Skill", "Agent", "WebFetch", "WebSearch"];
        let permissions = json!({ "ask": asks, "disableAutoMode": "disable" });
        let options = json!({
            "settingSources": ["user"],
            "allowDangerouslySkipPermissions": false,
            "disallowedTools": ["EnterPlanMode", "SendMessage"],
            "settings": { "permissions": permissions },
        });
        Map::from_iter([("_meta".to_owned(), json!({ "claudeCode": { "options": options } }))])
    }
}
