//! Latency from a child's line until a waiting `poll` has the event.
//!
//! Both ends use this machine's wall clock: the child stamps each line just before it writes it,
//! and we read the clock after the answer of the waiting `poll`. The child's stamp is truncated to
//! milliseconds, so a figure is up to 1 ms too long.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, ensure};
use async_trait::async_trait;
use serde_json::{Value, json};

use crate::figure::{Aim, Figure};
use crate::journal::{first_segment, journal_of};
use crate::measure::Measure;
use crate::server::Server;
use crate::sizes::Sizes;
use crate::stats::{median, percentile};

pub(super) struct Line;

#[async_trait(?Send)]
impl Measure for Line {
    fn name(&self) -> &'static str {
        "line"
    }

    fn keys(&self) -> &'static [&'static str] {
        &["line_to_poll_p99_ms"]
    }

    async fn run(&self, sizes: &Sizes, figures: &mut Vec<Figure>) -> Result<()> {
        let server = Server::start(&[]).await?;
        let (mut p50, mut p99) = (Vec::new(), Vec::new());
        for round in 0..sizes.rounds {
            let samples = lines(&server, round, sizes.lines).await?;
            p50.push(median(&samples));
            p99.push(percentile(&samples, 99.0));
        }
        let what = format!(
            "from the stamp a child puts on a line (milliseconds, cut) until the waiting `poll` \
             has been answered with its event, 99th percentile of {} lines a round",
            sizes.lines
        );
        let figure = Figure::new("line_to_poll_p99_ms", what, "ms", p99, Aim::AtMost(10.0));
        figures.push(figure.beside("median", &p50, "ms"));
        Ok(())
    }
}

/// Has a child say `count` things with a pause before each, and returns how long each took to reach
/// a waiting poll, in milliseconds.
pub(super) async fn lines(server: &Server, round: usize, count: usize) -> Result<Vec<f64>> {
    let session = server.create(&format!("line-{round}")).await?;
    server.start_chat(&session, &script(count)).await?;
    let mut seen = HashMap::new();
    let mut next = 0;
    loop {
        let page = server
            .call(
                "claudecode.poll",
                json!({"session_id": session, "from_seq": next, "wait_ms": 10_000}),
            )
            .await?;
        let now = unix_millis(SystemTime::now())?;
        for polled in page["events"].as_array().context("a page without events")? {
            next = polled["seq"].as_u64().context("an event without seq")? + 1;
            if let Some(text) = polled["event"]["text"].as_str() {
                seen.insert(text.to_owned(), now);
            }
        }
        if page["status"] != "running" {
            break;
        }
    }
    let journal =
        std::fs::read_to_string(first_segment(&journal_of(&server.data_dir(), &session, 0)))
            .context("could not read a journal")?;
    waits(&journal, &seen, count)
}

/// Returns a script that says `count` things with a pause before each.
pub(super) fn script(count: usize) -> String {
    let steps: String = (0..count).map(|number| format!("sleep 12\nsay mark-{number}\n")).collect();
    format!("sim:\nsleep 200\n{steps}")
}

/// Returns the time from the stamp of each of `count` texts in a child's output until it was
/// `seen`, in milliseconds.
pub(super) fn waits(output: &str, seen: &HashMap<String, f64>, count: usize) -> Result<Vec<f64>> {
    let mut samples = Vec::with_capacity(count);
    for line in output.lines() {
        let line: Value = serde_json::from_str(line)?;
        let said = line["message"]["content"][0]["text"].as_str();
        let Some(text) =
            said.filter(|said| line["type"] == "assistant" && said.starts_with("mark-"))
        else {
            continue;
        };
        let stamp: jiff::Timestamp =
            line["timestamp"].as_str().context("a line without a stamp")?.parse()?;
        let seen = seen.get(text).with_context(|| format!("nobody ever had {text}"))?;
        samples.push(seen - unix_millis(stamp.into())?);
    }
    ensure!(samples.len() == count, "{} lines came of {count}", samples.len());
    Ok(samples)
}

fn unix_millis(time: SystemTime) -> Result<f64> {
    Ok(time.duration_since(UNIX_EPOCH)?.as_secs_f64() * 1e3)
}
