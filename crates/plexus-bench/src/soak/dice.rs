//! Pseudo-random choices that can be replayed from their seed.

use std::time::Duration;

/// A source of choices (SplitMix64: small, and good enough for this).
#[derive(Debug, Clone)]
pub struct Dice(u64);

impl Dice {
    /// Starts from a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// Returns separate dice, for another task.
    pub fn split(&mut self) -> Self {
        Self(self.next())
    }

    /// Returns a number below `bound`, which must not be 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    /// Returns `true` in `share` of a hundred cases.
    pub fn percent(&mut self, share: u64) -> bool {
        self.below(100) < share
    }

    /// Returns a random time up to `longest`.
    pub fn time(&mut self, longest: Duration) -> Duration {
        Duration::from_millis(self.below(u64::try_from(longest.as_millis()).unwrap_or(u64::MAX)))
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}
