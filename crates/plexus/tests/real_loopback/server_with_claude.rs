//! What every case begins with: a stand-in for the Messages API, a sandbox for the CLI, and a real
//! server that can be killed and comes back where it was.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::messages_api::{MessagesApi, Step, prompt};
use testkit::real_claude::Sandbox;
use testkit::server::{ServerOptions, TestServer, lasting_address};
use testkit::wait::PATIENCE;

/// How a child asks, and how long its server may be away meanwhile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    /// The channel of the session.
    pub(crate) channel: &'static str,
    /// How long the server is away in each outage of a case.
    pub(crate) away: Duration,
    /// Where the server has walls: which mechanisms must hold.
    pub(crate) tier: Option<&'static str>,
    /// Where a server with walls has its data.
    pub(crate) data_below: &'static str,
}

/// A wall has a `/tmp` of its own, in which its commands may do anything.
const OUTSIDE_OF_TMP: &str = env!("CARGO_TARGET_TMPDIR");

/// On the control channel nothing happens while the server is away: a short outage is as good as a
/// long one.
pub(crate) const CONTROL: Way = Way {
    channel: "control",
    away: Duration::from_secs(2),
    tier: None,
    data_below: OUTSIDE_OF_TMP,
};

/// Over MCP the client comes back 15 s after it lost the server.
pub(crate) const MCP: Way = Way { channel: "mcp", away: Duration::from_secs(10), ..CONTROL };

/// A server with one session, whose child is the real CLI.
pub(crate) struct ServerWithClaude {
    pub(crate) api: MessagesApi,
    pub(crate) sandbox: Sandbox,
    pub(crate) server: TestServer,
    pub(crate) session: String,
    way: Way,
    /// The server's data, where that lies elsewhere than usual. Removed last.
    _folder: Option<TempDir>,
}

impl ServerWithClaude {
    pub(crate) async fn new(cli: PathBuf, way: Way) -> Result<Self> {
        Self::with(cli, way, None, Vec::new(), Vec::new()).await
    }

    /// The same with a wall that the session names, and with more arguments and variables of the
    /// server.
    pub(crate) async fn with(
        cli: PathBuf,
        way: Way,
        profile: Option<&str>,
        arguments: Vec<OsString>,
        env: Vec<(String, String)>,
    ) -> Result<Self> {
        let api = MessagesApi::start().await?;
        let sandbox = Sandbox::new(&api)?;
        let tier = way.tier.map(|tier| ["--set".into(), format!("confine.tier={tier}").into()]);
        let folder = way.tier.map(|_| tempfile::tempdir_in(way.data_below));
        let folder = folder.transpose()?;
        let options = ServerOptions {
            folder: folder.as_ref().map(|folder| folder.path().to_owned()),
            wall: way.tier.is_some(),
            arguments: tier.into_iter().flatten().chain(arguments).collect(),
            plexus_bin: Some(env!("CARGO_BIN_EXE_plexus").into()),
            claude_bin: Some(cli),
            env: sandbox.env().into_iter().chain(env).collect(),
            listen: Some(lasting_address()?),
            ..ServerOptions::default()
        };
        let server = TestServer::with(options).await?;
        // A question waits for as long as the case lets it.
        let mut params = json!({"name": "child", "working_dir": sandbox.work(), "channel": way.channel, "loopback_timeout_secs": 0});
        if let Some(profile) = profile {
            params["confine"] = json!(profile);
        }
        let created = server.call("claudecode.create", params).await?;
        let session = created["id"].as_str().context("a session has no id")?.to_owned();
        Ok(Self { api, sandbox, server, session, way, _folder: folder })
    }

    /// Starts a chat whose model plays these steps.
    pub(crate) async fn chat(&self, steps: &[Step]) -> Result<()> {
        let params = json!({"session_id": self.session, "prompt": prompt(steps)});
        self.server.call("claudecode.chat_async", params).await.map(drop)
    }

    /// Waits until exactly `count` requests are pending, and returns them, oldest first.
    pub(crate) async fn pending(&self, count: usize) -> Result<Vec<Value>> {
        let what = format!("{count} permission requests");
        let found = self.eventually(&what, async || {
            let found =
                self.server.call("loopback.pending", json!({"session_id": self.session})).await?;
            let found = found["approvals"].as_array().cloned().unwrap_or_default();
            Ok((found.len() == count).then_some(found))
        });
        found.await
    }

    /// Waits for the one request that is pending.
    pub(crate) async fn asked(&self) -> Result<Value> {
        Ok(self.pending(1).await?.remove(0))
    }

