//! Percentiles and medians of samples.

use std::time::Duration;

/// Returns the value that `percent` of the samples do not exceed (nearest rank), or 0 without
/// samples.
#[must_use]
pub fn percentile(samples: &[f64], percent: f64) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        clippy::cast_precision_loss,
        reason = "a rank is a small number, and not negative"
    )]
    let rank = (percent / 100.0 * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

/// Returns the median of the samples, or 0 without samples.
#[must_use]
pub fn median(samples: &[f64]) -> f64 {
    percentile(samples, 50.0)
}

/// Returns a time in milliseconds.
#[must_use]
pub fn millis(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// Returns the rate per second.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "counts here are far below what a float can hold")]
pub fn rate(count: usize, time: Duration) -> f64 {
    count as f64 / time.as_secs_f64()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples_by_nearest_rank() {
        let samples: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert_eq!(
            (percentile(&samples, 99.0), median(&samples), percentile(&samples, 100.0)),
            (198.0, 100.0, 200.0)
        );
        assert_eq!((percentile(&[7.0], 99.0), median(&[7.0]), median(&[])), (7.0, 7.0, 0.0));
    }
}
