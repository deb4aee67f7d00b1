//! The answers to our requests. [`Outcome::read`](agent_lines::rpc::Outcome::read) types them.

use agent_lines::json::{RawJson, Text};
use agent_lines::json_object;

use crate::words::StopReason;

json_object! {
    /// The answer to `initialize`.
    pub struct Initialized {
        /// The version that the agent speaks; some agents repeat whatever version the client names.
        protocol_version: Option<u64> = "protocolVersion",
        /// The name and version of the agent; Goose does not send it.
        agent_info: Option<AgentInfo> = "agentInfo",
        /// The capabilities of the agent.
        capabilities: AgentCapabilities = "agentCapabilities",
        /// The ways to log in, in words for people.
        auth_methods: Vec<RawJson> = "authMethods",
    }

    /// The name and version of an agent.
    pub struct AgentInfo {
        /// Its name.
        name: Text = "name",
        /// Its version.
        version: Option<Text> = "version",
    }

    /// The capabilities of an agent.
    pub struct AgentCapabilities {
        /// Whether the agent supports `session/load`.
        load_session: bool = "loadSession",
        /// Its other capabilities for sessions.
        session: SessionCapabilities = "sessionCapabilities",
        /// What a prompt may contain besides text and links.
        prompt: PromptCapabilities = "promptCapabilities",
        /// Which MCP servers it can use besides programs.
        mcp: RawJson = "mcpCapabilities",
    }

    /// An agent's capabilities for sessions. A field that is present, even as `{}`, is offered.
    pub struct SessionCapabilities {
        /// `session/list`.
        list: Option<RawJson> = "list",
        /// `session/resume`.
        resume: Option<RawJson> = "resume",
        /// `session/fork`.
        fork: Option<RawJson> = "fork",
        /// `session/close`.
        close: Option<RawJson> = "close",
        /// `additionalDirectories` of a session.
        additional_directories: Option<RawJson> = "additionalDirectories",
    }

    /// What a prompt may contain besides text and links.
    pub struct PromptCapabilities {
        /// Images.
        image: bool = "image",
        /// Audio.
        audio: bool = "audio",
        /// Files with their text.
        embedded_context: bool = "embeddedContext",
    }

    /// The answer to `session/new`, `session/load`, `session/resume` and `session/fork`.
    pub struct SessionOpened {
        /// The session; left out if the request named it.
        session_id: Option<Text> = "sessionId",
        /// The modes of the session.
        modes: Option<Modes> = "modes",
        /// Its options.
        config_options: Vec<ConfigOption> = "configOptions",
    }

    /// The modes of a session.
    pub struct Modes {
        /// The mode in effect.
        current_mode_id: Text = "currentModeId",
        /// All modes.
        available_modes: Vec<Mode> = "availableModes",
    }

    /// A mode: what the agent may do without permission.
    pub struct Mode {
        /// The id of the mode.
        id: Text = "id",
        /// The name that is shown to a person.
        name: Text = "name",
    }

    /// One option of a session.
    pub struct ConfigOption {
        /// The id of the option.
        id: Text = "id",
        /// The subject of the option: `mode`, `model`, `thought_level`, …
        category: Option<Text> = "category",
        /// Its value, usually a string.
        current_value: RawJson = "currentValue",
        /// The possible values.
        options: RawJson = "options",
    }

    /// The answer to `session/list`.
    pub struct SessionPage {
        /// The sessions of this page.
        sessions: Vec<ListedSession> = "sessions",
        /// The cursor of the next page.
        next_cursor: Option<Text> = "nextCursor",
    }

    /// A stored session.
    pub struct ListedSession {
        /// The id of the session.
        session_id: Text = "sessionId",
        /// Its working directory.
        cwd: Option<Text> = "cwd",
        /// Its title.
        title: Option<Text> = "title",
        /// When it last changed, in the agent's notation, which sorts as text.
        updated_at: Option<Text> = "updatedAt",
    }

    /// The answer to `session/prompt`: the turn is over.
    pub struct PromptEnded {
        /// Why the turn ended; `None` for an unknown reason.
        stop_reason: Option<StopReason> = "stopReason",
        /// The tokens of the turn, or of its last request: see `docs/acp.md`.
        usage: Option<Usage> = "usage",
        /// Further data.
        meta: Option<RawJson> = "_meta",
    }

    /// Token counts.
    pub struct Usage {
        /// Input tokens.
        input_tokens: u64 = "inputTokens",
        /// Output tokens.
        output_tokens: u64 = "outputTokens",
        /// The sum of both.
        total_tokens: u64 = "totalTokens",
    }
}

impl SessionOpened {
    /// Returns the mode in effect, wherever the agent reports it.
    pub fn mode(&self) -> Option<String> {
        match &self.modes {
            Some(modes) => Some(modes.current_mode_id.to_string()),
            None => self.option("mode")?.value(),
        }
    }

    /// Returns the option of this category.
    pub fn option(&self, category: &str) -> Option<&ConfigOption> {
        self.config_options.iter().find(|option| option.category.as_deref() == Some(category))
    }
}

impl ConfigOption {
    /// Returns its value if that is a string.
    pub fn value(&self) -> Option<String> {
        self.current_value.parse().ok()
    }
}
