//! Runs git over somebody's working tree without reading anything of theirs that it could execute.
//!
//! Git obeys the configuration of a repository: filters, hooks, a monitor of files, programs that
//! show differences. The author of the repository chose those. So git gets a directory of its own
//! here ([`Shadow`]), with our configuration, and only the objects of the repository are read, as
//! data. The attributes in the working tree may still name filters, but nothing says what program
//! they are.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncReadExt as _;

use super::repository::{Repository, copy};

/// How long one git may run.
const MAX_RUN: Duration = Duration::from_secs(10);

/// How much of its output is read. Git is ended when there is more.
const MAX_OUTPUT: usize = 8 * 1024 * 1024;

/// How long a repository's own list of ignored files may be.
const MAX_EXCLUDE: u64 = 1024 * 1024;

/// Files above this many bytes are compared as a whole, as binary files are.
const BIG_FILE: usize = 2 * 1024 * 1024;

/// What one git wrote.
pub(super) struct Output {
    pub(super) bytes: Vec<u8>,
    /// Whether it wrote more.
    pub(super) cut: bool,
}

/// A directory that git takes for the repository. It is private to one call, because whatever git
/// reads there it obeys.
#[derive(Debug)]
pub(super) struct Shadow {
    dir: PathBuf,
    top: PathBuf,
}

impl Shadow {
    /// Makes one at `dir`, which must not exist. It reads the objects in `kept` and in the
    /// repository, and writes new ones below itself.
    pub(super) fn make(dir: PathBuf, of: &Repository, kept: Option<&Path>) -> io::Result<Self> {
        let mut builder = fs::DirBuilder::new();
        builder.recursive(true);
        std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
        if let Some(above) = dir.parent() {
            builder.create(above)?;
        }
        builder.recursive(false).create(&dir)?;
        let shadow = Self { dir, top: of.top.clone() };
        let at = |name: &str| shadow.dir.join(name);
        builder.recursive(true);
        for name in ["objects/info", "refs", "info"] {
            builder.create(at(name))?;
        }
        let mut alternates = String::new();
        for objects in kept.into_iter().chain([of.objects.as_path()]) {
            let path =
                objects.to_str().filter(|path| !path.contains(['\n', '"'])).ok_or_else(|| {
                    io::Error::new(io::ErrorKind::InvalidInput, "the path of its objects is odd")
                })?;
            alternates += path;
            alternates.push('\n');
        }
        fs::write(at("objects/info/alternates"), alternates)?;
        fs::write(at("HEAD"), "ref: refs/heads/none\n")?;
        let format = if of.sha256 {
            "\trepositoryformatversion = 1\n[extensions]\n\tobjectformat = sha256\n[core]\n"
        } else {
            "\trepositoryformatversion = 0\n"
        };
        let config = format!(
            "[core]\n{format}\tbare = false\n\tfsmonitor = false\n\tuntrackedCache = false\n\
             \thooksPath = /dev/null\n\tquotePath = false\n\tbigFileThreshold = {BIG_FILE}\n\
             [diff]\n\tignoreSubmodules = all\n\trenames = false\n[submodule]\n\trecurse = false\n\
             [gc]\n\tauto = 0\n[protocol]\n\tallow = never\n"
        );
        fs::write(at("config"), config)?;
        // Patterns are data; a list that cannot be read hides nothing.
        let _absent = copy(&of.exclude, &at("info/exclude"), MAX_EXCLUDE);
        Ok(shadow)
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir
    }

    pub(super) fn index(&self) -> PathBuf {
        self.dir.join("index")
    }

    /// Runs git with these arguments.
    pub(super) async fn git(&self, arguments: &[&str]) -> io::Result<Output> {
        let mut command = tokio::process::Command::new("git");
        command
            .args(arguments)
            .env_clear()
            .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
            .env("HOME", &self.dir)
            .env("GIT_DIR", &self.dir)
            .env("GIT_WORK_TREE", &self.top)
            .env("GIT_INDEX_FILE", self.index())
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_ATTR_NOSYSTEM", "1")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_LITERAL_PATHSPECS", "1")
            .env("LC_ALL", "C")
            .current_dir(&self.top)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .kill_on_drop(true);
        let run = async {
            let mut child = command.spawn()?;
            let mut bytes = Vec::new();
            if let Some(stdout) = child.stdout.take() {
                stdout.take(MAX_OUTPUT as u64 + 1).read_to_end(&mut bytes).await?;
            }
            let cut = bytes.len() > MAX_OUTPUT;
            if cut {
                bytes.truncate(MAX_OUTPUT);
                child.kill().await?;
                return Ok(Output { bytes, cut });
            }
            let status = child.wait().await?;
            if !status.success() {
                let name = arguments.first().copied().unwrap_or_default();
                return Err(io::Error::other(format!("git {name} ended with {status}")));
            }
            Ok(Output { bytes, cut })
        };
        tokio::time::timeout(MAX_RUN, run).await.unwrap_or_else(|_| {
            let why = format!("git took longer than {} s", MAX_RUN.as_secs());
            Err(io::Error::new(io::ErrorKind::TimedOut, why))
        })
    }
}

impl Drop for Shadow {
    fn drop(&mut self) {
        // Removed by its owner's name otherwise; nothing depends on it.
        let _gone = crate::files::remove_all(&self.dir);
    }
}
