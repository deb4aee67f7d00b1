//! Latency histograms: stores and activations record durations, and the metrics page shows them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The upper bounds of the buckets, in microseconds: from a commit on a fast disk to a person who
/// was away for a day.
const BOUNDS_MICROS: [u64; 16] = [
    100,
    500,
    1_000,
    5_000,
    10_000,
    50_000,
    100_000,
    500_000,
    1_000_000,
    5_000_000,
    15_000_000,
    60_000_000,
    300_000_000,
    1_800_000_000,
    7_200_000_000,
    86_400_000_000,
];

/// Counts durations. Recording one costs two additions, so it is cheap enough for every path.
#[derive(Debug, Default)]
pub struct Latency {
    /// One for each bound, and one for everything longer than the last bound.
    buckets: [AtomicU64; BOUNDS_MICROS.len() + 1],
    micros: AtomicU64,
}

impl Latency {
    /// Records one duration.
    pub fn note(&self, took: Duration) {
        let micros = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let bucket = BOUNDS_MICROS.partition_point(|bound| *bound < micros);
        if let Some(bucket) = self.buckets.get(bucket) {
            bucket.fetch_add(1, Ordering::Relaxed);
        }
        self.micros.fetch_add(micros, Ordering::Relaxed);
    }

    /// Returns the counts so far. They are read one by one, so they may belong to slightly
    /// different instants.
    #[must_use]
    pub fn read(&self) -> LatencyReading {
        let mut count = 0;
        let mut up_to = Vec::with_capacity(BOUNDS_MICROS.len());
        for (bucket, bound) in self.buckets.iter().zip(BOUNDS_MICROS) {
            count += bucket.load(Ordering::Relaxed);
            up_to.push((Duration::from_micros(bound), count));
        }
        let longer = self.buckets.last().map_or(0, |bucket| bucket.load(Ordering::Relaxed));
        let sum = Duration::from_micros(self.micros.load(Ordering::Relaxed));
        LatencyReading { up_to, count: count + longer, sum }
    }
}

/// One reading of a [`Latency`].
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct LatencyReading {
    /// For each bound, how many took at most that long.
    pub up_to: Vec<(Duration, u64)>,
    /// How many there were.
    pub count: u64,
    /// How long all of them took together.
    pub sum: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_wait_is_counted_under_every_longer_bound() {
        let latency = Latency::default();
        for micros in [0, 100, 101, 60_000_000, u64::MAX / 4] {
            latency.note(Duration::from_micros(micros));
        }
        let read = latency.read();
        let under = |bound: u64| {
            read.up_to.iter().find(|(at, _)| *at == Duration::from_micros(bound)).unwrap().1
        };
        assert_eq!((under(100), under(500), under(15_000_000), under(60_000_000)), (2, 3, 3, 4));
        assert_eq!((under(86_400_000_000), read.count), (4, 5));
        assert!(read.sum > Duration::from_secs(60));
    }
}
