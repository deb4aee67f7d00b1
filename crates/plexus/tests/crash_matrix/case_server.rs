//! Where a case plays: a server that is armed, dies and comes back, a directory for its sessions,
//! and the task that deals the blow.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::process;
use testkit::server::{RpcError, ServerOptions, TestServer, lasting_address};
use tokio::time::Instant;

use crate::database::Database;
use crate::points::{Agent, Blow, Case, Channel, Victim, Warmth};

/// How long anything may take on a loaded machine, outages apart.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// The name of the simulated agent of the Agent Client Protocol.
const SIMULATED_ACP: &str = "sim_acp";

/// How often the mark of a point is looked for.
const LOOK_AGAIN: Duration = Duration::from_millis(10);

/// How long one call may go without an answer before it is made again: longer than any freeze.
const CALL_PATIENCE: Duration = Duration::from_secs(45);

/// How long a process stays frozen where the case names no outage: long enough for others to notice
/// that it does not answer.
const SHORT_FREEZE: Duration = Duration::from_millis(500);

/// The lease of a server on a shared database: long, because no server may lose its sessions here.
const LEASE_SECS: u64 = 120;

/// What receivers are signed in to with.
pub(crate) const RECEIVER_SECRET: &str = "123456:AA-secret_of_the_matrix";

/// The place of one case. Dropping it ends everything that carries its marker.
pub(crate) struct CaseServer {
    case: Case,
    server: TestServer,
    folder: TempDir,
    /// Whether the server of [`Victim::NextServer`] was started with its orders.
    next_server_armed: bool,
    /// Whether the outage that belongs to a blow against a shim or child is over.
    outage_over: bool,
    /// The server's database in the cases that strike it; in all others the server keeps a file.
    database: Option<Database>,
}

impl CaseServer {
    /// Makes the place of a case.
    pub(crate) async fn new(case: &Case) -> Result<Self> {
        Self::with_config(case, "").await
    }

    /// The same, with more in the configuration of the server.
    pub(crate) async fn with_config(case: &Case, more: &str) -> Result<Self> {
        let database = match case.victim {
            Victim::Database => Some(Database::start()?),
            Victim::Server | Victim::NextServer | Victim::Shim | Victim::Child | Victim::Egress => {
                None
            }
        };
        let folder = tempfile::Builder::new().prefix("plexus-matrix-").tempdir()?;
        for name in ["work", "faults"] {
            std::fs::create_dir(folder.path().join(name))?;
        }
        let warm = match case.warmth {
            Warmth::Warm | Warmth::Early => 4,
            Warmth::Cold | Warmth::Parks => 0,
        };
        let sets = [
            format!("warm.max={warm}"),
            "limits.grace_secs=1".into(),
            format!("node.lease_secs={LEASE_SECS}"),
            format!("park_after_secs={}", u8::from(case.warmth == Warmth::Parks)),
        ];
        let mut arguments: Vec<OsString> = vec!["--log".into(), "info,rmcp=warn".into()];
        arguments.extend(sets.into_iter().flat_map(|set| ["--set".into(), set.into()]));
        arguments.extend(["--codex-bin".into(), "sim".into()]);
        let plexus: PathBuf = std::env::var_os("PLEXUS_BIN")
            .unwrap_or_else(|| env!("CARGO_BIN_EXE_plexus").into())
            .into();
        let config = folder.path().join("plexus.toml");
        std::fs::write(&config, toml::to_string(&agents(&plexus)?)? + more)?;
        arguments.extend(["--config".into(), config.into()]);
        let server = TestServer::prepared(ServerOptions {
            plexus_bin: Some(plexus),
            claude_bin: Some("sim".into()),
            listen: Some(lasting_address()?),
            arguments,
            ..ServerOptions::default()
        })?;
        let mut place = Self {
            case: case.clone(),
            server,
            folder,
            next_server_armed: false,
            outage_over: false,
            database,
        };
        place.deal_the_blow();
        place.start(matches!(case.victim, Victim::Server | Victim::Database)).await?;
        Ok(place)
    }

    pub(crate) fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    pub(crate) fn runs(&self) -> PathBuf {
        self.server.data_dir().join("runs")
    }

    pub(crate) fn parked(&self) -> PathBuf {
        self.server.data_dir().join("parked")
    }

    /// The parameters of the session that depend on the case.
    pub(crate) fn session_params(&self) -> Value {
        let mut params = match self.case.agent {
            Agent::Claude => json!({"channel": channel_name(self.case.channel)}),
            Agent::Codex => json!({"agent": "codex", "supervise": "all"}),
            Agent::Acp => json!({"agent": SIMULATED_ACP}),
        };
        params["working_dir"] = json!(self.work());
        params["env"] = self.session_env();
        params["prestart"] = json!(self.case.warmth == Warmth::Early);
        if self.case.victim == Victim::Egress {
            params["confine"] = json!("workspace");
        }
        params
    }

