//! Differences of files as text.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use similar::TextDiff;

/// How many bytes the difference of one file may have.
pub(super) const MAX_DIFF: usize = 128 * 1024;

/// How long the texts of one answer are compared. An agent chooses them, and the worst pair would
/// take hours. What is left then is shown as replaced.
const COMPARED_FOR: Duration = Duration::from_secs(2);

/// Compares texts.
pub(super) struct Differ {
    until: Instant,
}

impl Differ {
    pub(super) fn new() -> Self {
        Self { until: Instant::now() + COMPARED_FOR }
    }

    /// Returns the difference of two texts, with three lines around each change.
    pub(super) fn unified(&self, before: &str, after: &str) -> String {
        let patience = self.until.saturating_duration_since(Instant::now());
        let diff = TextDiff::configure().timeout(patience).diff_lines(before, after);
        diff.unified_diff().to_string()
    }
}

/// Writes one change without knowing what stands around it.
pub(super) fn alone(before: &str, after: &str) -> String {
    let count = |text: &str| text.lines().count();
    let start = |text: &str| usize::from(!text.is_empty());
    let mut diff = String::new();
    // Writing to a string cannot fail.
    let _ = writeln!(
        diff,
        "@@ -{},{} +{},{} @@",
        start(before),
        count(before),
        start(after),
        count(after)
    );
    for (sign, text) in [('-', before), ('+', after)] {
        for line in text.lines() {
            diff.push(sign);
            diff.push_str(line);
            diff.push('\n');
        }
    }
    diff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_alone_says_what_goes_and_what_comes() {
        assert_eq!(alone("", "a\nb\n"), "@@ -0,0 +1,2 @@\n+a\n+b\n");
        assert_eq!(alone("a", "b"), "@@ -1,1 +1,1 @@\n-a\n+b\n");
    }
}