    /// Waits until the agent has no process while it asks, and returns what it asks.
    pub(crate) async fn parked(&self) -> Result<Value> {
        self.eventually("the agent is parked", async || {
            let found =
                self.server.call("loopback.pending", json!({"session_id": self.session})).await?;
            let approval = found["approvals"][0].clone();
            Ok((approval["parked"] == true).then_some(approval))
        })
        .await
    }

    pub(crate) async fn allow(&self, approval: &Value) -> Result<()> {
        self.respond(json!({"approval_id": approval["id"], "approve": true, "input_digest": approval["input_digest"]}))
            .await
    }

    pub(crate) async fn respond(&self, answer: Value) -> Result<()> {
        self.server.call("loopback.respond", answer).await.map(drop)
    }

    /// Kills the server, leaves the child alone for as long as its channel's outages last, and
    /// starts the server again.
    pub(crate) async fn outage(&mut self) -> Result<()> {
        self.server.kill_9()?;
        tokio::time::sleep(self.way.away).await;
        self.server.start_again().await
    }

    /// Waits until the child has found the server again. On the control channel it never lost it.
    pub(crate) async fn reconnected(&self) -> Result<()> {
        if self.way == CONTROL {
            return Ok(());
        }
        let came_back = self.eventually("the client of a waiting call", async || {
            let url = format!("{}/metrics", self.server.url()?);
            let text = reqwest::Client::new()
                .get(url)
                .bearer_auth(self.server.token()?)
                .send()
                .await?
                .text()
                .await?;
            Ok(text.lines().any(|line| line == "plexus_streams 1").then_some(()))
        });
        came_back.await
    }

    /// Waits for the end of the chat, which must have gone well, and returns its events, numbered
    /// without gap or repeat.
    pub(crate) async fn completed(&self) -> Result<Vec<Value>> {
        let (status, events) = self.ended().await?;
        ensure!(status == "complete", "the chat is {status}: {events:#?}\n{}", self.server.log());
        Ok(events)
    }

    /// Waits for the end of the chat.
    pub(crate) async fn ended(&self) -> Result<(String, Vec<Value>)> {
        let page = self.eventually("the end of the chat", async || {
            let params = json!({"session_id": self.session, "from_seq": 0, "limit": 1000});
            let page = self.server.call("claudecode.poll", params).await?;
            let over = !matches!(page["status"].as_str(), Some("running" | "awaiting_permission"));
            Ok(over.then_some(page))
        });
        let page = page.await?;
        let mut events = Vec::new();
        for event in page["events"].as_array().context("no events")? {
            ensure!(event["seq"] == events.len(), "a gap or a repeat: {page:#}");
            events.push(event["event"].clone());
        }
        Ok((page["status"].as_str().unwrap_or_default().to_owned(), events))
    }

    /// The decisions on record, oldest first. Every answer has reached the child, and nothing was a
    /// breach.
    pub(crate) async fn decisions(&self) -> Result<Vec<Value>> {
        let history =
            self.server.call("loopback.history", json!({"session_id": self.session})).await?;
        let mut decisions = history["decisions"].as_array().cloned().context("no decisions")?;
        decisions.reverse();
        for decision in &decisions {
            ensure!(
                decision["delivered_at"].is_i64() && decision.get("breach").is_none(),
                "{decision:#}"
            );
        }
        Ok(decisions)
    }

    /// What a file of the working directory holds; nothing while there is none.
    pub(crate) fn text_of(&self, name: &str) -> String {
        testkit::real_claude::suite::text_of(&self.sandbox.work().join(name))
    }

    /// Looks until there is something to return, or fails with the server's log.
    pub(crate) async fn eventually<T>(
        &self,
        what: &str,
        look: impl AsyncFn() -> Result<Option<T>>,
    ) -> Result<T> {
        let search = async {
            loop {
                if let Some(found) = look().await? {
                    return Ok(found);
                }
                tokio::time::sleep(LOOK_EVERY).await;
            }
        };
        if let Ok(found) = tokio::time::timeout(PATIENCE, search).await {
            return found;
        }
        let params = json!({"session_id": self.session, "from_seq": 0, "limit": 1000});
        let page = self.server.call("claudecode.poll", params).await?;
        bail!(
            "this did not come within {PATIENCE:?}: {what}; the chat is {page:#}\n{}",
            self.server.log()
        )
    }
}

/// How often a case looks whether something has come.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How many events are of this type.
pub(crate) fn count(events: &[Value], kind: &str) -> usize {
    events.iter().filter(|event| event["type"] == kind).count()
}
