//! Numbers that know their range, so that reading parameters refuses what is out of it and every
//! schema says what is in it.

use std::borrow::Cow;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A number that is out of its range.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{found} is not from {least} to {most}")]
pub struct OutOfRange {
    found: u64,
    least: u64,
    most: u64,
}

/// How many records a page may have.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "u64", into = "u64")]
pub struct PageLimit(u32);

impl PageLimit {
    /// The most that a page has.
    pub const MAX: Self = Self(1_000);

    /// Returns the number.
    #[must_use]
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}

impl Default for PageLimit {
    /// What a page has when nobody says: 100.
    fn default() -> Self {
        Self(100)
    }
}

impl TryFrom<u64> for PageLimit {
    type Error = OutOfRange;

    fn try_from(found: u64) -> Result<Self, OutOfRange> {
        match u32::try_from(found) {
            Ok(limit @ 1..=1_000) => Ok(Self(limit)),
            Ok(_) | Err(_) => Err(OutOfRange { found, least: 1, most: u64::from(Self::MAX.0) }),
        }
    }
}

impl From<PageLimit> for u64 {
    fn from(limit: PageLimit) -> Self {
        Self::from(limit.0)
    }
}

impl JsonSchema for PageLimit {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "PageLimit".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "integer", "minimum": 1, "maximum": Self::MAX.0})
    }
}

/// How many milliseconds a call may wait. A longer wait is refused rather than cut short: a caller
/// that counts on it would be surprised.
#[derive(
    Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default, Serialize, Deserialize,
)]
#[serde(try_from = "u64", into = "u64")]
pub struct WaitMs(u64);

impl WaitMs {
    /// The longest wait of one call: a minute.
    pub const MAX: Self = Self(60_000);

    /// Returns the length of the wait.
    #[must_use]
    pub const fn duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

impl TryFrom<u64> for WaitMs {
    type Error = OutOfRange;

    fn try_from(found: u64) -> Result<Self, OutOfRange> {
        if found <= Self::MAX.0 {
            Ok(Self(found))
        } else {
            Err(OutOfRange { found, least: 0, most: Self::MAX.0 })
        }
    }
}

impl From<WaitMs> for u64 {
    fn from(wait: WaitMs) -> Self {
        wait.0
    }
}

impl JsonSchema for WaitMs {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "WaitMs".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "integer", "minimum": 0, "maximum": Self::MAX.0})
    }
}
