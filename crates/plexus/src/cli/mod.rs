//! The command line: every command except `serve`, which is in `serve/`.
//!
//! In reading order:
//! - [`args`]: the command line as clap reads it.
//! - [`server`]: finds the server of a data directory, or starts one.
//! - [`mod@run`]: `run` and `attach`, the main job for a person.
//! - [`find`]: sessions and approvals as a person names them.
//! - [`asked`]: questions of an agent to its user.
//! - [`sessions`], [`logs`], [`search`], [`changes`]: what there is, what happened, what was said
//!   and done, and what changed.
//! - [`approvals`], [`preview`], [`manage`]: what waits, what it would change, and the server
//!   itself.
//! - [`devices`], [`parents`], [`notify`]: phones, parents and receivers outside.
//! - [`confine`]: runs any program inside a wall.
//! - [`doctor`], [`demo`], [`manual`], [`complete`], [`hints`]: help to get going.
//! - [`render`], [`screen`], [`sanitize`]: tool calls as a person reads them, colours and widths,
//!   and text made safe to show.

mod approvals;
pub mod args;
mod asked;
mod changes;
mod complete;
pub mod confine;
mod demo;
mod devices;
mod doctor;
pub(crate) mod find;
mod hints;
mod logs;
mod manage;
mod manual;
pub(crate) mod notify;
mod parents;
pub(crate) mod preview;
pub(crate) mod render;
pub(crate) mod run;
pub mod sanitize;
pub(crate) mod screen;
mod search;
pub(crate) mod server;
mod sessions;
#[cfg(test)]
mod stand_in;

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser};

use args::{Arguments, Command};

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

/// Runs the command that the arguments name.
#[must_use]
pub fn main() -> ExitCode {
    // A shell asks for completions in a variable, and ends here.
    clap_complete::CompleteEnv::with_factory(Arguments::command).complete();
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let code = if error.use_stderr() { exit::USAGE } else { exit::OK };
            // Nobody is left to tell when this fails.
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    let outcome = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
        .map_err(anyhow::Error::from)
        .and_then(|runtime| runtime.block_on(run(arguments)));
    match outcome {
        Ok(code) => ExitCode::from(code),
        // The reader of the output has seen enough: `plexus logs | head`.
        Err(error) if is_broken_pipe(&error) => ExitCode::from(exit::OK),
        Err(error) => {
            complain(&format!("plexus: {error:#}"));
            ExitCode::from(exit::FAILED)
        }
    }
}

async fn run(arguments: Arguments) -> anyhow::Result<u8> {
    let global = &arguments.global;
    match arguments.command {
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
        Command::Serve(serve) => {
            crate::serve::serve(serve.options(global)?).await.map(|()| exit::OK)
        }
        Command::Stop { children, park } => manage::stop(global, children, park).await,
        Command::Dashboard { print } => manage::dashboard(global, print).await,
        Command::Mcp(mcp) => manage::mcp(global, &mcp).await,
        Command::McpConfig(config) => manage::mcp_config(global, &config).await,
        Command::Acp(acp) => crate::acp::acp(global, acp).await,
        Command::AcpConfig { editor } => crate::acp::config::acp_config(global, editor),
        Command::Parents(parents) => parents::parents(global, &parents).await,
        Command::Pair { name, json } => devices::pair(global, name, json.json).await,
        Command::Devices(arguments) => devices::devices(global, &arguments).await,
        Command::Notify(notify) => notify::notify(global, &notify).await,
        Command::Token => manage::token(global),
        Command::Confine(confine) => confine::confine(confine).await,
        Command::Doctor(form) => doctor::doctor(global, form.json).await,
        Command::Prune { older_than, prompts, json } => {
            manage::prune(global, older_than, prompts, json.json).await
        }
        Command::Migrate { .. } => manage::migrate(global).await,
        Command::Demo(demo) => demo::demo(&demo).await,
        Command::Sim { .. } => {
            anyhow::bail!("could not play the simulator: `sim` must be the first argument")
        }
        Command::Completions { shell } => manual::completions(shell),
        Command::Man { dir } => manual::man(&dir),
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<std::io::Error>())
        .any(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

/// Turns an error whose message is a fragment into a sentence, with every cause that it does not
/// mention itself.
pub(crate) fn could_not(error: impl std::error::Error) -> anyhow::Error {
    let mut text = format!("could not {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        let more = more.trim_end();
        if !text.contains(more) {
            text.push_str(": ");
            text.push_str(more);
        }
        cause = error.source();
    }
    anyhow::Error::msg(text)
}

#[expect(clippy::print_stderr, reason = "this is where a command says what went wrong")]
pub(crate) fn complain(line: &str) {
    eprintln!("{}", sanitize::text(line));
}
