//! Wakes: after a commit, each subscriber of something that it changed gets the commit's number,
//! and reads for itself.
//!
//! Two orders close every race: the store commits, then wakes; a reader subscribes, then reads. A
//! wake carries the commit number and never a payload; several may be merged into one. Only
//! subscribers of the changed topic are woken, so waking one of 10,000 costs as much as waking one
//! of 10.

use std::collections::HashMap;

use plexus_core::{ApprovalId, SessionId};
use tokio::sync::watch;

use super::approval::Owner;
use super::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// A topic that one can subscribe to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Topic {
    /// Anything of a session: its events, chats, approvals and fields.
    Session(SessionId),
    /// One approval.
    Approval(ApprovalId),
    /// The pending approvals of one owner.
    PendingOf(Owner),
    /// The pending approvals of one session.
    PendingIn(SessionId),
    /// All pending approvals, and so the next deadline.
    Pending,
    /// Agents that are parked, or whose question is decided while they are.
    Parked,
    /// The outbox: an entry was added.
    Outbox,
    /// Every commit.
    Commits,
}

/// A subscription to one topic. Dropping it removes it completely.
#[derive(Debug)]
#[must_use = "a wake that nobody holds wakes nobody"]
pub struct Wake {
    receiver: watch::Receiver<u64>,
    topic: Topic,
    wakes: Wakes,
}

impl Wake {
    /// Waits until a commit after the last seen one changed the topic, and returns its number.
    /// Cancelling the future loses nothing.
    pub async fn changed(&mut self) -> u64 {
        // The sender is in the map for as long as this subscription lives, so an error cannot
        // happen. If it did, waiting would be the safe answer.
        if self.receiver.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
        *self.receiver.borrow_and_update()
    }

    /// Returns whether there was a commit after the last seen one.
    #[cfg(test)]
    pub(super) fn has_news(&self) -> bool {
        self.receiver.has_changed().unwrap_or(false)
    }

    /// Returns the number of the newest commit that this subscription has heard of, and counts it
    /// as seen; 0 before the first.
    pub fn seen(&mut self) -> u64 {
        *self.receiver.borrow_and_update()
    }
}

impl Drop for Wake {
    fn drop(&mut self) {
        self.wakes.leave(self.topic);
    }
}

/// The subscriptions of one store. Cloning shares them.
#[derive(Clone, Debug, Default)]
pub struct Wakes(Arc<Mutex<HashMap<Topic, Slot>>>);

#[derive(Debug)]
struct Slot {
    sender: watch::Sender<u64>,
    subscribers: usize,
}

impl Wakes {
    /// Subscribes to `topic`.
    pub fn subscribe(&self, topic: Topic) -> Wake {
        let mut slots = self.slots();
        let slot = slots
            .entry(topic)
            .or_insert_with(|| Slot { sender: watch::Sender::new(0), subscribers: 0 });
        slot.subscribers += 1;
        Wake { receiver: slot.sender.subscribe(), topic, wakes: self.clone() }
    }

    /// Wakes the subscribers of all `topics`. Only the store calls this, after the commit.
    pub(crate) fn wake(&self, topics: impl IntoIterator<Item = Topic>, commit: u64) {
        let slots = self.slots();
        for topic in topics {
            if let Some(slot) = slots.get(&topic) {
                slot.sender.send_if_modified(|number| {
                    let later = commit > *number;
                    *number = commit.max(*number);
                    later
                });
            }
        }
    }

    /// Wakes every subscriber, because the topics of a commit are not known.
    pub(crate) fn wake_all(&self, commit: u64) {
        let topics: Vec<_> = self.slots().keys().copied().collect();
        self.wake(topics, commit);
    }

    /// Returns how many topics have subscribers.
    #[must_use]
    pub fn topics(&self) -> usize {
        self.slots().len()
    }

    fn leave(&self, topic: Topic) {
        let mut slots = self.slots();
        if let Some(slot) = slots.get_mut(&topic) {
            slot.subscribers -= 1;
            if slot.subscribers == 0 {
                slots.remove(&topic);
            }
        }
    }

    fn slots(&self) -> MutexGuard<'_, HashMap<Topic, Slot>> {
        // A panic cannot leave a half-made change: each critical section is one map operation and a
        // number.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
