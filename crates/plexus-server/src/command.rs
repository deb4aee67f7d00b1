//! The commands that need the machine of the server: `serve`, `confine`, `doctor`, `prune` and
//! `migrate`.

use std::path::PathBuf;

use anyhow::Result;
use clap::Subcommand;

pub use crate::confine::Confine;
pub use crate::serve::arguments::Serve;
use crate::{PlexusBuilder, confine, doctor, serve, upkeep};

/// The exit code of a command that worked.
const OK: u8 = 0;

/// The exit code of `doctor` when something must be repaired.
const NOT_WELL: u8 = 1;

/// A command that needs the machine of the server.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Run the server in the foreground.
    Serve(Serve),
    /// Check everything that usually goes wrong, and say the next step.
    Doctor {
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Run a program inside a wall: it reads and writes listed files and reaches listed hosts.
    ///
    /// Exit codes: the program's own, or 125 when the wall could not be built; the program has not
    /// run then.
    Confine(Confine),
    /// Remove old approvals, events and runs.
    Prune {
        /// How old, in days: 30d or 30.
        #[arg(long, value_parser = days, value_name = "DAYS")]
        older_than: u64,
        /// Also remove the texts of prompts, which stay otherwise.
        #[arg(long)]
        prompts: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Move everything from the SQLite file of the data directory into the PostgreSQL of
    /// DATABASE_URL or store.url.
    Migrate {
        /// Where from.
        #[arg(long, value_parser = ["sqlite"])]
        from: String,
        /// Where to.
        #[arg(long, value_parser = ["postgres"])]
        to: String,
    },
}

impl Command {
    /// Runs the command and returns its exit code. `customize` adds to the server of `serve`, such
    /// as activations of the embedding program.
    ///
    /// # Errors
    /// When it fails; the message is a sentence.
    pub async fn run(
        self,
        data_dir: impl FnOnce() -> Result<PathBuf>,
        customize: impl FnOnce(PlexusBuilder) -> PlexusBuilder,
    ) -> Result<u8> {
        match self {
            Self::Serve(arguments) => {
                serve::serve(arguments.options(data_dir()?)?, customize).await?;
            }
            Self::Doctor { json } => {
                let is_well = doctor::doctor(&data_dir()?, json).await?;
                return Ok(if is_well { OK } else { NOT_WELL });
            }
            Self::Confine(arguments) => return confine::confine(arguments).await,
            Self::Prune { older_than, prompts, json } => {
                upkeep::prune(&data_dir()?, older_than, prompts, json).await?;
            }
            Self::Migrate { .. } => upkeep::migrate(&data_dir()?).await?,
        }
        Ok(OK)
    }
}

fn days(text: &str) -> Result<u64, String> {
    text.strip_suffix('d')
        .unwrap_or(text)
        .parse()
        .map_err(|_| "that is not a number of days, such as 30d".to_owned())
}
