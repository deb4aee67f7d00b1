//! The first event of the first chat: with an agent that was started before its prompt, and with
//! one that starts for it.
//!
//! With the real Claude Code CLI and a stand-in for its model, where it is installed: the simulator
//! starts in a few milliseconds, so there is little to gain with it.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use async_trait::async_trait;
use serde_json::{Map, Value, json};
use testkit::messages_api::{MessagesApi, Step};
use testkit::real_claude::{CLI, Sandbox};
use testkit::server::{ServerOptions, TestServer};

use crate::figure::{Aim, Figure};
use crate::measure::Measure;
use crate::server::PATIENCE;
use crate::sizes::Sizes;
use crate::stats::{median, millis};

/// What a figure of an agent that was started early stands beside.
const COLD: &str = "started for the prompt";

/// Chats of each kind in one round.
const CHATS: usize = 3;

/// How long an agent that was started early is left to itself, as by somebody who writes a prompt.
const GETS_READY: Duration = Duration::from_secs(3);

/// How many times sooner the design wants the first event with the real CLI.
const TIMES_SOONER: f64 = 5.0;

pub(super) struct First;

#[async_trait(?Send)]
impl Measure for First {
    fn name(&self) -> &'static str {
        "first_event"
    }

    fn keys(&self) -> &'static [&'static str] {
        &[
            "first_event_prestarted_ms",
            "first_event_cold_ms",
            "first_text_prestarted_ms",
            "first_text_cold_ms",
        ]
    }

    async fn run(&self, sizes: &Sizes, figures: &mut Vec<Figure>) -> Result<()> {
        let server = ServerWithAgent::start().await?;
        let (mut early, mut cold) = (Taken::default(), Taken::default());
        for round in 0..sizes.rounds {
            let (mut of_early, mut of_cold) = (Taken::default(), Taken::default());
            let mut waiting = Vec::new();
            for n in 0..CHATS {
                waiting.push(server.create(&format!("early-{round}-{n}"), true).await?);
            }
            server.are_warm(CHATS as u64).await?;
            if server.agent.is_ok() {
                tokio::time::sleep(GETS_READY).await;
            }
            for session in &waiting {
                server.first_event(session, &mut of_early).await?;
            }
            for session in &waiting {
                server.delete(session).await?;
            }
            for n in 0..CHATS {
                let session = server.create(&format!("cold-{round}-{n}"), false).await?;
                server.first_event(&session, &mut of_cold).await?;
                server.delete(&session).await?;
            }
            early.add_median_of(&of_early);
            cold.add_median_of(&of_cold);
        }
        let (with, aim) = match &server.agent {
            Ok(_) => ("the real CLI".to_owned(), Aim::AtMost(median(&cold.event) / TIMES_SOONER)),
            Err(why) => (format!("the simulator ({why})"), Aim::Beside),
        };
        let figure = |key, what: &str, taken: Vec<f64>, aim| {
            Figure::new(key, format!("{what}, with {with}"), "ms", taken, aim)
        };
        let what = "from `chat_async` until a waiting `poll` has the agent's first event, in the \
                    first chat of a session whose agent was started before its prompt";
        let line = "the agent's first line in the journal";
        let of_event = figure("first_event_prestarted_ms", what, early.event, aim);
        figures.push(of_event.beside(COLD, &cold.event, "ms").beside(line, &early.line, "ms"));
        let what = "the same with an agent that is started for the prompt";
        let of_event = figure("first_event_cold_ms", what, cold.event, Aim::Beside);
        figures.push(of_event.beside(line, &cold.line, "ms"));
        let what = "the same until its first text, which needs an answer of the model";
        let of_text = figure("first_text_prestarted_ms", what, early.text, Aim::Beside);
        figures.push(of_text.beside(COLD, &cold.text, "ms"));
        let what = "the same with an agent that is started for the prompt";
        figures.push(figure("first_text_cold_ms", what, cold.text, Aim::Beside));
        Ok(())
    }
}

