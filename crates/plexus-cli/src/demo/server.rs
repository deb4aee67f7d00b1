//! Where the tour runs: a temporary folder with a real server in it, which can be killed and
//! started again. Nothing of it stays.

use std::fs::OpenOptions;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use plexus_client::wire::{EventId, StopParams};
use plexus_client::{Client, read_announcement};

use crate::server::{LOOK_EVERY, START_DEADLINE, failed};

/// The agent that means the built-in simulator.
const SIMULATOR: &str = "sim";

/// How long the server may take to leave before it is killed.
const STOP_DEADLINE: Duration = Duration::from_secs(30);

/// The server of the tour, and the folder that holds everything of it.
pub(super) struct DemoServer {
    folder: PathBuf,
    server: Option<Child>,
}

impl DemoServer {
    /// Makes the folder and starts the server.
    pub(super) async fn open() -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("plexus-demo-{}", EventId::generate()));
        for part in ["", "work"] {
            let path = folder.join(part);
            std::fs::DirBuilder::new()
                .mode(0o700)
                .create(&path)
                .with_context(|| format!("could not create {}", path.display()))?;
        }
        let mut demo = Self { folder, server: None };
        demo.start().await?;
        Ok(demo)
    }

    /// Where the agents work.
    pub(super) fn work(&self) -> PathBuf {
        self.folder.join("work")
    }

    fn data(&self) -> PathBuf {
        self.folder.join("data")
    }

    /// A client that finds the server again after each start.
    pub(super) fn client(&self) -> Client {
        Client::from_data_dir(self.data())
    }

    /// Starts the server on the same data.
    pub(super) async fn start(&mut self) -> Result<()> {
        let own = std::env::current_exe().context("could not find this program itself")?;
        let log = self.folder.join("server.log");
        let log_file = OpenOptions::new()
            .create(true)
            .append(true)
            .open(&log)
            .context("could not open the log")?;
        let mut server = Command::new(own)
            .arg("serve")
            .arg("--data-dir")
            .arg(self.data())
            .args(["--listen", "127.0.0.1:0", "--claude-bin", SIMULATOR])
            // The tour tells which agents it has started, and starts them itself.
            .args(["--set", "warm.prestart=off"])
            // What the agents keep of their conversations is removed with the folder too.
            .env("CLAUDE_CONFIG_DIR", self.folder.join("claude"))
            .stdin(Stdio::null())
            .stdout(log_file.try_clone().context("could not open the log twice")?)
            .stderr(log_file)
            // Ctrl-C goes to the tour, which then stops the server in an orderly way.
            .process_group(0)
            .spawn()
            .context("could not start plexus serve")?;
        let deadline = Instant::now() + START_DEADLINE;
        while read_announcement(&self.data()).is_none_or(|announced| announced.pid != server.id()) {
            if let Some(status) = server.try_wait().context("could not watch the server")? {
                let words = std::fs::read_to_string(&log).unwrap_or_default();
                bail!("could not start the server ({status}):\n{words}");
            }
            if Instant::now() > deadline {
                // Nothing is left to kill when it ended in this very moment.
                let _ended = server.kill();
                bail!("could not start the server within {} s", START_DEADLINE.as_secs());
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        self.server = Some(server);
        Ok(())
    }

    /// Kills the server with SIGKILL.
    pub(super) fn kill(&mut self) -> Result<()> {
        if let Some(mut server) = self.server.take() {
            server.kill().and_then(|()| server.wait()).context("could not kill the server")?;
        }
        Ok(())
    }

    /// Counts the agents that run, by looking at their processes rather than asking the server.
    /// Linux only; elsewhere none is seen.
    pub(super) fn agents(&self) -> usize {
        let mark = self.data().display().to_string();
        let Ok(processes) = std::fs::read_dir("/proc") else { return 0 };
        processes.flatten().filter(|entry| is_shim_of(&entry.path(), &mark)).count()
    }

    /// Ends everything and removes the folder.
    pub(super) async fn close(mut self) -> Result<()> {
        if let Some(mut server) = self.server.take() {
            let all = StopParams { children: Some(true), park: None };
            self.client().server().stop(&all).await.map_err(failed)?;
            let deadline = Instant::now() + STOP_DEADLINE;
            while server.try_wait().context("could not watch the server")?.is_none() {
                if Instant::now() > deadline {
                    server.kill().context("could not kill the server")?;
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
        std::fs::remove_dir_all(&self.folder)
            .with_context(|| format!("could not remove {}", self.folder.display()))
    }
}

impl Drop for DemoServer {
    /// The fallback for a tour that failed before it could close: no server is left behind.
    fn drop(&mut self) {
        if self.server.is_some() && self.kill().is_err() {
            tracing::warn!(folder = %self.folder.display(), "a server of the tour is left behind");
        }
    }
}

/// A shim has its run directory in its arguments, and that lies below the data directory.
fn is_shim_of(process: &Path, mark: &str) -> bool {
    let Ok(line) = std::fs::read(process.join("cmdline")) else { return false };
    let words: Vec<_> = line.split(|byte| *byte == 0).map(String::from_utf8_lossy).collect();
    words.get(1).is_some_and(|word| word == "shim")
        && words.iter().any(|word| word.starts_with(mark))
}
