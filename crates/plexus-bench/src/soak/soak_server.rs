//! A server of a soak, its directories, its database, and a client that retries until it gets an
//! answer.

use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::postgres::{self, Postgres, PostgresOptions};
use testkit::server::{RpcError, ServerOptions, TestServer, binary};
use tokio::sync::Mutex;
use tokio::time::Instant;

use super::chaos::Blows;
use super::real::RealAgents;
use super::roles::{Cast, SIMULATED_ACP};

/// How long a call may go unanswered: longer than any outage of the server.
const PATIENCE: Duration = Duration::from_secs(180);

/// The timeout of one attempt: long enough for a long poll, short enough to retry a frozen server.
const ONE_TRY: Duration = Duration::from_secs(20);

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(50);

/// How long an agent waits for an answer before it is parked.
const PARK_AFTER_SECS: u64 = 2;

/// The lease of a server on PostgreSQL: longer than any outage, because the same server comes back.
const LEASE_SECS: u64 = 120;

/// Where a server keeps everything.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Store {
    /// In a file.
    Sqlite,
    /// In a database of its own, which may be killed too.
    Postgres,
}

/// A server that may be away for a while, at a fixed address.
pub struct SoakServer {
    /// Locked while the server is killed or started.
    pub server: Mutex<TestServer>,
    /// Its database, unless it keeps a file.
    pub database: Option<Arc<std::sync::Mutex<Postgres>>>,
    /// Where it keeps everything.
    pub store: Store,
    /// Who plays its agents.
    pub cast: Cast,
    /// The stand-ins of real agents.
    pub real: Option<RealAgents>,
    /// How many chats have ended so far.
    pub chats: AtomicU64,
    /// The kills, stops and freezes so far.
    pub blows: std::sync::Mutex<Blows>,
    url: String,
    token: String,
    data: PathBuf,
    client: reqwest::Client,
    folder: TempDir,
}

