//! Reads typed structs from scanned objects, leniently: a known field of an unexpected type is left
//! out, and fields that the struct does not name stay in the line's raw JSON.

use super::{RawJson, Text, Value};

/// A type that can be read from a JSON value.
pub trait FromJson: Sized {
    /// Returns the typed form, or `None` when the value is of another type.
    fn from_json(value: Value<'_>) -> Option<Self>;
}

impl FromJson for Text {
    fn from_json(value: Value<'_>) -> Option<Self> {
        value.text()
    }
}

impl FromJson for RawJson {
    fn from_json(value: Value<'_>) -> Option<Self> {
        Some(value.raw())
    }
}

impl FromJson for bool {
    fn from_json(value: Value<'_>) -> Option<Self> {
        value.as_bool()
    }
}

macro_rules! numbers {
    ($($number:ty),*) => {$(
        impl FromJson for $number {
            fn from_json(value: Value<'_>) -> Option<Self> {
                value.as_number()
            }
        }
    )*};
}
numbers!(u32, u64, i64, f64);

impl<T: FromJson> FromJson for Option<T> {
    fn from_json(value: Value<'_>) -> Option<Self> {
        Some(T::from_json(value))
    }
}

impl<T: FromJson> FromJson for Box<T> {
    fn from_json(value: Value<'_>) -> Option<Self> {
        T::from_json(value).map(Box::new)
    }
}

impl<T: FromJson> FromJson for Vec<T> {
    fn from_json(value: Value<'_>) -> Option<Self> {
        value.is_array().then(|| value.items().filter_map(T::from_json).collect())
    }
}

/// Declares structs and how each field is spelled on the wire. A field that is missing or of
/// another type has its default; fields that a struct does not name are ignored.
///
/// ```
/// use agent_lines::json::{FromJson, LineReader, Text};
///
/// agent_lines::json_object! {
///     /// A greeting.
///     pub struct Greeting {
///         /// Who is greeted.
///         name: Option<Text> = "name",
///         /// How often.
///         times: u64 = "howOften",
///     }
/// }
///
/// let line = r#"{"name":"Ada","howOften":2,"new":[]}"#;
/// let greeting = LineReader::new().read_str(line, |value, _| Greeting::from_json(value));
/// let greeting = greeting.expect("JSON").flatten().expect("an object");
/// assert_eq!((greeting.name.as_deref(), greeting.times), (Some("Ada"), 2));
/// ```
#[macro_export]
macro_rules! json_object {
    ($(
        $(#[$meta:meta])*
        pub struct $name:ident {
            $( $(#[$field_meta:meta])* $field:ident: $type:ty = $wire:literal, )*
        }
    )*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Default, PartialEq)]
        #[non_exhaustive]
        pub struct $name {
            $( $(#[$field_meta])* pub $field: $type, )*
        }

        impl $crate::json::FromJson for $name {
            fn from_json(value: $crate::json::Value<'_>) -> Option<Self> {
                if !value.is_object() {
                    return None;
                }
                let mut object = Self::default();
                value.each_field(|key, _value| match key {
                    $( $wire => if let Some(field) = $crate::json::FromJson::from_json(_value) {
                        object.$field = field;
                    }, )*
                    _ => {}
                });
                Some(object)
            }
        }
    )*};
}
