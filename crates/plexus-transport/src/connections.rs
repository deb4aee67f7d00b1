//! Tracks connections: those that have shown no token, and those of each caller.
//!
//! A connection begins unproven. Its first request with a valid token assigns it to that caller.
//! From then on it counts towards the share of the caller of its newest request. Unproven
//! connections have their own places; when all are taken, the oldest is closed.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plexus_core::{CallError, Caller};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

use crate::limits::{Limits, UNCOUNTED_MESSAGE_BYTES, UNPROVEN_PART};
use crate::shares::{Bound, Shares, Taken};

const BOUND: Bound = Bound {
    action: "take another connection",
    total: "limits.connections",
    per_caller: "limits.connections_per_caller",
};

/// All connections of one server.
#[derive(Debug)]
pub(crate) struct Connections {
    /// One permit for each descriptor, whatever its connection is used for.
    pub(crate) places: Arc<Semaphore>,
    all: usize,
    proven: Arc<Shares>,
    unproven: Mutex<BTreeMap<u64, CancellationToken>>,
    unproven_places: usize,
    next: AtomicU64,
}

impl Connections {
    pub(crate) fn new(limits: &Limits) -> Arc<Self> {
        let unproven_places = (limits.connections / UNPROVEN_PART).max(1);
        let proven = limits.connections.saturating_sub(unproven_places).max(1);
        let all = proven + unproven_places;
        Arc::new(Self {
            places: Arc::new(Semaphore::new(all)),
            all,
            proven: Shares::new(BOUND, proven, limits.connections_per_caller),
            unproven: Mutex::default(),
            unproven_places,
            next: AtomicU64::new(0),
        })
    }

    /// Registers a new connection, and evicts the oldest unproven one if there are too many.
    pub(crate) fn begin(self: &Arc<Self>) -> Arc<Connection> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let pushed_out = CancellationToken::new();
        let mut unproven = self.unproven();
        unproven.insert(id, pushed_out.clone());
        if unproven.len() > self.unproven_places
            && let Some((_, oldest)) = unproven.pop_first()
        {
            oldest.cancel();
        }
        drop(unproven);
        Arc::new(Connection {
            id,
            all: Arc::clone(self),
            pushed_out,
            owner: Mutex::default(),
            unread: AtomicUsize::new(0),
            partial: Mutex::default(),
            drained: AtomicBool::new(false),
        })
    }

    /// Returns how many are open.
    pub(crate) fn open(&self) -> usize {
        self.all.saturating_sub(self.places.available_permits())
    }

    fn unproven(&self) -> MutexGuard<'_, BTreeMap<u64, CancellationToken>> {
        self.unproven.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One connection. Its socket and every request that arrived on it share it.
#[derive(Debug)]
pub(crate) struct Connection {
    id: u64,
    all: Arc<Connections>,
    /// Cancelled when a newer connection takes the place of this one.
    pub(crate) pushed_out: CancellationToken,
    owner: Mutex<Option<(Caller, Taken)>>,
    /// Bytes received on a WebSocket after its last complete message.
    unread: AtomicUsize,
    partial: Mutex<Option<Partial>>,
    /// Whether a blocked write made progress since the last call of `was_drained`.
    drained: AtomicBool,
}

/// Accounts for the incomplete message of a WebSocket.
#[derive(Debug)]
struct Partial {
    bytes: Arc<Shares>,
    caller: Caller,
    held: Option<Taken>,
}

impl Connection {
    /// Assigns the connection to `caller`.
    ///
    /// # Errors
    /// `busy` when the caller has used up its share of connections; this one stays as it was.
    pub(crate) fn prove(&self, caller: Caller) -> Result<(), CallError> {
        let mut owner = self.owner.lock().unwrap_or_else(PoisonError::into_inner);
        if owner.as_ref().is_some_and(|(known, _)| *known == caller) {
            return Ok(());
        }
        let taken = self.all.proven.take(caller, 1)?;
        *owner = Some((caller, taken));
        self.all.unproven().remove(&self.id);
        Ok(())
    }

