//! A real `plexus serve` with simulated children, and the calls that measures make.

use std::ffi::OsString;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::server::{ServerOptions, TestServer, binary};

/// The timeout of everything that a measure waits for.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Concurrent calls where there are many to make: enough to keep two cores busy.
const ABREAST: usize = 8;

/// The unit of times in `/proc`: Linux shows hundredths of a second on every machine.
const TICKS_PER_SECOND: u64 = 100;

/// The longest wait that one call may request.
const WAIT_MS: u64 = 60_000;

/// The agent of the Agent Client Protocol that [`Server::start_with_all_agents`] adds.
pub const SIMULATED_ACP: &str = "sim_acp";

/// A server, its data and a directory that its children work in. Dropping it ends everything.
pub struct Server {
    inner: TestServer,
    /// Separate from the data: a session may not work in the server's data directory.
    work: TempDir,
}

impl Server {
    /// Starts a server with these configuration keys set.
    pub async fn start(settings: &[(&str, String)]) -> Result<Self> {
        // The empty URL overrides the caller's own variable: a measure of a file store must use a
        // file.
        Self::start_on("", settings).await
    }

    /// The same for a server whose store is the database of this URL; an empty URL means its own
    /// file.
    pub async fn start_on(database_url: &str, settings: &[(&str, String)]) -> Result<Self> {
        let mut arguments = Vec::new();
        for (key, value) in settings {
            arguments.extend(["--set".into(), format!("{key}={value}").into()]);
        }
        Self::start_in(work_folder()?, database_url, arguments, Vec::new()).await
    }

    /// Starts a server that has a simulator of every kind of agent.
    pub async fn start_with_all_agents() -> Result<Self> {
        let work = work_folder()?;
        let plexus = binary("plexus", "PLEXUS_BIN")?;
        let config = format!(
            "[agents.{SIMULATED_ACP}]\nlabel = \"Simulated agent\"\nprogram = {:?}\n\
             args = [\"sim\", \"--as\", \"acp\"]\nasks_for = \"everything\"\nmodes = [\"ask\"]\n\
             resume = \"resume\"\n",
            plexus.to_str().context("the path of the program is no text")?
        );
        let path = work.path().join("plexus.toml");
        std::fs::write(&path, config).context("could not write the settings")?;
        let arguments = vec!["--config".into(), path.into(), "--codex-bin".into(), "sim".into()];
        // Two of the simulators keep their conversations there.
        let folder = |name: &str| work.path().join(name).display().to_string();
        let env =
            vec![("HOME".to_owned(), folder("home")), ("CODEX_HOME".to_owned(), folder("codex"))];
        Self::start_in(work, "", arguments, env).await
    }

    async fn start_in(
        work: TempDir,
        database_url: &str,
        mut arguments: Vec<OsString>,
        mut env: Vec<(String, String)>,
    ) -> Result<Self> {
        arguments.extend(["--log".into(), "warn".into()]);
        // The simulator keeps its conversations there.
        env.extend([
            ("CLAUDE_CONFIG_DIR".to_owned(), work.path().join("claude").display().to_string()),
            ("DATABASE_URL".to_owned(), database_url.to_owned()),
        ]);
        let inner =
            TestServer::with(ServerOptions { arguments, env, ..ServerOptions::default() }).await?;
        Ok(Self { inner, work })
    }

    /// Returns where it listens, as `host:port`.
    pub fn address(&self) -> Result<String> {
        Ok(self.inner.url()?.trim_start_matches("http://").trim_end_matches('/').to_owned())
    }

    /// Returns the operator's token.
    pub fn token(&self) -> Result<&str> {
        self.inner.token()
    }

    /// Returns its data directory.
    #[must_use]
    pub fn data_dir(&self) -> PathBuf {
        self.inner.data_dir()
    }

    /// Returns the directory that its children work in.
    #[must_use]
    pub fn work_dir(&self) -> &Path {
        self.work.path()
    }

    /// Returns its resident memory in bytes.
    pub fn resident_bytes(&self) -> Result<u64> {
        testkit::process::resident_bytes(self.inner.pid()?)
    }

    /// Returns the CPU time that it has used.
    pub fn cpu_time(&self) -> Result<Duration> {
        let path = format!("/proc/{}/stat", self.inner.pid()?);
        let stat =
            std::fs::read_to_string(&path).with_context(|| format!("could not read {path}"))?;
        // The name in parentheses may contain anything. After it, the 12th and 13th fields are user
        // and system time.
        let (_, after_name) = stat.rsplit_once(')').with_context(|| format!("odd {path}"))?;
        let times = after_name.split_whitespace().skip(11).take(2).map(str::parse::<u64>);
        let ticks: u64 = times.sum::<Result<_, _>>().with_context(|| format!("odd {path}"))?;
        Ok(Duration::from_millis(ticks * 1_000 / TICKS_PER_SECOND))
    }

