//! One run in print mode, and its command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// The longest prompt that is passed as an argument. A longer one goes through standard input,
/// because one argument may have 128 KiB on Linux and less elsewhere.
pub const MAX_PROMPT_ARGUMENT_BYTES: usize = 100 * 1024;

/// The settings of one run. Everything but the prompt is optional.
///
/// A short prompt is passed as an argument and so is visible to every user of the machine, as with
/// the CLI itself.
#[derive(Debug, Clone, Default)]
pub struct ClaudePrintRequest {
    prompt: String,
    model: Option<String>,
    session: Session,
    fork_session: bool,
    append_system_prompt: Option<String>,
    add_dirs: Vec<PathBuf>,
    mcp_configs: Vec<String>,
    strict_mcp_config: bool,
    permission_prompt_tool: Option<String>,
    permission_mode: Option<String>,
    allowed_tools: Vec<String>,
    disallowed_tools: Vec<String>,
    settings: Option<String>,
    setting_sources: Option<String>,
    include_partial_messages: bool,
    max_turns: Option<u32>,
    extra_args: Vec<OsString>,
    pub(super) env: Vec<(OsString, OsString)>,
    pub(super) working_dir: Option<PathBuf>,
    pub(super) timeout: Option<Duration>,
}

/// Which conversation the run belongs to.
#[derive(Debug, Clone, Default)]
enum Session {
    #[default]
    New,
    NewAs(String),
    Resume(String),
    ContinueLast,
}

impl ClaudePrintRequest {
    /// Creates a request that sends `prompt` in a new session.
    pub fn new(prompt: impl Into<String>) -> Self {
        Self { prompt: prompt.into(), ..Self::default() }
    }

    /// Chooses the model.
    pub fn model(mut self, model: impl Into<String>) -> Self {
        self.model = Some(model.into());
        self
    }

    /// Continues a session. An unknown id makes the run fail; it does not start a new session.
    pub fn resume(mut self, session_id: impl Into<String>) -> Self {
        self.session = Session::Resume(session_id.into());
        self
    }

    /// Gives the new session this id, a UUID that was never used.
    pub fn session_id(mut self, session_id: impl Into<String>) -> Self {
        self.session = Session::NewAs(session_id.into());
        self
    }

    /// Continues the last session of the working directory. If there is none, the CLI silently
    /// starts a new one.
    pub fn continue_last(mut self) -> Self {
        self.session = Session::ContinueLast;
        self
    }

    /// Continues in a copy of the resumed session, which itself stays unchanged.
    pub fn fork_session(mut self, fork: bool) -> Self {
        self.fork_session = fork;
        self
    }

    /// Adds to the system prompt.
    pub fn append_system_prompt(mut self, text: impl Into<String>) -> Self {
        self.append_system_prompt = Some(text.into());
        self
    }

