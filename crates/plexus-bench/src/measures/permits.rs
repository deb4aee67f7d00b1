//! Many sessions with a blocked permit each: what one weighs in the server, that all are answered,
//! and how long the server takes to find them again after `kill -9`.
//!
//! What one weighs is what the second half of them adds to the resident memory. With the first half
//! the allocator gets its arenas, whose huge pages of 2 MiB would otherwise be counted for each.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use async_trait::async_trait;
use plexus_core::SessionId;
use plexus_store::Store as _;
use serde_json::{Value, json};

use crate::figure::{Aim, Figure};
use crate::measure::Measure;
use crate::prepared;
use crate::server::{PATIENCE, Server};
use crate::sizes::Sizes;

/// What each child asks for.
const ASK: &str = "sim:\ntool Write {\"file_path\":\"permit.txt\",\"content\":\"x\"}";

/// Sessions that ask and are answered before the memory is looked at: what is made once is not
/// counted for each.
const WARM_UP: usize = 16;

/// How long the server is left alone before its memory is looked at.
const SETTLE: Duration = Duration::from_millis(500);

/// Answers in one call.
const ANSWERS_AT_ONCE: usize = 100;

pub(super) struct Permits;

#[async_trait(?Send)]
impl Measure for Permits {
    fn name(&self) -> &'static str {
        "permits"
    }

    fn keys(&self) -> &'static [&'static str] {
        &["permit_kib", "permit_mcp_kib", "reattach_s"]
    }

    async fn run(&self, sizes: &Sizes, figures: &mut Vec<Figure>) -> Result<()> {
        let weighed = |key, channel, count, blocked: &Blocked, limit| {
            let what = format!(
                "resident memory that the server needs for one more blocked permit, by the second \
                 half of {count} sessions on the {channel} channel; all were answered"
            );
            let figure =
                Figure::new(key, what, "KiB", vec![blocked.kib_of_one_more], Aim::AtMost(limit));
            figure.beside("all that came with them, for each", &[blocked.kib_of_all], "KiB")
        };
        let mut blocked = Blocked::start("control", sizes.permits).await?;
        add_idle_sessions(&mut blocked.server, sizes.sessions).await?;
        let mut starts = Vec::new();
        for _ in 0..sizes.rounds {
            starts.push(timed_start(&mut blocked.server).await?);
        }
        blocked.answer_all().await.context("could not answer all after the restarts")?;
        figures.push(weighed("permit_kib", "control", sizes.permits, &blocked, 32.0));
        let what = format!(
            "from starting the killed server until it accepts calls, with {} sessions, {} of them \
             with a living child to reattach",
            sizes.sessions + sizes.permits,
            sizes.permits
        );
        figures.push(Figure::new("reattach_s", what, "s", starts, Aim::AtMost(2.0)));
        drop(blocked);
        let blocked = Blocked::start("mcp", sizes.permits_mcp).await?;
        blocked.answer_all().await?;
        figures.push(weighed("permit_mcp_kib", "MCP", sizes.permits_mcp, &blocked, 96.0));
        Ok(())
    }
}

/// A server whose sessions all wait.
struct Blocked {
    server: Server,
    approvals: Vec<Value>,
    /// What each of the second half added.
    kib_of_one_more: f64,
    /// What all of them added, for each.
    kib_of_all: f64,
}

impl Blocked {
    /// Starts a server with `count` sessions that ask over `channel`.
    async fn start(channel: &str, count: usize) -> Result<Self> {
        let settings = [
            ("limits.running_children", (count + WARM_UP).to_string()),
            ("channel", channel.to_owned()),
        ];
        let server = Server::start(&settings).await?;
        let warm_up = server.create_many("warm-up", WARM_UP).await?;
        let pages = server.chat_many(&warm_up, ASK, "awaiting_permission").await?;
        answer(&server, &pages.iter().map(approval_of).collect::<Vec<_>>()).await?;
        let sessions = server.create_many("permit", count).await?;
        let before = settled_kib(&server).await?;
        let (first, second) = sessions.split_at(count / 2);
        let mut pages = server.chat_many(first, ASK, "awaiting_permission").await?;
        let half = settled_kib(&server).await?;
        pages.extend(server.chat_many(second, ASK, "awaiting_permission").await?);
        let after = settled_kib(&server).await?;
        let each = |grown: f64, sessions: &[String]| grown.max(0.0) / sessions.len() as f64;
        let approvals = pages.iter().map(approval_of).collect();
        Ok(Self {
            server,
            approvals,
            kib_of_one_more: each(after - half, second),
            kib_of_all: each(after - before, &sessions),
        })
    }

    async fn answer_all(&self) -> Result<()> {
        answer(&self.server, &self.approvals).await
    }
}

/// Returns the server's resident memory in KiB once it has come to rest.
pub(super) async fn settled_kib(server: &Server) -> Result<f64> {
    tokio::time::sleep(SETTLE).await;
    Ok(server.resident_bytes()? as f64 / 1024.0)
}

/// Adds idle sessions, configured as the server itself configures them. Blocked children wait
/// meanwhile.
async fn add_idle_sessions(server: &mut Server, count: usize) -> Result<()> {
    let like: SessionId = server.create("like").await?.parse()?;
    server.stop().await?;
    let store = prepared::open(&server.data_dir())?;
    let like = store.session(like).await?;
    prepared::add_sessions(&store, &like, "idle", count).await?;
    store.close().await?;
    drop(store);
    server.start_again().await
}

fn approval_of(page: &Value) -> Value {
    page["pending_approvals"][0]["id"].clone()
}

/// Allows all of them and waits until every chat has ended.
async fn answer(server: &Server, approvals: &[Value]) -> Result<()> {
    for some in approvals.chunks(ANSWERS_AT_ONCE) {
        let answered = server
            .call("loopback.respond_many", json!({"approval_ids": some, "approve": true}))
            .await?;
        let outcomes = answered["outcomes"].as_array().context("no outcomes")?;
        ensure!(
            outcomes.len() == some.len() && outcomes.iter().all(|one| one["ok"] == true),
            "not all were answered: {answered}"
        );
    }
    server.wait_until_quiet().await?;
    let failed = server.call("claudecode.list", json!({"status": "failed", "limit": 1})).await?;
    ensure!(failed["sessions"].as_array().is_some_and(Vec::is_empty), "a chat failed: {failed}");
    Ok(())
}

/// Kills the server, starts it again and returns how many seconds passed until it said that it
/// accepts calls.
async fn timed_start(server: &mut Server) -> Result<f64> {
    let announcement = server.data_dir().join("server.json");
    server.kill_9()?;
    // A killed server leaves its announcement; without it, the next one that appears is the new
    // server's.
    std::fs::remove_file(&announcement).context("the killed server had announced nothing")?;
    let started = Instant::now();
    // The helper that starts servers looks only now and then; this thread looks all the time.
    let watching = tokio::task::spawn_blocking(move || {
        while !announcement.exists() && started.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(1));
        }
        started.elapsed().as_secs_f64()
    });
    server.start_again().await?;
    Ok(watching.await?)
}
