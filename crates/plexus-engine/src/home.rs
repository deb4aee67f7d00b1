//! The directory in which an agent keeps its settings, login and conversations, made ready before a
//! child uses it.
//!
//! The first process of an agent in a new directory runs alone: several at once may break each
//! other's files. It runs outside of every wall, so it runs only while no child has been there.
//!
//! A child may write its home, also one within a wall that may write little else. So no link in a
//! home is followed: it could lead us to a place that the child cannot write.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::fs::{
    AtFlags, CWD, Dir, Mode, OFlags, mkdirat, openat, readlinkat, renameat, symlinkat, unlinkat,
};
use rustix::io::Errno;
use serde_json::Value;

use crate::driver::{AgentHome, HomeContent};
use crate::scrub;
use crate::settings::ProgramLine;

/// How long the first process may take. It took less than a second.
const FIRST_RUN: Duration = Duration::from_secs(60);

/// The longest file that is compared with what it should be; a longer one is written anew.
const MAX_KEPT_BYTES: u64 = 1024 * 1024;

/// How directories of a home are opened.
const DIRECTORY: OFlags =
    OFlags::DIRECTORY.union(OFlags::NOFOLLOW).union(OFlags::RDONLY).union(OFlags::CLOEXEC);

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
    #[error("{} must be empty: what is there would decide without asking; remove \
        it", .0.display())]
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

/// The homes of agents.
#[derive(Default)]
pub(crate) struct Homes {
    /// Held while a first process runs.
    first_runs: tokio::sync::Mutex<()>,
}

impl Homes {
    /// Makes a home ready. A caller that comes while the first process runs waits for it.
    pub(crate) async fn make_ready(
        &self,
        home: &AgentHome,
        program: &ProgramLine,
        env: impl IntoIterator<Item = (OsString, OsString)>,
    ) -> Result<(), HomeError> {
        make_dir(&home.dir)?;
        for (name, target) in &home.links {
            link(&home.dir, name, target)?;
        }
        for name in &home.empty {
            check_empty(&home.dir, name)?;
        }
        for file in &home.files {
            write_file(&home.dir, &file.path, &file.content)?;
        }
        if home.first_run.is_empty() {
            return Ok(());
        }
        let _alone = self.first_runs.lock().await;
        let mark = first_run_mark(&home.dir);
        let io = |source| HomeError::Io { path: mark.clone(), source };
        if !mark.try_exists().map_err(io)? {
            first_run(home, program, env).await?;
            File::create_new(&mark).map_err(io)?;
        }
        Ok(())
    }
}

