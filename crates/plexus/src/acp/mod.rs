//! `plexus acp`: an agent of the Agent Client Protocol on stdin and stdout. An editor talks to it
//! as to any agent; behind it is a session of the server, which goes on without the editor and
//! which others watch and answer at the same time.
//!
//! In reading order:
//! - [`door`]: the loop; requests of the editor, and everything that comes back.
//! - [`opening`]: finds or creates the session that a request names; [`servers`]: the MCP servers
//!   that the editor gives to its agent.
//! - [`fronted`]: one open session: its turn, its dialogs, its options.
//! - [`reader`]: the history and the events of a session, in order; [`history`]: what a fork goes
//!   on from.
//! - [`view`]: events as updates; [`call`] and [`blocks`] draw tool calls and their results.
//! - [`questions`]: which answers of the editor decide; [`prompt`]: what a prompt may hold;
//!   [`options`]: modes and models.
//! - [`hands`], [`server`], [`refusal`]: the editor's pipe and tasks, a server that may be away,
//!   errors.
//! - [`config`]: `plexus acp-config`.

mod blocks;
mod call;
pub(crate) mod config;
mod door;
mod fronted;
mod hands;
mod history;
mod opening;
mod options;
mod prompt;
mod questions;
mod reader;
mod refusal;
mod server;
mod servers;
mod view;

use anyhow::{Context as _, Result};
use plexus_client::wire::Supervise;

use crate::cli::args::{Acp, Global};
use crate::cli::server::{Found, find_or_start};
use crate::cli::{complain, exit};
use opening::Settings;

/// Runs the command. Nothing else may write to stdout here.
pub(crate) async fn acp(global: &Global, arguments: Acp) -> Result<u8> {
    let data_dir = global.data_dir()?;
    let (client, found) = find_or_start(&data_dir, &[]).await?;
    if let Found::Started { log } = found {
        complain(&format!("plexus acp: started a server (log: {})", log.display()));
    }
    let Acp { agent, session, model, supervise_all } = arguments;
    let supervise = supervise_all.then_some(Supervise::All);
    let settings = Settings { agent, session, model, supervise, data_dir };
    door::serve(client, settings).await.context("could not read what the editor sends")?;
    Ok(exit::OK)
}