impl SoakServer {
    /// Starts it.
    pub async fn start(store: Store, cast: Cast) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("plexus-soak-").tempdir()?;
        let real = match cast {
            Cast::Simulated => None,
            Cast::Real => Some(RealAgents::start().await?),
        };
        for name in ["work", "tmp"] {
            std::fs::create_dir(folder.path().join(name))?;
        }
        let plexus = binary("plexus", "PLEXUS_BIN")?;
        let config = folder.path().join("plexus.toml");
        let agents = match &real {
            Some(real) => real.config()?,
            None => simulated_acp(&plexus)?,
        };
        std::fs::write(&config, agents)?;
        let settings = [
            "warm.max=8".to_owned(),
            "limits.grace_secs=2".into(),
            "limits.running_children=128".into(),
            format!("park_after_secs={PARK_AFTER_SECS}"),
            format!("node.lease_secs={LEASE_SECS}"),
        ];
        let mut arguments = vec!["--log".into(), "warn".into()];
        arguments.extend(["--config".into(), config.into()]);
        match &real {
            Some(real) => arguments.extend(real.arguments()?),
            None => arguments.extend(["--codex-bin".into(), "sim".into()]),
        }
        arguments.extend(settings.into_iter().flat_map(|set| ["--set".into(), set.into()]));
        let path = |name: &str| folder.path().join(name).display().to_string();
        let mut env = vec![("TMPDIR".to_owned(), path("tmp"))];
        // What agents keep in a home directory goes with the soak.
        match &real {
            Some(real) => env.extend(real.env()),
            None => env.push(("HOME".to_owned(), folder.path().display().to_string())),
        }
        let mut database = None;
        if store == Store::Postgres {
            let cluster = postgres::start(PostgresOptions::default())?;
            env.push(("DATABASE_URL".to_owned(), cluster.fresh_database()?));
            database = Some(Arc::new(std::sync::Mutex::new(cluster)));
        }
        let server = TestServer::with(ServerOptions {
            plexus_bin: Some(plexus),
            claude_bin: Some(match &real {
                Some(real) => real.claude_bin()?,
                None => "sim".into(),
            }),
            listen: Some(testkit::server::lasting_address()?),
            arguments,
            env,
            ..ServerOptions::default()
        })
        .await?;
        Ok(Self {
            url: server.url()?.trim_end_matches('/').to_owned(),
            token: server.token()?.to_owned(),
            data: server.data_dir(),
            client: reqwest::Client::builder().timeout(ONE_TRY).no_proxy().build()?,
            server: Mutex::new(server),
            database,
            store,
            cast,
            real,
            chats: AtomicU64::new(0),
            blows: std::sync::Mutex::default(),
            folder,
        })
    }

    /// Returns where the server listens.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns the operator's token.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// Returns the data directory.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.data.clone()
    }

    /// Returns the path of a file or folder beside the data, by its name.
    #[must_use]
    pub fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns a text that every child of this site has in its environment.
    #[must_use]
    pub fn marker(&self) -> String {
        self.folder.path().display().to_string()
    }

    /// Returns what it is called in the report.
    #[must_use]
    pub fn label(&self) -> String {
        match self.cast {
            Cast::Simulated => format!("{:?}", self.store),
            Cast::Real => format!("{:?}, real agents", self.store),
        }
    }

    /// Returns the kills, stops and freezes so far.
    #[must_use]
    pub fn blows(&self) -> Blows {
        self.blows.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Does something slow with its database, if it has one.
    pub async fn with_database(
        &self,
        work: impl FnOnce(&mut Postgres) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        let Some(database) = self.database.clone() else { return Ok(()) };
        tokio::task::spawn_blocking(move || {
            work(&mut database.lock().unwrap_or_else(PoisonError::into_inner))
        })
        .await?
    }

    /// Retries a call until it is answered, and fails on a refusal.
    pub async fn call(&self, method: &str, params: Value) -> Result<Value> {
        self.ask(method, params).await?.with_context(|| format!("could not call {method}"))
    }

    /// Retries a call until it is answered. `busy` and `unavailable` do not count as answers.
    pub async fn ask(&self, method: &str, params: Value) -> Result<Result<Value, RpcError>> {
        let deadline = Instant::now() + PATIENCE;
        let body = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params});
        let mut last = String::new();
        while Instant::now() < deadline {
            match self.once(&body).await {
                Ok(mut answer) => match answer.get("error") {
                    Some(error) => {
                        let error: RpcError =
                            serde_json::from_value(error.clone()).context("an odd error")?;
                        if !["busy", "unavailable"].contains(&error.kind()) {
                            return Ok(Err(error));
                        }
                        last = error.to_string();
                    }
                    None => return Ok(Ok(answer["result"].take())),
                },
                Err(error) => last = error.to_string(),
            }
            tokio::time::sleep(PAUSE).await;
        }
        bail!("{method} was not answered within {PATIENCE:?}: {last}")
    }

    async fn once(&self, body: &Value) -> Result<Value> {
        let request =
            self.client.post(format!("{}/rpc", self.url)).bearer_auth(&self.token).json(body);
        Ok(request.send().await?.json().await?)
    }

    /// Polls until a condition is true.
    pub async fn wait_for<F>(&self, what: &str, mut look: impl FnMut() -> F) -> Result<()>
    where
        F: Future<Output = Result<bool>>,
    {
        let deadline = Instant::now() + PATIENCE;
        while !look().await? {
            if Instant::now() > deadline {
                bail!("this did not come within {PATIENCE:?}: {what}");
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }
}

/// Returns the configuration that adds the simulated agent of the Agent Client Protocol. A home of
/// its own lets it have a wall.
fn simulated_acp(plexus: &Path) -> Result<String> {
    let program = plexus.to_str().context("the path of the program is no text")?;
    let program = json!(program);
    Ok(format!(
        r#"[agents.{SIMULATED_ACP}]
label = "Simulated agent"
program = {program}
args = ["sim", "--as", "acp"]
asks_for = "everything"
modes = ["ask"]
resume = "resume"

[agents.{SIMULATED_ACP}.home]

[agents.{SIMULATED_ACP}.tools.Bash]
acts = "shell"
command = "command"
"#
    ))
}
