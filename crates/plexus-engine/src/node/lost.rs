//! Run directories whose runs were ended by somebody else: their children are ended, and what their
//! journals still hold is kept aside and reported.
//!
//! A chat that was ended by a takeover is final, so nothing is appended to it. Lines that the store
//! never got are worth a look by a person all the same: they lie in `lost/` of the data directory
//! until somebody removes them, and `plexus doctor` counts them.

use std::path::{Path, PathBuf};
use std::time::Duration;

use agent_lines::journal::JournalDir;
use plexus_core::SessionId;
use plexus_shim::layout::RunDir;
use plexus_store::{RunKey, Store, StoreError};
use serde::{Deserialize, Serialize};

use crate::hold::Hold;
use crate::run::journal_position;
use crate::supervisor::Supervisor;

/// The folder in the data directory.
const LOST_DIR: &str = "lost";

/// What says in each folder how much it holds.
const NOTE: &str = "lost.json";

/// How much of a journal is read at a time.
const READ_BYTES: usize = 512 * 1024;

/// How long a killed shim may take to be gone.
const KILL_DEADLINE: Duration = Duration::from_secs(5);

/// A run that ended without this server, and what of it was never stored.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LostRun {
    /// The session.
    pub session: SessionId,
    /// The run.
    pub run: u32,
    /// Lines of its journal that are in no event.
    pub lines: u64,
}

/// Returns what lies in `lost/` of a data directory. What cannot be read is left out.
#[must_use]
pub fn lost_runs(data_dir: &Path) -> Vec<LostRun> {
    let entries = std::fs::read_dir(data_dir.join(LOST_DIR)).into_iter().flatten().flatten();
    let notes = entries.filter_map(|entry| std::fs::read(entry.path().join(NOTE)).ok());
    notes.filter_map(|note| serde_json::from_slice(&note).ok()).collect()
}

/// Looks at every run directory that has no run here.
pub(super) async fn sweep(
    store: &dyn Store,
    data_dir: &Path,
    supervisor: &Supervisor,
) -> Result<(), StoreError> {
    let ours = store.lease().map(|lease| lease.server);
    for (key, path) in run_dirs(&data_dir.join("runs")) {
        if supervisor.handle(key.session).is_some_and(|handle| handle.key == key) {
            continue;
        }
        let run = match store.run(key).await {
            Ok(run) if run.ended_at.is_none() && run.server == ours => continue,
            Ok(run) => Some(run),
            Err(StoreError::NotFound { .. }) => None,
            Err(error) => return Err(error),
        };
        let dir = RunDir::new(&path);
        end_shim(&dir).await;
        // A session that was deleted wants none of its output kept.
        let lines = run.map_or(0, |run| count_lines(&dir, run.journal));
        let kept = if lines == 0 { remove(&path) } else { set_aside(data_dir, key, &path, lines) };
        match kept {
            Ok(()) if lines == 0 => {
                tracing::info!(run = %key, "removed what a run left that ended without this server")
            }
            Ok(()) => {
                tracing::warn!(run = %key, lines, "a run ended without this server; what it had \
                    still said is in {LOST_DIR}/ and in no chat")
            }
            Err(error) => {
                tracing::warn!(run = %key, %error, "could not clear the directory of a run that \
                    ended without this server")
            }
        }
    }
    Ok(())
}

/// Ends the child with everything it started, if its shim still holds it.
async fn end_shim(dir: &RunDir) {
    let found = dir.read_pid().ok().flatten();
    match Hold::found(found.as_ref()) {
        Ok(mut hold) if !hold.is_gone() => {
            if let Err(error) = hold.kill(dir).await {
                tracing::warn!(dir = %dir.path().display(), %error, "could not look for what a \
                    run left behind");
            }
            if tokio::time::timeout(KILL_DEADLINE, hold.ended()).await.is_err() {
                tracing::error!(dir = %dir.path().display(), "a shim does not die");
            }
        }
        Ok(_) => {}
        Err(error) => {
            tracing::warn!(dir = %dir.path().display(), %error, "could not look for a shim")
        }
    }
}

fn count_lines(dir: &RunDir, stored: plexus_store::JournalPosition) -> u64 {
    let mut journal = JournalDir::open(dir.journal(), journal_position(stored));
    let mut lines = 0;
    loop {
        match journal.read_lines(READ_BYTES) {
            Ok(read) if read.is_empty() => {
                return lines + u64::from(journal.drain_tail().is_some());
            }
            Ok(read) => lines += read.len() as u64,
            Err(error) => {
                tracing::warn!(dir = %dir.path().display(), %error, "could not read a journal to \
                    its end");
                return lines.max(1);
            }
        }
    }
}

/// Keeps the journal and nothing else: the MCP configuration holds a token.
fn set_aside(data_dir: &Path, key: RunKey, path: &Path, lines: u64) -> std::io::Result<()> {
    let shelf = data_dir.join(LOST_DIR);
    std::os::unix::fs::DirBuilderExt::mode(std::fs::DirBuilder::new().recursive(true), 0o700)
        .create(&shelf)?;
    let place = shelf.join(format!("{}-{}", key.session, key.n));
    let note = LostRun { session: key.session, run: key.n, lines };
    std::os::unix::fs::DirBuilderExt::mode(std::fs::DirBuilder::new().recursive(true), 0o700)
        .create(&place)?;
    std::fs::write(place.join(NOTE), serde_json::to_vec(&note).map_err(std::io::Error::from)?)?;
    std::fs::rename(RunDir::new(path).journal(), place.join("journal"))?;
    remove(path)
}

fn remove(path: &Path) -> std::io::Result<()> {
    crate::files::remove_all(path)?;
    // The session's folder goes with its last run; one with others in it stays.
    let _others = path.parent().map(std::fs::remove_dir);
    Ok(())
}

/// Returns the sessions that have a directory in `runs/` of a data directory. It is made after the
/// session is in the store, and goes when the session is deleted.
///
/// # Errors
/// When `runs/` is there and cannot be read.
pub fn sessions_with_runs(data_dir: &Path) -> std::io::Result<Vec<SessionId>> {
    session_dirs(&data_dir.join("runs"))
}

/// `runs/<session>`; whatever else lies there is not ours to judge.
fn session_dirs(runs: &Path) -> std::io::Result<Vec<SessionId>> {
    let entries = match std::fs::read_dir(runs) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        found.extend(entry?.file_name().to_str().and_then(|name| name.parse::<SessionId>().ok()));
    }
    Ok(found)
}

/// `runs/<session>/<n>`; whatever else lies there is not ours to judge.
pub(crate) fn run_dirs(runs: &Path) -> Vec<(RunKey, PathBuf)> {
    let mut found = Vec::new();
    for session in session_dirs(runs).unwrap_or_default() {
        let dir = runs.join(session.to_string());
        for run in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            if let Some(n) = run.file_name().to_str().and_then(|name| name.parse().ok()) {
                found.push((RunKey { session, n }, run.path()));
            }
        }
    }
    found
}
