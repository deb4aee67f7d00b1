//! Any program: the message as JSON on its stdin. It has taken the message when it ends with 0.
//!
//! It runs without the variables of the server, which may hold secrets of other receivers, in a
//! process group of its own that is killed when its time is over.

use std::path::PathBuf;
use std::pin::pin;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command as Program};

use super::Attempt;
use crate::message::Message;
use plexus_render::sanitize;

/// How much of the program's stderr is read, for the log.
const MAX_COMPLAINT_BYTES: u64 = 1_024;

/// How long its last output may take to arrive after it has ended.
const LAST_WORDS_WITHIN: Duration = Duration::from_millis(200);

/// The variables that a program gets.
const VARIABLES: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "XDG_RUNTIME_DIR",
    "DBUS_SESSION_BUS_ADDRESS",
];

/// A program and its arguments.
#[derive(Clone, Debug)]
pub(crate) struct Command {
    program: PathBuf,
    arguments: Vec<String>,
}

impl Command {
    pub(crate) fn new(words: &[String]) -> Result<Self, String> {
        let (program, arguments) = words
            .split_first()
            .ok_or("name the program: command = [\"/usr/local/bin/tell-me\", \"argument\"]")?;
        let program = PathBuf::from(program);
        if !program.is_absolute() {
            return Err("the program of its command needs an absolute path".into());
        }
        Ok(Self { program, arguments: arguments.to_vec() })
    }

    pub(super) async fn send(&self, message: &Message, within: Duration) -> Attempt {
        let mut program = Program::new(&self.program);
        program.args(&self.arguments);
        run(program, letter(message).to_string().as_bytes(), within).await
    }
}

/// What the program reads.
fn letter(message: &Message) -> Value {
    let messages: Vec<&Value> = message.items.iter().map(|item| &item.event).collect();
    json!({
        "title": message.title,
        "body": message.body,
        "url": message.url,
        "tag": message.tag,
        "messages": messages,
    })
}

/// Runs a program with `input` on its stdin.
pub(super) async fn run(mut program: Program, input: &[u8], within: Duration) -> Attempt {
    let variables = VARIABLES.iter().filter_map(|name| Some((name, std::env::var_os(name)?)));
    program
        .env_clear()
        .envs(variables)
        .current_dir("/")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    let mut child = match program.spawn() {
        Ok(child) => child,
        Err(error) => return Attempt::Refused(format!("the program cannot be started: {error}")),
    };
    let mut group = Group::of(&child);
    let (stdin, stderr) = (child.stdin.take(), child.stderr.take());
    let mut said = Vec::new();
    let running = async {
        let telling = async {
            if let Some(mut stdin) = stdin {
                // A program that does not read its input may still do its job.
                let _unread = stdin.write_all(input).await;
            }
        };
        let complaining = async {
            if let Some(stderr) = stderr {
                let _broken = stderr.take(MAX_COMPLAINT_BYTES).read_to_end(&mut said).await;
            }
        };
        let mut talking = pin!(async { tokio::join!(telling, complaining) });
        let mut ending = pin!(child.wait());
        tokio::select! {
            _talked = &mut talking => ending.await,
            ended = &mut ending => {
                // A process that it left behind may hold its stderr open for ever.
                let _open = tokio::time::timeout(LAST_WORDS_WITHIN, talking).await;
                ended
            }
        }
    };
    let outcome = tokio::time::timeout(within, running).await;
    if outcome.is_ok() {
        // The pid may belong to another process by now.
        group.0 = None;
    }
    match outcome {
        Err(_) => {
            Attempt::Unreachable(format!("the program took more than {} s", within.as_secs()))
        }
        Ok(Err(error)) => Attempt::Refused(format!("the program was lost: {error}")),
        Ok(Ok(status)) if status.success() => Attempt::Delivered,
        Ok(Ok(status)) => {
            let said = String::from_utf8_lossy(&said);
            let line = said.lines().find(|line| !line.trim().is_empty()).unwrap_or_default();
            let line = sanitize::one_line(line);
            let why = if line.is_empty() { String::new() } else { format!(": {line}") };
            Attempt::Refused(format!("the program ended with {status}{why}"))
        }
    }
}

/// The process group of a program that has not ended, killed when this is dropped.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
        Self(pid.and_then(Pid::from_raw))
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            // An empty group is not an error.
            let _gone = kill_process_group(group, Signal::KILL);
        }
    }
}
