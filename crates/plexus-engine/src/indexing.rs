//! Keeps the index of search up with the commits, in small steps and never in a hurry: a search
//! does the last steps itself.

use std::sync::Arc;
use std::time::Duration;

use plexus_store::{Store, Topic};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long commits gather before they are indexed: one step for many is cheaper than a step each.
const GATHER: Duration = Duration::from_secs(2);

/// A step is followed by a pause of this many times its own length, so that indexing takes a small
/// part of the writer's time also while it catches up with years of history.
const REST: u32 = 6;

/// How long it waits after a failure.
const AFTER_FAILURE: Duration = Duration::from_secs(30);

/// Indexes until the server stops.
pub(crate) async fn keep(store: Arc<dyn Store>, shutdown: CancellationToken) {
    let mut commits = store.watch(Topic::Commits);
    loop {
        let begun = Instant::now();
        let pause = match store.index_step().await {
            Ok(indexed) if indexed.behind > 0 => begun.elapsed() * REST,
            Ok(_) => {
                tokio::select! {
                    _ = commits.changed() => GATHER,
                    () = shutdown.cancelled() => return,
                }
            }
            Err(error) => {
                tracing::warn!(%error, "could not index for search; it is tried again");
                AFTER_FAILURE
            }
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = shutdown.cancelled() => return,
        }
        // What came in the pause is in the next step.
        commits.seen();
    }
}
