//! The arguments of the commands that work with agents: `run`, `attach`, `logs`, `demo`.

use std::path::PathBuf;

use clap::Args;

use crate::complete::sessions;

/// `plexus logs`.
#[derive(Args, Debug)]
pub struct Logs {
    /// The session.
    #[arg(value_name = "NAME|ID", add = sessions())]
    pub session: String,
    /// Keep printing new events.
    #[arg(long, short)]
    pub follow: bool,
    /// Only this chat.
    #[arg(long)]
    pub chat: Option<u32>,
    /// Show results, thoughts and inputs in full; a pipe always gets them in full.
    #[arg(long)]
    pub full: bool,
    /// Print events as JSON, one a line.
    #[arg(long)]
    pub json: bool,
}

/// `plexus demo`.
#[derive(Args, Debug)]
pub struct Demo {
    /// Keep the server and its dashboard until Ctrl-C.
    #[arg(long)]
    pub stay: bool,
}

/// `plexus run`.
#[derive(Args, Debug)]
pub struct Run {
    /// What to tell the agent; `-` reads it from stdin.
    #[arg(required = true)]
    pub prompt: Vec<String>,
    /// Continue this session instead of creating one.
    #[arg(long, short, value_name = "NAME|ID", add = sessions(), conflicts_with_all = ["agent", "name", "model", "supervise_all", "no_wall", "trust_project", "timeout", "allow_tools", "add_dirs", "budget_usd"])]
    pub session: Option<String>,
    /// The agent of the new session, such as `codex` [default: claude_code].
    #[arg(long, short)]
    pub agent: Option<String>,
    /// The new session's name [default: made from the directory].
    #[arg(long, short)]
    pub name: Option<String>,
    /// The model, as the CLI names it.
    #[arg(long, short)]
    pub model: Option<String>,
    /// Also ask about what the agent would do without asking, such as reading files.
    #[arg(long)]
    pub supervise_all: bool,
    /// Use no wall: a command that you allow can do everything that you can do.
    #[arg(long)]
    pub no_wall: bool,
    /// Also read the settings and hooks of this project; hooks run without asking.
    #[arg(long)]
    pub trust_project: bool,
    /// Deny a request that nobody answers within this many seconds; 0 never does [default: 0].
    #[arg(long, value_name = "SECONDS")]
    pub timeout: Option<u64>,
    /// A tool that it may use without asking, such as `Bash(git diff:*)`; may be repeated.
    #[arg(long = "allow-tool", value_name = "PATTERN")]
    pub allow_tools: Vec<String>,
    /// Another directory that it may work in; may be repeated.
    #[arg(long = "add-dir", value_name = "DIR")]
    pub add_dirs: Vec<PathBuf>,
    /// What it and everything below it may cost, in US dollars.
    #[arg(long, value_name = "DOLLARS")]
    pub budget_usd: Option<f64>,
    /// End after this prompt, instead of waiting for your next line.
    #[arg(long)]
    pub once: bool,
    /// What is allowed without asking for the next hour; rules that deny still apply.
    #[arg(long)]
    pub mode: Option<RunMode>,
    /// Start it and return at once; `plexus attach` watches it later.
    #[arg(long, short)]
    pub detach: bool,
    /// The agent for a server that has to be started: a path, or `sim`.
    #[arg(long, value_name = "PATH")]
    pub claude_bin: Option<String>,
    /// The same for Codex.
    #[arg(long, value_name = "PATH")]
    pub codex_bin: Option<String>,
    /// Print events as JSON, one a line. Nothing is asked.
    #[arg(long)]
    pub json: bool,
}

/// What a session may do without asking for a while.
#[derive(clap::ValueEnum, Clone, Copy, PartialEq, Eq, Debug)]
pub enum RunMode {
    /// Nothing: somebody is asked about every request.
    Ask,
    /// Edits and writes inside its directories.
    AcceptEdits,
    /// Everything.
    AllowAll,
}

impl Run {
    /// Returns what a server that has to be started is told.
    #[must_use]
    pub fn serve_arguments(&self) -> Vec<String> {
        let programs = [("--claude-bin", &self.claude_bin), ("--codex-bin", &self.codex_bin)];
        let named = programs.into_iter().filter_map(|(flag, path)| Some((flag, path.clone()?)));
        named.flat_map(|(flag, path)| [flag.to_owned(), path]).collect()
    }
}

/// `plexus attach`.
#[derive(Args, Debug)]
pub struct Attach {
    /// The session.
    #[arg(value_name = "NAME|ID", add = sessions())]
    pub session: String,
    /// End with the running chat, instead of waiting for your next line.
    #[arg(long)]
    pub once: bool,
    /// Print events as JSON, one a line. Nothing is asked.
    #[arg(long)]
    pub json: bool,
}