/// The file that says that an agent has run in a home. It lies beside the home, where no child can
/// write.
fn first_run_mark(home: &Path) -> PathBuf {
    let mut name = home.as_os_str().to_owned();
    name.push(".used");
    name.into()
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

/// The directory of a path in a home, and the path's last name. Missing directories are made.
fn place(home: &Path, path: &str) -> io::Result<(OwnedFd, OsString)> {
    let mut dir = openat(CWD, home, DIRECTORY.difference(OFlags::NOFOLLOW), Mode::empty())?;
    let path = Path::new(path);
    for part in path.parent().into_iter().flat_map(Path::components) {
        match mkdirat(&dir, part.as_os_str(), Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        dir = openat(&dir, part.as_os_str(), DIRECTORY, Mode::empty())?;
    }
    Ok((dir, path.file_name().unwrap_or_default().to_owned()))
}

/// Links a file of the user into a home. Nothing happens when the user has no such file, or when
/// the home has a file of its own there.
fn link(home: &Path, path: &str, target: &Path) -> Result<(), HomeError> {
    let io = |source: io::Error| HomeError::Io { path: home.join(path), source };
    if !target.exists() {
        return Ok(());
    }
    let (dir, name) = place(home, path).map_err(io)?;
    match readlinkat(&dir, &name, Vec::new()) {
        Ok(old) if old.to_bytes() == target.as_os_str().as_encoded_bytes() => return Ok(()),
        Ok(_) => unlinkat(&dir, &name, AtFlags::empty()).map_err(|error| io(error.into()))?,
        Err(Errno::NOENT) => {}
        // No link: it is a file of the home's own.
        Err(_) => return Ok(()),
    }
    match symlinkat(target, &dir, &name) {
        Ok(()) | Err(Errno::EXIST) => Ok(()),
        Err(error) => Err(io(error.into())),
    }
}

/// Writes a file whole. Other children may read it meanwhile: it is replaced at once, and only when
/// it changes.
fn write_file(home: &Path, path: &str, content: &HomeContent) -> Result<(), HomeError> {
    let io = |source: io::Error| HomeError::Io { path: home.join(path), source };
    let text = match content {
        HomeContent::Text(text) => text.clone(),
        HomeContent::Json { value, user_file, keep } => with_kept(value, user_file, keep),
    };
    let (dir, name) = place(home, path).map_err(io)?;
    if read_plain(&dir, &name).is_ok_and(|before| before == text.as_bytes()) {
        return Ok(());
    }
    let new = format!(".{}", uuid::Uuid::now_v7());
    let create = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
    let file = openat(&dir, &new, create, Mode::RUSR | Mode::WUSR);
    let mut file = File::from(file.map_err(|error| io(error.into()))?);
    io::Write::write_all(&mut file, text.as_bytes()).map_err(io)?;
    renameat(&dir, &new, &dir, &name).map_err(|error| io(error.into()))
}

/// Reads a file that is neither a link nor a pipe.
fn read_plain(dir: &OwnedFd, name: &OsString) -> io::Result<Vec<u8>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(openat(dir, name, flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err(ErrorKind::InvalidInput.into());
    }
    let mut bytes = Vec::new();
    io::Read::read_to_end(&mut io::Read::take(file, MAX_KEPT_BYTES), &mut bytes)?;
    Ok(bytes)
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

fn check_empty(home: &Path, path: &str) -> Result<(), HomeError> {
    let io = |source: io::Error| HomeError::Io { path: home.join(path), source };
    let (dir, name) = place(home, path).map_err(io)?;
    let found = match openat(&dir, &name, DIRECTORY, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(()),
        // A link, or a file: what it is cannot be known for long.
        Err(_) => return Err(HomeError::NotEmpty(home.join(path))),
        Ok(found) => found,
    };
    for entry in Dir::new(found).map_err(|error| io(error.into()))? {
        let entry = entry.map_err(|error| io(error.into()))?;
        if !matches!(entry.file_name().to_bytes(), b"." | b"..") {
            return Err(HomeError::NotEmpty(home.join(path)));
        }
    }
    Ok(())
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
        // A later server runs nothing in a home in which children may have written.
        Homes::default().make_ready(&home, &program, []).await.unwrap();
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
    async fn a_home_with_files_that_decide_is_refused() {
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

    #[tokio::test]
    async fn a_link_that_a_child_left_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let outside = dir.path().join("outside");
        std::fs::create_dir(&outside).unwrap();
        let file = HomeFile { path: "s/text".into(), content: HomeContent::Text("ours".into()) };
        let home = AgentHome { files: vec![file], ..home(dir.path()) };
        std::fs::create_dir(&home.dir).unwrap();
        std::os::unix::fs::symlink(&outside, home.dir.join("s")).unwrap();
        let refused = Homes::default().make_ready(&home, &shell(), []).await.unwrap_err();
        assert!(matches!(refused, HomeError::Io { .. }), "{refused}");
        assert_eq!(std::fs::read_dir(&outside).unwrap().count(), 0);
        // A link in the place of the file itself is replaced, and so is what was there.
        std::fs::remove_file(home.dir.join("s")).unwrap();
        std::fs::create_dir(home.dir.join("s")).unwrap();
        std::os::unix::fs::symlink(outside.join("text"), home.dir.join("s/text")).unwrap();
        Homes::default().make_ready(&home, &shell(), []).await.unwrap();
        assert!(!outside.join("text").exists());
        assert_eq!(std::fs::read_to_string(home.dir.join("s/text")).unwrap(), "ours");
        // A directory that must be empty is no link.
        std::os::unix::fs::symlink(&outside, home.dir.join("rules")).unwrap();
        let refused = Homes::default().make_ready(&home, &shell(), []).await.unwrap_err();
        assert!(matches!(refused, HomeError::NotEmpty(_)), "{refused}");
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
