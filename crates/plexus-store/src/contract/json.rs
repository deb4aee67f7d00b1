//! JSON that is stored as it was written: checked once on the way in, copied on the way out, never
//! parsed in between.
//!
//! The check also refuses keys that serde_json reserves for itself ([`refuse_private_keys`]), so
//! that parsing a text into values never changes its meaning.

use std::fmt;
use std::sync::Arc;

use plexus_core::private_keys::refuse_private_keys;
use plexus_wire::Json;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::Value;
use serde_json::value::RawValue;

use super::error::StoreError;

/// A JSON text. Cloning shares it; two are equal when their texts are equal.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct JsonText(Arc<str>);

impl JsonText {
    /// Serialises `value`.
    ///
    /// # Errors
    /// `Invalid` when the value cannot be represented as JSON (a map with keys that are not
    /// strings).
    pub fn of(value: &impl Serialize) -> Result<Self, StoreError> {
        let write = || {
            let text = serde_json::to_string(value)?;
            refuse_private_keys(&text)?;
            Ok(Self(text.into()))
        };
        write().map_err(|error: serde_json::Error| {
            StoreError::invalid(format_args!("write it as JSON: {error}"))
        })
    }

    /// Takes a text after checking that it is JSON.
    ///
    /// # Errors
    /// `Invalid` when it is not.
    pub fn parse(text: impl Into<Arc<str>>) -> Result<Self, StoreError> {
        let text = text.into();
        serde_json::from_str::<&RawValue>(&text)
            .and_then(|_| refuse_private_keys(&*text))
            .map_err(|error| StoreError::invalid(format_args!("read it as JSON: {error}")))?;
        Ok(Self(text))
    }

    /// Takes a text from the store, which holds only checked texts.
    pub(crate) fn trusted(text: impl Into<Arc<str>>) -> Self {
        Self(text.into())
    }

    /// Returns the empty object, `{}`.
    #[must_use]
    pub fn empty_object() -> Self {
        Self("{}".into())
    }

    /// Returns the text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns its length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Returns whether the text is empty; JSON never is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns whether it is an object.
    #[must_use]
    pub fn is_object(&self) -> bool {
        self.0.trim_start().starts_with('{')
    }

    /// Parses it as `T`.
    ///
    /// # Errors
    /// `Invalid` when it has another shape.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, StoreError> {
        // Checked again, because an earlier release may have stored it unchecked.
        refuse_private_keys(&*self.0)
            .and_then(|()| serde_json::from_str(&self.0))
            .map_err(|error| StoreError::invalid(format_args!("read the stored JSON: {error}")))
    }

    /// Returns it as a value; as a string of its text, if it cannot be parsed into values.
    #[must_use]
    pub fn to_value(&self) -> Value {
        self.read().unwrap_or_else(|_| Value::from(&*self.0))
    }

    /// Returns it as raw JSON, which goes into an answer without being parsed again.
    #[must_use]
    pub fn to_raw(&self) -> Box<RawValue> {
        RawValue::from_string(self.0.to_string()).unwrap_or_else(|_| RawValue::NULL.to_owned())
    }
}

impl From<Value> for JsonText {
    fn from(value: Value) -> Self {
        Self(value.to_string().into())
    }
}

impl From<JsonText> for Json {
    fn from(text: JsonText) -> Self {
        Self::from_text(text.0)
    }
}

impl fmt::Debug for JsonText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Serialize for JsonText {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        // Borrowed as raw JSON, so that a stored body is copied into an answer and not parsed
        // again.
        let raw: &RawValue = serde_json::from_str(&self.0).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for JsonText {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let raw = Box::<RawValue>::deserialize(deserializer)?;
        refuse_private_keys(raw.get()).map_err(serde::de::Error::custom)?;
        Ok(Self(raw.get().into()))
    }
}
