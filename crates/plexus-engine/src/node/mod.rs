//! This server among others that share its store. Operators call them nodes.
//!
//! Each registers under a lease by the store's clock, owns the children it runs, and is fenced in
//! the commit itself: the store refuses whatever a server writes for a run after its lease. What is
//! left to do here is to let no child outlive that lease, and to end for good what a server that
//! does not come back has left open.
//!
//! - [`timing`]: how the parts of a lease fit into each other.
//! - [`heartbeat`]: registers, renews, lets go, takes over.
//! - [`lost`]: run directories whose runs were ended by somebody else.
//! - [`relay`]: calls that only the server with the child can serve.

mod heartbeat;
pub(crate) mod lost;
mod relay;
mod timing;

use std::sync::{PoisonError, RwLock};

use tokio_util::sync::CancellationToken;

pub(crate) use heartbeat::Heartbeat;
pub use lost::{LostRun, lost_runs, sessions_with_runs};
pub use relay::{Elsewhere, Neighbours, Relay};
pub use timing::{MIN_LEASE, Timing};

/// Whether this server may hold children now. Without a shared store it always may.
#[derive(Debug, Default)]
pub(crate) struct Trust(RwLock<CancellationToken>);

impl Trust {
    /// A token that is cancelled when children of this moment must go.
    pub(crate) fn held(&self) -> CancellationToken {
        self.0.read().unwrap_or_else(PoisonError::into_inner).child_token()
    }

    /// Whether a child may be started.
    pub(crate) fn stands(&self) -> bool {
        !self.0.read().unwrap_or_else(PoisonError::into_inner).is_cancelled()
    }

    /// Every child must go.
    fn end(&self) {
        self.0.read().unwrap_or_else(PoisonError::into_inner).cancel();
    }

    /// Children may be held again; those from before may not.
    fn begin(&self) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = CancellationToken::new();
    }
}
