//! Servers that share a store, and what was lost when one of them was away for too long.

use std::path::Path;

use plexus_client::Client;
use plexus_client::wire::{Said, ServerState};
use plexus_store::{PostgresOptions, PostgresStore, Store, StoreError};

use super::Finding;
use crate::config::StoreUrl;

/// The servers that share the store, as the one that runs here sees them.
pub(super) async fn look(dir: &Path, server_runs: bool) -> Vec<Finding> {
    const WHAT: &str = "node";
    if !server_runs {
        return Vec::new();
    }
    let Ok(state) = Client::from_data_dir(dir).health().state().await else {
        return Vec::new();
    };
    let seen = state.nodes.iter().filter_map(|node| {
        let words = format!(
            "{}{} at {}: heard from {:.1} s ago, {} s of its lease left, {} runs",
            node.name,
            if node.this { " (this one)" } else { "" },
            node.url,
            node.heartbeat_age_ms as f64 / 1e3,
            node.lease_left_ms / 1_000,
            node.open_runs,
        );
        match node.state {
            Said::Known(ServerState::Alive) => Some(Finding::good(WHAT, words)),
            Said::Known(ServerState::Expired) => Some(Finding::odd(
                WHAT,
                words,
                "start it again, or wait: another node ends what it left open",
            )),
            Said::Known(ServerState::Retired | ServerState::TakenOver) | Said::Unknown(_) => None,
        }
    });
    seen.collect()
}

/// Looks at the database that several servers share, while they run. Its password is in no finding.
pub(super) async fn look_at_database(url: &StoreUrl) -> Finding {
    const WHAT: &str = "store";
    let seen = async {
        let store = PostgresStore::open(&PostgresOptions::new(url.expose())).await?;
        let way = if store.encrypted() { "over TLS" } else { "without TLS" };
        let problems = store.integrity().await?;
        store.close().await?;
        Ok::<_, StoreError>((way, problems))
    };
    match seen.await {
        Ok((way, problems)) if problems.is_empty() => {
            Finding::good(WHAT, format!("{url} is whole; reached {way}"))
        }
        Ok((_, problems)) => Finding::bad(
            WHAT,
            format!("{url}: {}", problems.join("; ")),
            "restore a backup of the database",
        ),
        Err(error) => Finding::bad(
            WHAT,
            format!("{url}: {error}"),
            "check that the database runs, and DATABASE_URL or store.url",
        ),
    }
}

/// Runs that ended while this server was away, with output that is not in the store.
pub(super) fn look_at_lost(dir: &Path) -> Option<Finding> {
    let lost = plexus_engine::node::lost_runs(dir);
    let lines: u64 = lost.iter().map(|run| run.lines).sum();
    (!lost.is_empty()).then(|| {
        Finding::odd(
            "lost",
            format!(
                "{} runs ended while this server was away; {lines} lines of their output are in no \
                 chat",
                lost.len()
            ),
            format!(
                "their journals are in {}; remove them when you have read them",
                dir.join("lost").display()
            ),
        )
    })
}
