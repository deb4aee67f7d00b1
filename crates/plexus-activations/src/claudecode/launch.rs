//! How a child is started: its arguments, its environment, and the servers of its MCP configuration. Pure, so that a test can read every line of it.
//!
//! No shell is involved; on the control channel the prompt is never an argument. The environment is a list of names, so that neither our own
//! tokens nor what a surrounding Claude Code left behind reaches a child.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::Path;

use plexus_core::SecretToken;
use plexus_wire::{McpServer, ProjectSettings, Supervise};
use serde_json::json;
use uuid::Uuid;

use super::config::SessionConfig;

/// The variables that a child inherits from the server, by name.
const INHERITED: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "TERM",
    "TMPDIR",
    "SHELL",
    "TZ",
    "ANTHROPIC_API_KEY",
    "ANTHROPIC_AUTH_TOKEN",
    "ANTHROPIC_BASE_URL",
    "ANTHROPIC_CUSTOM_HEADERS",
    "ANTHROPIC_MODEL",
    "ANTHROPIC_SMALL_FAST_MODEL",
    "ANTHROPIC_DEFAULT_OPUS_MODEL",
    "ANTHROPIC_DEFAULT_SONNET_MODEL",
    "ANTHROPIC_DEFAULT_HAIKU_MODEL",
    "CLAUDE_CONFIG_DIR",
    "CLAUDE_CODE_OAUTH_TOKEN",
    "CLAUDE_CODE_MAX_OUTPUT_TOKENS",
    "CLAUDE_CODE_USE_BEDROCK",
    "CLAUDE_CODE_USE_VERTEX",
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    "DISABLE_TELEMETRY",
    "DISABLE_AUTOUPDATER",
    "DISABLE_ERROR_REPORTING",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
    "NODE_EXTRA_CA_CERTS",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
];

/// Tools that let children of one user reach each other, start work by themselves, send Bash to a
/// classifier instead of to us (plan mode), or move the session's commands to another directory
/// than the one that rules judge them by. Each of them leads past supervision, and none of them asks.
const NEVER: &[&str] = &[
    "SendMessage",
    "ListAgents",
    "CronCreate",
    "ScheduleWakeup",
    "EnterPlanMode",
    "EnterWorktree",
    "Agent(isolation:worktree)",
    "Agent(isolation:remote)",
];

/// A hook that refuses to make a worktree. An agent definition may ask for one too (`isolation`),
/// which no rule about tools stops: its commands would then run in another directory than the one
/// that rules judge them by, and the request does not say so.
const REFUSE_WORKTREE: &str =
    "echo 'Plexus keeps subagents in the directory of their session' >&2; exit 1";

/// What the CLI would run unasked in its default mode; `supervise: "all"` has it ask for these too.
const ASK_ABOUT_ALL: &[&str] = &[
    "Bash",
    "Read",
    "Glob",
    "Grep",
    "LS",
    "Edit",
    "Write",
    "NotebookEdit",
    "WebFetch",
    "WebSearch",
    "Task",
    "Agent",
    "Skill",
];

/// The permission channel of one run.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum Channel {
    Control,
    Mcp,
}

impl Channel {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Control => "control",
            Self::Mcp => "mcp",
        }
    }

    pub(crate) fn from_name(name: &str) -> Option<Self> {
        [Self::Control, Self::Mcp].into_iter().find(|channel| channel.name() == name)
    }
}

/// Which conversation a run goes on with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Conversation {
    New,
    Resume(String),
    /// A copy of this one, under a new id.
    Fork {
        of: String,
        /// The last message that is copied; all of them without.
        behind: Option<Uuid>,
    },
}

/// Everything that decides the arguments of a run.
#[derive(Clone, Debug)]
pub(crate) struct Launch<'a> {
    pub(crate) config: &'a SessionConfig,
    pub(crate) channel: Channel,
    pub(crate) conversation: Conversation,
    /// The MCP configuration, when the run has one.
    pub(crate) mcp_config: Option<&'a Path>,
    pub(crate) partial_messages: bool,
    /// The prompt, for the MCP channel, when it is short enough for the command line.
    pub(crate) prompt: Option<&'a str>,
}

