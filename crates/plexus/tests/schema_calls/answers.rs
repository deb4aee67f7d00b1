//! Whether an answer is what the schema of its method says. Knows the words that our schemas use,
//! and fails on any other.

use serde_json::{Map, Value};

/// Keywords that constrain nothing.
const NOTES: &[&str] = &["$defs", "description", "title", "default", "examples"];

/// Says where `value` does not fit `schema`, which may refer to definitions in `root`.
pub(crate) fn fits(root: &Value, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
    let Value::Object(words) = schema else {
        return if schema == &Value::Bool(true) {
            Ok(())
        } else {
            Err(format!("{at}: nothing fits {schema}"))
        };
    };
    for (word, says) in words {
        match word.as_str() {
            word if NOTES.contains(&word) => {}
            "type" => is_of_type(says, value, at)?,
            "const" if says == value => {}
            "enum" if says.as_array().is_some_and(|all| all.contains(value)) => {}
            "const" | "enum" => return Err(format!("{at}: {value} is not {says}")),
            "minimum" => {
                if value.as_f64() < says.as_f64() && value.is_number() {
                    return Err(format!("{at}: {value} is below {says}"));
                }
            }
            "maximum" => {
                if value.as_f64() > says.as_f64() && value.is_number() {
                    return Err(format!("{at}: {value} is above {says}"));
                }
            }
            "format" => has_format(says, value, at)?,
            "$ref" => {
                let pointer =
                    says.as_str().and_then(|pointer| pointer.strip_prefix('#')).unwrap_or_default();
                let meant =
                    root.pointer(pointer).ok_or_else(|| format!("{at}: {says} leads nowhere"))?;
                fits(root, meant, value, at)?;
            }
            "anyOf" | "oneOf" => {
                let tried: Vec<_> = says
                    .as_array()
                    .into_iter()
                    .flatten()
                    .map(|one| fits(root, one, value, at))
                    .collect();
                let fitting = tried.iter().filter(|one| one.is_ok()).count();
                if fitting == 0 || (word == "oneOf" && fitting > 1) {
                    return Err(format!("{at}: {fitting} of {} forms fit: {tried:?}", tried.len()));
                }
            }
            "items" => {
                for (index, item) in value.as_array().into_iter().flatten().enumerate() {
                    fits(root, says, item, &format!("{at}/{index}"))?;
                }
            }
            "required" => {
                let missing = says.as_array().into_iter().flatten().filter_map(Value::as_str);
                let missing = missing.filter(|name| value.is_object() && value.get(name).is_none());
                if let Some(name) = missing.into_iter().next() {
                    return Err(format!("{at}: {name} is missing"));
                }
            }
            "properties" => {
                for (name, inner) in says.as_object().into_iter().flatten() {
                    if let Some(field) = value.get(name) {
                        fits(root, inner, field, &format!("{at}/{name}"))?;
                    }
                }
            }
            "additionalProperties" => {
                for (name, field) in others(words, value) {
                    fits(root, says, field, &format!("{at}/{name}"))?;
                }
            }
            other => return Err(format!("{at}: nobody here knows the word {other}")),
        }
    }
    Ok(())
}

/// The fields that the schema does not name.
fn others<'a>(
    words: &'a Map<String, Value>,
    value: &'a Value,
) -> impl Iterator<Item = (&'a String, &'a Value)> {
    let named =
        move |name: &str| words.get("properties").is_some_and(|all| all.get(name).is_some());
    value.as_object().into_iter().flatten().filter(move |(name, _)| !named(name))
}

fn is_of_type(says: &Value, value: &Value, at: &str) -> Result<(), String> {
    let is = |name: &str| match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "number" => value.is_number(),
        "integer" => value.is_i64() || value.is_u64(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        _ => false,
    };
    let fits = match says {
        Value::String(name) => is(name),
        _ => says.as_array().into_iter().flatten().filter_map(Value::as_str).any(is),
    };
    if fits { Ok(()) } else { Err(format!("{at}: {value:.200} is no {says}")) }
}

fn has_format(says: &Value, value: &Value, at: &str) -> Result<(), String> {
    let fits = match (says.as_str().unwrap_or_default(), value) {
        ("uuid", Value::String(text)) => uuid_like(text),
        ("uint8" | "uint16" | "uint32" | "uint64" | "uint", Value::Number(number)) => {
            number.is_u64()
        }
        ("int8" | "int16" | "int32" | "int64", Value::Number(number)) => number.is_i64(),
        ("float" | "double", Value::Number(_)) | (_, Value::Null) => true,
        _ => false,
    };
    if fits { Ok(()) } else { Err(format!("{at}: {value:.200} has not the format {says}")) }
}

fn uuid_like(text: &str) -> bool {
    let dashes = |at: usize| matches!(at, 8 | 13 | 18 | 23);
    text.len() == 36
        && text
            .bytes()
            .enumerate()
            .all(|(at, byte)| if dashes(at) { byte == b'-' } else { byte.is_ascii_hexdigit() })
}

#[test]
fn what_does_not_fit_is_named() {
    use serde_json::json;
    let schema = json!({"type": "object", "required": ["a"], "properties": {"a": {"$ref": "#/$defs/A"}},
        "$defs": {"A": {"anyOf": [{"type": "integer", "minimum": 1, "maximum": 5}, {"type": "null"}]}}, "additionalProperties": {"type": "string"}});
    let fit = |value: Value| fits(&schema, &schema, &value, "");
    assert_eq!(fit(json!({"a": 1, "b": "c"})), Ok(()));
    assert_eq!(fit(json!({"a": null})), Ok(()));
    for odd in [
        json!({}),
        json!([]),
        json!({"a": 0}),
        json!({"a": 6}),
        json!({"a": "1"}),
        json!({"a": 1, "b": 2}),
    ] {
        assert!(fit(odd.clone()).is_err(), "{odd}");
    }
}