    /// Lets the tools reach another directory.
    pub fn add_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.add_dirs.push(dir.into());
        self
    }

    /// Adds MCP servers: the path of a configuration, or its JSON.
    pub fn mcp_config(mut self, config: impl Into<String>) -> Self {
        self.mcp_configs.push(config.into());
        self
    }

    /// Ignores all other MCP configurations, a repository's own among them.
    pub fn strict_mcp_config(mut self, strict: bool) -> Self {
        self.strict_mcp_config = strict;
        self
    }

    /// Sets the MCP tool that the CLI asks for permission.
    pub fn permission_prompt_tool(mut self, tool: impl Into<String>) -> Self {
        self.permission_prompt_tool = Some(tool.into());
        self
    }

    /// Chooses the permission mode.
    pub fn permission_mode(mut self, mode: impl Into<String>) -> Self {
        self.permission_mode = Some(mode.into());
        self
    }

    /// Lets a tool run without permission.
    pub fn allow_tool(mut self, rule: impl Into<String>) -> Self {
        self.allowed_tools.push(rule.into());
        self
    }

    /// Disables a tool.
    pub fn disallow_tool(mut self, rule: impl Into<String>) -> Self {
        self.disallowed_tools.push(rule.into());
        self
    }

    /// Adds settings: the path of a file, or its JSON.
    pub fn settings(mut self, settings: impl Into<String>) -> Self {
        self.settings = Some(settings.into());
        self
    }

    /// Sets which settings files apply: `user`, `project`, `local`, separated by commas. Hooks of a
    /// repository run without permission unless `project` and `local` are left out.
    pub fn setting_sources(mut self, sources: impl Into<String>) -> Self {
        self.setting_sources = Some(sources.into());
        self
    }

    /// Requests messages while they are being written; see [`crate::event::stream`].
    pub fn include_partial_messages(mut self, include: bool) -> Self {
        self.include_partial_messages = include;
        self
    }

    /// Ends the run after this many turns of the model.
    pub fn max_turns(mut self, turns: u32) -> Self {
        self.max_turns = Some(turns);
        self
    }

    /// Adds an argument that this crate does not know, before the prompt.
    pub fn extra_arg(mut self, argument: impl Into<OsString>) -> Self {
        self.extra_args.push(argument.into());
        self
    }

    /// Sets an environment variable for the child; overrides the client's.
    pub fn env(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.env.push((name.into(), value.into()));
        self
    }

    /// Runs in this directory; overrides the client's.
    pub fn working_dir(mut self, dir: impl Into<PathBuf>) -> Self {
        self.working_dir = Some(dir.into());
        self
    }

    /// Stops the run after this long, from start to exit; overrides the client's.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Returns the prompt if it is too long for an argument.
    pub(super) fn prompt_for_stdin(&self) -> Option<&str> {
        (self.prompt.len() > MAX_PROMPT_ARGUMENT_BYTES).then_some(self.prompt.as_str())
    }

    /// Returns the command line, without the program.
    pub fn arguments(&self) -> Vec<OsString> {
        let mut args = Arguments(Vec::new());
        args.flag("--print").option("--output-format", "stream-json").flag("--verbose");
        match &self.session {
            Session::New => {}
            Session::NewAs(id) => drop(args.option("--session-id", id)),
            Session::Resume(id) => drop(args.option("--resume", id)),
            Session::ContinueLast => drop(args.flag("--continue")),
        }
        for (name, is_set) in [
            ("--fork-session", self.fork_session),
            ("--strict-mcp-config", self.strict_mcp_config),
            ("--include-partial-messages", self.include_partial_messages),
        ] {
            if is_set {
                args.flag(name);
            }
        }
        for (name, value) in [
            ("--model", &self.model),
            ("--append-system-prompt", &self.append_system_prompt),
            ("--permission-prompt-tool", &self.permission_prompt_tool),
            ("--permission-mode", &self.permission_mode),
            ("--settings", &self.settings),
            ("--setting-sources", &self.setting_sources),
        ] {
            if let Some(value) = value {
                args.option(name, value);
            }
        }
        for config in &self.mcp_configs {
            args.option("--mcp-config", config);
        }
        for dir in &self.add_dirs {
            args.option("--add-dir", dir);
        }
        for (name, tools) in
            [("--allowedTools", &self.allowed_tools), ("--disallowedTools", &self.disallowed_tools)]
        {
            if !tools.is_empty() {
                args.option(name, tools.join(","));
            }
        }
        if let Some(turns) = self.max_turns {
            args.option("--max-turns", turns.to_string());
        }
        args.0.extend(self.extra_args.iter().cloned());
        if self.prompt_for_stdin().is_none() {
            // Some options take any number of values. The separator keeps the prompt out of them,
            // and keeps a prompt that begins with a dash from being an option.
            args.flag("--").flag(&self.prompt);
        }
        args.0
    }
}

struct Arguments(Vec<OsString>);

impl Arguments {
    fn flag(&mut self, flag: &str) -> &mut Self {
        self.0.push(flag.into());
        self
    }

    fn option(&mut self, name: &str, value: impl Into<OsString>) -> &mut Self {
        self.0.extend([name.into(), value.into()]);
        self
    }
}
