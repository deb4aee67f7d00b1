//! Refuses JSON that serde_json reads as something else than it says.
//!
//! serde_json passes raw JSON and exact numbers through its own data model as objects with one
//! marked key. An object that comes from outside with such a key is taken for that mark:
//! `{"$serde_json::private::RawValue":"1"}` is read as `1`. A decider would then see, and the
//! digest cover, another input than the one that is sent. So text from outside is checked before
//! anything reads it as values.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

/// What the names of all such keys begin with.
const PRIVATE: &str = "$serde_json::private::";

/// Checks that no object in `text`, at any depth, has a key that serde_json keeps for itself.
///
/// # Errors
/// When one has, or when the text may hold one and cannot be read: it is no JSON, too deep, or has
/// a number that nobody can hold.
pub fn refuse_private_keys(text: impl AsRef<[u8]>) -> Result<(), serde_json::Error> {
    let text = text.as_ref();
    if !may_hold_one(text) {
        return Ok(());
    }
    serde_json::from_slice::<Checked>(text).map(drop)
}

/// Whether a key may be there: as it is, or with characters written as `\uXXXX`, the only escape
/// that a letter has.
fn may_hold_one(text: &[u8]) -> bool {
    let mut rest = text;
    while let Some(at) = rest.iter().position(|&byte| byte == b'$' || byte == b'\\') {
        let from = rest.get(at..).unwrap_or_default();
        if from.starts_with(PRIVATE.as_bytes()) || from.starts_with(b"\\u") {
            return true;
        }
        // After a backslash the next byte is no beginning: `\\u0024` is a backslash and five
        // letters.
        let taken = if from.starts_with(b"\\") { 2 } else { 1 };
        rest = from.get(taken..).unwrap_or_default();
    }
    false
}

/// A value whose keys were all looked at; nothing of it is kept.
struct Checked;

/// A key that is nobody's mark.
struct PlainKey;

impl<'de> Deserialize<'de> for Checked {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Walk;
        impl<'de> Visitor<'de> for Walk {
            type Value = Checked;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("JSON")
            }

            fn visit_unit<E>(self) -> Result<Checked, E> {
                Ok(Checked)
            }

            fn visit_bool<E>(self, _: bool) -> Result<Checked, E> {
                Ok(Checked)
            }

            fn visit_i64<E>(self, _: i64) -> Result<Checked, E> {
                Ok(Checked)
            }

            fn visit_u64<E>(self, _: u64) -> Result<Checked, E> {
                Ok(Checked)
            }

            fn visit_f64<E>(self, _: f64) -> Result<Checked, E> {
                Ok(Checked)
            }

            fn visit_str<E>(self, _: &str) -> Result<Checked, E> {
                Ok(Checked)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Checked, A::Error> {
                while items.next_element::<Checked>()?.is_some() {}
                Ok(Checked)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Checked, A::Error> {
                while fields.next_key::<PlainKey>()?.is_some() {
                    fields.next_value::<Checked>()?;
                }
                Ok(Checked)
            }
        }
        deserializer.deserialize_any(Walk)
    }
}

impl<'de> Deserialize<'de> for PlainKey {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Look;
        impl Visitor<'_> for Look {
            type Value = PlainKey;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key")
            }

            fn visit_str<E: de::Error>(self, key: &str) -> Result<PlainKey, E> {
                if key.starts_with(PRIVATE) {
                    return Err(E::custom(format_args!(
                        "an object has the key {key:?}, which no input may have"
                    )));
                }
                Ok(PlainKey)
            }
        }
        deserializer.deserialize_str(Look)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    /// The key as serde_json knows it, and with some of its letters escaped.
    fn private_key() -> impl Strategy<Value = String> {
        let name = prop_oneof![Just("RawValue"), Just("Number"), Just("Later")];
        (name, proptest::collection::vec(any::<bool>(), 40)).prop_map(|(name, escaped)| {
            let letters = format!("{PRIVATE}{name}");
            let write = |(letter, escape): (char, &bool)| match escape {
                true => format!("\\u{:04x}", u32::from(letter)),
                false => letter.to_string(),
            };
            letters.chars().zip(&escaped).map(write).collect()
        })
    }

    /// Puts a value into objects and arrays, `depth` levels deep.
    fn wrapped(inner: String, levels: &[u8]) -> String {
        levels.iter().fold(inner, |inner, level| match level % 4 {
            0 => format!("[1,{inner}]"),
            1 => format!(r#"{{"a":{inner}}}"#),
            2 => format!(r#"{{"a":"\\u0024","b":[{inner}],"c":null}}"#),
            _ => format!(r#" {{ "\u0061" : {inner} , "z" : -1.5e3 }} "#),
        })
    }

    proptest! {
        #[test]
        fn a_private_key_is_refused_at_any_depth(
            key in private_key(),
            first in any::<bool>(),
            levels in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let object = match first {
                true => format!(r#"{{"{key}":"\"select 1\"","x":1}}"#),
                false => format!(r#"{{"x":1,"{key}":"\"select 1\""}}"#),
            };
            prop_assert!(refuse_private_keys(wrapped(object, &levels)).is_err());
        }

        /// What passes is read as what it says: writing the value again gives the same keys.
        #[test]
        fn everything_else_passes_and_is_read_as_it_is(
            key in "[$a-z:_.A-Z]{0,30}",
            levels in proptest::collection::vec(any::<u8>(), 0..40),
        ) {
            let inner = serde_json::json!({ key: "$serde_json::private::RawValue" });
            let text = wrapped(inner.to_string(), &levels);
            prop_assert!(refuse_private_keys(&text).is_ok());
            let value: Value = serde_json::from_str(&text).unwrap();
            let written = value.to_string();
            let kept = written.contains(r#":"$serde_json::private::RawValue"}"#);
            prop_assert!(kept, "{}", written);
        }
    }

    #[test]
    fn serde_json_reads_such_a_key_as_something_else() {
        let text = r#"{"sql":{"$serde_json::private::RawValue":"\"select 1\""}}"#;
        let read: Value = serde_json::from_str(text).unwrap();
        assert_eq!(read, serde_json::json!({"sql": "select 1"}), "then this module is not needed");
    }
}
