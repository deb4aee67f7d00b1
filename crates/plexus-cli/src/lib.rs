//! The commands of `plexus` that work with a running server, over `plexus-client` alone.
//!
//! In reading order:
//! - [`args`]: these commands as clap reads them.
//! - `server`: finds the server of a data directory, or starts one.
//! - `run`: `run`, `attach` and `review`, the main job for a person.
//! - `find`: sessions and approvals as a person names them.
//! - `sessions`, `logs`, `search`, `changes`: what there is, what happened, what was said and done,
//!   and what changed.
//! - `approvals`, `preview`, `manage`: what waits, what it would change, and the server itself.
//! - `devices`, `parents`, `notify`: phones, parents and receivers outside.
//! - `acp`: the agent for an editor.
//! - `program`: starts an editor, a pager or a browser.
//! - `demo`, `manual`, `complete`, `hints`: help to get going.

mod acp;
mod approvals;
pub mod args;
mod changes;
mod complete;
mod demo;
mod devices;
mod find;
mod hints;
mod logs;
mod manage;
mod manual;
mod notify;
mod parents;
mod preview;
mod program;
mod run;
mod search;
mod server;
mod sessions;
#[cfg(test)]
mod stand_in;

use args::{Command, Global};

/// Exit codes of every command.
pub mod exit {
    /// It worked.
    pub const OK: u8 = 0;
    /// It did not work; stderr says why.
    pub const FAILED: u8 = 1;
    /// The command line was not understood.
    pub const USAGE: u8 = 2;
    /// The chat failed.
    pub const CHAT_FAILED: u8 = 3;
    /// The chat was cancelled, and not by the person at this terminal.
    pub const CANCELLED: u8 = 4;
    /// The chat completed, but a call of it was denied or expired.
    pub const REFUSED: u8 = 5;
    /// The person stopped it.
    pub const INTERRUPTED: u8 = 130;
}

/// Runs a command and returns its exit code. `whole` is the command line of the program, for its
/// manual pages.
///
/// # Errors
/// When it fails; the message is a sentence.
pub async fn run(global: &Global, command: Command, whole: clap::Command) -> anyhow::Result<u8> {
    match command {
        Command::Run(run) => run::run(global, run).await,
        Command::Attach(attach) => run::attach(global, &attach).await,
        Command::Ps(form) => sessions::ps(global, form.json).await,
        Command::Logs(logs) => logs::logs(global, &logs).await,
        Command::Changes(changes) => changes::changes(global, &changes).await,
        Command::Search(search) => search::search(global, &search).await,
        Command::Pending { session, json } => {
            approvals::pending(global, session.as_deref(), json.json).await
        }
        Command::Preview { approval, json } => preview::preview(global, &approval, json.json).await,
        Command::Approve(approve) => approvals::approve(global, &approve).await,
        Command::Deny(deny) => approvals::deny(global, &deny).await,
        Command::Review { session } => run::review(global, session.as_deref()).await,
        Command::Send { session, text } => sessions::send(global, &session, &text.join(" ")).await,
        Command::Fork { session, name } => sessions::fork(global, &session, &name).await,
        Command::Rename { session, name } => sessions::rename(global, &session, &name).await,
        Command::Rm { sessions } => sessions::rm(global, &sessions).await,
        Command::Cancel { session, reason } => {
            sessions::cancel(global, &session, reason.as_deref()).await
        }
        Command::Rules(rules) => approvals::rules(global, rules).await,
        Command::Tree { session, json } => {
            sessions::tree(global, session.as_deref(), json.json).await
        }
        Command::Call { method, params } => manage::call(global, &method, &params).await,
        Command::Stop { children, park } => manage::stop(global, children, park).await,
        Command::Dashboard { print } => manage::dashboard(global, print).await,
        Command::Mcp(mcp) => manage::mcp(global, &mcp).await,
        Command::McpConfig(config) => manage::mcp_config(global, &config).await,
        Command::Acp(acp) => acp::acp(global, acp).await,
        Command::AcpConfig { editor } => acp::acp_config(global, editor),
        Command::Parents(parents) => parents::parents(global, &parents).await,
        Command::Pair { name, json } => devices::pair(global, name, json.json).await,
        Command::Devices(arguments) => devices::devices(global, &arguments).await,
        Command::Notify(notify) => notify::notify(global, &notify).await,
        Command::Token => manage::token(global),
        Command::Demo(demo) => demo::demo(&demo).await,
        Command::Completions { shell } => manual::completions(shell),
        Command::Man { dir } => manual::man(whole, &dir),
    }
}
