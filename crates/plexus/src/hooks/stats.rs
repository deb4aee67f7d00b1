//! What was sent since the server started, for each receiver. What waits is in the store.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use super::receiver::Receiver;

/// Counts of one receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    pub(crate) delivered: u64,
    pub(crate) failed: u64,
    pub(crate) given_up: u64,
}

/// Counts of all receivers.
#[derive(Debug, Default)]
pub(crate) struct HookStats(Mutex<BTreeMap<String, Counted>>);

impl HookStats {
    /// Counts for these receivers and no others; one that was counted before keeps its count.
    pub(crate) fn count_for(&self, receivers: &[Receiver]) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.retain(|name, _| receivers.iter().any(|receiver| receiver.name == *name));
        for receiver in receivers {
            counts.entry(receiver.name.clone()).or_default();
        }
    }

    pub(super) fn delivered(&self, name: &str) {
        self.count(name, |counted| counted.delivered += 1);
    }

    pub(super) fn failed(&self, name: &str) {
        self.count(name, |counted| counted.failed += 1);
    }

    pub(super) fn given_up(&self, name: &str) {
        self.count(name, |counted| counted.given_up += 1);
    }

    /// Returns all counts, by name.
    pub(crate) fn read(&self) -> BTreeMap<String, Counted> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn count(&self, name: &str, change: impl FnOnce(&mut Counted)) {
        if let Some(counted) = self.0.lock().unwrap_or_else(PoisonError::into_inner).get_mut(name) {
            change(counted);
        }
    }
}
