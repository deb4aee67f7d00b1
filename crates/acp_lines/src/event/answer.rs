//! The answers to requests of ours. [`Outcome::read`](agent_lines::rpc::Outcome::read) types them.

use agent_lines::json::{RawJson, Text};
use agent_lines::json_object;

use crate::words::StopReason;

json_object! {
    /// The answer to `initialize`.
    pub struct Initialized {
        /// The version that the agent speaks; some repeat whatever they are asked.
        protocol_version: Option<u64> = "protocolVersion",
        /// Who it is; Goose does not say.
        agent_info: Option<AgentInfo> = "agentInfo",
        /// What it can do.
        capabilities: AgentCapabilities = "agentCapabilities",
        /// Ways to log in, in words for people.
        auth_methods: Vec<RawJson> = "authMethods",
    }

    /// Who an agent is.
    pub struct AgentInfo {
        /// Its name.
        name: Text = "name",
        /// Its version.
        version: Option<Text> = "version",
    }

    /// What an agent can do.
    pub struct AgentCapabilities {
        /// Whether it has `session/load`.
        load_session: bool = "loadSession",
        /// What else it can do with sessions.
        session: SessionCapabilities = "sessionCapabilities",
        /// What a prompt may hold beside text and links.
        prompt: PromptCapabilities = "promptCapabilities",
        /// Which MCP servers it can use beside programs.
        mcp: RawJson = "mcpCapabilities",
    }

    /// What an agent can do with sessions. A field that is there, if only as `{}`, is offered.
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

    /// What a prompt may hold beside text and links.
    pub struct PromptCapabilities {
        /// Pictures.
        image: bool = "image",
        /// Sounds.
        audio: bool = "audio",
        /// Files with their text.
        embedded_context: bool = "embeddedContext",
    }

    /// The answer to `session/new`, `session/load`, `session/resume` and `session/fork`.
    pub struct SessionOpened {
        /// The session; left out where the request named it.
        session_id: Option<Text> = "sessionId",
        /// The modes of the session.
        modes: Option<Modes> = "modes",
        /// Its options.
        config_options: Vec<ConfigOption> = "configOptions",
    }

    /// The modes of a session.
    pub struct Modes {
        /// The mode that counts.
        current_mode_id: Text = "currentModeId",
        /// Those that there are.
        available_modes: Vec<Mode> = "availableModes",
    }

    /// A mode: what the agent may do without a question.
    pub struct Mode {
        /// Names it.
        id: Text = "id",
        /// What is shown to a person.
        name: Text = "name",
    }

    /// One option of a session.
    pub struct ConfigOption {
        /// Names it.
        id: Text = "id",
        /// What it is about: `mode`, `model`, `thought_level`, …
        category: Option<Text> = "category",
        /// Its value, mostly a string.
        current_value: RawJson = "currentValue",
        /// The values that there are.
        options: RawJson = "options",
    }

    /// The answer to `session/list`.
    pub struct SessionPage {
        /// The sessions of this page.
        sessions: Vec<ListedSession> = "sessions",
        /// Where the next page begins.
        next_cursor: Option<Text> = "nextCursor",
    }

    /// A session that is kept.
    pub struct ListedSession {
        /// Names it.
        session_id: Text = "sessionId",
        /// Where it works.
        cwd: Option<Text> = "cwd",
        /// Its title.
        title: Option<Text> = "title",
        /// When it changed, in the agent's spelling, which sorts as text.
        updated_at: Option<Text> = "updatedAt",
    }

    /// The answer to `session/prompt`: the turn is over.
    pub struct PromptEnded {
        /// Why; none for a reason that nobody knows.
        stop_reason: Option<StopReason> = "stopReason",
        /// The tokens of the turn, or of its last request: see `docs/acp.md`.
        usage: Option<Usage> = "usage",
        /// More about it.
        meta: Option<RawJson> = "_meta",
    }

    /// Tokens.
    pub struct Usage {
        /// Read.
        input_tokens: u64 = "inputTokens",
        /// Written.
        output_tokens: u64 = "outputTokens",
        /// Both.
        total_tokens: u64 = "totalTokens",
    }
}

impl SessionOpened {
    /// Returns the mode that counts, wherever the agent says it.
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
    /// Returns its value when that is a string.
    pub fn value(&self) -> Option<String> {
        self.current_value.parse().ok()
    }
}
