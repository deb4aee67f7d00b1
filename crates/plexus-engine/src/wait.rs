//! Waiting for decisions: subscribe, read, wait. A commit between the read and the subscription
//! would otherwise wake nobody. Methods that wait use
//! [`LongPoll`](crate::reading::long_poll::LongPoll).

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use plexus_core::ApprovalId;
use plexus_store::{ApprovalRecord, ApprovalStatus, Store, StoreError, Topic};
use tokio::task::{JoinError, JoinSet};

/// How long to wait before a store or disk that refuses is tried again. Nothing is lost meanwhile.
pub const STORE_RETRY: Duration = Duration::from_millis(250);

/// How often a caller that waits for a row reads it without a wake: a row that is deleted with its
/// session wakes nobody.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// Waits until an approval is decided. Returns its record, or `None` when it is gone.
///
/// While the store cannot be read, this waits on: nothing was decided that anybody could act on.
///
/// # Errors
/// When its record can be found and not understood.
pub async fn decision(
    store: &dyn Store,
    id: ApprovalId,
) -> Result<Option<ApprovalRecord>, StoreError> {
    let mut wake = store.watch(Topic::Approval(id));
    loop {
        wake.seen();
        match store.approval(id).await {
            Ok(record) if record.status == ApprovalStatus::Pending => {
                let _either = tokio::time::timeout(LOOK_AGAIN, wake.changed()).await;
            }
            Ok(record) => return Ok(Some(record)),
            Err(StoreError::NotFound { .. }) => return Ok(None),
            Err(StoreError::Unavailable { .. } | StoreError::Busy { .. }) => {
                tokio::time::sleep(STORE_RETRY).await;
            }
            Err(error) => return Err(error),
        }
    }
}

/// What was heard of an approval that was waited for.
pub(crate) type Heard = (ApprovalId, Option<ApprovalRecord>);

/// Waits until an approval is decided or gone, whatever is wrong with the store meanwhile: a run
/// that gave up would leave its agent waiting unseen.
async fn heard_at_last(store: &dyn Store, id: ApprovalId) -> Option<ApprovalRecord> {
    loop {
        match decision(store, id).await {
            Ok(heard) => return heard,
            Err(error) => {
                tracing::error!(approval = %id, %error, "could not read a decision; trying again");
                tokio::time::sleep(STORE_RETRY).await;
            }
        }
    }
}

/// The decisions that one run waits for. Dropped with the run, so that nobody waits for one that is
/// over.
pub(crate) struct Decisions {
    store: Arc<dyn Store>,
    ids: HashSet<ApprovalId>,
    waits: JoinSet<Heard>,
}

impl Decisions {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, ids: HashSet::new(), waits: JoinSet::new() }
    }

    /// Waits for this one too, once.
    pub(crate) fn add(&mut self, id: ApprovalId) {
        if self.ids.insert(id) {
            let store = Arc::clone(&self.store);
            self.waits.spawn(async move { (id, heard_at_last(&*store, id).await) });
        }
    }

    /// Waits for the next decision, for ever while none is awaited. Dropping the future loses
    /// nothing.
    pub(crate) async fn next(&mut self) -> Heard {
        loop {
            match self.waits.join_next().await {
                Some(joined) => {
                    if let Some(heard) = self.heard(joined) {
                        return heard;
                    }
                }
                None => return std::future::pending().await,
            }
        }
    }

    /// Returns a decision that has been heard already, without waiting for one.
    pub(crate) fn ready(&mut self) -> Option<Heard> {
        let joined = self.waits.try_join_next()?;
        self.heard(joined)
    }

    fn heard(&mut self, joined: Result<Heard, JoinError>) -> Option<Heard> {
        match joined {
            Ok(heard) => {
                self.ids.remove(&heard.0);
                Some(heard)
            }
            // It panicked, and said so; what is open is asked when the run is picked up again.
            Err(error) => {
                tracing::error!(%error, "waiting for a decision was cut short");
                None
            }
        }
    }
}
