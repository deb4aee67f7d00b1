//! Numbers and lists that know their range, so that reading parameters refuses what is out of it
//! and every schema says what is in it. Texts are in [`text`](crate::text).

use std::borrow::Cow;
use std::time::Duration;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};

/// A number that is out of its range.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{found} is not between {least} and {most}")]
pub struct OutOfRange {
    found: u64,
    least: u64,
    most: u64,
}

macro_rules! ranged {
    ($(#[$doc:meta])* $name:ident($inner:ident): $least:literal to $most:expr) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
        #[serde(try_from = "u64", into = "u64")]
        pub struct $name($inner);

        impl $name {
            /// The largest.
            pub const MAX: Self = Self($most);
        }

        impl TryFrom<u64> for $name {
            type Error = OutOfRange;

            fn try_from(found: u64) -> Result<Self, OutOfRange> {
                match $inner::try_from(found) {
                    Ok(number) if ($least..=$most).contains(&number) => Ok(Self(number)),
                    Ok(_) | Err(_) => {
                        Err(OutOfRange { found, least: $least, most: Self::MAX.into() })
                    }
                }
            }
        }

        impl From<$name> for u64 {
            fn from(number: $name) -> Self {
                number.0.into()
            }
        }

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!({"type": "integer", "minimum": $least, "maximum": Self::MAX.0})
            }
        }
    };
}

ranged! {
    /// How many records a page may have.
    PageLimit(u32): 1 to 1_000
}

impl PageLimit {
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

ranged! {
    /// How many hits a page of search may have: each is read from its event.
    SearchLimit(u32): 1 to 100
}

impl SearchLimit {
    /// Returns the number.
    #[must_use]
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}

impl Default for SearchLimit {
    /// What a page has when nobody says: 20.
    fn default() -> Self {
        Self(20)
    }
}

ranged! {
    /// How many decisions are looked at for rules: each rule is tried on each of them.
    LastDecisions(u32): 1 to 200
}

impl LastDecisions {
    /// Returns the number.
    #[must_use]
    pub const fn get(self) -> usize {
        self.0 as usize
    }
}

impl Default for LastDecisions {
    /// What is looked at when nobody says: 100.
    fn default() -> Self {
        Self(100)
    }
}

ranged! {
    /// How many milliseconds a call may wait: a minute at most. A longer wait is refused rather
    /// than cut short: a caller that counts on it would be surprised.
    #[derive(Default)]
    WaitMs(u64): 0 to 60_000
}

impl WaitMs {
    /// Returns the length of the wait.
    #[must_use]
    pub const fn duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

ranged! {
    /// How many seconds a mode holds: a day at most. A mode is for while somebody looks on.
    ModeSecs(u32): 1 to 86_400
}

impl ModeSecs {
    /// Returns the number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

ranged! {
    /// After how many seconds a rule ends; a file of rules has the same range.
    RuleSecs(u32): 1 to 4_294_967_295
}

impl RuleSecs {
    /// Returns the length of the rule's life.
    #[must_use]
    pub const fn duration(self) -> Duration {
        Duration::from_secs(self.0 as u64)
    }
}

ranged! {
    /// How many decisions a rule may make.
    Uses(u32): 1 to 4_294_967_295
}

impl Uses {
    /// Returns the number.
    #[must_use]
    pub const fn get(self) -> u32 {
        self.0
    }
}

/// How many approvals one `respond_many` decides: as many as one session may have waiting.
pub const MAX_RESPOND_MANY: usize = 256;

/// How many sessions one `wait` may name: as many as a page has.
pub const MAX_WAIT_SESSIONS: usize = 1_000;

/// Reads a list of at least `MIN` and at most `MAX` entries.
pub(crate) fn list<'de, const MIN: usize, const MAX: usize, T, D>(
    deserializer: D,
) -> Result<Vec<T>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    let list = Vec::deserialize(deserializer)?;
    if (MIN..=MAX).contains(&list.len()) {
        return Ok(list);
    }
    let found = list.len();
    Err(serde::de::Error::custom(format_args!("{found} entries: there are {MIN} to {MAX}")))
}

/// Reads such a list, which may be left out.
pub(crate) fn maybe_list<'de, const MAX: usize, T, D>(
    deserializer: D,
) -> Result<Option<Vec<T>>, D::Error>
where
    T: Deserialize<'de>,
    D: Deserializer<'de>,
{
    match Option::<Vec<T>>::deserialize(deserializer)? {
        Some(list) if list.len() > MAX => {
            let found = list.len();
            Err(serde::de::Error::custom(format_args!("{found} entries: there are 0 to {MAX}")))
        }
        list => Ok(list),
    }
}

/// Reads an amount of money. JSON has no infinite numbers, so only the sign is left to check.
pub(crate) fn maybe_amount<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<f64>, D::Error> {
    match Option::<f64>::deserialize(deserializer)? {
        Some(amount) if amount.is_nan() || amount < 0.0 => {
            Err(serde::de::Error::custom(format_args!("{amount} is not an amount of money")))
        }
        amount => Ok(amount),
    }
}
