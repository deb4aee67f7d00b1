//! The arguments of `plexus serve`, and the settings that they make.

use std::path::PathBuf;

use clap::Args;

use super::ServeOptions;
use crate::config::Sources;

/// `plexus serve`.
#[derive(Args, Debug)]
pub struct Serve {
    /// Where to listen; port 0 takes a free one [default: 127.0.0.1:4445].
    #[arg(long, value_name = "HOST:PORT")]
    listen: Option<String>,
    /// Allow an address that other machines can reach.
    #[arg(long)]
    allow_non_loopback: bool,
    /// The agent: a path, or `sim` for the built-in simulator [default: claude from PATH, else the
    /// simulator].
    #[arg(long, value_name = "PATH")]
    claude_bin: Option<String>,
    /// The CLI of Codex: a path, or `sim` for the built-in simulator [default: codex from PATH].
    #[arg(long, value_name = "PATH")]
    codex_bin: Option<String>,
    /// How agents send their permission requests.
    #[arg(long, value_parser = ["auto", "control", "mcp"])]
    channel: Option<String>,
    /// What is logged to stderr, such as `info` or `plexus_activations=debug`.
    #[arg(long, value_name = "FILTER")]
    log: Option<String>,
    /// Read this file instead of plexus.toml in the data directory or ~/.config/plexus.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Start although sessions are missing from the store, which was restored from an older copy,
    /// and go on without them.
    #[arg(long)]
    accept_older_store: bool,
    /// Leave the terminal that it was started from.
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
    /// When the configuration file that it names is not a file.
    pub fn options(self, data_dir: PathBuf) -> anyhow::Result<ServeOptions> {
        let files = match self.config {
            Some(file) => {
                anyhow::ensure!(
                    file.is_file(),
                    "could not read {}: it is not a file",
                    file.display()
                );
                vec![file]
            }
            None => Sources::of(&data_dir).files,
        };
        let mut set = self.set;
        let flags = [
            ("listen", self.listen),
            ("claude_bin", self.claude_bin),
            ("codex_bin", self.codex_bin),
            ("channel", self.channel),
            ("log", self.log),
        ];
        set.extend(flags.into_iter().filter_map(|(key, value)| Some((key.to_owned(), value?))));
        if self.allow_non_loopback {
            set.push(("allow_non_loopback".into(), "true".into()));
        }
        Ok(ServeOptions {
            data_dir,
            accept_older_store: self.accept_older_store,
            own_session: self.new_session,
            sources: Sources { files, env: std::env::vars_os().collect(), set },
        })
    }
}

fn key_value(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.is_empty() => Ok((key.to_owned(), value.to_owned())),
        _ => Err("that is not KEY=VALUE".to_owned()),
    }
}
