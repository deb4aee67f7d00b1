//! How the parts of a lease fit into each other, so that no child outlives it.
//!
//! ```text
//! renewal is sent          leash: children end          lease: others take over
//!        │ patience │ ─────────── leash ───────────│ look of the shim │ room │
//!        └───────────────────────── lease ────────────────────────────────────┘
//! ```
//! The lease counts from the moment the store commits a renewal, which is after it was sent. The
//! server counts the leash from when it sent the renewal, a shim from when it was told of it, at
//! most `patience` later; a shim looks at its leash eight times in that time, and then kills.

use std::time::Duration;

/// The shortest lease: below it, the second between two looks of a shim would not fit.
pub const MIN_LEASE: Duration = Duration::from_secs(6);

/// The longest time between two renewals; a longer lease does not need fewer.
const LONGEST_BEAT: Duration = Duration::from_secs(5);

/// The times that follow from a lease.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timing {
    /// How long the others trust this server without a renewal.
    pub lease: Duration,
    /// How long it trusts itself, and a child lives, without one.
    pub leash: Duration,
    /// How often it is renewed.
    pub beat: Duration,
    /// How long one renewal may take before it is tried again.
    pub patience: Duration,
}

impl Timing {
    /// Returns the times for a lease, which is at least [`MIN_LEASE`].
    #[must_use]
    pub fn of(lease: Duration) -> Self {
        let lease = lease.max(MIN_LEASE);
        Self {
            lease,
            // Whole seconds: the shim's flag has no others.
            leash: Duration::from_secs((lease * 2 / 3).as_secs()),
            beat: (lease / 10).min(LONGEST_BEAT),
            patience: lease / 10,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_is_dead_before_the_lease_is_over_whatever_the_lease() {
        for secs in [1, 6, 7, 10, 20, 60, 600, 3_600] {
            let timing = Timing::of(Duration::from_secs(secs));
            let look = (timing.leash / 8).max(Duration::from_secs(1));
            assert!(timing.patience + timing.leash + look < timing.lease, "{timing:?}");
            assert!(timing.beat * 4 < timing.leash, "several renewals may fail: {timing:?}");
        }
    }
}
