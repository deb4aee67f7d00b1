//! Measures the speed of the store, with its rivals in the same run: `cargo bench -p plexus-store`.
//!
//! `PLEXUS_BENCH_EVENTS` sets the size of the large chat (1,000,000). Figures of two runs are not
//! comparable on a busy machine; ratios are.

#![expect(clippy::print_stdout, reason = "a benchmark prints")]

mod commit;
mod postgres;
mod read;
mod rival;
mod wake;

use std::time::{Duration, Instant};

use plexus_core::SessionId;
use plexus_store::{
    AppendEvents, Change, CreateSession, JsonText, NewEvent, Priority, StartChat, Store,
};
use serde_json::json;

fn main() -> anyhow::Result<()> {
    // `cargo test --benches` runs this without the flag; there is nothing to test then.
    if !std::env::args().any(|arg| arg == "--bench") {
        return Ok(());
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        // A part can be selected by name: `cargo bench -p plexus-store -- postgres`.
        let wanted = |part: &str| {
            let mut named = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).peekable();
            named.peek().is_none() || named.any(|arg| arg == part)
        };
        if wanted("commit") {
            commit::measure().await?;
        }
        if wanted("read") {
            read::measure().await?;
        }
        if wanted("wake") {
            wake::measure().await?;
        }
        if wanted("postgres") {
            postgres::measure().await?;
        }
        anyhow::Ok(())
    })
}

/// Makes an event of about `bytes` bytes of JSON.
fn event(bytes: usize) -> NewEvent {
    let text = "x".repeat(bytes.saturating_sub(27));
    NewEvent::now("content", JsonText::from(json!({ "type": "content", "text": text })))
}

fn append(session: SessionId, events: Vec<NewEvent>) -> Change {
    Change::AppendEvents(AppendEvents { session, chat: 0, events })
}

/// Creates a session with an open chat.
async fn session(store: &dyn Store, name: &str) -> anyhow::Result<SessionId> {
    let new = CreateSession::new(name, None);
    let id = new.id;
    store
        .commit(
            vec![Change::CreateSession(new), Change::StartChat(StartChat::new(id, "go"))],
            Priority::Normal,
        )
        .await?;
    Ok(id)
}

/// Repeats `work` for `time` and returns how often per second.
fn rate(time: Duration, mut work: impl FnMut() -> anyhow::Result<u64>) -> anyhow::Result<f64> {
    let start = Instant::now();
    let mut done = 0;
    while start.elapsed() < time {
        done += work()?;
    }
    Ok(done as f64 / start.elapsed().as_secs_f64())
}

/// Returns the median of some durations.
fn median(mut all: Vec<Duration>) -> Duration {
    all.sort_unstable();
    all.get(all.len() / 2).copied().unwrap_or_default()
}
