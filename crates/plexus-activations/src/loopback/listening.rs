//! Tells a listener that its list of waiting requests has changed, so that a parent that can listen
//! need not poll.
//!
//! One topic wakes all listeners, and each then reads its own list. A listener that may not see a
//! change finds its list unchanged and passes nothing on.

use std::sync::Arc;

use futures::stream;
use plexus_core::method::{raw, stream_reply};
use plexus_core::{ApprovalId, Call, CallError, Reply, StreamItem};
use plexus_store::{ApprovalFilter, Owner, Stage, Topic, Wake};
use plexus_wire::ApprovalPageParams;
use schemars::JsonSchema;
use serde::Serialize;

use super::Loopback;
use crate::claudecode::page;

/// What a listener is told; it reads the list for itself.
#[derive(Serialize, JsonSchema)]
pub(super) struct Waiting {
    /// How many requests its page has now.
    waiting: usize,
}

/// One who listens to a page of what waits.
struct Listener {
    loopback: Arc<Loopback>,
    filter: ApprovalFilter,
    params: ApprovalPageParams,
    wake: Wake,
    /// The page as it was last sent: which requests, and who is asked.
    told: Vec<(ApprovalId, Owner)>,
}

impl Loopback {
    /// An item whenever `pending` with the same parameters has another answer than before.
    pub(super) async fn pending_changes(
        self: Arc<Self>,
        call: Call,
        params: ApprovalPageParams,
    ) -> Result<Reply, CallError> {
        let filter = self.filter(&call.caller, params.session(), Stage::Pending).await?;
        let mut wake = self.store.watch(Topic::Pending);
        wake.seen();
        let mut listener = Listener { loopback: self, filter, params, wake, told: Vec::new() };
        listener.told = listener.look().await?;
        Ok(stream_reply(stream::unfold(Some(listener), |listener| async move {
            let mut listener = listener?;
            match listener.next().await {
                Ok(item) => Some((Ok(item), Some(listener))),
                Err(error) => Some((Err(error), None)),
            }
        })))
    }
}

impl Listener {
    /// Waits for another list.
    async fn next(&mut self) -> Result<StreamItem, CallError> {
        loop {
            self.wake.changed().await;
            let now = self.look().await?;
            if now != self.told {
                self.told = now;
                let body = raw(&Waiting { waiting: self.told.len() })?;
                return Ok(StreamItem { cursor: None, body: Arc::from(body) });
            }
        }
    }

    async fn look(&self) -> Result<Vec<(ApprovalId, Owner)>, CallError> {
        let wanted = page(self.params.limit, self.params.cursor.as_deref())?;
        let found = self.loopback.store.approvals(self.filter, wanted).await?;
        Ok(found.items.iter().map(|record| (record.id, record.owner)).collect())
    }
}
