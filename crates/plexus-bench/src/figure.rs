//! A figure: what was measured in each round, what it should be, and what else was measured beside
//! it.

use crate::stats::median;

/// The keys of the design's table of measures, in its order. Other figures are extras.
pub const DESIGN_KEYS: &[&str] = &[
    "respond_to_child_p99_ms",
    "poll_loop_ratio",
    "line_to_poll_p99_ms",
    "first_event_prestarted_ms",
    "ask_round_trip_ratio",
    "claude_round_trip_ms",
    "codex_round_trip_ms",
    "acp_round_trip_ms",
    "claude_line_p99_ms",
    "codex_line_p99_ms",
    "acp_line_p99_ms",
    "events_per_s",
    "bare_group_commit_ratio",
    "single_commit_ratio",
    "poll_growth_ratio",
    "path_ratio",
    "parse_value_ratio",
    "parse_peer_ratio",
    "permit_kib",
    "permit_mcp_kib",
    "reattach_s",
    "parked_kib",
    "wake_ms",
    "sse_deliveries_per_s",
    "confine_start_ms",
    "proxy_added_ms",
    "tools_bytes",
];

/// Those of them that need a rival, which a run may lack: such a key is then null, with the reason.
pub const KEYS_WITH_RIVAL: &[&str] = &["ask_round_trip_ratio"];

/// What a figure should be, by the design.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Aim {
    /// At most this.
    AtMost(f64),
    /// At least this.
    AtLeast(f64),
    /// The design names no number; the rivals tell what it is worth.
    Beside,
}

impl Aim {
    /// Returns whether a value is what it should be; `None` when nothing says.
    #[must_use]
    pub fn is_met_by(self, value: f64) -> Option<bool> {
        match self {
            Self::AtMost(limit) => Some(value <= limit),
            Self::AtLeast(limit) => Some(value >= limit),
            Self::Beside => None,
        }
    }
}

/// Something else that was measured in the same run: a rival, or the two sides of a ratio.
#[derive(Clone, PartialEq, Debug)]
pub struct Rival {
    /// What it is, such as `bare group commit`.
    pub what: String,
    /// Its value, or why there is none.
    pub value: Result<f64, String>,
    /// Its unit.
    pub unit: &'static str,
}

/// One figure of the table.
#[derive(Clone, PartialEq, Debug)]
pub struct Figure {
    /// Its name in the JSON object, from the design.
    pub key: &'static str,
    /// What was measured, in words, with the sizes of this run.
    pub what: String,
    /// Its unit; empty for a ratio.
    pub unit: &'static str,
    /// Its value in each round.
    pub rounds: Vec<f64>,
    /// What it should be.
    pub aim: Aim,
    /// What it is compared with.
    pub rivals: Vec<Rival>,
}

impl Figure {
    /// Returns a figure without rivals.
    pub fn new(
        key: &'static str,
        what: impl Into<String>,
        unit: &'static str,
        rounds: Vec<f64>,
        aim: Aim,
    ) -> Self {
        Self { key, what: what.into(), unit, rounds, aim, rivals: Vec::new() }
    }

    /// Puts a rival beside it, by the median of its rounds.
    #[must_use]
    pub fn beside(self, what: impl Into<String>, rounds: &[f64], unit: &'static str) -> Self {
        self.beside_or_missing(what, Ok(median(rounds)), unit)
    }

    /// Puts a rival beside it that may not be had, with the reason.
    #[must_use]
    pub fn beside_or_missing(
        mut self,
        what: impl Into<String>,
        value: Result<f64, String>,
        unit: &'static str,
    ) -> Self {
        self.rivals.push(Rival { what: what.into(), value, unit });
        self
    }

    /// Returns its value: the median of its rounds.
    #[must_use]
    pub fn value(&self) -> f64 {
        median(&self.rounds)
    }

    /// Returns the smallest and the largest of its rounds.
    #[must_use]
    pub fn spread(&self) -> (f64, f64) {
        let least = self.rounds.iter().copied().fold(f64::INFINITY, f64::min);
        let most = self.rounds.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        (least, most)
    }
}
