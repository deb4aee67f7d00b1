//! Counts what a server holds: processes, descriptors, memory, files.

use std::fmt;
use std::path::{Path, PathBuf};

use anyhow::Result;
use serde_json::{Value, json};
use testkit::process;

use super::soak_server::SoakServer;

/// The counts at one moment.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// The server's resident memory.
    pub resident_bytes: u64,
    /// The descriptors that it has open.
    pub descriptors: usize,
    /// Processes other than the server.
    pub processes: Vec<String>,
    /// Files of runs and of parked agents, and temporary files.
    pub files: Vec<PathBuf>,
}

impl Counts {
    /// Counts at this moment.
    pub async fn of(site: &SoakServer) -> Result<Self> {
        let server = site.server.lock().await;
        let pid = server.pid()?;
        let mut processes = process::marked(&site.marker())?;
        processes.retain(|process| process.pid != pid);
        let mut files = below(site.data().join("runs"));
        files.extend(below(site.data().join("parked")));
        let temporary = site.beside("tmp");
        files.extend(below(temporary.clone()));
        files.retain(|file| !is_of_a_killed_cli(&temporary, file));
        Ok(Self {
            resident_bytes: process::resident_bytes(pid)?,
            descriptors: process::open_fds(pid)?,
            processes: processes
                .into_iter()
                .map(|process| format!("{} {}", process.pid, process.command))
                .collect(),
            files,
        })
    }

    /// Deletes every session, waits until nothing of them is left or a deadline passes, and counts
    /// what is left.
    pub async fn after_everything(site: &SoakServer) -> Result<Self> {
        loop {
            let page = site.call("agents.list", json!({"limit": 100})).await?;
            let sessions = page["sessions"].as_array().cloned().unwrap_or_default();
            if sessions.is_empty() {
                break;
            }
            // A refusal is fine: an earlier call, whose answer was lost, may have deleted the
            // session.
            let delete = async |session: &Value| {
                site.ask("agents.delete", json!({"session_id": session["id"]})).await
            };
            drop(futures::future::try_join_all(sessions.iter().map(delete)).await?);
        }
        let deadline = tokio::time::Instant::now() + LEAVING;
        loop {
            let counts = Self::of(site).await?;
            if (counts.processes.is_empty() && counts.files.is_empty())
                || tokio::time::Instant::now() > deadline
            {
                return Ok(counts);
            }
            tokio::time::sleep(std::time::Duration::from_millis(200)).await;
        }
    }
}

/// How long the last processes may take to exit.
const LEAVING: std::time::Duration = std::time::Duration::from_secs(30);

fn below(root: PathBuf) -> Vec<PathBuf> {
    let mut open = vec![root];
    let mut files = Vec::new();
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() { open.push(path) } else { files.push(path) }
        }
    }
    files
}

/// Whether a real Claude Code made a file in the directory for temporary files, and could not
/// remove it because it was killed: a socket, named by a process that is gone; or its notes of
/// where a command ended, of what a command wrote, and of whether it can watch files.
fn is_of_a_killed_cli(temporary: &Path, file: &Path) -> bool {
    let Ok(file) = file.strip_prefix(temporary) else { return false };
    let mut parts = file.iter().filter_map(|part| part.to_str());
    match (parts.next(), parts.next()) {
        (Some(CLI_SOCKETS), Some(socket)) => socket
            .strip_suffix(".sock")
            .and_then(|pid| pid.parse().ok())
            .is_some_and(|pid| !process::is_alive(pid)),
        (Some(note), None) => note.starts_with("claude-") && note.ends_with("-cwd"),
        (Some(folder), Some(_)) => folder
            .strip_prefix("claude-")
            .is_some_and(|user| !user.is_empty() && user.bytes().all(|byte| byte.is_ascii_digit())),
        _ => false,
    }
}

/// The folder for such sockets.
const CLI_SOCKETS: &str = "cc-socks";

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { resident_bytes, descriptors, processes, files } = self;
        let kib = resident_bytes / 1024;
        write!(
            f,
            "{kib} KiB, {descriptors} descriptors, {} processes, {} files",
            processes.len(),
            files.len()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_a_killed_cli_leaves_is_not_counted() {
        let own = std::process::id();
        // No process has a number above four millions.
        let gone = 999_999_999;
        for (file, is_excused) in [
            (format!("tmp/cc-socks/{gone}.sock"), true),
            (format!("tmp/cc-socks/{own}.sock"), false),
            ("tmp/cc-socks/other.sock".to_owned(), false),
            (format!("tmp/{gone}.sock"), false),
            ("tmp/claude-dce5-cwd".to_owned(), true),
            ("tmp/claude-0/fswatch-probe-CT36SG/probe".to_owned(), true),
            ("tmp/claude-1000/-work/tasks/bmuhjy681.output".to_owned(), true),
            ("tmp/claude-plexus/file".to_owned(), false),
            ("tmp/claude-/file".to_owned(), false),
            ("tmp/claude-0".to_owned(), false),
            ("data/claude-0/file".to_owned(), false),
        ] {
            let judged = is_of_a_killed_cli(Path::new("tmp"), Path::new(&file));
            assert_eq!(judged, is_excused, "{file}");
        }
    }
}
