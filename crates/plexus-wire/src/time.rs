//! Moments on the wire. A field that the first stage named in seconds has [`Seconds`]; every other
//! moment has [`Millis`]. Lengths of time are plain numbers whose names end in `_ms` or `_secs`.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A moment, in milliseconds since 1970 (UTC).
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Debug,
    Default,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(transparent)]
pub struct Millis(pub i64);

/// A moment, in seconds since 1970 (UTC).
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Debug,
    Default,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(transparent)]
pub struct Seconds(pub i64);
