//! The server of a run, its agents, and the restart of the machine.

use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::messages_api::{MessagesApi, Step, prompt};
use testkit::process;
use testkit::real_claude::Sandbox;
use testkit::server::{RpcError, ServerOptions, TestServer, binary};

use super::Options;
use crate::server::text;

/// The timeout of every step.
pub const PATIENCE: Duration = Duration::from_secs(600);

/// A pause before another look.
const PAUSE: Duration = Duration::from_millis(100);

/// The longest wait that one call may request.
const WAIT_MS: u64 = 60_000;

/// Sessions of one page of the list.
const PAGE: usize = 1_000;

/// Set for an agent that is the real CLI.
const IS_REAL: &str = "THOUSAND_REAL";

/// A server with many agents.
pub struct Site {
    server: TestServer,
    options: Options,
    sandbox: Sandbox,
    /// The model of the real agents; it outlives a restart of the machine, being somewhere else.
    _api: MessagesApi,
    /// The server's data, and the program that is either CLI. Removed last.
    _folder: TempDir,
}

/// One agent that asks.
#[derive(Debug)]
pub struct Agent {
    /// Which one it is.
    pub number: usize,
    /// Its session.
    pub session: String,
    approval: Value,
}

impl Agent {
    /// Returns the file in which its call leaves a line.
    #[must_use]
    pub fn trace(&self, site: &Site) -> PathBuf {
        site.sandbox.work().join(trace_name(self.number))
    }

    /// Says that its call has left a line, if it has.
    #[must_use]
    pub fn ran_unasked(&self, site: &Site) -> Option<String> {
        self.trace(site).exists().then(|| format!("agent {} ran unasked", self.number))
    }
}

fn trace_name(number: usize) -> String {
    format!("agent-{number}.txt")
}

impl Site {
    /// Starts a server that parks its agents soon, and is otherwise as it comes.
    pub async fn start(options: &Options) -> Result<Self> {
        let api = MessagesApi::start().await?;
        let sandbox = Sandbox::new(&api)?;
        let folder = tempfile::Builder::new().prefix("plexus-thousand-").tempdir()?;
        let claude = folder.path().join("claude");
        either(&claude, options.cli.as_deref())?;
        let mut arguments: Vec<OsString> = vec!["--log".into(), "warn".into()];
        arguments.extend(["--set".into(), "park_after_secs=1".into()]);
        let server = TestServer::with(ServerOptions {
            claude_bin: Some(claude),
            arguments,
            env: sandbox.env(),
            folder: Some(folder.path().to_owned()),
            ..ServerOptions::default()
        })
        .await?;
        Ok(Self { server, options: options.clone(), sandbox, _api: api, _folder: folder })
    }

    /// Calls a method as the operator.
    pub async fn call(&self, method: &str, params: Value) -> Result<Value> {
        self.server.call(method, params).await.with_context(|| format!("could not call {method}"))
    }

    /// Has an agent ask about a call that leaves a line in a file of its own.
    pub async fn ask(&self, number: usize) -> Result<Agent> {
        let is_real = self.is_real(number);
        let mut params = json!({"name": format!("agent-{number}"), "loopback_timeout_secs": 0,
            "working_dir": self.sandbox.work()});
        if is_real {
            params["env"] = json!({IS_REAL: "1"});
        }
        let session = text(&self.call("agents.create", params).await?, "id")?;
        let command = format!("echo ran >> {}", trace_name(number));
        let prompt = if is_real {
            prompt(&[Step::bash(&command), Step::text("done")])
        } else {
            format!("sim:\ntool Bash {}", json!({"command": command}))
        };
        self.chat(&session, &prompt).await?;
        let wait = json!({"session_id": session, "wait_ms": WAIT_MS});
        let found = self.call("loopback.wait_for_approval", wait).await?;
        let approval = found["approvals"][0]["id"].clone();
        ensure!(approval.is_string(), "agent {number} asked nothing: {found}");
        Ok(Agent { number, session, approval })
    }

    /// The real ones are spread evenly among the others.
    fn is_real(&self, number: usize) -> bool {
        let Options { agents, real, .. } = self.options;
        (number * real) % agents < real
    }

