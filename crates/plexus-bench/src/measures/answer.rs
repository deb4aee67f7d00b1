//! Latency from `respond` until the child has its answer.
//!
//! The clock starts before `loopback.respond` is sent. It stops when the child's first output after
//! reading the answer is in its journal: the echo on the control channel, or the result of the tool
//! over MCP. So the figure includes HTTP, the store, and the child's own reading and writing. The
//! rival is a permit that polls every 500 ms for its decision.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use futures::future::try_join_all;
use serde_json::json;

use crate::figure::{Aim, Figure};
use crate::journal::{Tail, journal_of};
use crate::measure::Measure;
use crate::server::{PATIENCE, Server};
use crate::sizes::Sizes;
use crate::stats::{median, millis, percentile};

/// A pause before each answer: by then the child and the server are idle, as they are when a person
/// or a model answers.
const REST: Duration = Duration::from_millis(5);

/// A channel on which a child asks, and the sign that an answer has arrived.
#[derive(Clone, Copy)]
pub(super) struct Way {
    pub(super) channel: &'static str,
    /// A part of the first line that a child writes once it has an answer.
    sign: &'static str,
}

pub(super) const CONTROL: Way = Way { channel: "control", sign: r#""control_response""# };
pub(super) const MCP: Way = Way { channel: "mcp", sign: r#""tool_result""# };

pub(super) struct Answer;

#[async_trait(?Send)]
impl Measure for Answer {
    fn name(&self) -> &'static str {
        "answer"
    }

    fn keys(&self) -> &'static [&'static str] {
        &[
            "respond_to_child_p99_ms",
            "poll_loop_ratio",
            "respond_to_mcp_child_p99_ms",
            "mcp_poll_loop_ratio",
        ]
    }

    async fn run(&self, sizes: &Sizes, figures: &mut Vec<Figure>) -> Result<()> {
        let children = (2 * sizes.loop_sessions + 1).to_string();
        let server =
            Server::start(&[("limits.running_children", children.clone()), ("warm.max", children)])
                .await?;
        let (mut control, mut mcp) = (Rounds::default(), Rounds::default());
        let mut loops = [Vec::new(), Vec::new()];
        let sessions = server.create_many("loop", sizes.loop_sessions).await?;
        for round in 0..sizes.rounds {
            control
                .add(&answers(&server, &server, CONTROL, &round.to_string(), sizes.answers).await?);
            mcp.add(&answers(&server, &server, MCP, &round.to_string(), sizes.answers).await?);
            for (pause, rounds) in sizes.loop_pauses.iter().zip(&mut loops) {
                rounds.push(percentile(&poll_loops(&server, &sessions, *pause).await?, 99.0));
            }
        }
        let until = format!("99th percentile of {} answers a round", sizes.answers);
        let what = format!(
            "from `loopback.respond` being sent until the child's echo of the answer is in its \
             journal, {until}"
        );
        figures.push(control.figure("respond_to_child_p99_ms", what));
        figures.push(ratio("poll_loop_ratio", "ours", &control, &loops, sizes));
        let what = format!(
            "from `loopback.respond` being sent until the result of the tool is in the journal of \
             a child that asks over MCP, {until}"
        );
        figures.push(mcp.figure("respond_to_mcp_child_p99_ms", what));
        figures.push(ratio("mcp_poll_loop_ratio", "ours over MCP", &mcp, &loops, sizes));
        Ok(())
    }
}

/// The results of the rounds of one way, in milliseconds.
#[derive(Default)]
pub(super) struct Rounds {
    pub(super) p50: Vec<f64>,
    pub(super) p99: Vec<f64>,
}

impl Rounds {
    pub(super) fn add(&mut self, samples: &[f64]) {
        self.p50.push(median(samples));
        self.p99.push(percentile(samples, 99.0));
    }

    fn figure(&self, key: &'static str, what: String) -> Figure {
        Figure::new(key, what, "ms", self.p99.clone(), Aim::AtMost(5.0))
            .beside("median", &self.p50, "ms")
    }
}

