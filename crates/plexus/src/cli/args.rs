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
    /// Run the server in the foreground.
    Serve(Serve),
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
    /// Set any key of plexus.toml, such as limits.running_children=8.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value)]
    set: Vec<(String, String)>,
}

impl Serve {
    /// Returns what the server is started with.
    ///
    /// # Errors
    /// When there is no data directory.
    pub fn options(self, global: Global) -> anyhow::Result<ServeOptions> {
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
        Ok(ServeOptions { data_dir, sources: Sources { files, env: std::env::vars_os().collect(), set } })
    }
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("that is not KEY=VALUE".to_owned()),
    }
}
