//! `respond` → the child has its answer.
//!
//! The clock starts before `loopback.respond` is sent, and stops when the child's echo of the answer is in its journal. The echo is the first
//! thing the child writes once it has read the answer, so the figure holds both HTTP and the store on the way there, and the
//! child's own reading and writing on top. The rival is a permit that looks every 500 ms whether it was decided.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use async_trait::async_trait;
use futures::future::try_join_all;
use serde_json::json;

use crate::figure::{Aim, Figure};
use crate::journal::{Tail, first_segment};
use crate::measure::Measure;
use crate::server::{PATIENCE, Server};
use crate::sizes::Sizes;
use crate::stats::{median, millis, percentile};

/// A pause before each answer: the child and the server have come to rest by then, as they have when a person or a model answers.
const REST: Duration = Duration::from_millis(5);

/// What the child's echo of an answer begins with.
const ECHO: &str = r#""control_response""#;

pub(super) struct Answer;

#[async_trait(?Send)]
impl Measure for Answer {
    fn name(&self) -> &'static str {
        "answer"
    }

    fn keys(&self) -> &'static [&'static str] {
        &["respond_to_child_p99_ms", "poll_loop_ratio"]
    }

    async fn run(&self, sizes: &Sizes, figures: &mut Vec<Figure>) -> Result<()> {
        let children = (2 * sizes.loop_sessions + 1).to_string();
        let server = Server::start(&[("limits.running_children", children.clone()), ("warm.max", children)]).await?;
        let (mut p50, mut p99) = (Vec::new(), Vec::new());
        let mut loops = [Vec::new(), Vec::new()];
        let sessions = server.create_many("loop", sizes.loop_sessions).await?;
        for round in 0..sizes.rounds {
            let samples = answers(&server, round, sizes.answers).await?;
            p50.push(median(&samples));
            p99.push(percentile(&samples, 99.0));
            for (pause, rounds) in sizes.loop_pauses.iter().zip(&mut loops) {
                rounds.push(percentile(&poll_loops(&server, &sessions, *pause).await?, 99.0));
            }
        }
        let what = format!(
            "from `loopback.respond` being sent until the child's echo of the answer is in its journal, 99th percentile of {} answers a round",
            sizes.answers
        );
        let figure = Figure::new("respond_to_child_p99_ms", what, "ms", p99.clone(), Aim::AtMost(5.0));
        figures.push(figure.beside("median", &p50, "ms"));
        let ratios: Vec<f64> = loops[0].iter().zip(&p99).map(|(theirs, ours)| theirs / ours).collect();
        let what = format!(
            "how many times longer a permit waits that looks every {:?} whether it was decided (99th percentile of {} answers, over that of ours)",
            sizes.loop_pauses[0], sizes.loop_sessions
        );
        let mut figure = Figure::new("poll_loop_ratio", what, "", ratios, Aim::AtLeast(100.0));
        for (pause, rounds) in sizes.loop_pauses.iter().zip(&loops) {
            figure = figure.beside(format!("{pause:?} loop"), rounds, "ms");
        }
        figures.push(figure);
        Ok(())
    }
}

/// Has one child ask `count` times, answers each, and returns how long each answer took, in milliseconds.
async fn answers(server: &Server, round: usize, count: usize) -> Result<Vec<f64>> {
    let session = server.create(&format!("answer-{round}")).await?;
    let asks = r#"tool Write {"file_path":"answer.txt","content":"x"}"#;
    server.start_chat(&session, &format!("sim:\n{}", format!("{asks}\n").repeat(count))).await?;
    let mut approval = server.wait_for_approval(&session).await?;
    let mut tail = Tail::at_end(&first_segment(&server.data_dir(), &session, 0))?;
    let mut samples = Vec::with_capacity(count);
    for answered in 1..=count {
        tokio::time::sleep(REST).await;
        let waiting = tokio::task::spawn_blocking(move || {
            let seen = tail.wait_for(ECHO, PATIENCE);
            (tail, seen)
        });
        let sent = Instant::now();
        server.allow(&approval).await?;
        let (back, seen) = waiting.await.context("the thread that watches the journal ended")?;
        tail = back;
        samples.push(millis(seen?.duration_since(sent)));
        if answered < count {
            approval = server.wait_for_approval(&session).await?;
        }
    }
    server.wait_until_quiet().await?;
    Ok(samples)
}

/// Lets a loop for each session wait for its decision, decides them all at different moments of their pauses, and returns how long each
/// loop took to notice, in milliseconds.
async fn poll_loops(server: &Server, sessions: &[String], pause: Duration) -> Result<Vec<f64>> {
    server
        .chat_many(sessions, "sim:\ntool Write {\"file_path\":\"loop.txt\",\"content\":\"x\"}", "awaiting_permission")
        .await?;
    let count = u32::try_from(sessions.len()).context("that many sessions")?;
    let one = async |index: usize, session: &String| {
        let approval = server.wait_for_approval(session).await?;
        // The loops are as far apart from each other as loops that began at different times are.
        tokio::time::sleep(pause / count * u32::try_from(index).unwrap_or(0)).await;
        let looking = async {
            loop {
                let open = server.call("loopback.pending", json!({"session_id": session, "limit": 1})).await?;
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
    let samples = try_join_all(sessions.iter().enumerate().map(|(index, session)| one(index, session))).await?;
    server.wait_until_quiet().await?;
    Ok(samples)
}
