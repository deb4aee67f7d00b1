//! What was sent since the server started, for each receiver, and why it last failed. What waits is
//! in the store.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use plexus_store::UnixMillis;
use plexus_wire::NotifyFailure;

use crate::receiver::Receiver;

/// Counts of one receiver.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// Messages that it took.
    pub delivered: u64,
    /// Attempts that failed.
    pub failed: u64,
    /// Messages that became too old.
    pub given_up: u64,
    /// When it last took a message.
    pub delivered_at: Option<UnixMillis>,
    /// Why it last did not.
    pub last_failure: Option<NotifyFailure>,
    /// Why its buttons cannot be heard now.
    pub deaf: Option<NotifyFailure>,
}

/// Counts of all receivers.
#[derive(Debug, Default)]
pub struct HookStats(Mutex<BTreeMap<String, Counted>>);

impl HookStats {
    /// Counts for these receivers and no others; one that was counted before keeps its count.
    pub(crate) fn count_for(&self, receivers: &[Receiver]) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.retain(|name, _| receivers.iter().any(|receiver| receiver.name == *name));
        for receiver in receivers {
            counts.entry(receiver.name.clone()).or_default();
        }
    }

    pub(crate) fn delivered(&self, name: &str) {
        self.count(name, |counted| {
            counted.delivered += 1;
            counted.delivered_at = Some(UnixMillis::now());
        });
    }

    pub(crate) fn failed(&self, name: &str, why: &str) {
        self.count(name, |counted| {
            counted.failed += 1;
            counted.last_failure = Some(failure(why));
        });
    }

    pub(crate) fn given_up(&self, name: &str) {
        self.count(name, |counted| counted.given_up += 1);
    }

    /// Notes that the buttons of a receiver cannot be heard. Says whether that is news.
    pub(crate) fn deaf(&self, name: &str, why: &str) -> bool {
        self.count(name, |counted| {
            let known = counted.deaf.replace(failure(why));
            known.is_none_or(|known| known.why != why)
        })
        .unwrap_or_default()
    }

    /// Notes that they can. Says whether that is news.
    pub(crate) fn hears(&self, name: &str) -> bool {
        self.count(name, |counted| counted.deaf.take().is_some()).unwrap_or_default()
    }

    /// Returns all counts, by name.
    #[must_use]
    pub fn read(&self) -> BTreeMap<String, Counted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn count<T>(&self, name: &str, change: impl FnOnce(&mut Counted) -> T) -> Option<T> {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.get_mut(name).map(change)
    }
}

fn failure(why: &str) -> NotifyFailure {
    NotifyFailure { at: UnixMillis::now().into(), why: why.to_owned() }
}