    /// What every process of this case carries in its environment.
    pub(crate) fn marker(&self) -> String {
        self.faults().display().to_string()
    }

    /// What the child really did.
    pub(crate) fn diary(&self) -> Result<Vec<Value>> {
        let text = std::fs::read_to_string(self.folder.path().join("diary")).unwrap_or_default();
        text.lines()
            .map(|line| {
                serde_json::from_str(line).with_context(|| format!("a line of the diary: {line}"))
            })
            .collect()
    }

    /// The environment of the session's children; they carry the orders for shim and child, and the
    /// marker.
    pub(crate) fn session_env(&self) -> Value {
        let armed = matches!(self.case.victim, Victim::Shim | Victim::Child | Victim::Egress);
        json!({
            // What a wall takes from the environment of a child does not mark it.
            "MATRIX_MARK": self.faults(),
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

    /// Waits until an agent that is started before its first chat is there, or was struck on the
    /// way.
    pub(crate) async fn agent_waits(&mut self, session: &str) -> Result<()> {
        if self.case.warmth != Warmth::Early {
            return Ok(());
        }
        let dir = plexus_shim::layout::RunDir::new(self.runs().join(session).join("0"));
        let deadline = Instant::now() + PATIENCE + self.case.outage;
        while !self.was_struck() && dir.read_pid().ok().flatten().is_none() {
            self.keep_alive().await?;
            ensure!(Instant::now() < deadline, "no agent was started early\n{}", self.log());
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        Ok(())
    }

    /// Calls until there is an answer, through whatever becomes of the server.
    pub(crate) async fn call(
        &mut self,
        method: &str,
        params: Value,
    ) -> Result<Result<Value, RpcError>> {
        self.call_as(None, method, params).await
    }

    /// The same with another token than the operator's.
    pub(crate) async fn call_as(
        &mut self,
        token: Option<&str>,
        method: &str,
        params: Value,
    ) -> Result<Result<Value, RpcError>> {
        let mut deadline = Instant::now() + PATIENCE + self.case.outage;
        let mut last = None;
        while Instant::now() < deadline {
            if self.keep_alive().await? {
                deadline = Instant::now() + PATIENCE;
            }
            let operator = self.server.token()?.to_owned();
            let token = token.unwrap_or(&operator);
            match tokio::time::timeout(
                CALL_PATIENCE,
                self.server.call_as(token, method, params.clone()),
            )
            .await
            {
                // A server without its database says so, and a patient caller retries.
                Ok(Ok(Err(error))) if self.database.is_some() && error.kind() == "unavailable" => {
                    last = Some(error.into());
                }
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(error)) => last = Some(error),
                Err(_) => {}
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        bail!("{method} was never answered: {last:?}\n{}", self.log())
    }

    /// Posts to a path of the server until there is an answer. Returns its status and body.
    pub(crate) async fn post(&mut self, path: &str, body: &Value) -> Result<(u16, Value)> {
        let client = reqwest::Client::builder().timeout(CALL_PATIENCE).no_proxy().build()?;
        let deadline = Instant::now() + PATIENCE + self.case.outage;
        loop {
            self.keep_alive().await?;
            let url = format!("{}/{path}", self.server.url()?.trim_end_matches('/'));
            match client.post(url).json(body).send().await {
                Ok(answer) => {
                    let status = answer.status().as_u16();
                    // The server may have died between the head and the body.
                    if let Ok(body) = answer.json().await {
                        return Ok((status, body));
                    }
                }
                Err(error) => {
                    ensure!(Instant::now() < deadline, "{path} was never answered: {error}");
                }
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Waits until a look finds something, through whatever becomes of the server.
    pub(crate) async fn wait_for<T>(
        &mut self,
        what: &str,
        look: impl Fn() -> Option<T>,
    ) -> Result<T> {
        let deadline = Instant::now() + PATIENCE + self.case.outage;
        loop {
            self.keep_alive().await?;
            if let Some(found) = look() {
                return Ok(found);
            }
            ensure!(Instant::now() < deadline, "this did not come: {what}");
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    /// Kills the server and starts the next one.
    pub(crate) async fn restart(&mut self) -> Result<()> {
        self.server.kill_9()?;
        self.start(false).await
    }

    /// In a case whose victim is the next server: kills the first server while a question waits,
    /// and starts the next one with the fault armed. Does so once, and nothing in other cases.
    pub(crate) async fn a_question_waits(&mut self) -> Result<()> {
        if self.case.victim == Victim::NextServer && !self.next_server_armed {
            self.next_server_armed = true;
            self.server.kill_9()?;
            self.start(true).await?;
        }
        Ok(())
    }

    /// Says whether a question is answered now. In a story that parks, the first one is answered
    /// only when its agent has no process.
    pub(crate) fn may_answer(&self, approval: &Value) -> bool {
        let is_first = || approval["input"]["command"] == crate::story::command('A', 0);
        self.case.warmth != Warmth::Parks || approval["parked"] == true || !is_first()
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
        ensure!(self.database.is_none(), "the server ended with its database");
        self.server.kill_9()?;
        tokio::time::sleep(self.case.outage).await;
        self.start(false).await?;
        Ok(true)
    }

    async fn start(&mut self, armed: bool) -> Result<()> {
        let orders = if armed { self.orders() } else { String::new() };
        let mut env = self.server_env(orders);
        env.extend(
            self.database
                .as_ref()
                .map(|database| ("DATABASE_URL".into(), database.url().to_owned())),
        );
        self.server.set_env(env);
        match self.server.start_again().await {
            Ok(()) => Ok(()),
            // Struck while it started.
            Err(_) if armed && self.was_struck() => {
                tokio::time::sleep(self.case.outage).await;
                self.server.set_env(self.server_env(String::new()));
                self.server.start_again().await
            }
            Err(error) => Err(error),
        }
    }

    fn server_env(&self, orders: String) -> Vec<(String, String)> {
        vec![
            ("PLEXUS_FAULT".into(), orders),
            ("PLEXUS_FAULT_DIR".into(), self.marker()),
            ("HOME".into(), self.folder.path().display().to_string()),
            // What the receivers of a case want to see.
            ("MATRIX_SECRET".into(), RECEIVER_SECRET.into()),
        ]
    }

    fn orders(&self) -> String {
        let action = match (self.case.victim, self.case.blow) {
            // The server stands still while its database is struck, and is not struck itself.
            (Victim::Database, _) | (_, Blow::Freeze | Blow::FreezeAndKill) => "freeze",
            (_, Blow::Kill | Blow::KillWithServer) => "kill",
        };
        format!("{}:{action}@{}", self.case.point, self.case.nth)
    }

    fn faults(&self) -> PathBuf {
        self.folder.path().join("faults")
    }

    fn mark(&self) -> PathBuf {
        self.faults().join(format!("{}@{}", self.case.point, self.case.nth))
    }

    /// Waits until a database that was struck has come back.
    pub(crate) async fn database_is_back(&mut self) -> Result<()> {
        match &mut self.database {
            Some(database) => database.is_back().await,
            None => Ok(()),
        }
    }

    /// Strikes the database; continues or kills what was frozen, after the outage, whatever the
    /// story does meanwhile.
    fn deal_the_blow(&mut self) {
        let (mark, frozen_for) = (self.mark(), self.case.outage.max(SHORT_FREEZE));
        if let Some(database) = &mut self.database {
            database.strike(mark, self.case.blow, self.case.outage, frozen_for);
            return;
        }
        let signal = match self.case.blow {
            Blow::Freeze => rustix::process::Signal::CONT,
            Blow::FreezeAndKill => rustix::process::Signal::KILL,
            Blow::Kill | Blow::KillWithServer => return,
        };
        tokio::spawn(async move {
            let pid = struck_pid(&mark).await;
            tokio::time::sleep(frozen_for).await;
            process::signal(pid, signal);
        });
    }
}

impl Drop for CaseServer {
    fn drop(&mut self) {
        for process in process::marked(&self.marker()).unwrap_or_default() {
            process::kill(process.pid);
        }
    }
}

/// The agent of the Agent Client Protocol that the configuration adds.
fn agents(plexus: &Path) -> Result<Value> {
    let program = plexus.to_str().context("the path of the program is no text")?;
    let bash = json!({"acts": "shell", "command": "command", "harmless": ["description"]});
    Ok(json!({"agents": {SIMULATED_ACP: {
        "label": "Simulated agent", "program": program, "args": ["sim", "--as", "acp"],
        "asks_for": "everything", "modes": ["ask"], "resume": "resume",
        "tools": {"Bash": bash},
    }}}))
}

/// Waits until the point is reached, and returns who stands there.
pub(crate) async fn struck_pid(mark: &Path) -> u32 {
    let read = || std::fs::read_to_string(mark).ok()?.strip_suffix('\n')?.parse().ok();
    loop {
        match read() {
            Some(pid) => return pid,
            None => tokio::time::sleep(LOOK_AGAIN).await,
        }
    }
}

/// How the session is to ask.
fn channel_name(channel: Channel) -> &'static str {
    match channel {
        Channel::Control => "control",
        Channel::Mcp => "mcp",
    }
}
