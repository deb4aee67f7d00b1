//! JSON whose fields are somebody else's: a tool's input, metadata, a line of the CLI.

use std::fmt;
use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

/// An object whose fields are the caller's or the agent's own.
pub type Object = serde_json::Map<String, Value>;

/// Any JSON, kept as text: writing it copies the text and does not parse it again. Cloning shares
/// it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Json(Arc<str>);

impl Json {
    /// Takes a text that is known to be JSON. Writing it fails if it is not.
    pub fn from_text(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Parses it as `T`.
    ///
    /// # Errors
    /// When it has another shape.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(&self.0)
    }

    /// Returns it as a value; `null` if it were no JSON.
    #[must_use]
    pub fn to_value(&self) -> Value {
        self.read().unwrap_or(Value::Null)
    }
}

impl From<Value> for Json {
    fn from(value: Value) -> Self {
        Self(value.to_string().into())
    }
}

impl From<Object> for Json {
    fn from(object: Object) -> Self {
        Value::Object(object).into()
    }
}

impl fmt::Debug for Json {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for Json {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Json {
    /// Reads it as a value: where a shape is tagged or flattened, serde has parsed the text before
    /// it comes here.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Self::from)
    }
}