    /// Kills it with `SIGKILL`; children and data stay.
    pub fn kill_9(&mut self) -> Result<()> {
        self.inner.kill_9()
    }

    /// Stops it gracefully and waits until it has exited; children and data stay.
    pub async fn stop(&mut self) -> Result<()> {
        let code = self.inner.stop().await?;
        ensure!(code == Some(0), "the server ended with {code:?}:\n{}", self.inner.log());
        Ok(())
    }

    /// Starts it again on the same data.
    pub async fn start_again(&mut self) -> Result<()> {
        self.inner.start_again().await
    }

    /// Calls a method as the operator.
    pub async fn call(&self, method: &str, params: Value) -> Result<Value> {
        self.inner.call(method, params).await.with_context(|| format!("could not call {method}"))
    }

    /// Creates a session and returns its id. Its permission requests never time out.
    pub async fn create(&self, name: &str) -> Result<String> {
        self.create_on("auto", name).await
    }

    /// The same for a session that asks over `channel`.
    pub async fn create_on(&self, channel: &str, name: &str) -> Result<String> {
        let params = json!({"name": name, "working_dir": self.work.path(), "loopback_timeout_secs": 0, "channel": channel});
        text(&self.call("claudecode.create", params).await?, "id")
    }

    /// Creates `count` sessions and returns their ids.
    pub async fn create_many(&self, prefix: &str, count: usize) -> Result<Vec<String>> {
        let names: Vec<String> = (0..count).map(|index| format!("{prefix}-{index}")).collect();
        stream::iter(&names).map(|name| self.create(name)).buffered(ABREAST).try_collect().await
    }

    /// Starts a chat and returns its number at once.
    pub async fn start_chat(&self, session: &str, prompt: &str) -> Result<u64> {
        let started = self
            .call("claudecode.chat_async", json!({"session_id": session, "prompt": prompt}))
            .await?;
        started["chat"].as_u64().context("a started chat has no number")
    }

    /// Plays a prompt until the chat ends or asks for permission, and returns the result of `poll`.
    pub async fn chat(&self, session: &str, prompt: &str) -> Result<Value> {
        self.call(
            "claudecode.chat",
            json!({"session_id": session, "prompt": prompt, "wait_ms": WAIT_MS}),
        )
        .await
    }

    /// Plays a prompt in every session, a few at a time, until each chat is in `status`.
    pub async fn chat_many(
        &self,
        sessions: &[String],
        prompt: &str,
        status: &str,
    ) -> Result<Vec<Value>> {
        stream::iter(sessions)
            .map(async |session| {
                let page = self.chat(session, prompt).await?;
                let said =
                    page["events"].as_array().and_then(|events| Some(&events.last()?["event"]));
                ensure!(
                    page["status"] == status,
                    "a chat should be {status} and is {}: {said:?}",
                    page["status"]
                );
                Ok(page)
            })
            .buffered(ABREAST)
            .try_collect()
            .await
    }

    /// Waits for the permission request of a session and returns its id.
    pub async fn wait_for_approval(&self, session: &str) -> Result<String> {
        let found = self
            .call("loopback.wait_for_approval", json!({"session_id": session, "wait_ms": WAIT_MS}))
            .await?;
        text(&found["approvals"][0], "id")
            .with_context(|| format!("no permission request came: {found}"))
    }

    /// Allows a permission request.
    pub async fn allow(&self, approval: &str) -> Result<()> {
        self.call("loopback.respond", json!({"approval_id": approval, "approve": true}))
            .await
            .map(drop)
    }

    /// Waits until no chat is running or waiting for permission.
    pub async fn wait_until_quiet(&self) -> Result<()> {
        self.wait_for("the end of every chat", async || {
            let state = self.call("health.state", json!({})).await?;
            Ok(state["counts"]["chats_running"].as_u64().context("no count of running chats")? == 0)
        })
        .await
    }

    /// Polls every few milliseconds until a condition is true.
    pub async fn wait_for<F>(&self, what: &str, mut look: impl FnMut() -> F) -> Result<()>
    where
        F: Future<Output = Result<bool>>,
    {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while !look().await? {
            if tokio::time::Instant::now() > deadline {
                bail!("this did not come within {PATIENCE:?}: {what}");
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Ok(())
    }
}

fn work_folder() -> Result<TempDir> {
    tempfile::Builder::new().prefix("plexus-bench-").tempdir().context("could not make a folder")
}

/// Returns a text field of an answer.
pub fn text(answer: &Value, field: &str) -> Result<String> {
    Ok(answer[field].as_str().with_context(|| format!("no {field} in {answer}"))?.to_owned())
}
