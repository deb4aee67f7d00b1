//! Handles: `{plugin_id, version, method, meta[]}`, text form
//! `plugin_id@version::method:meta0:meta1`.
//!
//! The text form round-trips for every content: `%`, `:` and control characters are percent-encoded
//! in each part, and `@` in the version.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize};
use uuid::Uuid;

use crate::error::CallError;
use crate::ids::PluginId;

/// How many `meta` parts a handle may have. More is not a handle of ours, and resolving it would
/// only cost time.
pub const MAX_META_PARTS: usize = 16;

/// How long the text form may be, in bytes.
pub const MAX_HANDLE_BYTES: usize = 8 * 1024;

/// The name of something that an activation owns. On the wire it is this object;
/// [`Handle::from_str`] reads the text form.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Serialize)]
pub struct Handle {
    /// The activation that can say what this is.
    pub plugin_id: PluginId,
    /// The version of the owner's handle format, for example `1.0.0`.
    pub version: String,
    /// What kind of thing it is, for example `chat_event`.
    pub method: String,
    /// What the owner needs to find it.
    pub meta: Vec<String>,
}

/// Who made a handle, and what kind of thing it stands for.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Origin {
    /// The activation that owns it.
    pub plugin_id: PluginId,
    /// What kind of thing it is.
    pub method: String,
}

/// Why a text or object is not a handle.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub enum HandleParseError {
    /// The text does not have the form `plugin_id@version::method:meta…`.
    #[error("a handle reads plugin_id@version::method:meta0:meta1, and {0}")]
    Form(&'static str),
    /// Longer or with more parts than any handle we make.
    #[error("a handle has at most {MAX_META_PARTS} parts and {MAX_HANDLE_BYTES} bytes")]
    TooLong,
}

impl Handle {
    /// Makes a handle without metadata; [`Handle::with_meta`] adds what the owner needs.
    pub fn new(plugin_id: PluginId, version: impl Into<String>, method: impl Into<String>) -> Self {
        Self { plugin_id, version: version.into(), method: method.into(), meta: Vec::new() }
    }

    /// Sets the parts by which the owner finds the object again, in their order.
    #[must_use]
    pub fn with_meta<T: Into<String>>(mut self, meta: impl IntoIterator<Item = T>) -> Self {
        self.meta = meta.into_iter().map(Into::into).collect();
        self
    }

    /// Returns who owns it, and what kind of thing it is.
    #[must_use]
    pub fn origin(&self) -> Origin {
        Origin { plugin_id: self.plugin_id, method: self.method.clone() }
    }

    /// Returns the major version of the handle's format: the number before the first dot.
    #[must_use]
    pub fn major(&self) -> Option<u64> {
        self.version.split('.').next()?.parse().ok()
    }

    /// Reads the part of the metadata at `index`, which the owner calls `name`.
    ///
    /// # Errors
    /// `invalid` when the part is missing, or is not what it should be.
    pub fn part<T: FromStr>(&self, index: usize, name: &str) -> Result<T, CallError> {
        let wrong = |what: &str| {
            CallError::invalid(format_args!("resolve the handle: {name} {what} in the handle"))
                .with_field("handle")
        };
        let part = self.meta.get(index).ok_or_else(|| wrong("is missing"))?;
        part.parse().map_err(|_| wrong("cannot be read"))
    }

    fn fits(&self) -> bool {
        self.meta.len() <= MAX_META_PARTS && self.to_string().len() <= MAX_HANDLE_BYTES
    }
}

/// Writes `part` with everything that could be taken for structure percent-encoded.
fn encode(part: &str, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    for c in part.chars() {
        match c {
            '%' | ':' | '@' => write!(out, "%{:02X}", c as u32)?,
            c if c.is_control() => {
                let mut utf8 = [0; 4];
                for byte in c.encode_utf8(&mut utf8).bytes() {
                    write!(out, "%{byte:02X}")?;
                }
            }
            c => fmt::Write::write_char(out, c)?,
        }
    }
    Ok(())
}

fn decode(part: &str) -> Result<String, HandleParseError> {
    let mut bytes = Vec::with_capacity(part.len());
    let mut rest = part.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        if byte != b'%' {
            bytes.push(byte);
            rest = tail;
            continue;
        }
        let hex = tail.get(..2).filter(|hex| hex.iter().all(u8::is_ascii_hexdigit));
        let value = hex
            .and_then(|hex| std::str::from_utf8(hex).ok())
            .and_then(|hex| u8::from_str_radix(hex, 16).ok());
        let value = value.ok_or(HandleParseError::Form("% stands before two hex digits"))?;
        bytes.push(value);
        rest = &tail[2..];
    }
    String::from_utf8(bytes).map_err(|_| HandleParseError::Form("its parts are UTF-8"))
}

impl fmt::Display for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@", self.plugin_id)?;
        encode(&self.version, f)?;
        f.write_str("::")?;
        encode(&self.method, f)?;
        for part in &self.meta {
            f.write_str(":")?;
            encode(part, f)?;
        }
        Ok(())
    }
}

