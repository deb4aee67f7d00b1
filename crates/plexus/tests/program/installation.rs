//! An installation of the program for one test: its own home, data directory, project and port.

use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

pub(crate) use testkit::process::executable;

use crate::pty::Terminal;

/// How long anything may take on a loaded machine before a test says what did not come.
pub(crate) const DEADLINE: Duration = Duration::from_secs(180);

/// A data directory and a working directory. Dropping it ends the server and its children.
pub(crate) struct Installation {
    folder: TempDir,
}

impl Installation {
    pub(crate) fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("plexus-test-").tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("work")).expect("a working directory");
        Self { folder }
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// The variables every command gets: this installation, a free port, the simulator, nobody's
    /// configuration.
    pub(crate) fn env(&self) -> Vec<(&'static str, String)> {
        vec![
            ("PLEXUS_DATA_DIR", self.data().display().to_string()),
            ("PLEXUS_LISTEN", "127.0.0.1:0".to_owned()),
            ("PLEXUS_CLAUDE_BIN", "sim".to_owned()),
            ("PLEXUS_CONFINE_PROFILE", "none".to_owned()),
            ("HOME", self.folder.path().display().to_string()),
            ("NO_COLOR", "1".to_owned()),
        ]
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_plexus"));
        command
            .args(arguments)
            .current_dir(self.work())
            .env_clear()
            .envs(self.env())
            .stdin(Stdio::null());
        command.env("PATH", std::env::var_os("PATH").unwrap_or_default());
        command
    }

    pub(crate) fn plexus(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("plexus runs")
    }

    /// Runs a command that must work, and returns what it printed.
    pub(crate) fn works(&self, arguments: &[&str]) -> String {
        let output = self.plexus(arguments);
        let (out, err) = (text(&output.stdout), text(&output.stderr));
        assert!(output.status.success(), "{arguments:?} gave {}:\n{out}\n{err}", output.status);
        out
    }

    /// Runs a command that must fail, and returns what it complained.
    pub(crate) fn fails(&self, arguments: &[&str]) -> String {
        let output = self.plexus(arguments);
        assert!(!output.status.success(), "{arguments:?} worked:\n{}", text(&output.stdout));
        text(&output.stderr)
    }

    /// Starts a server in the background; it is there when this returns.
    pub(crate) fn start_server(&self) {
        self.works(&["dashboard", "--print"]);
    }

    pub(crate) fn call(&self, method: &str, params: &Value) -> Value {
        serde_json::from_str(&self.works(&["call", method, &params.to_string()])).expect("JSON")
    }

    /// Waits for the one thing that waits for an answer.
    pub(crate) fn pending(&self) -> Value {
        eventually("something that waits for an answer", || {
            // The server may still be starting.
            let output = self.plexus(&["pending", "--json"]);
            serde_json::from_slice::<Value>(&output.stdout).ok()?.get(0).cloned()
        })
    }
}

impl Terminal {
    /// Starts `plexus` in an installation, with a terminal of this many columns.
    pub(crate) fn start(
        installation: &Installation,
        columns: u16,
        env: &[(&str, &str)],
        arguments: &[&str],
    ) -> Self {
        let usual = installation.env();
        let usual = usual.iter().map(|(name, value)| (*name, value.as_str()));
        let all: Vec<_> = usual.chain(env.iter().copied()).collect();
        Self::spawn(&installation.work(), columns, &all, arguments)
    }
}

impl Drop for Installation {
    fn drop(&mut self) {
        if self.data().join("server.json").exists() {
            let stopped = self.plexus(&["stop", "--children"]);
            let words = text(&stopped.stderr);
            // A server that a test has killed cannot be stopped any more; one that lives must stop.
            let gone = words.contains("could not find a server");
            assert!(std::thread::panicking() || gone || stopped.status.success(), "{words}");
        }
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Looks again and again until there is something.
#[track_caller]
pub(crate) fn eventually<T>(what: &str, look: impl FnMut() -> Option<T>) -> T {
    testkit::wait::eventually(what, DEADLINE, look)
}

pub(crate) fn mode(path: &Path) -> u32 {
    use std::os::unix::fs::PermissionsExt;
    path.metadata().expect("it exists").permissions().mode() & 0o777
}
