//! Time as the store keeps it: milliseconds since 1970, UTC.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use plexus_wire::{Millis, Seconds};
use serde::{Deserialize, Serialize};

/// A moment, in milliseconds since 1970. Approvals show seconds on the wire; doors do that
/// conversion.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UnixMillis(pub i64);

impl UnixMillis {
    /// Returns the present moment. It never goes backwards, see [`Clock`].
    #[must_use]
    pub fn now() -> Self {
        #[cfg(feature = "virtual-time")]
        if let Some(now) = virtual_time::now() {
            return now;
        }
        CLOCK.now()
    }

    /// Returns the present moment by the machine's clock, which somebody may set back. It is for
    /// others who compare it with their own clock; nothing that is granted here may end by it.
    #[must_use]
    pub fn by_the_machine() -> Self {
        Self(i64::try_from(machine_time().as_millis()).unwrap_or(i64::MAX))
    }

    /// Keeps [`UnixMillis::now`] from ever being earlier than `newest`, the newest moment in a
    /// store.
    pub fn never_before(newest: Self) {
        CLOCK.never_before(newest, STARTED.elapsed());
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

/// The clock of this process. There is one, because the machine has one.
static CLOCK: Clock = Clock::new();

/// From when on the monotonic clock is counted.
static STARTED: LazyLock<Instant> = LazyLock::new(Instant::now);

/// The only reading of the machine's clock.
fn machine_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO)
}

/// A clock that shows the time of day and never goes backwards.
///
/// It shows the later of two times: the machine's clock, and the latest time that it showed plus
/// the monotonic time since. So whatever is granted until a moment ends by the earlier of the two
/// clocks: setting the machine's clock back prolongs nothing.
#[derive(Debug)]
struct Clock {
    /// The largest distance seen between the machine's clock and the monotonic one, in
    /// nanoseconds.
    distance: AtomicI64,
}

impl Clock {
    const fn new() -> Self {
        Self { distance: AtomicI64::new(i64::MIN) }
    }

    fn now(&self) -> UnixMillis {
        // The machine's clock is read first: a pause between the two readings makes the distance
        // smaller, which the next reading corrects. A larger one would stay.
        let by_machine = machine_time();
        self.read(by_machine, STARTED.elapsed())
    }

    /// Returns the time when the machine's clock shows `by_machine` and the monotonic one
    /// `elapsed`.
    fn read(&self, by_machine: Duration, elapsed: Duration) -> UnixMillis {
        let elapsed = nanos(elapsed);
        let distance = nanos(by_machine).saturating_sub(elapsed);
        let largest = self.distance.fetch_max(distance, Ordering::Relaxed).max(distance);
        UnixMillis(largest.saturating_add(elapsed) / NANOS_PER_MILLI)
    }

    fn never_before(&self, newest: UnixMillis, elapsed: Duration) {
        let newest = newest.0.saturating_mul(NANOS_PER_MILLI);
        self.distance.fetch_max(newest.saturating_sub(nanos(elapsed)), Ordering::Relaxed);
    }
}

const NANOS_PER_MILLI: i64 = 1_000_000;

fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}

/// A clock that a test sets, so that years pass at once.
#[cfg(feature = "virtual-time")]
pub mod virtual_time {
    use std::cell::RefCell;
    use std::time::Duration;

    use super::{Clock, UnixMillis};

    struct Set {
        clock: Clock,
        by_machine: Duration,
        elapsed: Duration,
    }

    thread_local! {
        static SET: RefCell<Option<Set>> = const { RefCell::new(None) };
    }

    /// Makes [`UnixMillis::now`] return this moment on this thread, until it is set again. Other
    /// threads, such as the writer of a store, keep the system's clock.
    pub fn set(now: UnixMillis) {
        let by_machine = Duration::from_millis(u64::try_from(now.0).unwrap_or(0));
        SET.set(Some(Set { clock: Clock::new(), by_machine, elapsed: Duration::ZERO }));
    }

    /// Sets the machine's clock of this thread back, as an administrator may.
    pub fn set_machine_back(by: Duration) {
        change(|set| set.by_machine = set.by_machine.saturating_sub(by));
    }

    /// Lets time pass on this thread, by both clocks.
    pub fn pass(time: Duration) {
        change(|set| {
            set.by_machine += time;
            set.elapsed += time;
        });
    }

    fn change(change: impl FnOnce(&mut Set)) {
        // What the clock shows before the change is what it may not go behind.
        now();
        SET.with_borrow_mut(|set| {
            if let Some(set) = set {
                change(set);
            }
        });
    }

    pub(super) fn now() -> Option<UnixMillis> {
        SET.with_borrow(|set| set.as_ref().map(|set| set.clock.read(set.by_machine, set.elapsed)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_clock_that_jumps_back_does_not_stop_time() {
        let clock = Clock::new();
        let began = SECOND * 1_000_000;
        assert_eq!(clock.read(began, SECOND * 5), UnixMillis(1_000_000_000));
        assert_eq!(clock.read(began + SECOND, SECOND * 6), UnixMillis(1_000_001_000));
        // Back by a day, and further on from there.
        for since in 2..100 {
            let by_machine = began + SECOND * since - SECOND * 86_400;
            let expected = UnixMillis(1_000_000_000 + i64::from(since) * 1_000);
            assert_eq!(clock.read(by_machine, SECOND * (5 + since)), expected);
        }
        // Set right again, it agrees with the machine; a jump forward is believed at once.
        assert_eq!(clock.read(began + SECOND * 100, SECOND * 105), UnixMillis(1_000_100_000));
        assert_eq!(clock.read(began + SECOND * 300, SECOND * 106), UnixMillis(1_000_300_000));
    }

    #[test]
    fn a_pause_between_two_readings_does_not_advance_the_clock() {
        let clock = Clock::new();
        let began = SECOND * 1_000_000;
        clock.read(began, SECOND * 30);
        assert_eq!(clock.read(began + SECOND, SECOND), UnixMillis(1_000_001_000));
        assert_eq!(clock.read(began + SECOND * 2, SECOND * 2), UnixMillis(1_000_002_000));
    }

    #[test]
    fn time_is_never_before_the_newest_of_a_store() {
        let clock = Clock::new();
        let newest = UnixMillis(1_000_000_000);
        clock.never_before(newest, SECOND);
        assert_eq!(clock.read(SECOND * 500_000, SECOND), newest);
        assert_eq!(clock.read(SECOND * 500_003, SECOND * 4), newest.plus(SECOND * 3));
        clock.never_before(UnixMillis(i64::MAX), SECOND);
        assert!(clock.read(SECOND, SECOND * 2) > newest);
    }

    #[test]
    fn the_clock_of_the_process_shows_the_time_of_the_machine() {
        let before = UnixMillis::by_the_machine();
        assert!(UnixMillis::now() >= before);
    }
}
