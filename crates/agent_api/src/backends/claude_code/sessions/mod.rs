//! Finds the session that a run continues, before anything is started.
//!
//! The CLI's own `--continue` silently starts a new session if there is none, so we never use it:
//! we look up the last session here and resume it by its id. The CLI itself refuses an unknown id.
//! Only text that cannot be an id is refused here, because the CLI would treat it as a title and
//! resume a session of that title.

use std::{
    fs::{self, File},
    io::{self, BufRead, BufReader, Read},
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use serde::Deserialize;

use super::config::ClaudeCodeBackendConfig;
use crate::{
    AgentWrapperError, AgentWrapperRunRequest, NO_SESSION_FOUND, SESSION_NOT_FOUND,
    extensions::{SessionSelector, SessionStart},
    validate::CheckedRequest,
};

/// Finds the last session of a directory.
pub trait ClaudeCodeSessionLookup: Send + Sync {
    /// Returns the id of the session that was last used in `working_dir`, which is canonical.
    /// `config_dir` is where the CLI keeps its data: `CLAUDE_CONFIG_DIR`, or `.claude` in the home
    /// directory.
    fn last(&self, config_dir: &Path, working_dir: &Path) -> io::Result<Option<String>>;
}

/// Searches the transcripts that the CLI writes.
#[derive(Clone, Copy, Debug, Default)]
pub struct ClaudeCodeTranscripts;

/// The session that a run uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SessionToUse {
    New,
    Resume(String),
    Fork(String),
}

/// Why there is no session to continue, in the words of the contract.
pub(super) type NothingFound = &'static str;

/// Finds the session that the request selects.
pub(super) async fn resolve(
    config: &ClaudeCodeBackendConfig,
    request: &AgentWrapperRunRequest,
    checked: &CheckedRequest,
) -> Result<Result<SessionToUse, NothingFound>, AgentWrapperError> {
    let (selector, to_use): (_, fn(String) -> SessionToUse) = match &checked.session {
        SessionStart::New => return Ok(Ok(SessionToUse::New)),
        SessionStart::Resume(selector) => (selector, SessionToUse::Resume),
        SessionStart::Fork(selector) => (selector, SessionToUse::Fork),
    };
    let found = match selector {
        SessionSelector::Id(id) if is_session_id(id) => Ok(id.clone()),
        SessionSelector::Id(_) => Err(SESSION_NOT_FOUND),
        SessionSelector::Last => {
            let lookup = Arc::clone(&config.sessions);
            let config_dir = config.cli_config_dir(request);
            let working_dir = checked.working_dir.clone();
            let last = tokio::task::spawn_blocking(move || match config_dir {
                Some(config_dir) => lookup.last(&config_dir, &working_dir.canonicalize()?),
                None => Ok(None),
            });
            let failed = |_| AgentWrapperError::backend("could not look for earlier sessions");
            last.await.map_err(|_| failed(()))?.map_err(|_| failed(()))?.ok_or(NO_SESSION_FOUND)
        }
    };
    Ok(found.map(to_use))
}

/// Returns whether the text has the form of the CLI's session ids, a UUID.
fn is_session_id(text: &str) -> bool {
    let is_dash = |at: usize| matches!(at, 8 | 13 | 18 | 23);
    text.len() == 36
        && text
            .bytes()
            .enumerate()
            .all(|(at, byte)| if is_dash(at) { byte == b'-' } else { byte.is_ascii_hexdigit() })
}

/// The longest name of a project's folder. The CLI cuts a longer one here and adds a hash.
const MAX_FOLDER_NAME: usize = 200;

/// How many lines of a transcript are searched for the working directory, which is in the first
/// ones.
const LINES_TO_LOOK_AT: usize = 64;

/// How much of a transcript is read at most: a first prompt may be long.
const BYTES_TO_LOOK_AT: u64 = 32 * 1024 * 1024;

impl ClaudeCodeSessionLookup for ClaudeCodeTranscripts {
    fn last(&self, config_dir: &Path, working_dir: &Path) -> io::Result<Option<String>> {
        let mut transcripts = Vec::new();
        for folder in folders_of(&config_dir.join("projects"), working_dir)? {
            transcripts.extend(transcripts_in(&folder)?);
        }
        transcripts.sort_by_key(|transcript| std::cmp::Reverse(transcript.used));
        // Different directories can share a folder, so each transcript is checked for its
        // directory.
        Ok(transcripts
            .into_iter()
            .find(|transcript| transcript.belongs_to(working_dir))
            .map(|found| found.id))
    }
}

/// A transcript of the CLI.
struct Transcript {
    id: String,
    path: PathBuf,
    used: SystemTime,
}

impl Transcript {
    fn belongs_to(&self, working_dir: &Path) -> bool {
        #[derive(Deserialize)]
        struct Line {
            cwd: Option<PathBuf>,
        }
        // A transcript that cannot be read cannot be resumed either.
        let Ok(file) = File::open(&self.path) else { return false };
        BufReader::new(file.take(BYTES_TO_LOOK_AT))
            .split(b'\n')
            .take(LINES_TO_LOOK_AT)
            .map_while(Result::ok)
            .filter_map(|line| serde_json::from_slice::<Line>(&line).ok())
            .find_map(|line| line.cwd)
            .is_some_and(|cwd| cwd == working_dir)
    }
}

/// Returns the folders that may hold transcripts of `working_dir`.
fn folders_of(projects: &Path, working_dir: &Path) -> io::Result<Vec<PathBuf>> {
    let name = folder_name(working_dir);
    if name.len() <= MAX_FOLDER_NAME {
        return Ok(vec![projects.join(name)]);
    }
    // The CLI adds a hash of its own after the cut; the transcripts inside show which folder is the
    // right one.
    let beginning = &name[..MAX_FOLDER_NAME];
    let is_candidate = |entry: &fs::DirEntry| {
        entry.file_name().to_str().is_some_and(|name| name.starts_with(beginning))
    };
    Ok(entries(projects)?.into_iter().filter(is_candidate).map(|entry| entry.path()).collect())
}

/// Returns the CLI's name for a directory: everything but letters and digits becomes a dash,
/// counted in UTF-16 units as JavaScript does.
fn folder_name(dir: &Path) -> String {
    let dash_unless_plain = |unit: u16| match u8::try_from(unit) {
        Ok(byte) if byte.is_ascii_alphanumeric() => char::from(byte),
        _ => '-',
    };
    dir.to_string_lossy().encode_utf16().map(dash_unless_plain).collect()
}

fn transcripts_in(folder: &Path) -> io::Result<Vec<Transcript>> {
    let transcript = |entry: fs::DirEntry| {
        let path = entry.path();
        let id = path.file_stem()?.to_str()?.to_owned();
        let is_transcript =
            path.extension().is_some_and(|extension| extension == "jsonl") && is_session_id(&id);
        // A file that disappears during the search is skipped.
        let used = entry.metadata().ok()?.modified().ok()?;
        is_transcript.then_some(Transcript { id, path, used })
    };
    Ok(entries(folder)?.into_iter().filter_map(transcript).collect())
}

/// Returns the entries of a folder; none if there is no such folder.
fn entries(folder: &Path) -> io::Result<Vec<fs::DirEntry>> {
    match fs::read_dir(folder) {
        Ok(entries) => entries.collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
