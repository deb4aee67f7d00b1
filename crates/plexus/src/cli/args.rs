//! The command line, as clap reads it.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

use crate::config::{Sources, default_data_dir, user_config_file};
use crate::serve::ServeOptions;

/// Supervise Claude Code sessions: you, a program or another agent answers what they ask.
#[derive(Parser, Debug)]
#[command(name = "plexus", version, arg_required_else_help = true, max_term_width = 100)]
pub struct Arguments {
    /// What every command takes.
    #[command(flatten)]
    pub global: Global,
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// What every command takes.
#[derive(Args, Debug)]
pub struct Global {
    /// Where the server keeps its data [default: $XDG_STATE_HOME/plexus or ~/.local/state/plexus].
    #[arg(long, global = true, value_name = "DIR", env = "PLEXUS_DATA_DIR")]
    pub data_dir: Option<PathBuf>,
}

impl Global {
    /// Returns the data directory.
    ///
    /// # Errors
    /// When none is named and none can be found.
    pub fn data_dir(&self) -> anyhow::Result<PathBuf> {
        match &self.data_dir {
            Some(dir) => Ok(std::path::absolute(dir)?),
            None => default_data_dir().map_err(super::could_not),
        }
    }
}

/// The commands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Run an agent here and answer what it asks.
    ///
    /// Starts a server when none runs. Exit codes: 0 the chat completed, 1 something did not work, 2 wrong usage, 3 the chat failed, 4 the chat was
    /// cancelled by somebody else, 130 you pressed Ctrl-C.
    Run(Run),
    /// Watch a session and answer what it asks.
    Attach(Attach),
    /// Run the server in the foreground.
    Serve(Serve),
}

/// `plexus run`.
#[derive(Args, Debug)]
pub struct Run {
    /// What to tell the agent; `-` reads it from stdin.
    #[arg(required = true)]
    pub prompt: Vec<String>,
    /// Go on with this session instead of creating one.
    #[arg(long, short, value_name = "NAME|ID", conflicts_with_all = ["name", "model", "supervise_all"])]
    pub session: Option<String>,
    /// The new session's name [default: made from the directory].
    #[arg(long, short)]
    pub name: Option<String>,
    /// The model, as the CLI names it.
    #[arg(long, short)]
    pub model: Option<String>,
    /// Ask also about what the agent would do unasked, such as reading files.
    #[arg(long)]
    pub supervise_all: bool,
    /// The agent for a server that has to be started: a path, or `sim`.
    #[arg(long, value_name = "PATH")]
    pub claude_bin: Option<String>,
    /// Print events as JSON, one a line. Nothing is asked.
    #[arg(long)]
    pub json: bool,
}

impl Run {
    /// Returns what a server that has to be started is told.
    #[must_use]
    pub fn serve_arguments(&self) -> Vec<String> {
        self.claude_bin.iter().flat_map(|path| ["--claude-bin".to_owned(), path.clone()]).collect()
    }
}

/// `plexus attach`.
#[derive(Args, Debug)]
pub struct Attach {
    /// The session.
    #[arg(value_name = "NAME|ID")]
    pub session: String,
    /// Print events as JSON, one a line. Nothing is asked.
    #[arg(long)]
    pub json: bool,
}

/// `plexus serve`.
#[derive(Args, Debug)]
pub struct Serve {
    /// Where to listen; port 0 takes a free one [default: 127.0.0.1:4445].
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// Listen also where other machines can reach it.
    #[arg(long)]
    allow_non_loopback: bool,
    /// The agent: a path, or `sim` for the built-in simulator [default: claude from PATH, else the simulator].
    #[arg(long, value_name = "PATH")]
    claude_bin: Option<String>,
    /// How permission requests travel.
    #[arg(long, value_parser = ["auto", "control", "mcp"])]
    channel: Option<String>,
    /// What is logged to stderr, such as `info` or `plexus_activations=debug`.
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
    /// Read this file instead of plexus.toml in the data directory or ~/.config/plexus.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Leave the terminal of whoever started it.
    #[arg(long, hide = true)]
    new_session: bool,
    /// Set any key of plexus.toml, such as limits.running_children=8.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    set: Vec<(String, String)>,
}

impl Serve {
    /// Returns what the server is started with.
    ///
    /// # Errors
    /// When there is no data directory.
    pub fn options(self, global: &Global) -> anyhow::Result<ServeOptions> {
        let data_dir = global.data_dir()?;
        let files = match self.config {
            Some(file) => {
                anyhow::ensure!(file.is_file(), "could not read {}: it is not a file", file.display());
                vec![file]
            }
            None => [Some(data_dir.join("plexus.toml")), user_config_file()].into_iter().flatten().collect(),
        };
        let mut set = self.set;
        let flags = [("listen", self.listen), ("claude_bin", self.claude_bin), ("channel", self.channel), ("log", self.log)];
        set.extend(flags.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
        if self.allow_non_loopback {
            set.push(("allow_non_loopback".into(), "true".into()));
        }
        Ok(ServeOptions { data_dir, own_session: self.new_session, sources: Sources { files, env: std::env::vars_os().collect(), set } })
    }
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("that is not KEY=VALUE".to_owned()),
    }
}
