//! The server of a soak, where it works, and a caller that asks again until it is answered.

use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::server::{RpcError, ServerOptions, TestServer};
use tokio::sync::Mutex;
use tokio::time::Instant;

/// How long a call may go unanswered: longer than a server is ever away.
const PATIENCE: Duration = Duration::from_secs(180);

/// How long one try may take: a long poll fits, and a frozen server is asked again.
const ONE_TRY: Duration = Duration::from_secs(20);

/// The pause between two tries.
const PAUSE: Duration = Duration::from_millis(50);

/// A server that may be away for a while, at an address that stays.
pub struct Site {
    /// Held by whoever kills and starts it.
    pub server: Mutex<TestServer>,
    url: String,
    token: String,
    data: PathBuf,
    client: reqwest::Client,
    folder: TempDir,
}

impl Site {
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

    /// Where the server listens.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The operator's token.
    #[must_use]
    pub fn token(&self) -> &str {
        &self.token
    }

    /// The data directory.
    #[must_use]
    pub fn data(&self) -> PathBuf {
        self.data.clone()
    }

    /// A file or folder beside the data, by its name.
    #[must_use]
    pub fn beside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What every child of this site carries in its environment.
    #[must_use]
    pub fn marker(&self) -> String {
        self.folder.path().display().to_string()
    }

    /// Calls until there is an answer that is no refusal.
    pub async fn call(&self, method: &str, params: Value) -> Result<Value> {
        self.ask(method, params).await?.with_context(|| format!("could not call {method}"))
    }

    /// Calls until there is an answer. `busy` and `unavailable` are no answers.
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

    /// Looks until something is true.
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
