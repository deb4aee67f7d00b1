//! A part of a line that stays JSON: the input of a tool, an unknown block.

use std::fmt;
use std::sync::{Arc, LazyLock};

use serde::de::DeserializeOwned;
use serde_json::value::RawValue;

use super::value::Plain;

/// One JSON value as text. It shares the allocation of its line and is kept byte for byte: numbers
/// keep their digits and objects the order of their keys.
#[derive(Clone)]
pub struct RawJson {
    line: Arc<str>,
    start: u32,
    len: u32,
}

impl RawJson {
    /// Returns the value at `start`, which the scanner has validated.
    #[inline]
    pub(super) fn slice(line: Arc<str>, start: u32, len: u32) -> Self {
        Self { line, start, len }
    }

    /// Serialises `value` into JSON with an allocation of its own.
    pub fn from_value<T: serde::Serialize + ?Sized>(value: &T) -> Result<Self, serde_json::Error> {
        Self::from_text(serde_json::to_string(value)?)
    }

    /// Takes `text` unchanged, after checking that it is one JSON value.
    pub fn from_text(text: String) -> Result<Self, serde_json::Error> {
        let raw = RawValue::from_string(text)?;
        let text = raw.get();
        // No event or answer can hold a value of 4 GiB.
        let len = u32::try_from(text.len()).map_err(|_| {
            <serde_json::Error as serde::de::Error>::custom("a JSON value of 4 GiB or more")
        })?;
        Ok(Self { line: Arc::from(text), start: 0, len })
    }

    /// Returns the JSON text.
    #[inline]
    pub fn get(&self) -> &str {
        let start = self.start as usize;
        self.line.get(start..start + self.len as usize).unwrap_or("null")
    }

    /// Decodes the value into `T`.
    pub fn parse<T: DeserializeOwned>(&self) -> Result<T, serde_json::Error> {
        serde_json::from_str(self.get())
    }

    /// Decodes the value into a tree, whatever its keys are called. Fails only for a number outside
    /// the range of a 64-bit float, half a surrogate pair, or nesting beyond 128 levels.
    pub fn to_value(&self) -> Result<serde_json::Value, serde_json::Error> {
        self.parse().map(|Plain(value)| value)
    }

    /// Returns whether the value is an object.
    pub fn is_object(&self) -> bool {
        self.get().starts_with('{')
    }

    /// Returns whether the value is `null`.
    pub fn is_null(&self) -> bool {
        self.get() == "null"
    }
}

impl Default for RawJson {
    /// Returns `null`.
    fn default() -> Self {
        static NULL: LazyLock<Arc<str>> = LazyLock::new(|| Arc::from("null"));
        Self { line: Arc::clone(&NULL), start: 0, len: 4 }
    }
}

impl PartialEq for RawJson {
    /// Compares the text: two spellings of the same value differ.
    fn eq(&self, other: &Self) -> bool {
        self.get() == other.get()
    }
}

impl Eq for RawJson {}

impl fmt::Debug for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.get())
    }
}

impl fmt::Display for RawJson {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.get())
    }
}

impl serde::Serialize for RawJson {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let raw: &RawValue = serde_json::from_str(self.get()).map_err(serde::ser::Error::custom)?;
        raw.serialize(serializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_read_as_what_it_says() {
        let text =
            r#"{"sql":[{"$serde_json::private::RawValue":"\"select 1\""},-1,1.5,true,null]}"#;
        let raw = RawJson::from_text(text.to_owned()).unwrap();
        assert_eq!(raw.to_value().unwrap().to_string(), text);
    }
}
