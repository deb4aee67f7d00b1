//! The clock for deadlines: it counts while the machine sleeps and is unaffected by changes of the
//! system's clock.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A moment, as time since the system started, sleep included. [`std::time::Instant`] stands still
/// while the machine sleeps, but a leash must run out even then.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(Duration);

impl Moment {
    pub(crate) fn now() -> Self {
        let now = clock_gettime(ClockId::Boottime);
        Self(Duration::new(
            u64::try_from(now.tv_sec).unwrap_or(0),
            u32::try_from(now.tv_nsec).unwrap_or(0),
        ))
    }

    /// Returns how long after `earlier` this is; zero when it is not after it.
    pub(crate) fn since(self, earlier: Self) -> Duration {
        self.0.saturating_sub(earlier.0)
    }

    pub(crate) fn plus(self, span: Duration) -> Self {
        Self(self.0.saturating_add(span))
    }

    pub(crate) fn minus(self, span: Duration) -> Self {
        Self(self.0.saturating_sub(span))
    }
}