/// What was measured, in milliseconds.
#[derive(Default)]
struct Taken {
    /// Until the journal had the agent's first line after the prompt.
    line: Vec<f64>,
    /// Until a reader had its first event: that it has started.
    event: Vec<f64>,
    /// Until a reader had its first text.
    text: Vec<f64>,
}

impl Taken {
    fn add_median_of(&mut self, round: &Self) {
        self.line.push(median(&round.line));
        self.event.push(median(&round.event));
        self.text.push(median(&round.text));
    }
}

/// A server whose agent is the real CLI where it is installed.
struct ServerWithAgent {
    server: TestServer,
    sandbox: Sandbox,
    _api: MessagesApi,
    /// The CLI, or why the simulator plays it.
    agent: Result<PathBuf, String>,
}

impl ServerWithAgent {
    async fn start() -> Result<Self> {
        let api = MessagesApi::start().await?;
        let sandbox = Sandbox::new(&api)?;
        let agent = CLI.find();
        let arguments = ["--log", "warn", "--set", "warm.max=8"].map(Into::into).to_vec();
        let env = vec![("DATABASE_URL".to_owned(), String::new())];
        let claude_bin = agent.clone().ok();
        let options = ServerOptions { arguments, env, claude_bin, ..ServerOptions::default() };
        Ok(Self { server: TestServer::with(options).await?, sandbox, _api: api, agent })
    }

    async fn create(&self, name: &str, prestart: bool) -> Result<String> {
        let env: Map<String, Value> =
            self.sandbox.env().into_iter().map(|(name, value)| (name, json!(value))).collect();
        let params = json!({
            "name": name, "working_dir": self.sandbox.work(), "env": env, "prestart": prestart,
        });
        let created = self.server.call("agents.create", params).await?;
        Ok(created["id"].as_str().context("a session has no id")?.to_owned())
    }

    /// Ends the session and its process, so that as few run as in the beginning.
    async fn delete(&self, session: &str) -> Result<()> {
        self.server.call("agents.delete", json!({"session_id": session})).await.map(drop)
    }

    /// Waits until so many agents wait for a prompt.
    async fn are_warm(&self, count: u64) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let health = self.server.call("plexus.health", json!({})).await?;
            if health["activations"]["agents"]["warm"] == count {
                return Ok(());
            }
            if Instant::now() > deadline {
                bail!("{count} agents did not start before their prompts: {health}");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// How much the agent of a session has said.
    fn said(&self, session: &str) -> u64 {
        let journal = self.server.data_dir().join("runs").join(session).join("0/journal");
        let segments = std::fs::read_dir(journal).into_iter().flatten().flatten();
        segments.map(|it| it.metadata().map_or(0, |it| it.len())).sum()
    }

    /// Plays a chat to its end.
    async fn first_event(&self, session: &str, taken: &mut Taken) -> Result<()> {
        let prompt = match self.agent {
            Ok(_) => testkit::messages_api::prompt(&[Step::text("hello")]),
            Err(_) => "sim:\nsay hello".to_owned(),
        };
        let before = self.said(session);
        let begun = Instant::now();
        let params = json!({"session_id": session, "prompt": prompt});
        self.server.call("agents.chat_async", params).await?;
        while self.said(session) == before && begun.elapsed() < PATIENCE {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        taken.line.push(millis(begun.elapsed()));
        let (mut next, mut heard, mut took) = (0, None, None);
        loop {
            let params = json!({"session_id": session, "from_seq": next, "wait_ms": 10_000});
            let page = self.server.call("agents.poll", params).await?;
            let events = page["events"].as_array().context("a page without events")?;
            next += events.len();
            for (kind, since) in [("start", &mut heard), ("content", &mut took)] {
                if since.is_none() && events.iter().any(|it| it["event"]["type"] == kind) {
                    *since = Some(millis(begun.elapsed()));
                }
            }
            match (page["status"].as_str(), heard, took) {
                (Some("running"), _, _) if begun.elapsed() < PATIENCE => {}
                (Some("complete"), Some(heard), Some(took)) => {
                    taken.event.push(heard);
                    taken.text.push(took);
                    return Ok(());
                }
                _ => bail!("a chat should have said hello and is {page:#}"),
            }
        }
    }
}