    /// Starts a chat, as soon as the server has room for another child.
    async fn chat(&self, session: &str, prompt: &str) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let params = json!({"session_id": session, "prompt": prompt});
            let Err(error) = self.call("agents.chat_async", params).await else { return Ok(()) };
            let is_busy = error.downcast_ref::<RpcError>().is_some_and(|it| it.kind() == "busy");
            if !is_busy || Instant::now() > deadline {
                return Err(error);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Waits until all agents ask and none has a process.
    pub async fn wait_until_parked(&self, all: usize) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let state = self.call("health.state", json!({})).await?;
            let counts = &state["counts"];
            if counts["runs_open"] == 0 && counts["approvals_pending"] == all {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("not all agents were parked: {state}\n{}", self.server.log());
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Counts the parked agents in the list of all sessions, as `plexus ps` reads it.
    pub async fn parked_sessions(&self) -> Result<usize> {
        let (mut parked, mut cursor) = (0, Value::Null);
        loop {
            let mut params = json!({"limit": PAGE});
            if !cursor.is_null() {
                params["cursor"] = cursor;
            }
            let page = self.call("agents.list", params).await?;
            let sessions = page["sessions"].as_array().context("no sessions")?;
            parked += sessions.iter().filter(|session| session["parked"] == true).count();
            cursor = page["cursor"].clone();
            if cursor.is_null() {
                return Ok(parked);
            }
        }
    }

    /// Does what a restart of the machine does: every process is gone, and so are run directories
    /// and temporary files; the data directory and the transcripts of the CLIs stay. Returns how
    /// many seconds the server then took to start.
    pub async fn restart_machine(&mut self) -> Result<f64> {
        self.server.kill_9()?;
        for process in process::marked(self.sandbox.marker())? {
            process::kill(process.pid);
        }
        process::assert_none_marked(self.sandbox.marker(), PATIENCE);
        emptied(&self.server.data_dir().join("runs"))?;
        emptied(&self.sandbox.outside("tmp"))?;
        let begun = Instant::now();
        self.server.start_again().await?;
        Ok(begun.elapsed().as_secs_f64())
    }

    /// Allows what an agent asks, and returns when, in milliseconds since 1970.
    pub async fn allow(&self, agent: &Agent) -> Result<f64> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs_f64() * 1e3;
        let answer = json!({"approval_id": agent.approval, "approve": true});
        self.call("loopback.respond", answer).await?;
        Ok(now)
    }

    /// Returns the server's memory.
    pub fn server_bytes(&self) -> Result<u64> {
        process::resident_bytes(self.server.pid()?)
    }

    /// Returns the largest memory that the server has had.
    pub fn server_peak_bytes(&self) -> Result<u64> {
        process::peak_resident_bytes(self.server.pid()?)
    }

    /// Returns how many processes the server has below it, and their memory.
    pub fn agents_weigh(&self) -> Result<(usize, u64)> {
        let below = process::descendants(self.server.pid()?)?;
        // One that has ended meanwhile weighs nothing.
        let bytes = below.iter().map(|it| process::resident_bytes(it.pid).unwrap_or(0));
        Ok((below.len(), bytes.sum()))
    }

    /// Returns how large the store is: the database with its log, and the kept transcripts.
    pub fn store_bytes(&self) -> Result<u64> {
        let data = self.server.data_dir();
        let mut bytes = 0;
        for folder in [data.clone(), data.join("parked")] {
            for file in std::fs::read_dir(folder)? {
                let found = file?.metadata()?;
                bytes += if found.is_file() { found.len() } else { 0 };
            }
        }
        Ok(bytes)
    }
}

/// Writes a program that is the real CLI for whoever asks for it, and the simulator otherwise.
fn either(path: &Path, real: Option<&Path>) -> Result<()> {
    let simulator = binary("plexus-sim", "PLEXUS_SIM_BIN")?;
    let real = real.unwrap_or(&simulator);
    let script = format!(
        "#!/bin/sh\nif [ -n \"${IS_REAL}\" ]; then exec '{}' \"$@\"; fi\nexec '{}' \"$@\"\n",
        real.display(),
        simulator.display()
    );
    std::fs::write(path, script)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755))?;
    Ok(())
}

/// Removes everything below a directory, which may be missing.
fn emptied(path: &Path) -> Result<()> {
    if path.exists() {
        std::fs::remove_dir_all(path)
            .with_context(|| format!("could not remove {}", path.display()))?;
    }
    std::fs::create_dir(path).with_context(|| format!("could not make {}", path.display()))
}
