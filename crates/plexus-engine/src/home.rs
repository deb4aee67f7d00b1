//! The directory in which an agent keeps its settings, login and conversations, made ready before a
//! child uses it.
//!
//! The first process of an agent in a new directory runs alone: several at once may break each
//! other's files.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use crate::driver::AgentHome;
use crate::scrub;
use crate::settings::ProgramLine;

/// How long the first process may take. It took less than a second.
const FIRST_RUN: Duration = Duration::from_secs(60);

/// How much of what a first process said goes into the error.
const MAX_WORDS: usize = 1_024;

/// Why a home is not ready.
#[derive(Debug, thiserror::Error)]
pub(crate) enum HomeError {
    /// A file or directory could not be made or read.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Something lies where nothing may lie.
    #[error("{} must be empty: what lies there decides without a question; remove it", .0.display())]
    NotEmpty(PathBuf),
    /// The first process in the home failed.
    #[error("the first start of the agent in {} failed: {why}", home.display())]
    FirstRun {
        /// The home.
        home: PathBuf,
        /// How, with the agent's last words.
        why: String,
    },
}

/// The homes that this server has made ready.
#[derive(Default)]
pub(crate) struct Homes {
    used: tokio::sync::Mutex<BTreeSet<PathBuf>>,
}

impl Homes {
    /// Makes a home ready. Whoever comes while the first process runs waits for it.
    pub(crate) async fn make_ready(
        &self,
        home: &AgentHome,
        program: &ProgramLine,
        env: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<(), HomeError> {
        make_dir(&home.dir)?;
        for (name, target) in &home.links {
            link(&home.dir.join(name), target)?;
        }
        for name in &home.empty {
            check_empty(&home.dir.join(name))?;
        }
        let mut used = self.used.lock().await;
        if !home.first_run.is_empty() && !used.contains(&home.dir) {
            first_run(home, program, env).await?;
            used.insert(home.dir.clone());
        }
        Ok(())
    }
}

async fn first_run(
    home: &AgentHome,
    program: &ProgramLine,
    env: impl IntoIterator<Item = (OsString, OsString)>,
) -> Result<(), HomeError> {
    let failed = |why: String| HomeError::FirstRun { home: home.dir.clone(), why };
    let mut command = tokio::process::Command::new(&program.program);
    command
        .args(program.leading.iter().chain(&home.first_run))
        .env_clear()
        .envs(env)
        .current_dir(&home.dir)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    match tokio::time::timeout(FIRST_RUN, command.output()).await {
        Err(_) => Err(failed(format!("it did not end within {} s", FIRST_RUN.as_secs()))),
        Ok(Err(error)) => Err(failed(error.to_string())),
        Ok(Ok(output)) if output.status.success() => Ok(()),
        Ok(Ok(output)) => {
            let words = String::from_utf8_lossy(&output.stderr);
            let from = words.trim().char_indices().rev().nth(MAX_WORDS).map_or(0, |(at, _)| at);
            let words = scrub::text(&words.trim()[from..]);
            Err(failed(format!("{}; its last words: {words}", output.status)))
        }
    }
}

fn make_dir(path: &Path) -> Result<(), HomeError> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).map_err(|source| HomeError::Io { path: path.to_owned(), source })
}

/// Links a file of the user into a home. A file of the home's own stays, and so does the place of
/// one that is not there.
fn link(path: &Path, target: &Path) -> Result<(), HomeError> {
    let io = |source| HomeError::Io { path: path.to_owned(), source };
    if !target.exists() {
        return Ok(());
    }
    match std::fs::read_link(path) {
        Ok(old) if old == target => return Ok(()),
        Ok(_) => std::fs::remove_file(path).map_err(io)?,
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        // No link: it is a file of the home's own.
        Err(_) => return Ok(()),
    }
    match std::os::unix::fs::symlink(target, path) {
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        linked => linked.map_err(io),
    }
}

fn check_empty(path: &Path) -> Result<(), HomeError> {
    match std::fs::read_dir(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(source) => Err(HomeError::Io { path: path.to_owned(), source }),
        Ok(mut entries) => match entries.next() {
            None => Ok(()),
            Some(_) => Err(HomeError::NotEmpty(path.to_owned())),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn home(dir: &Path) -> AgentHome {
        AgentHome {
            dir: dir.join("home"),
            links: vec![("login".to_owned(), dir.join("login of the user"))],
            empty: vec!["rules".to_owned()],
            first_run: vec!["-c".into(), "echo x >> ran".into()],
        }
    }

    fn shell() -> ProgramLine {
        ProgramLine { program: "/bin/sh".into(), leading: Vec::new() }
    }

    #[tokio::test]
    async fn the_first_process_runs_alone_and_once() {
        let dir = tempfile::tempdir().unwrap();
        let (homes, home, program) = (Homes::default(), home(dir.path()), shell());
        let ready = |_| homes.make_ready(&home, &program, []);
        for made in futures::future::join_all((0..8).map(ready)).await {
            made.unwrap();
        }
        assert_eq!(std::fs::read_to_string(home.dir.join("ran")).unwrap(), "x\n");
    }

    #[tokio::test]
    async fn a_login_is_linked_and_never_copied() {
        let dir = tempfile::tempdir().unwrap();
        let (homes, home) = (Homes::default(), home(dir.path()));
        homes.make_ready(&home, &shell(), []).await.unwrap();
        assert!(!home.dir.join("login").exists(), "there is none yet");
        std::fs::write(dir.path().join("login of the user"), "secret").unwrap();
        homes.make_ready(&home, &shell(), []).await.unwrap();
        let linked = std::fs::read_link(home.dir.join("login")).unwrap();
        assert_eq!(linked, dir.path().join("login of the user"));
        // One that was made here is not replaced.
        std::fs::remove_file(home.dir.join("login")).unwrap();
        std::fs::write(home.dir.join("login"), "own").unwrap();
        homes.make_ready(&home, &shell(), []).await.unwrap();
        assert_eq!(std::fs::read_to_string(home.dir.join("login")).unwrap(), "own");
    }

    #[tokio::test]
    async fn what_would_decide_unasked_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (homes, home) = (Homes::default(), home(dir.path()));
        std::fs::create_dir_all(home.dir.join("rules")).unwrap();
        homes.make_ready(&home, &shell(), []).await.unwrap();
        std::fs::write(home.dir.join("rules/default.rules"), "allow").unwrap();
        let refused = homes.make_ready(&home, &shell(), []).await.unwrap_err();
        assert!(matches!(refused, HomeError::NotEmpty(_)), "{refused}");
    }

    #[tokio::test]
    async fn a_first_process_that_fails_says_why() {
        let dir = tempfile::tempdir().unwrap();
        let first_run = vec!["-c".into(), "echo broken >&2; exit 3".into()];
        let home = AgentHome { first_run, ..home(dir.path()) };
        let failed = Homes::default().make_ready(&home, &shell(), []).await.unwrap_err();
        assert!(failed.to_string().contains("broken"), "{failed}");
    }
}
