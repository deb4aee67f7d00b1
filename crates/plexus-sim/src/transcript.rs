//! Conversations on disk, so that `--resume`, `--fork-session` and `--continue` mean something.
//!
//! One file for each session in a folder of its own among the CLI's projects: a first line with the
//! working directory, then a line for each prompt, and the CLI's own rows of calls and results. The
//! real CLI's files are never touched: its folders are named by absolute paths.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::cli::Options;
use crate::result::Bill;
use crate::rows::{AttachmentRow, CallsRow, Deferral, ParkedCall, ResultsRow};
use crate::run::complain;
use crate::sim::Sim;

/// The conversation of this process.
#[derive(Debug)]
pub(crate) struct Transcript {
    session_id: String,
    /// Where it is kept; `None` when there is no home directory, and then nothing is.
    file: Option<PathBuf>,
    earlier: Earlier,
}

/// What was said in a conversation.
#[derive(Debug, Default)]
struct Earlier {
    prompts: Vec<String>,
    /// The senders' ids of the prompts that had one.
    uuids: Vec<String>,
    /// The last message of each turn, and how many prompts came before it.
    messages: Vec<(usize, String)>,
    /// What the model had cost when a process last left the conversation. A process that is killed
    /// does not update it.
    bill: Bill,
    /// When the last turn ended, in microseconds since 1970.
    ended_at: i64,
    /// The call that this process asks about before anything else.
    parked: Option<ParkedCall>,
}

/// One line of the file.
#[derive(Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(crate) enum Line {
    Session {
        cwd: String,
    },
    Prompt {
        text: String,
        uuid: Option<String>,
    },
    /// A turn has ended, and cost this.
    Turn {
        bill: Bill,
        /// Microseconds since 1970: file times are too coarse to tell which of two quick turns was
        /// the last.
        at: i64,
        /// The id of its last message. The real CLI knows all of them.
        message: Option<String>,
    },
    /// A process has left.
    Left,
    /// A message that calls tools.
    Assistant(CallsRow),
    /// The results of calls.
    User(ResultsRow),
    /// What else the CLI notes.
    Attachment(AttachmentRow),
}

impl Line {
    fn turn(bill: &Bill, message: Option<&str>) -> Self {
        let at = jiff::Timestamp::now().as_microsecond();
        Self::Turn { bill: bill.clone(), at, message: message.map(str::to_owned) }
    }
}

impl Earlier {
    /// Forgets what was said after this message. What it cost stays, as with the real CLI.
    fn cut_behind(&mut self, message: &str) -> Result<(), TranscriptError> {
        let found = self.messages.iter().position(|(_, id)| id == message);
        let at = found.ok_or_else(|| TranscriptError::NoMessage(message.to_owned()))?;
        self.prompts.truncate(self.messages[at].0);
        self.messages.truncate(at + 1);
        self.parked = None;
        Ok(())
    }
}

/// Why there is no conversation to work in.
#[derive(Debug, thiserror::Error)]
pub(crate) enum TranscriptError {
    #[error("No conversation found with session ID: {0}")]
    Unknown(String),
    #[error("No message found with message.uuid of: {0}")]
    NoMessage(String),
    #[error("Error: Session ID {0} is already in use.")]
    InUse(String),
    #[error("could not keep the transcript at {path}: {source}")]
    Io { path: PathBuf, source: io::Error },
}

impl Transcript {
    /// Finds or starts the conversation that the options name.
    pub(crate) fn open(options: &Options, cwd: &str) -> Result<Self, TranscriptError> {
        let folder = folder();
        let earlier = match &options.resume {
            Some(id) => Some((id.clone(), read(folder.as_deref(), id)?)),
            // Nothing to continue silently starts a new session.
            None if options.continue_last => {
                folder.as_deref().and_then(|folder| newest(folder, cwd))
            }
            None => None,
        };
        let earlier = match (earlier, &options.resume_session_at) {
            (Some((id, mut earlier)), Some(message)) => {
                earlier.cut_behind(message)?;
                Some((id, earlier))
            }
            (earlier, _) => earlier,
        };
        match earlier {
            Some((session_id, earlier)) if !options.fork_session => {
                let file = folder.map(|folder| file_of(&folder, &session_id));
                Ok(Self { session_id, file, earlier })
            }
            earlier => {
                let session_id =
                    options.session_id.clone().unwrap_or_else(|| Uuid::new_v4().to_string());
                let file = folder.map(|folder| file_of(&folder, &session_id));
                let earlier = earlier.map(|(_, earlier)| earlier).unwrap_or_default();
                let transcript = Self { session_id, file, earlier };
                transcript.create(cwd)?;
                Ok(transcript)
            }
        }
    }

    pub(crate) fn session_id(&self) -> &str {
        &self.session_id
    }

    /// The prompts so far, oldest first.
    pub(crate) fn prompts(&self) -> &[String] {
        &self.earlier.prompts
    }

    /// The senders' ids of the prompts so far.
    pub(crate) fn uuids(&self) -> &[String] {
        &self.earlier.uuids
    }

    /// What it has cost before this process.
    pub(crate) fn bill(&self) -> &Bill {
        &self.earlier.bill
    }

    /// The call that was parked, once.
    pub(crate) fn take_parked(&mut self) -> Option<ParkedCall> {
        self.earlier.parked.take()
    }

