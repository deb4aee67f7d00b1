//! A real `plexus serve` in its own directory, for tests of the whole product.
//!
//! The server runs as a process, so that a test can kill it with `-9`, restart it on the same data
//! and read its log. `plexus-sim` plays its children unless the test names another CLI.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use serde::Deserialize;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::fixtures::workspace_root;
use crate::wait::eventually_async;

/// How long a server may take until it accepts calls, on a loaded machine.
const START_DEADLINE: Duration = Duration::from_secs(120);

/// How long a server may take to exit after a request to stop.
const STOP_DEADLINE: Duration = Duration::from_secs(120);

/// The timeout of a call: longer than a long poll of a minute.
const CALL_DEADLINE: Duration = Duration::from_secs(90);

/// The options of a server; each field replaces a default.
#[derive(Debug, Clone, Default)]
pub struct ServerOptions {
    /// The path of the server; when absent, [`binary`] looks for `plexus`.
    pub plexus_bin: Option<PathBuf>,
    /// The CLI that plays the children; `plexus-sim` when absent.
    pub claude_bin: Option<PathBuf>,
    /// Where to listen, for a test in which a child must find the server again after a restart; a
    /// free port when absent.
    pub listen: Option<String>,
    /// Further arguments of `plexus serve`.
    pub arguments: Vec<OsString>,
    /// Whether children have the wall of the configuration, or the product's own by default.
    /// Otherwise they have none: simulated children work in unusual places.
    pub wall: bool,
    /// Variables added to the environment.
    pub env: Vec<(String, String)>,
    /// The folder for the data; when absent, a temporary one that is removed at the end.
    pub folder: Option<PathBuf>,
    /// Words before the server's command line, for example of a program that enters another
    /// namespace and then executes the server.
    pub launcher: Vec<OsString>,
    /// The path under which we see the server's files when its file system differs from ours, such
    /// as `/proc/PID/root`.
    pub seen_through: Option<PathBuf>,
}

/// A running server, or one that was killed and can be restarted. Dropping it ends the server and
/// its children, and removes the data.
#[derive(Debug)]
pub struct TestServer {
    folder: TempDir,
    options: ServerOptions,
    client: reqwest::Client,
    running: Option<Running>,
}

#[derive(Debug)]
struct Running {
    process: Child,
    url: String,
    token: String,
}

/// The content of `server.json`, which the server writes once it accepts calls.
#[derive(Debug, Deserialize)]
struct Announcement {
    url: String,
    pid: u32,
}

/// A JSON-RPC error as the server sent it.
#[derive(Debug, Clone, PartialEq, Deserialize)]
pub struct RpcError {
    /// The JSON-RPC code.
    pub code: i64,
    /// The message for a person.
    pub message: String,
    /// `{kind, message, hint, …}`; `null` when there was none.
    #[serde(default)]
    pub data: Value,
}

impl RpcError {
    /// Returns the kind of the error, such as `not_found`; empty when it has none.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.data["kind"].as_str().unwrap_or_default()
    }
}

impl std::fmt::Display for RpcError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({}): {}", self.message, self.code, self.data)
    }
}

impl std::error::Error for RpcError {}

impl TestServer {
    /// Starts a server with simulated children.
    pub async fn start() -> Result<Self> {
        Self::with(ServerOptions::default()).await
    }

    /// Starts a server with other options.
    pub async fn with(options: ServerOptions) -> Result<Self> {
        let mut server = Self::prepared(options)?;
        server.start_again().await?;
        Ok(server)
    }

