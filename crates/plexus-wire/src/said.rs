//! Values that a later server may say in words that this version does not know.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A value of a result: one that this version knows, or else the JSON that came.
///
/// Only results have it. A parameter that is not known is `invalid`, and the server itself decides
/// by values of `T` alone.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Said<T> {
    /// A value that this version knows.
    Known(T),
    /// Something that only a later version says, as it came.
    Unknown(Value),
}

impl<T> Said<T> {
    /// Returns the value, if this version knows it.
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(value) => Some(value),
            Self::Unknown(_) => None,
        }
    }

    /// Says whether it is known and fits.
    pub fn is_and(&self, fits: impl FnOnce(&T) -> bool) -> bool {
        self.known().is_some_and(fits)
    }
}

impl<T: Default> Default for Said<T> {
    fn default() -> Self {
        Self::Known(T::default())
    }
}

impl<T> From<T> for Said<T> {
    fn from(value: T) -> Self {
        Self::Known(value)
    }
}

impl<T: PartialEq> PartialEq<T> for Said<T> {
    fn eq(&self, other: &T) -> bool {
        self.known() == Some(other)
    }
}

/// Shows a word without quotes, and anything else as JSON.
impl<T: Serialize> fmt::Display for Said<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match serde_json::to_value(self).map_err(|_| fmt::Error)? {
            Value::String(word) => f.write_str(&word),
            other => other.fmt(f),
        }
    }
}

/// It is described as `T`: a server says nothing else.
impl<T: JsonSchema> JsonSchema for Said<T> {
    fn inline_schema() -> bool {
        T::inline_schema()
    }

    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }

    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        T::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::approval::DecidedBy;
    use crate::session::SessionStatus;

    #[test]
    fn an_unknown_value_is_kept_and_written_unchanged() {
        type Status = Said<SessionStatus>;
        for (came, known) in [("running", Some(SessionStatus::Running)), ("paused", None)] {
            let status: Status = serde_json::from_value(json!(came)).unwrap();
            assert_eq!(status.known().copied(), known);
            assert_eq!(status.to_string(), came);
            assert_eq!(serde_json::to_value(&status).unwrap(), came);
        }
        let by = json!({"committee": ["a", "b"]});
        let decided: Said<DecidedBy> = serde_json::from_value(by.clone()).unwrap();
        assert_eq!(decided, Said::Unknown(by));
        assert!(Status::Known(SessionStatus::Idle) == SessionStatus::Idle);
        assert!(Status::Unknown(json!("paused")) != SessionStatus::Idle);
    }
}
