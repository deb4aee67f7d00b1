//! Keeps the index of search up with the commits, in small steps and never in a hurry: a search
//! does the last steps itself.

use std::sync::Arc;
use std::time::Duration;

use plexus_store::{Store, Topic};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long commits gather before they are indexed: one step for many is cheaper than a step each.
const GATHER: Duration = Duration::from_secs(2);

/// A step is followed by a pause of this many times its own length while others commit, so that it
/// takes about a thirtieth of the writer's time from them.
const REST_WHEN_BUSY: u32 = 30;

/// The same while nobody commits: years of history are then caught up with in a third of the time.
const REST_WHEN_QUIET: u32 = 2;

/// How long it waits after a failure: longer than others, because nobody waits for the index and a
/// search tells how far it is behind.
const AFTER_FAILURE: Duration = Duration::from_secs(30);

/// Indexes until the server stops.
pub(crate) async fn keep(store: Arc<dyn Store>, shutdown: CancellationToken) {
    let mut commits = store.watch(Topic::Commits);
    loop {
        let (begun, before) = (Instant::now(), commits.seen());
        let pause = match store.index_step().await {
            Ok(indexed) if indexed.behind > 0 => {
                let busy = commits.seen() != before;
                begun.elapsed() * if busy { REST_WHEN_BUSY } else { REST_WHEN_QUIET }
            }
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
    }
}
