//! What one agent left behind, compared with what it was allowed.

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};

use super::site::{Agent, Site};

/// Events of which a chat with one allowed call has exactly one each.
const ONCE: [&str; 6] =
    ["start", "tool_use", "awaiting_approval", "approval_resolved", "tool_result", "complete"];

/// An agent whose call ran once and whose chat says so.
#[derive(Debug)]
pub struct Judged {
    /// When its chat ended, in milliseconds since 1970.
    pub ended: f64,
}

impl Judged {
    /// Compares the file that its call wrote with its chat and its decision.
    pub async fn of(site: &Site, agent: &Agent) -> Result<Self> {
        let trace = agent.trace(site);
        let ran = std::fs::read_to_string(&trace).unwrap_or_default();
        let params = json!({"session_id": agent.session, "from_seq": 0, "limit": 1_000});
        let page = site.call("agents.poll", params).await?;
        ensure!(ran == "ran\n", "its call left {ran:?}; its chat is {}", page["status"]);
        ensure!(page["status"] == "complete", "its chat is {page}");
        let events = page["events"].as_array().context("no events")?;
        for (index, event) in events.iter().enumerate() {
            ensure!(event["seq"] == index, "event {index} has the number {}", event["seq"]);
        }
        for kind in ONCE {
            let count = events.iter().filter(|it| it["event"]["type"] == kind).count();
            ensure!(count == 1, "its chat has {count} events {kind}: {page}");
        }
        let history = site.call("loopback.history", json!({"session_id": agent.session})).await?;
        let decisions = history["decisions"].as_array().context("no decisions")?;
        let is_delivered = |it: &Value| it["delivered_at"].is_i64() && it.get("breach").is_none();
        ensure!(
            decisions.len() == 1 && decisions.iter().all(is_delivered),
            "its decisions are {history}"
        );
        let last = events.last().context("no events")?;
        let ended = last["timestamp"].as_f64().context("an event without a time")?;
        Ok(Self { ended })
    }
}
