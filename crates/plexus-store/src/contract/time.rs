//! Time as the store keeps it: milliseconds since 1970, UTC.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use plexus_wire::{Millis, Seconds};
use serde::{Deserialize, Serialize};

/// A moment, in milliseconds since 1970. Approvals show seconds on the wire; doors do that
/// conversion.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UnixMillis(pub i64);

impl UnixMillis {
    /// Returns the present moment by the system's clock.
    #[must_use]
    pub fn now() -> Self {
        #[cfg(feature = "virtual-time")]
        if let Some(now) = virtual_time::now() {
            return now;
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
        Self(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }

    /// Returns whole seconds since 1970.
    #[must_use]
    pub fn as_secs(self) -> i64 {
        self.0.div_euclid(1000)
    }

    /// Returns the moment `later` after this one.
    #[must_use]
    pub fn plus(self, later: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(later.as_millis()).unwrap_or(i64::MAX)))
    }

    /// Returns how long it is from `now` until this moment; zero when it has passed.
    #[must_use]
    pub fn after(self, now: Self) -> Duration {
        Duration::from_millis(u64::try_from(self.0.saturating_sub(now.0)).unwrap_or(0))
    }
}

impl From<UnixMillis> for Millis {
    fn from(at: UnixMillis) -> Self {
        Self(at.0)
    }
}

impl From<UnixMillis> for Seconds {
    fn from(at: UnixMillis) -> Self {
        Self(at.as_secs())
    }
}

/// A clock that a test sets, so that years pass at once.
#[cfg(feature = "virtual-time")]
pub mod virtual_time {
    use std::cell::Cell;

    use super::UnixMillis;

    thread_local! {
        static NOW: Cell<Option<UnixMillis>> = const { Cell::new(None) };
    }

    /// Makes [`UnixMillis::now`] return this moment on this thread, until it is set again. Other
    /// threads, such as the writer of a store, keep the system's clock.
    pub fn set(now: UnixMillis) {
        NOW.set(Some(now));
    }

    pub(super) fn now() -> Option<UnixMillis> {
        NOW.get()
    }
}
