//! From the command line to a running process.

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use serde_json::json;

use crate::acp;
use crate::background::Tasks;
use crate::cli::{self, Invocation, Options, OutputFormat, UsageError};
use crate::codex;
use crate::mcp::{ConfigError, Servers};
use crate::out::Out;
use crate::result::unknown_conversation;
use crate::rules::{Rules, SettingsError};
use crate::run::{self, Exit, Inputs, complain};
use crate::signals::Signals;
use crate::sim::{Prompt, Sim, TurnState, model_name};
use crate::stdin;
use crate::transcript::{Transcript, TranscriptError};
use crate::wire::VERSION;

/// Why a process ends before it has started; the text goes to stderr.
#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error(transparent)]
    Usage(#[from] UsageError),
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error(transparent)]
    Mcp(#[from] ConfigError),
    #[error(transparent)]
    Transcript(#[from] TranscriptError),
    #[error(
        "Error: Input must be provided either through stdin or as a prompt argument when using \
         --print"
    )]
    NoPrompt,
    #[error("--as wants `claude`, `codex` or `acp`")]
    NoSuchPart,
    #[error("could not start: {0}")]
    Io(#[from] std::io::Error),
}

/// Runs the simulator with the words after its name, and returns the exit code for the process.
///
/// It takes over the process: stdin, stdout and the signals SIGINT, SIGTERM and SIGHUP. Call it
/// once, from `main`.
pub fn main_with_args(args: impl IntoIterator<Item = OsString>) -> ExitCode {
    match start(args) {
        Ok(Exit::Code(code)) => ExitCode::from(code),
        Ok(Exit::Crash) => crash(),
        Err(error) => {
            complain(&error.to_string());
            ExitCode::FAILURE
        }
    }
}

fn start(args: impl IntoIterator<Item = OsString>) -> Result<Exit, StartError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let args: Vec<OsString> = args.into_iter().collect();
    let args = match args.as_slice() {
        [flag, part, rest @ ..] if flag == "--as" && part == "codex" => {
            return Ok(runtime.block_on(codex::run(rest.iter().cloned()))?);
        }
        [flag, part, rest @ ..] if flag == "--as" && part == "acp" => {
            return Ok(runtime.block_on(acp::run(rest.iter().cloned()))?);
        }
        [flag, part, rest @ ..] if flag == "--as" && part == "claude" => rest.to_vec(),
        [flag, ..] if flag == "--as" => return Err(StartError::NoSuchPart),
        _ => args,
    };
    let options = match cli::parse(args)? {
        Invocation::Run(options) => *options,
        Invocation::Version => {
            return runtime.block_on(print(&format!("{VERSION} (Claude Code simulator)")));
        }
        Invocation::Help => return runtime.block_on(print(HELP)),
    };
    runtime.block_on(run_with(options))
}

const HELP: &str = "Usage: plexus-sim [options] [prompt]\n\nA simulator of the claude CLI. It takes the flags of \
                    `claude --print`; its story comes from the prompt.";

async fn print(text: &str) -> Result<Exit, StartError> {
    let out = Out::start()?;
    out.raw(text.as_bytes().to_vec());
    out.flush().await;
    Ok(Exit::Code(0))
}

async fn run_with(options: Options) -> Result<Exit, StartError> {
    let out = Out::start()?;
    let cwd = std::env::current_dir()?;
    let servers = Servers::new(&options.mcp_config)?;
    let rules = Rules::new(&options, &cwd)?;
    let prompt = match &options.prompt {
        _ if options.stream_input => None,
        Some(prompt) => Some(prompt.clone()),
        None => Some(stdin::prompt()?).filter(|prompt| !prompt.is_empty()),
    };
    if prompt.is_none() && !options.stream_input {
        return Err(StartError::NoPrompt);
    }
    // Signals are caught only from here on: until the prompt has arrived, they end the process by
    // default.
    let signals = Signals::new()?;
    let transcript = match Transcript::open(&options, &cwd.to_string_lossy()) {
        Ok(transcript) => transcript,
        Err(error @ (TranscriptError::Unknown(_) | TranscriptError::NoMessage(_))) => {
            refuse_to_resume(&options, &out, &error).await;
            return Err(error.into());
        }
        Err(error) => return Err(error.into()),
    };
    let stdin = if options.stream_input { Some(stdin::lines()?) } else { None };
    let (sim, tasks) = assemble(options, out, cwd, transcript, servers, rules);
    if let Some(text) = prompt {
        let message = json!({"role": "user", "content": text});
        sim.queue.borrow_mut().push_back(Prompt { text, message, uuid: None });
        sim.input_closed.set(true);
        sim.session_state.set("running");
    }
    let exit = run::run(&sim, Inputs { stdin, tasks, signals }).await;
    if matches!(exit, Exit::Code(_))
        && let Err(error) = sim.transcript.borrow().leave()
    {
        complain(&error.to_string());
    }
    Ok(exit)
}

fn assemble(
    options: Options,
    out: Out,
    cwd: PathBuf,
    transcript: Transcript,
    servers: Servers,
    rules: Rules,
) -> (Sim, tokio::sync::mpsc::UnboundedReceiver<crate::background::News>) {
    let session_id = transcript.session_id().to_owned();
    let (tasks, ended) = Tasks::new(&session_id);
    let bill = RefCell::new(transcript.bill().clone());
    let earlier_prompts = transcript.uuids().iter().cloned().collect();
    let sim = Sim {
        model: RefCell::new(model_name(options.model.as_deref())),
        options,
        out,
        cwd,
        session_id,
        transcript: RefCell::new(transcript),
        servers,
        rules: RefCell::new(rules),
        queue: RefCell::new(VecDeque::new()),
        known_prompts: RefCell::new(HashSet::new()),
        earlier_prompts,
        questions: RefCell::new(Vec::new()),
        requests: RefCell::new(HashMap::new()),
        tasks,
        turn: RefCell::new(TurnState::new(Vec::new(), None)),
        bill,
        results: Cell::new(0),
        session_state: Cell::new("idle"),
        input_closed: Cell::new(false),
    };
    (sim, ended)
}

async fn refuse_to_resume(options: &Options, out: &Out, error: &TranscriptError) {
    if options.output != OutputFormat::Text {
        out.line(&unknown_conversation(
            options.resume.as_deref().unwrap_or_default(),
            &error.to_string(),
        ));
        out.flush().await;
    }
}

/// Kills this process.
fn crash() -> ! {
    #[cfg(unix)]
    {
        use rustix::process::{Signal, getpid, kill_process};
        // The call does not return; if it ever did, aborting would have the same effect.
        let _ = kill_process(getpid(), Signal::KILL);
    }
    std::process::abort()
}