    /// Starts to count the bytes received for a message as held by `caller`.
    pub(crate) fn count_messages(&self, bytes: &Arc<Shares>, caller: Caller) {
        self.unread.store(0, Ordering::Relaxed);
        *self.partial() = Some(Partial { bytes: Arc::clone(bytes), caller, held: None });
    }

    /// Records that a message is complete: from now on its reader counts it.
    pub(crate) fn message_is_whole(&self) {
        self.unread.store(0, Ordering::Relaxed);
        if let Some(partial) = self.partial().as_mut() {
            partial.held = None;
        }
    }

    /// Records that bytes were received.
    ///
    /// # Errors
    /// `busy` when their message is larger than what its caller may still hold.
    pub(crate) fn received(&self, count: usize) -> Result<(), CallError> {
        let unread = self.unread.fetch_add(count, Ordering::Relaxed) + count;
        if unread <= UNCOUNTED_MESSAGE_BYTES {
            return Ok(());
        }
        let mut partial = self.partial();
        let Some(Partial { bytes, caller, held }) = partial.as_mut() else { return Ok(()) };
        match held {
            Some(held) => held.grow(unread.saturating_sub(held.amount())),
            None => {
                *held = Some(bytes.take(*caller, unread)?);
                Ok(())
            }
        }
    }

    /// Records that a blocked write made progress, so the client reads.
    pub(crate) fn drained(&self) {
        self.drained.store(true, Ordering::Relaxed);
    }

    /// Returns whether the client has read anything since the last call.
    pub(crate) fn was_drained(&self) -> bool {
        self.drained.swap(false, Ordering::Relaxed)
    }

    fn partial(&self) -> MutexGuard<'_, Option<Partial>> {
        self.partial.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.all.unproven().remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use plexus_core::SessionId;

    use super::*;

    fn connections(all: usize, per_caller: usize) -> Arc<Connections> {
        Connections::new(&Limits {
            connections: all,
            connections_per_caller: per_caller,
            ..Limits::default()
        })
    }

    #[test]
    fn the_oldest_that_showed_no_token_is_pushed_out_and_no_other() {
        let all = connections(16, 4);
        let child = Caller::Child(SessionId::generate());
        let proven = all.begin();
        proven.prove(child).unwrap();
        let silent: Vec<_> = (0..3).map(|_| all.begin()).collect();
        let pushed_out: Vec<bool> =
            silent.iter().map(|connection| connection.pushed_out.is_cancelled()).collect();
        assert_eq!(pushed_out, [true, false, false]);
        assert!(!proven.pushed_out.is_cancelled());
        drop(silent);
        assert!(all.unproven().is_empty());
    }

    #[test]
    fn a_connection_counts_for_the_caller_of_its_newest_request() {
        let all = connections(32, 1);
        let (one, other) =
            (Caller::Child(SessionId::generate()), Caller::Child(SessionId::generate()));
        let (first, second) = (all.begin(), all.begin());
        first.prove(one).unwrap();
        let error = second.prove(one).unwrap_err();
        assert!(error.message.contains("limits.connections_per_caller"), "{error}");
        first.prove(other).unwrap();
        second.prove(one).unwrap();
        second.prove(one).unwrap();
        assert_eq!(all.proven.in_use(), 2);
    }

    #[test]
    fn an_unfinished_message_counts_as_held_until_it_is_whole() {
        let all = connections(32, 8);
        let caller = Caller::Session(SessionId::generate());
        let bytes = Shares::new(BOUND, 8_000_000, 200_000);
        let connection = all.begin();
        connection.count_messages(&bytes, caller);
        connection.received(UNCOUNTED_MESSAGE_BYTES).unwrap();
        assert_eq!(bytes.in_use(), 0);
        connection.received(100_000).unwrap();
        assert_eq!(bytes.in_use(), UNCOUNTED_MESSAGE_BYTES + 100_000);
        assert!(connection.received(100_000).is_err());
        connection.message_is_whole();
        assert_eq!(bytes.in_use(), 0);
        connection.received(1).unwrap();
    }
}