impl Launch<'_> {
    /// Returns the arguments for the CLI.
    pub(crate) fn arguments(&self) -> Vec<OsString> {
        let mut args: Vec<OsString> =
            ["--print", "--output-format", "stream-json", "--verbose", "--strict-mcp-config"]
                .map(Into::into)
                .into();
        let mut flag =
            |name: &str, value: &str| args.extend([OsString::from(name), OsString::from(value)]);
        if self.channel == Channel::Control {
            flag("--input-format", "stream-json");
        }
        if self.config.loopback_enabled {
            flag("--permission-prompt-tool", permission_tool(self.channel));
        }
        flag(
            "--setting-sources",
            match self.config.project_settings {
                ProjectSettings::Ignore => "user",
                ProjectSettings::Trust => "user,project,local",
            },
        );
        if let Some(model) = &self.config.model {
            flag("--model", model);
        }
        if let Some(prompt) = &self.config.system_prompt {
            flag("--append-system-prompt", prompt);
        }
        match &self.conversation {
            Conversation::New => {}
            Conversation::Resume(id) => flag("--resume", id),
            Conversation::Fork { of, behind } => {
                flag("--resume", of);
                if let Some(message) = behind {
                    flag("--resume-session-at", &message.to_string());
                }
            }
        }
        if !self.config.allowed_tools.is_empty() {
            flag("--allowedTools", &self.config.allowed_tools.join(","));
        }
        let never: Vec<&str> = NEVER
            .iter()
            .copied()
            .chain(self.config.disallowed_tools.iter().map(String::as_str))
            .collect();
        flag("--disallowedTools", &never.join(","));
        flag("--settings", &self.settings().to_string());
        if let Some(turns) = self.config.budget.and_then(|budget| budget.turns) {
            // A second line behind our own count, which only sees a turn when it is over.
            flag("--max-turns", &turns.to_string());
        }
        for dir in &self.config.add_dirs {
            args.extend([OsString::from("--add-dir"), dir.clone().into_os_string()]);
        }
        if let Some(path) = self.mcp_config {
            args.extend([OsString::from("--mcp-config"), path.as_os_str().to_owned()]);
        }
        if self.partial_messages {
            args.push("--include-partial-messages".into());
        }
        if self.channel == Channel::Control {
            args.push("--replay-user-messages".into());
        }
        if matches!(self.conversation, Conversation::Fork { .. }) {
            args.push("--fork-session".into());
        }
        if let Some(prompt) = self.prompt {
            args.extend([OsString::from("--"), OsString::from(prompt)]);
        }
        args
    }

    /// Settings of ours for the CLI: its own classifier never decides, no subagent gets a worktree,
    /// and with `supervise: "all"` everything is asked.
    fn settings(&self) -> serde_json::Value {
        let mut permissions = json!({"disableAutoMode": "disable"});
        if self.config.supervise == Supervise::All {
            permissions["ask"] = json!(ASK_ABOUT_ALL);
        }
        let refuse = json!([{"hooks": [{"type": "command", "command": REFUSE_WORKTREE}]}]);
        json!({"permissions": permissions, "hooks": {"WorktreeCreate": refuse}})
    }

    /// Returns the whole environment of the child, given the server's own.
    pub(crate) fn environment(
        &self,
        own: impl Fn(&str) -> Option<OsString>,
    ) -> BTreeMap<OsString, OsString> {
        let mut env: BTreeMap<OsString, OsString> = INHERITED
            .iter()
            .filter_map(|name| own(name).map(|value| (OsString::from(name), value)))
            .collect();
        env.extend(self.config.env.iter().map(|(name, value)| (name.into(), value.into())));
        // Rules judge a command by the session's directory, so each one has to start there. The CLI
        // otherwise keeps the directory that an earlier command went to.
        env.insert("CLAUDE_BASH_MAINTAIN_PROJECT_WORKING_DIR".into(), "1".into());
        if self.channel == Channel::Control {
            env.insert("CLAUDE_CODE_EMIT_SESSION_STATE_EVENTS".into(), "1".into());
        }
        env
    }
}

fn permission_tool(channel: Channel) -> &'static str {
    match channel {
        Channel::Control => "stdio",
        Channel::Mcp => PERMIT_TOOL,
    }
}

/// Our permission tool, as the CLI names that of the server [`PERMIT_SERVER`].
pub(crate) const PERMIT_TOOL: &str = "mcp__plexus__loopback_permit";

/// The server that a child asks through, by its name in the child's MCP configuration.
pub(crate) const PERMIT_SERVER: &str = "plexus";

/// How long the CLI waits for one call: a question may wait for a day, and progress does not extend the client's own limit.
const LONGEST_CALL_MS: u64 = 24 * 3_600 * 1_000;

/// This server as an MCP configuration names it.
pub(crate) fn mcp_server(url: &str, token: &SecretToken) -> McpServer {
    let authorization = format!("Bearer {}", token.expose());
    McpServer {
        r#type: "http".to_owned(),
        url: format!("{url}/mcp"),
        headers: [("Authorization".to_owned(), authorization)].into(),
        timeout: None,
    }
}

