//! Many parked agents: what one weighs in the server, how long a list of them takes, and how long a
//! decision takes to reach one that has no process.

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use async_trait::async_trait;
use serde_json::{Value, json};

use super::permits::settled_kib;
use crate::figure::{Aim, Figure};
use crate::measure::Measure;
use crate::server::Server;
use crate::sizes::Sizes;
use crate::stats::{median, millis};

/// What each child asks for.
const ASK: &str = "sim:\ntool Write {\"file_path\":\"parked.txt\",\"content\":\"x\"}";

/// Sessions of one page of the list that `plexus ps` reads.
const PAGE: usize = 1_000;

/// Children that live at the same time while all are being parked.
const CHILDREN: usize = 64;

pub(super) struct Parked;

#[async_trait(?Send)]
impl Measure for Parked {
    fn name(&self) -> &'static str {
        "parked"
    }

    fn keys(&self) -> &'static [&'static str] {
        &["parked_kib", "parked_list_ms", "wake_ms"]
    }

    async fn run(&self, sizes: &Sizes, figures: &mut Vec<Figure>) -> Result<()> {
        let count = sizes.parked;
        let settings = [
            ("park_after_secs", "1".to_owned()),
            ("limits.running_children", CHILDREN.to_string()),
        ];
        let server = Server::start(&settings).await?;
        let sessions = server.create_many("parked", count).await?;
        let (first, second) = sessions.split_at(count / 2);
        park(&server, first, 0).await?;
        let half = settled_kib(&server).await?;
        park(&server, second, first.len()).await?;
        let after = settled_kib(&server).await?;
        let what = format!(
            "resident memory that the server needs for one more parked agent, by the second half \
             of {count}"
        );
        let kib = (after - half).max(0.0) / second.len() as f64;
        figures.push(Figure::new("parked_kib", what, "KiB", vec![kib], Aim::AtMost(32.0)));

        let (mut lists, mut wakes) = (Vec::new(), Vec::new());
        for _ in 0..sizes.rounds {
            lists.push(list_all(&server, count).await?);
        }
        let what = format!("reading the whole list of {count} parked agents, as `plexus ps` does");
        figures.push(Figure::new("parked_list_ms", what, "ms", lists, Aim::AtMost(200.0)));
        for session in sessions.chunks(count.div_ceil(sizes.rounds)) {
            let mut round = Vec::new();
            for session in session.iter().take(sizes.wakes) {
                round.push(wake(&server, session).await?);
            }
            wakes.push(median(&round));
        }
        let what = "from the answer to a parked agent until its call has run and its chat has \
            ended, \
                    with a simulated child";
        figures.push(Figure::new("wake_ms", what, "ms", wakes, Aim::Beside));
        Ok(())
    }
}

/// Has the sessions ask and waits until their agents are parked, beside `parked` that are already.
/// No more of them ask at once than may run.
async fn park(server: &Server, sessions: &[String], mut parked: usize) -> Result<()> {
    for some in sessions.chunks(CHILDREN) {
        parked += some.len();
        server.chat_many(some, ASK, "awaiting_permission").await?;
        server
            .wait_for("every agent is parked", async || {
                let state = server.call("health.state", json!({})).await?;
                let runs = state["counts"]["runs_open"].as_u64().context("no count of runs")?;
                let asks = state["counts"]["approvals_pending"].as_u64().context("no count")?;
                Ok(runs == 0 && asks == parked as u64)
            })
            .await?;
    }
    Ok(())
}

/// Reads the whole list, and returns how long that took.
async fn list_all(server: &Server, count: usize) -> Result<f64> {
    let begun = Instant::now();
    let (mut parked, mut cursor) = (0, Value::Null);
    loop {
        let mut params = json!({"limit": PAGE});
        if !cursor.is_null() {
            params["cursor"] = cursor;
        }
        let page = server.call("claudecode.list", params).await?;
        let sessions = page["sessions"].as_array().context("no sessions")?;
        parked += sessions.iter().filter(|session| session["parked"] == true).count();
        cursor = page["cursor"].clone();
        if cursor.is_null() {
            break;
        }
    }
    ensure!(parked == count, "{parked} of {count} agents are parked");
    Ok(millis(begun.elapsed()))
}

/// Allows what a parked agent asks, and returns how long it took until its chat had ended.
async fn wake(server: &Server, session: &str) -> Result<f64> {
    let approval = server.wait_for_approval(session).await?;
    let begun = Instant::now();
    server.allow(&approval).await?;
    server
        .wait_for("the end of the chat", async || {
            let found = server.call("claudecode.get", json!({"session_id": session})).await?;
            let status = found["session"]["status"].as_str().unwrap_or_default().to_owned();
            ensure!(status != "failed", "a woken chat has failed");
            Ok(status == "complete")
        })
        .await?;
    Ok(millis(begun.elapsed()))
}