    /// Adds a prompt, on disk first.
    pub(crate) fn add(&mut self, prompt: &str, uuid: Option<&str>) -> Result<(), TranscriptError> {
        let line = Line::Prompt { text: prompt.to_owned(), uuid: uuid.map(str::to_owned) };
        self.note(line)?;
        self.earlier.prompts.push(prompt.to_owned());
        Ok(())
    }

    /// Notes that a turn has ended.
    pub(crate) fn end_turn(
        &self,
        bill: &Bill,
        message: Option<&str>,
    ) -> Result<(), TranscriptError> {
        self.note(Line::turn(bill, message))
    }

    /// Notes that this process leaves.
    pub(crate) fn leave(&self) -> Result<(), TranscriptError> {
        self.note(Line::Left)
    }

    fn note(&self, line: Line) -> Result<(), TranscriptError> {
        self.append(&[line], fs::OpenOptions::new().append(true).create(true))
    }

    fn create(&self, cwd: &str) -> Result<(), TranscriptError> {
        let mut lines = vec![Line::Session { cwd: cwd.to_owned() }];
        let mut messages = self.earlier.messages.iter().peekable();
        for (n, text) in self.earlier.prompts.iter().enumerate() {
            lines.push(Line::Prompt { text: text.clone(), uuid: None });
            while let Some((_, message)) = messages.next_if(|(prompts, _)| *prompts == n + 1) {
                lines.push(Line::turn(&Bill::default(), Some(message)));
            }
        }
        lines.extend([Line::turn(&self.earlier.bill, None), Line::Left]);
        self.append(&lines, fs::OpenOptions::new().write(true).create_new(true))
    }

    fn append(&self, lines: &[Line], how: &fs::OpenOptions) -> Result<(), TranscriptError> {
        let Some(file) = &self.file else { return Ok(()) };
        let write = || -> io::Result<()> {
            let mut bytes = Vec::new();
            for line in lines {
                serde_json::to_writer(&mut bytes, line)?;
                bytes.push(b'\n');
            }
            if let Some(folder) = file.parent() {
                fs::create_dir_all(folder)?;
            }
            how.open(file)?.write_all(&bytes)
        };
        write().map_err(|source| match source.kind() {
            io::ErrorKind::AlreadyExists => TranscriptError::InUse(self.session_id.clone()),
            _ => TranscriptError::Io { path: file.clone(), source },
        })
    }
}

impl Sim {
    /// Adds a row to the transcript; a disk that does not take it is complained about.
    pub(crate) fn note_row(&self, row: Line) {
        if let Err(error) = self.transcript.borrow().note(row) {
            complain(&error.to_string());
        }
    }
}

fn folder() -> Option<PathBuf> {
    let configuration = match std::env::var_os("CLAUDE_CONFIG_DIR") {
        Some(folder) => PathBuf::from(folder),
        None => std::env::home_dir()?.join(".claude"),
    };
    Some(configuration.join("projects").join("plexus-sim"))
}

fn file_of(folder: &Path, session_id: &str) -> PathBuf {
    folder.join(format!("{session_id}.jsonl"))
}

fn read(folder: Option<&Path>, session_id: &str) -> Result<Earlier, TranscriptError> {
    let unknown = || TranscriptError::Unknown(session_id.to_owned());
    // The id comes from the command line: only a UUID may become part of a path.
    let id = Uuid::parse_str(session_id).map_err(|_| unknown())?;
    let path = file_of(folder.ok_or_else(unknown)?, &id.to_string());
    let text = match fs::read_to_string(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(unknown()),
        Err(source) => return Err(TranscriptError::Io { path, source }),
    };
    let mut earlier = Earlier::default();
    let mut unnoted = Bill::default();
    let mut deferral = Deferral::default();
    // A line cut short by a crash is as good as never written.
    for line in text.lines().filter_map(|line| serde_json::from_str(line).ok()) {
        match line {
            Line::Session { .. } => {}
            Line::Prompt { text, uuid } => {
                deferral.prompted();
                earlier.prompts.push(text);
                earlier.uuids.extend(uuid);
            }
            Line::Turn { bill, at, message } => {
                earlier.messages.extend(message.map(|message| (earlier.prompts.len(), message)));
                unnoted.add_all(&bill);
                earlier.ended_at = at;
            }
            Line::Left => earlier.bill.add_all(&std::mem::take(&mut unnoted)),
            Line::Assistant(row) => deferral.called(&row),
            Line::User(row) => deferral.had_results(&row),
            Line::Attachment(row) => deferral.attached(&row),
        }
    }
    earlier.parked = deferral.found();
    Ok(earlier)
}

/// The conversation of this working directory whose last turn is the most recent.
fn newest(folder: &Path, cwd: &str) -> Option<(String, Earlier)> {
    let files = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let here = files.filter_map(|path| {
        let text = fs::read_to_string(&path).ok()?;
        let Line::Session { cwd: its_cwd } = serde_json::from_str(text.lines().next()?).ok()?
        else {
            return None;
        };
        let id = path.file_stem()?.to_str()?.to_owned();
        if its_cwd == cwd {
            read(Some(folder), &id).ok().map(|earlier| (id, earlier))
        } else {
            None
        }
    });
    here.max_by_key(|(_, earlier)| earlier.ended_at)
}
