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

use serde_json::Value;

use crate::driver::{AgentHome, HomeContent};
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
            let path = home.dir.join(name);
            path.parent().map(make_dir).transpose()?;
            link(&path, target)?;
        }
        for name in &home.empty {
            check_empty(&home.dir.join(name))?;
        }
        for file in &home.files {
            write_file(&home.dir.join(&file.path), &file.content)?;
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

/// Writes a file whole. Other children may read it meanwhile: it is replaced at once, and only when
/// it changes.
fn write_file(path: &Path, content: &HomeContent) -> Result<(), HomeError> {
    let io = |source| HomeError::Io { path: path.to_owned(), source };
    let text = match content {
        HomeContent::Text(text) => text.clone(),
        HomeContent::Json { value, user_file, keep } => with_kept(value, user_file, keep),
    };
    if std::fs::read_to_string(path).is_ok_and(|before| before == text) {
        return Ok(());
    }
    let dir = path.parent().unwrap_or(path);
    make_dir(dir)?;
    let new = dir.join(format!(".{}", uuid::Uuid::now_v7()));
    let mut options = std::fs::OpenOptions::new();
    std::os::unix::fs::OpenOptionsExt::mode(options.write(true).create_new(true), 0o600);
    let mut file = options.open(&new).map_err(io)?;
    std::io::Write::write_all(&mut file, text.as_bytes()).map_err(io)?;
    std::fs::rename(&new, path).map_err(io)
}

/// JSON with some values of the user's own file. A file that is not there, or that cannot be read,
/// has none of them.
fn with_kept(value: &Value, user_file: &Path, keep: &[String]) -> String {
    let text = std::fs::read_to_string(user_file).unwrap_or_default();
    let theirs: Value = serde_json::from_str(&text).unwrap_or_default();
    let mut value = value.clone();
    for pointer in keep {
        if let Some(kept) = theirs.pointer(pointer) {
            put(&mut value, pointer, kept.clone());
        }
    }
    value.to_string()
}

/// Puts a value in its place, and makes the objects around it.
fn put(value: &mut Value, pointer: &str, new: Value) {
    let mut at = value;
    for name in pointer.split('/').skip(1) {
        if !at.is_object() {
            *at = Value::Object(serde_json::Map::new());
        }
        at = &mut at[name];
    }
    *at = new;
}

/// Finds one of these paths in a directory.
pub(crate) fn find_unwanted(dir: &Path, unwanted: &[PathBuf]) -> Option<PathBuf> {
    // What cannot be looked at may be there.
    unwanted.iter().map(|path| dir.join(path)).find(|path| path.try_exists().unwrap_or(true))
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
    use crate::driver::HomeFile;

    fn home(dir: &Path) -> AgentHome {
        AgentHome {
            dir: dir.join("home"),
            links: vec![("login".to_owned(), dir.join("login of the user"))],
            empty: vec!["rules".to_owned()],
            files: Vec::new(),
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
    async fn files_are_written_anew_and_keep_only_what_was_named() {
        let dir = tempfile::tempdir().unwrap();
        let user_file = dir.path().join("settings of the user");
        let theirs = r#"{"model":"m","a":{"b":1,"c":2},"permission":"allow"}"#;
        std::fs::write(&user_file, theirs).unwrap();
        let value = serde_json::json!({"permission": "ask", "a": {"c": 3}});
        let keep = ["/model", "/a/b", "/x/y"].map(str::to_owned).into();
        let json = HomeContent::Json { value, user_file, keep };
        let files = [("s/settings.json", json), ("s/text", HomeContent::Text("text".into()))];
        let file = |(path, content): (&str, _)| HomeFile { path: path.to_owned(), content };
        let home = AgentHome {
            dir: dir.path().join("home"),
            files: files.map(file).into(),
            ..AgentHome::default()
        };
        for _ in 0..2 {
            Homes::default().make_ready(&home, &shell(), []).await.unwrap();
            let written = std::fs::read_to_string(home.dir.join("s/settings.json")).unwrap();
            let written: Value = serde_json::from_str(&written).unwrap();
            let expected =
                serde_json::json!({"model": "m", "a": {"b": 1, "c": 3}, "permission": "ask"});
            assert_eq!(written, expected);
            assert_eq!(std::fs::read_to_string(home.dir.join("s/text")).unwrap(), "text");
            // Whatever the agent wrote there is gone at the next start.
            std::fs::write(home.dir.join("s/settings.json"), r#"{"permission":"allow"}"#).unwrap();
            std::fs::write(home.dir.join("s/text"), "other").unwrap();
        }
    }

    #[test]
    fn an_unwanted_path_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let unwanted = [PathBuf::from(".agents/plugins")];
        assert_eq!(find_unwanted(dir.path(), &unwanted), None);
        std::fs::create_dir_all(dir.path().join(".agents/plugins")).unwrap();
        assert_eq!(find_unwanted(dir.path(), &unwanted), Some(dir.path().join(".agents/plugins")));
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
