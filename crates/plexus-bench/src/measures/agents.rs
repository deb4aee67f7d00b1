//! The round trip of a question, and the way of a line, for each kind of agent.
//!
//! Each kind is played by its own simulator, so that the figures show what reading and writing its
//! protocol costs in the server. The clock of a line starts when it is in the child's journal,
//! because only one of the protocols has stamps.

use std::collections::HashMap;
use std::time::Instant;

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use serde_json::json;

use super::sdks;
use crate::figure::{Aim, Figure};
use crate::journal::{Tail, journal_of};
use crate::measure::Measure;
use crate::server::{PATIENCE, SIMULATED_ACP, Server, text};
use crate::sizes::Sizes;
use crate::stats::{median, millis, percentile};

/// A kind of agent, and the names of its figures.
struct Kind {
    agent: &'static str,
    shown: &'static str,
    round_trip: &'static str,
    line: &'static str,
}

const KINDS: [Kind; 3] = [
    Kind {
        agent: "claude_code",
        shown: "Claude Code",
        round_trip: "claude_round_trip_ms",
        line: "claude_line_p99_ms",
    },
    Kind {
        agent: "codex",
        shown: "Codex",
        round_trip: "codex_round_trip_ms",
        line: "codex_line_p99_ms",
    },
    Kind {
        agent: SIMULATED_ACP,
        shown: "an agent of the Agent Client Protocol",
        round_trip: "acp_round_trip_ms",
        line: "acp_line_p99_ms",
    },
];

pub(super) struct Agents;

#[async_trait(?Send)]
impl Measure for Agents {
    fn name(&self) -> &'static str {
        "agents"
    }

    fn keys(&self) -> &'static [&'static str] {
        &[
            "claude_round_trip_ms",
            "codex_round_trip_ms",
            "acp_round_trip_ms",
            "claude_line_p99_ms",
            "codex_line_p99_ms",
            "acp_line_p99_ms",
        ]
    }

    async fn run(&self, sizes: &Sizes, figures: &mut Vec<Figure>) -> Result<()> {
        let server = Server::start_with_all_agents().await?;
        let mut sessions = Vec::new();
        for kind in &KINDS {
            let session = create(&server, kind.agent).await?;
            server.chat(&session, "sim:\nsay ready").await?;
            sessions.push(session);
        }
        let mut rounds: Vec<Rounds> = KINDS.iter().map(|_| Rounds::default()).collect();
        // In turns, so that whatever disturbs the machine disturbs all kinds.
        for _ in 0..sizes.rounds {
            for (session, rounds) in sessions.iter().zip(&mut rounds) {
                rounds.asks.push(sdks::ask(&server, session, sizes.agent_asks).await?);
                let waits = lines(&server, session, sizes.agent_lines).await?;
                rounds.p50.push(median(&waits));
                rounds.p99.push(percentile(&waits, 99.0));
            }
        }
        for (kind, rounds) in KINDS.iter().zip(&rounds) {
            let what = format!(
                "{}: time for each of {} tool calls that ask, from one to the next, with \
                 `wait_for_approval` and `respond`",
                kind.shown, sizes.agent_asks
            );
            let asks = rounds.asks.clone();
            figures.push(Figure::new(kind.round_trip, what, "ms", asks, Aim::Beside));
        }
        for (kind, rounds) in KINDS.iter().zip(rounds) {
            let what = format!(
                "{}: from a line being in the child's journal until the waiting `poll` has been \
                 answered with its event, 99th percentile of {} lines a round",
                kind.shown, sizes.agent_lines
            );
            let figure = Figure::new(kind.line, what, "ms", rounds.p99, Aim::AtMost(10.0));
            figures.push(figure.beside("median", &rounds.p50, "ms"));
        }
        Ok(())
    }
}

/// The results of one kind, by round, in milliseconds.
#[derive(Default)]
struct Rounds {
    asks: Vec<f64>,
    p50: Vec<f64>,
    p99: Vec<f64>,
}

/// Creates a session that asks about everything.
async fn create(server: &Server, agent: &str) -> Result<String> {
    let mut params = json!({"name": agent, "agent": agent, "working_dir": server.work_dir(),
        "loopback_timeout_secs": 0});
    if agent == "codex" {
        params["supervise"] = json!("all");
    }
    text(&server.call("agents.create", params).await?, "id")
}

/// Has the session's warm child say `count` things with a pause before each, and returns how long
/// each took from its journal to a waiting poll, in milliseconds.
async fn lines(server: &Server, session: &str, count: usize) -> Result<Vec<f64>> {
    let mut tail = Tail::at_end(&journal_of(&server.data_dir(), session, 0))?;
    // In quotes: the prompt, which some agents repeat, has all of them on one line.
    let watching = tokio::task::spawn_blocking(move || -> Result<Vec<Instant>> {
        (0..count).map(|number| tail.wait_for(&format!("{:?}", mark(number)), PATIENCE)).collect()
    });
    // A thought ends the message before it, which is shown as a whole by some agents.
    let steps: String = (0..count)
        .map(|number| format!("sleep 12\nsay {}\nthink it over\n", mark(number)))
        .collect();
    let chat = server.start_chat(session, &format!("sim:\nsleep 200\n{steps}")).await?;
    let (mut seen, mut next) = (HashMap::new(), 0);
    loop {
        let params =
            json!({"session_id": session, "chat": chat, "from_seq": next, "wait_ms": 10_000});
        let page = server.call("agents.poll", params).await?;
        let now = Instant::now();
        for polled in page["events"].as_array().context("a page without events")? {
            next = polled["seq"].as_u64().context("an event without seq")? + 1;
            if let Some(text) = polled["event"]["text"].as_str() {
                seen.insert(text.to_owned(), now);
            }
        }
        if page["status"] != "running" && page["has_more"] == false {
            break;
        }
    }
    let written = watching.await.context("the thread that watches the journal ended")??;
    let waits = written.into_iter().enumerate().map(|(number, written)| {
        let seen = seen.get(&mark(number)).with_context(|| format!("{} is lost", mark(number)))?;
        Ok(millis(seen.saturating_duration_since(written)))
    });
    waits.collect()
}

fn mark(number: usize) -> String {
    format!("mark-{number}")
}
