//! Where a case plays: a server that is armed, dies and comes back, a directory for its sessions, and whoever deals the blow.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::process;
use testkit::server::{RpcError, ServerOptions, TestServer, lasting_address};
use tokio::time::Instant;

use crate::points::{Blow, Case, Channel, Victim, Warmth};

/// How long anything may take on a loaded machine, outages apart.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// How often the mark of a point is looked for.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// How long one call may go without an answer before it is made again: longer than any freeze.
const CALL_PATIENCE: Duration = Duration::from_secs(45);

/// How long a process stays frozen where the case names no outage: long enough for others to notice that it does not answer.
const SHORT_FREEZE: Duration = Duration::from_millis(500);

/// The place of one case. Dropping it ends everything that carries its marker.
pub(crate) struct Place {
    case: Case,
    server: TestServer,
    folder: TempDir,
    /// Whether the server of [`Victim::NextServer`] was started with its orders.
    next_server_armed: bool,
    /// Whether the outage that belongs to a blow against a shim or child is over.
    outage_over: bool,
}

impl Place {
    pub(crate) async fn new(case: &Case) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("plexus-matrix-").tempdir()?;
        for name in ["work", "faults"] {
            std::fs::create_dir(folder.path().join(name))?;
        }
        let warm = if case.warmth == Warmth::Warm { 4 } else { 0 };
        let arguments =
            ["--log", "info,rmcp=warn", "--set", &format!("warm.max={warm}"), "--set", "limits.grace_secs=1"];
        let server = TestServer::prepared(ServerOptions {
            plexus_bin: Some(
                std::env::var_os("PLEXUS_BIN").unwrap_or_else(|| env!("CARGO_BIN_EXE_plexus").into()).into(),
            ),
            claude_bin: Some("sim".into()),
            listen: Some(lasting_address()?),
            arguments: arguments.map(Into::into).into(),
            ..ServerOptions::default()
        })?;
        let mut place = Self { case: case.clone(), server, folder, next_server_armed: false, outage_over: false };
        place.watch_for_the_frozen();
        place.start(case.victim == Victim::Server).await?;
        Ok(place)
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    pub(crate) fn runs(&self) -> PathBuf {
        self.server.data_dir().join("runs")
    }

    /// What every process of this case carries in its environment.
    pub(crate) fn marker(&self) -> String {
        self.faults().display().to_string()
    }

    /// What the child really did.
    pub(crate) fn diary(&self) -> Result<Vec<Value>> {
        let text = std::fs::read_to_string(self.folder.path().join("diary")).unwrap_or_default();
        text.lines()
            .map(|line| serde_json::from_str(line).with_context(|| format!("a line of the diary: {line}")))
            .collect()
    }

    /// The environment of the session's children; they carry the orders for shim and child, and the marker.
    pub(crate) fn session_env(&self) -> Value {
        let armed = matches!(self.case.victim, Victim::Shim | Victim::Child);
        json!({
            "PLEXUS_FAULT": if armed { self.orders() } else { String::new() },
            "PLEXUS_FAULT_DIR": self.faults(),
            "PLEXUS_SIM_DIARY": self.folder.path().join("diary"),
            "CLAUDE_CONFIG_DIR": self.folder.path().join("claude"),
        })
    }

    /// Whether the point was reached.
    pub(crate) fn was_struck(&self) -> bool {
        self.mark().exists()
    }

    pub(crate) fn log(&self) -> String {
        self.server.log()
    }

    /// Calls until there is an answer, through whatever becomes of the server.
    pub(crate) async fn call(&mut self, method: &str, params: Value) -> Result<Result<Value, RpcError>> {
        let mut deadline = Instant::now() + PATIENCE + self.case.outage;
        let mut last = None;
        while Instant::now() < deadline {
            if self.keep_alive().await? {
                deadline = Instant::now() + PATIENCE;
            }
            let token = self.server.token()?.to_owned();
            match tokio::time::timeout(CALL_PATIENCE, self.server.call_as(&token, method, params.clone())).await {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) => last = Some(error),
                Err(_) => {}
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        bail!("{method} was never answered: {last:?}\n{}", self.log())
    }

    /// Kills the server while a question waits, and starts the next one with its orders. Once, where the case is about the next one.
    pub(crate) async fn a_question_waits(&mut self) -> Result<()> {
        if self.case.victim == Victim::NextServer && !self.next_server_armed {
            self.next_server_armed = true;
            self.server.kill_9()?;
            self.start(true).await?;
        }
        Ok(())
    }

    /// Brings a server back that has died, after the outage. Says whether there was one.
    pub(crate) async fn keep_alive(&mut self) -> Result<bool> {
        if self.case.blow == Blow::KillWithServer && self.was_struck() && !self.outage_over {
            self.outage_over = true;
            self.server.kill_9()?;
        }
        if !self.server.has_ended()? {
            return Ok(false);
        }
        self.server.kill_9()?;
        tokio::time::sleep(self.case.outage).await;
        self.start(false).await?;
        Ok(true)
    }

    async fn start(&mut self, armed: bool) -> Result<()> {
        let orders = if armed { self.orders() } else { String::new() };
        self.server.set_env(vec![
            ("PLEXUS_FAULT".into(), orders),
            ("PLEXUS_FAULT_DIR".into(), self.marker()),
            ("HOME".into(), self.folder.path().display().to_string()),
        ]);
        match self.server.start_again().await {
            Ok(()) => Ok(()),
            // Struck while it started.
            Err(_) if armed && self.was_struck() => {
                tokio::time::sleep(self.case.outage).await;
                self.server.set_env(vec![
                    ("PLEXUS_FAULT_DIR".into(), self.marker()),
                    ("HOME".into(), self.folder.path().display().to_string()),
                ]);
                self.server.start_again().await
            }
            Err(error) => Err(error),
        }
    }

    fn orders(&self) -> String {
        let action = match self.case.blow {
            Blow::Kill | Blow::KillWithServer => "kill",
            Blow::Freeze | Blow::FreezeAndKill => "freeze",
        };
        format!("{}:{action}@{}", self.case.point, self.case.nth)
    }

    fn faults(&self) -> PathBuf {
        self.folder.path().join("faults")
    }

    fn mark(&self) -> PathBuf {
        self.faults().join(format!("{}@{}", self.case.point, self.case.nth))
    }

    /// Continues or kills what was frozen, after the outage, whatever the story does meanwhile.
    fn watch_for_the_frozen(&self) {
        let signal = match self.case.blow {
            Blow::Freeze => rustix::process::Signal::CONT,
            Blow::FreezeAndKill => rustix::process::Signal::KILL,
            Blow::Kill | Blow::KillWithServer => return,
        };
        let (mark, frozen_for) = (self.mark(), self.case.outage.max(SHORT_FREEZE));
        tokio::spawn(async move {
            let pid = loop {
                match struck_pid(&mark) {
                    Some(pid) => break pid,
                    None => tokio::time::sleep(LOOK_AGAIN).await,
                }
            };
            tokio::time::sleep(frozen_for).await;
            process::signal(pid, signal);
        });
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        for process in process::marked(&self.marker()).unwrap_or_default() {
            process::kill(process.pid);
        }
    }
}

fn struck_pid(mark: &Path) -> Option<u32> {
    std::fs::read_to_string(mark).ok()?.strip_suffix('\n')?.parse().ok()
}

/// How the session is to ask.
pub(crate) fn channel_name(channel: Channel) -> &'static str {
    match channel {
        Channel::Control => "control",
        Channel::Mcp => "mcp",
    }
}