impl FromStr for Handle {
    type Err = HandleParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        if text.len() > MAX_HANDLE_BYTES {
            return Err(HandleParseError::TooLong);
        }
        let (plugin, rest) =
            text.split_once('@').ok_or(HandleParseError::Form("there is no @ in this"))?;
        let (version, rest) =
            rest.split_once("::").ok_or(HandleParseError::Form("there is no :: in this"))?;
        let plugin_id = Uuid::from_str(plugin)
            .map_err(|_| HandleParseError::Form("the plugin id is not a UUID"))?;
        let mut parts = rest.split(':');
        let method = decode(parts.next().unwrap_or_default())?;
        let meta = parts.map(decode).collect::<Result<Vec<_>, _>>()?;
        if meta.len() > MAX_META_PARTS {
            return Err(HandleParseError::TooLong);
        }
        Ok(Self {
            plugin_id: PluginId::from_uuid(plugin_id),
            version: decode(version)?,
            method,
            meta,
        })
    }
}

/// The object alone, whose schema a reader of handles sees.
#[derive(JsonSchema)]
#[schemars(rename = "Handle")]
#[expect(dead_code, reason = "only its schema is used")]
struct HandleObject {
    /// The activation that can say what this is.
    plugin_id: PluginId,
    /// The version of the owner's handle format, for example `1.0.0`.
    version: String,
    /// What kind of thing it is, for example `chat_event`.
    method: String,
    /// What the owner needs to find it.
    meta: Vec<String>,
}

impl JsonSchema for Handle {
    fn schema_name() -> Cow<'static, str> {
        "Handle".into()
    }

    /// The object; a parameter may be the text form too.
    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let mut schema = HandleObject::json_schema(generator);
        schema
            .insert("description".into(), "The name of something that an activation owns.".into());
        if generator.contract().is_serialize() {
            return schema;
        }
        json_schema!({
            "description": "The name of something that an activation owns: an object, or the text \
                            plugin_id@version::method:meta0:meta1.",
            "anyOf": [schema, {"type": "string"}],
        })
    }
}

impl<'de> Deserialize<'de> for Handle {
    /// Takes either form: the object, or the text.
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        #[serde(deny_unknown_fields)]
        struct Object {
            plugin_id: PluginId,
            version: String,
            method: String,
            meta: Vec<String>,
        }
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Either {
            Text(String),
            Object(Object),
        }
        match Either::deserialize(deserializer)? {
            Either::Text(text) => text.parse().map_err(serde::de::Error::custom),
            Either::Object(Object { plugin_id, version, method, meta }) => {
                // Bounded by its text form, which is what the store keeps and reads again.
                let handle = Self { plugin_id, version, method, meta };
                if !handle.fits() {
                    return Err(serde::de::Error::custom(HandleParseError::TooLong));
                }
                Ok(handle)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_text_form_round_trips_for_hostile_parts(
            version in ".{0,12}", method in "\\PC{0,12}|[:%@\u{0}-\u{1f}]{0,6}",
            meta in proptest::collection::vec("[:%@/\u{0}-\u{7f}]{0,10}|.{0,10}", 0..5),
        ) {
            let handle = Handle::new(PluginId::of("x", 1), version, method).with_meta(meta);
            prop_assert_eq!(handle.to_string().parse::<Handle>(), Ok(handle.clone()));
            let json = serde_json::to_string(&handle).unwrap();
            prop_assert_eq!(serde_json::from_str::<Handle>(&json).unwrap(), handle.clone());
            let text_in_json = serde_json::to_string(&handle.to_string()).unwrap();
            prop_assert_eq!(serde_json::from_str::<Handle>(&text_in_json).unwrap(), handle);
        }

        #[test]
        fn arbitrary_text_never_panics(text in ".{0,200}") {
            let _ = text.parse::<Handle>();
        }
    }

    #[test]
    fn a_malformed_handle_is_refused_with_the_right_form() {
        let id = PluginId::of("x", 1);
        for text in [
            "",
            "x",
            "@",
            &format!("{id}@1.0.0"),
            &format!("{id}@1.0.0:m"),
            "nope@1::m",
            &format!("{id}@1::m:%4"),
            &format!("{id}@1::%zz"),
            &format!("{id}@1::m:%ff"),
        ] {
            assert!(matches!(text.parse::<Handle>(), Err(HandleParseError::Form(_))), "{text}");
        }
        let long = format!("{id}@1::m{}", ":x".repeat(MAX_META_PARTS + 1));
        assert_eq!(long.parse::<Handle>(), Err(HandleParseError::TooLong));
    }

    #[test]
    fn both_forms_of_a_handle_are_bounded_alike() {
        let handle =
            Handle::new(PluginId::of("x", 1), "1.0.0", "m").with_meta(["x".repeat(10_000)]);
        for form in [serde_json::json!(handle), serde_json::json!(handle.to_string())] {
            let refused = serde_json::from_value::<Handle>(form).unwrap_err();
            assert_eq!(refused.to_string(), HandleParseError::TooLong.to_string());
        }
    }

    #[test]
    fn a_missing_part_and_a_wrong_part_are_told_apart() {
        let handle = Handle::new(PluginId::of("x", 1), "1.0.0", "m").with_meta(["seven"]);
        let wrong = handle.part::<u32>(0, "chat").unwrap_err();
        assert_eq!(wrong.message, "resolve the handle: chat cannot be read in the handle");
        let missing = handle.part::<u32>(1, "event_id").unwrap_err();
        assert_eq!(missing.message, "resolve the handle: event_id is missing in the handle");
    }

    #[test]
    fn the_major_version_is_the_number_before_the_first_dot() {
        for (version, major) in
            [("1.0.0", Some(1)), ("2", Some(2)), ("12.x", Some(12)), ("", None), ("v1.0", None)]
        {
            let handle = Handle::new(PluginId::of("x", 1), version, "m");
            assert_eq!(handle.major(), major, "{version:?}");
        }
    }
}
