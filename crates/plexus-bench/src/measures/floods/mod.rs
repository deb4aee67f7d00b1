//! The operator's `respond` while one caller, or a client without a token, floods the server.
//!
//! Each flood is bounded in count and goes to the measure's own server on loopback. The clock is
//! that of `answer`: from sending `loopback.respond` until the child has the answer. Floods and
//! server share the machine, so each figure comes with one taken without a flood.

mod flood;

use std::time::Instant;

use anyhow::{Context as _, Result, ensure};
use async_trait::async_trait;
use serde_json::{Value, json};

use self::flood::{Flood, Kind};
use super::answer::{self, CONTROL};
use crate::figure::{Aim, Figure};
use crate::measure::Measure;
use crate::server::{Server, text};
use crate::sizes::Sizes;
use crate::stats::{millis, percentile};

pub(super) struct Floods;

const KEYS: [(Kind, &str); 5] = [
    (Kind::Sockets, "respond_while_sockets_p99_ms"),
    (Kind::SignIns, "respond_while_sign_ins_p99_ms"),
    (Kind::Unread, "respond_while_unread_p99_ms"),
    (Kind::McpSessions, "respond_while_mcp_sessions_p99_ms"),
    (Kind::Waits, "respond_while_waits_p99_ms"),
];

#[async_trait(?Send)]
impl Measure for Floods {
    fn name(&self) -> &'static str {
        "floods"
    }

    fn keys(&self) -> &'static [&'static str] {
        &[
            "respond_while_sockets_p99_ms",
            "respond_while_sign_ins_p99_ms",
            "respond_while_unread_p99_ms",
            "respond_while_mcp_sessions_p99_ms",
            "respond_while_waits_p99_ms",
        ]
    }

    async fn run(&self, sizes: &Sizes, figures: &mut Vec<Figure>) -> Result<()> {
        for (kind, key) in KEYS {
            // Each flood has its own server, so that the memory of one does not count for the next.
            let server = Server::start(&[]).await?;
            let site = Site::prepare(&server, sizes).await?;
            let quiet = Taken::measure(&server, &site, "quiet", sizes).await?;
            let flood = Flood::start(kind, &server, &site, sizes.flood).await?;
            let under = Taken::measure(&server, &site, "flood", sizes).await?;
            let admitted = flood.stop().await;
            let what = format!(
                "respond → the child while {} (99th percentile of {} answers)",
                kind.title(sizes.flood),
                sizes.flood_answers
            );
            figures.push(
                Figure::new(key, what, "ms", vec![under.respond_p99], Aim::Beside)
                    .beside("quiet", &[quiet.respond_p99], "ms")
                    .beside("the operator's poll", &[under.poll_p99], "ms")
                    .beside("the poll when quiet", &[quiet.poll_p99], "ms")
                    .beside("CPU of the server for an answer", &[under.cpu_each], "ms")
                    .beside("the CPU when quiet", &[quiet.cpu_each], "ms")
                    .beside("admitted", &[admitted], "")
                    .beside("memory of the server", &[under.resident_mib], "MiB")
                    .beside("memory when quiet", &[quiet.resident_mib], "MiB"),
            );
        }
        Ok(())
    }
}

/// The setup of a flood: a parent with a token, and a child session with large events.
struct Site {
    parent: String,
    session: String,
}

impl Site {
    async fn prepare(server: &Server, sizes: &Sizes) -> Result<Self> {
        let identity = server.call("identity.parent", json!({"name": "flood"})).await?;
        let parent = text(&identity, "token")?;
        let work = server.work_dir();
        let create = json!({"name": "loud", "working_dir": work, "parent": identity["session_id"]});
        let created = server.call("claudecode.create", create).await?;
        let session = text(&created, "id")?;
        let script = format!("sim:\nburst {} {}", sizes.flood_events, sizes.flood_event_bytes);
        let page = server.chat(&session, &script).await?;
        ensure!(page["status"] == "complete", "the loud child is {}", page["status"]);
        Ok(Self { parent, session })
    }
}

/// The results of one measurement.
struct Taken {
    respond_p99: f64,
    poll_p99: f64,
    /// CPU time of the server for each answer, in milliseconds.
    cpu_each: f64,
    resident_mib: f64,
}

impl Taken {
    #[expect(clippy::cast_precision_loss, reason = "mebibytes of one process, and a count")]
    async fn measure(server: &Server, site: &Site, name: &str, sizes: &Sizes) -> Result<Self> {
        let before = server.cpu_time()?;
        let answers = answer::answers(server, server, CONTROL, name, sizes.flood_answers).await?;
        let cpu = millis(server.cpu_time()?.saturating_sub(before));
        let mut polls = Vec::with_capacity(sizes.flood_answers);
        for _ in 0..sizes.flood_answers {
            let params = json!({"session_id": site.session, "from_seq": 0, "limit": 1});
            let begun = Instant::now();
            let page: Value = server.call("claudecode.poll", params).await?;
            polls.push(millis(begun.elapsed()));
            page["events"].as_array().context("a page without events")?;
        }
        let resident_mib = server.resident_bytes()? as f64 / (1024.0 * 1024.0);
        Ok(Self {
            respond_p99: percentile(&answers, 99.0),
            poll_p99: percentile(&polls, 99.0),
            cpu_each: cpu / answers.len() as f64,
            resident_mib,
        })
    }
}