    /// Creates the directories for a server; [`start_again`](Self::start_again) starts it.
    pub fn prepared(options: ServerOptions) -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("plexus-server-")
            .tempdir()
            .context("could not make a folder")?;
        let client = reqwest::Client::builder().timeout(CALL_DEADLINE).no_proxy().build()?;
        Ok(Self { folder, options, client, running: None })
    }

    /// Sets the variables that the next start adds to those of this process.
    pub fn set_env(&mut self, env: Vec<(String, String)>) {
        self.options.env = env;
    }

    /// Tells whether a started server has ended without being asked to by this value.
    pub fn has_ended(&mut self) -> Result<bool> {
        match &mut self.running {
            Some(running) => Ok(running.process.try_wait()?.is_some()),
            None => Ok(true),
        }
    }

    /// Returns the data directory of the server.
    #[must_use]
    pub fn data_dir(&self) -> PathBuf {
        match &self.options.seen_through {
            Some(root) => root.join(self.own_data_dir().strip_prefix("/").unwrap_or(Path::new(""))),
            None => self.own_data_dir(),
        }
    }

    /// Returns the data directory as the server itself sees it.
    #[must_use]
    pub fn own_data_dir(&self) -> PathBuf {
        self.options.folder.as_deref().unwrap_or(self.folder.path()).join("data")
    }

    /// Returns everything the server has written to stdout and stderr, over all its starts.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    /// Returns where the server listens, such as `http://127.0.0.1:43211`.
    pub fn url(&self) -> Result<&str> {
        Ok(&self.running()?.url)
    }

    /// Returns the operator's token.
    pub fn token(&self) -> Result<&str> {
        Ok(&self.running()?.token)
    }

    /// Returns the process id of the server.
    pub fn pid(&self) -> Result<u32> {
        Ok(self.running()?.process.id())
    }

    /// Calls a method as the operator and returns its result; a refusal is an [`RpcError`] inside.
    pub async fn call(&self, method: &str, params: Value) -> Result<Value> {
        Ok(self.call_as(self.token()?, method, params).await??)
    }

    /// Calls a method with another token. The outer error means that there was no answer; the inner
    /// result is the answer.
    pub async fn call_as(
        &self,
        token: &str,
        method: &str,
        params: Value,
    ) -> Result<Result<Value, RpcError>> {
        let url = format!("{}/rpc", self.url()?.trim_end_matches('/'));
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let response = self.client.post(url).bearer_auth(token).json(&body).send().await?;
        let status = response.status();
        let text = response.text().await?;
        let mut answer: Value = serde_json::from_str(&text).with_context(|| {
            format!("{method} was answered {status} with what is not JSON: {text}")
        })?;
        if let Some(error) = answer.get("error") {
            return Ok(
                Err(serde_json::from_value(error.clone()).context("an odd JSON-RPC error")?),
            );
        }
        Ok(Ok(answer
            .get_mut("result")
            .map(Value::take)
            .ok_or_else(|| anyhow!("neither result nor error: {text}"))?))
    }

    /// Kills the server with `SIGKILL`; children and data stay.
    pub fn kill_9(&mut self) -> Result<()> {
        if let Some(mut running) = self.running.take() {
            running.process.kill()?;
            running.process.wait()?;
        }
        Ok(())
    }

    /// Asks the server to stop with `SIGTERM`; children and data stay. Returns its exit code.
    #[cfg(unix)]
    pub async fn stop(&mut self) -> Result<Option<i32>> {
        let Some(mut running) = self.running.take() else { bail!("the server does not run") };
        let pid = rustix::process::Pid::from_child(&running.process);
        rustix::process::kill_process(pid, rustix::process::Signal::TERM)?;
        let process = &mut running.process;
        let mut look = || process.try_wait().transpose();
        let status =
            eventually_async("the end of the server", STOP_DEADLINE, || std::future::ready(look()))
                .await?;
        Ok(status.code())
    }

    /// Starts a killed or stopped server on the same data.
    pub async fn start_again(&mut self) -> Result<()> {
        if self.running.is_some() {
            bail!("the server runs already");
        }
        let mut process = self.command()?.spawn().context("could not start plexus serve")?;
        let announced = self.data_dir().join("server.json");
        let pid = process.id();
        let announcement =
            eventually_async("server.json of the new server", START_DEADLINE, || {
                let found = match process.try_wait() {
                    Ok(None) => {
                        read_announcement(&announced).filter(|found| found.pid == pid).map(Ok)
                    }
                    Ok(Some(status)) => {
                        Some(Err(anyhow!("plexus serve ended with {status}:\n{}", self.log())))
                    }
                    Err(error) => Some(Err(error.into())),
                };
                std::future::ready(found)
            })
            .await?;
        let token = std::fs::read_to_string(self.data_dir().join("operator.token"))
            .context("no operator.token")?;
        self.running =
            Some(Running { process, url: announcement.url, token: token.trim().to_owned() });
        Ok(())
    }

    /// Kills the server with `SIGKILL` and restarts it on the same data.
    pub async fn crash_and_restart(&mut self) -> Result<()> {
        self.kill_9()?;
        self.start_again().await
    }

    fn running(&self) -> Result<&Running> {
        self.running.as_ref().context("the server does not run")
    }

    /// Returns the file that [`log`](Self::log) reads.
    #[must_use]
    pub fn log_path(&self) -> PathBuf {
        self.folder.path().join("server.log")
    }

    fn command(&self) -> Result<Command> {
        let log = File::options().create(true).append(true).open(self.log_path())?;
        let claude_bin = match &self.options.claude_bin {
            Some(path) => path.clone(),
            None => binary("plexus-sim", "PLEXUS_SIM_BIN")?,
        };
        let plexus = match &self.options.plexus_bin {
            Some(path) => path.clone(),
            None => binary("plexus", "PLEXUS_BIN")?,
        };
        let mut words = self.options.launcher.iter().cloned().chain([plexus.into_os_string()]);
        let mut command = Command::new(words.next().context("there is no program")?);
        command
            .args(words)
            .arg("serve")
            .arg("--data-dir")
            .arg(self.own_data_dir())
            .arg("--listen")
            .arg(self.options.listen.as_deref().unwrap_or("127.0.0.1:0"))
            .arg("--claude-bin")
            .arg(claude_bin)
            .args(&self.options.arguments)
            .envs((!self.options.wall).then_some(("PLEXUS_CONFINE_PROFILE", "none")))
            // Tests count processes and run directories, so no agent is started before its first
            // chat. A test about that turns it on.
            .env("PLEXUS_WARM_PRESTART", "off")
            .envs(self.options.env.iter().map(|(name, value)| (name, value)))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log);
        Ok(command)
    }
}

