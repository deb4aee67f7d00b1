//! Every command but the server's own life.
//!
//! In reading order: [`args`] is the command line as clap reads it; [`sanitize`] makes an agent's text safe to show.

pub mod args;
mod render;
mod run;
pub mod sanitize;
mod screen;
mod server;

use std::process::ExitCode;

use clap::Parser;

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
    /// The person stopped it.
    pub const INTERRUPTED: u8 = 130;
}

/// Runs the command that the arguments name.
#[must_use]
pub fn main() -> ExitCode {
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
        // Whoever reads the output has seen enough: `plexus logs | head`.
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
        Command::Attach(attach) => run::attach(global, &attach.session, attach.json).await,
        Command::Serve(serve) => crate::serve::serve(serve.options(global)?).await.map(|()| exit::OK),
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().filter_map(|cause| cause.downcast_ref::<std::io::Error>()).any(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}

/// Turns an error whose message is a fragment into a sentence, with every cause that it does not mention itself.
pub(crate) fn could_not(error: impl std::error::Error) -> anyhow::Error {
    let mut text = format!("could not {error}");
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    anyhow::Error::msg(text)
}

#[expect(clippy::print_stderr, reason = "this is where a command says what went wrong")]
pub(crate) fn complain(line: &str) {
    eprintln!("{}", sanitize::text(line));
}