/// The same for a child that asks through it, and may wait.
pub(crate) fn mcp_permit_server(url: &str, token: &SecretToken) -> McpServer {
    McpServer { timeout: Some(LONGEST_CALL_MS), ..mcp_server(url, token) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plexus_wire::ChannelChoice;

    fn config() -> SessionConfig {
        SessionConfig {
            working_dir: "/w".into(),
            model: None,
            system_prompt: None,
            loopback_enabled: true,
            loopback_timeout_secs: 300,
            escalate_after_secs: None,
            supervise: Supervise::Default,
            can_spawn: false,
            may_decide: vec![],
            project_settings: ProjectSettings::Ignore,
            channel: ChannelChoice::Auto,
            allowed_tools: vec![],
            disallowed_tools: vec!["WebFetch".into()],
            add_dirs: vec!["/more".into()],
            env: BTreeMap::from([("TOKEN_OF_THE_SESSION".into(), "x".into())]),
            budget: None,
        }
    }

    /// The start of a new conversation on the control channel.
    fn control(config: &SessionConfig) -> Launch<'_> {
        Launch {
            config,
            channel: Channel::Control,
            conversation: Conversation::New,
            mcp_config: None,
            partial_messages: false,
            prompt: None,
        }
    }

    fn text(launch: &Launch<'_>) -> String {
        launch
            .arguments()
            .iter()
            .map(|arg| arg.to_string_lossy().into_owned())
            .collect::<Vec<_>>()
            .join(" ")
    }

    #[test]
    fn the_control_channel_never_has_the_prompt_in_its_arguments() {
        let config = config();
        let launch = Launch { partial_messages: true, ..control(&config) };
        let settings = json!({
            "permissions": {"disableAutoMode": "disable"},
            "hooks": {"WorktreeCreate": [{"hooks": [{"type": "command", "command": REFUSE_WORKTREE}]}]},
        });
        let expected = format!(
            "--print --output-format stream-json --verbose --strict-mcp-config \
             --input-format stream-json --permission-prompt-tool stdio --setting-sources user \
             --disallowedTools SendMessage,ListAgents,CronCreate,ScheduleWakeup,EnterPlanMode,\
             EnterWorktree,Agent(isolation:worktree),Agent(isolation:remote),WebFetch \
             --settings {settings} --add-dir /more --include-partial-messages \
             --replay-user-messages"
        );
        assert_eq!(text(&launch), expected);
    }

    #[test]
    fn the_mcp_channel_asks_our_tool_and_ends_with_the_prompt() {
        let mut config = config();
        config.supervise = Supervise::All;
        config.project_settings = ProjectSettings::Trust;
        let launch = Launch {
            config: &config,
            channel: Channel::Mcp,
            conversation: Conversation::Fork { of: "abc".into(), behind: Some(Uuid::nil()) },
            mcp_config: Some(Path::new("/r/mcp.json")),
            partial_messages: false,
            prompt: Some("--do it"),
        };
        let text = text(&launch);
        assert!(text.ends_with("--mcp-config /r/mcp.json --fork-session -- --do it"), "{text}");
        assert!(text.contains("--permission-prompt-tool mcp__plexus__loopback_permit --setting-sources user,project,local --resume abc --resume-session-at 00000000-0000-0000-0000-000000000000"), "{text}");
        assert!(text.contains(r#""ask":["Bash","Read""#), "{text}");
    }

    #[test]
    fn without_loopback_no_tool_is_asked() {
        let mut config = config();
        config.loopback_enabled = false;
        let launch = control(&config);
        assert!(!text(&launch).contains("--permission-prompt-tool"));
    }

    #[test]
    fn every_command_of_a_child_starts_in_the_directory_of_its_session() {
        let mut config = config();
        let name = "CLAUDE_BASH_MAINTAIN_PROJECT_WORKING_DIR";
        config.env.insert(name.into(), "0".into());
        let env = control(&config).environment(|_| None);
        assert_eq!(env.get(std::ffi::OsStr::new(name)), Some(&OsString::from("1")));
    }

    #[test]
    fn the_environment_is_a_list_of_names() {
        let config = config();
        let launch = control(&config);
        // Whatever it asks for is there: what comes out is what it asked for, and nothing of ours or of a surrounding agent is among it.
        let env = launch.environment(|name| Some(OsString::from(name)));
        assert!(
            env.contains_key(std::ffi::OsStr::new("ANTHROPIC_API_KEY"))
                && env.contains_key(std::ffi::OsStr::new("TOKEN_OF_THE_SESSION"))
        );
        for name in env.keys().filter_map(|name| name.to_str()) {
            assert!(
                !name.starts_with("PLEXUS")
                    && !["CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SSE_PORT"]
                        .contains(&name),
                "{name}"
            );
        }
    }
}