impl Drop for TestServer {
    fn drop(&mut self) {
        // Killing fails only when the server has already ended.
        let _ended = self.kill_9();
        // Shims outlive the server by design, and have their run directory in their arguments.
        #[cfg(target_os = "linux")]
        for shim in
            crate::process::marked(&self.own_data_dir().display().to_string()).unwrap_or_default()
        {
            for process in crate::process::descendants(shim.pid).unwrap_or_default() {
                crate::process::kill(process.pid);
            }
            crate::process::kill(shim.pid);
        }
    }
}

/// The ports that this program has handed out. A test of another server must not take one while its
/// own server is down.
static LASTING_PORTS: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// Returns an address for a server that is restarted at the same port. The port is below the range
/// from which the kernel chooses ports and below that of our databases, so that it is still free
/// when the server restarts.
pub fn lasting_address() -> Result<String> {
    for _ in 0..100 {
        let random = uuid::Uuid::new_v4().as_u128() % 5_000;
        let port = 15_000 + u16::try_from(random)?;
        let is_new = LASTING_PORTS.lock().unwrap_or_else(PoisonError::into_inner).insert(port);
        if is_new && std::net::TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok(format!("127.0.0.1:{port}"));
        }
    }
    bail!("no free port in a hundred tries")
}

fn read_announcement(path: &Path) -> Option<Announcement> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

/// Returns the path of one of our programs. A variable may name it; otherwise it is beside the test
/// program, where cargo puts it, and is built when missing. An existing program is never rebuilt:
/// after a change, run `cargo build`.
pub fn binary(name: &str, variable: &str) -> Result<PathBuf> {
    if let Some(path) = std::env::var_os(variable).filter(|path| !path.is_empty()) {
        return Ok(path.into());
    }
    let test = std::env::current_exe().context("this program cannot find itself")?;
    // A test is in `target/PROFILE/deps`, an example in `target/PROFILE/examples`, a program in
    // `target/PROFILE`.
    let beside = test.parent().context("a program without a folder")?;
    let in_subfolder =
        beside.file_name().is_some_and(|folder| folder == "deps" || folder == "examples");
    let folder = if in_subfolder { beside.parent().unwrap_or(beside) } else { beside };
    let path = folder.join(format!("{name}{}", std::env::consts::EXE_SUFFIX));
    if !path.is_file() {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let mut build = Command::new(cargo);
        build.current_dir(workspace_root()).args(["build", "--quiet", "--package", name]);
        if folder.ends_with("release") {
            build.arg("--release");
        }
        let status =
            build.status().with_context(|| format!("could not run cargo to build {name}"))?;
        if !status.success() || !path.is_file() {
            bail!("{} is missing and could not be built ({status})", path.display());
        }
    }
    Ok(path)
}