/// Returns how many times longer a polling loop takes to notice.
fn ratio(
    key: &'static str,
    whose: &str,
    rounds: &Rounds,
    loops: &[Vec<f64>; 2],
    sizes: &Sizes,
) -> Figure {
    let ratios: Vec<f64> =
        loops[0].iter().zip(&rounds.p99).map(|(theirs, ours)| theirs / ours).collect();
    let what = format!(
        "how many times longer a permit waits that looks every {:?} whether it was decided (99th \
         percentile of {} answers, over that of {whose})",
        sizes.loop_pauses[0], sizes.loop_sessions
    );
    let mut figure = Figure::new(key, what, "", ratios, Aim::AtLeast(100.0));
    for (pause, rounds) in sizes.loop_pauses.iter().zip(loops) {
        figure = figure.beside(format!("{pause:?} loop"), rounds, "ms");
    }
    figure
}

/// Has one child of `server` ask `count` times, and returns how long each answer took, in
/// milliseconds. The answers go through `answering`, which is the same server or another one on its
/// store. `name` distinguishes this session from others.
pub(super) async fn answers(
    server: &Server,
    answering: &Server,
    way: Way,
    name: &str,
    count: usize,
) -> Result<Vec<f64>> {
    let session = server.create_on(way.channel, &format!("answer-{}-{name}", way.channel)).await?;
    let asks = r#"tool Write {"file_path":"answer.txt","content":"x"}"#;
    server.start_chat(&session, &format!("sim:\n{}", format!("{asks}\n").repeat(count))).await?;
    let mut approval = answering.wait_for_approval(&session).await?;
    let mut tail = Tail::at_end(&journal_of(&server.data_dir(), &session, 0))?;
    let mut samples = Vec::with_capacity(count);
    for answered in 1..=count {
        tokio::time::sleep(REST).await;
        let waiting = tokio::task::spawn_blocking(move || {
            let seen = tail.wait_for(way.sign, PATIENCE);
            (tail, seen)
        });
        let sent = Instant::now();
        answering.allow(&approval).await?;
        let (back, seen) = waiting.await.context("the thread that watches the journal ended")?;
        tail = back;
        samples.push(millis(seen?.duration_since(sent)));
        if answered < count {
            approval = answering.wait_for_approval(&session).await?;
        }
    }
    server.wait_until_quiet().await?;
    Ok(samples)
}

/// Starts a polling loop for each session, decides all requests at different moments of the loops'
/// pauses, and returns how long each loop took to notice, in milliseconds.
async fn poll_loops(server: &Server, sessions: &[String], pause: Duration) -> Result<Vec<f64>> {
    server
        .chat_many(
            sessions,
            "sim:\ntool Write {\"file_path\":\"loop.txt\",\"content\":\"x\"}",
            "awaiting_permission",
        )
        .await?;
    let count = u32::try_from(sessions.len()).context("that many sessions")?;
    let one = async |index: usize, session: &String| {
        let approval = server.wait_for_approval(session).await?;
        // The loops are spread over one pause, as loops that started independently would be.
        tokio::time::sleep(pause / count * u32::try_from(index).unwrap_or(0)).await;
        let looking = async {
            loop {
                let open = server
                    .call("loopback.pending", json!({"session_id": session, "limit": 1}))
                    .await?;
                if open["approvals"].as_array().is_some_and(Vec::is_empty) {
                    return anyhow::Ok(Instant::now());
                }
                tokio::time::sleep(pause).await;
            }
        };
        let deciding = async {
            tokio::time::sleep(pause / count * (count - u32::try_from(index).unwrap_or(0))).await;
            let sent = Instant::now();
            server.allow(&approval).await?;
            anyhow::Ok(sent)
        };
        let (seen, sent) = tokio::try_join!(looking, deciding)?;
        anyhow::Ok(millis(seen.duration_since(sent)))
    };
    let samples =
        try_join_all(sessions.iter().enumerate().map(|(index, session)| one(index, session)))
            .await?;
    server.wait_until_quiet().await?;
    Ok(samples)
}
