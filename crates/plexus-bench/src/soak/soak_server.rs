//! The server of a soak, its directories, and a client that retries until it gets an answer.

use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::server::{RpcError, ServerOptions, TestServer};
use tokio::sync::Mutex;
use tokio::time::Instant;

/// How long a call may go unanswered: longer than any outage of the server.
const PATIENCE: Duration = Duration::from_secs(180);

/// The timeout of one attempt: long enough for a long poll, short enough to retry a frozen server.
const ONE_TRY: Duration = Duration::from_secs(20);

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(50);

/// A server that may be away for a while, at a fixed address.
pub struct SoakServer {
    /// Locked while the server is killed or started.
    pub server: Mutex<TestServer>,
    url: String,
    token: String,
    data: PathBuf,
    client: reqwest::Client,
    folder: TempDir,
}

impl SoakServer {
    /// Starts it.
    pub async fn start() -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("plexus-soak-").tempdir()?;
        for name in ["work", "tmp"] {
            std::fs::create_dir(folder.path().join(name))?;
        }
        let settings = ["warm.max=8", "limits.grace_secs=2", "limits.running_children=128"];
        let mut arguments = vec!["--log".into(), "warn".into()];
        arguments.extend(settings.iter().flat_map(|setting| ["--set".into(), (*setting).into()]));
        let own = |name: &str| {
            (name.to_owned(), folder.path().join(name.to_lowercase()).display().to_string())
        };
        let (_, temporary) = own("tmp");
        let server = TestServer::with(ServerOptions {
            claude_bin: Some("sim".into()),
            listen: Some(testkit::server::lasting_address()?),
            arguments,
            env: vec![("TMPDIR".into(), temporary)],
            ..ServerOptions::default()
        })
        .await?;
        Ok(Self {
            url: server.url()?.trim_end_matches('/').to_owned(),
            token: server.token()?.to_owned(),
            data: server.data_dir(),
            client: reqwest::Client::builder().timeout(ONE_TRY).no_proxy().build()?,
            server: Mutex::new(server),
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
