//! JSON Schemas as MCP clients accept them.
//!
//! Some clients reject a whole tool list over one schema that is legal but unusual, so every schema
//! is checked when its table is built into a hub: an object at the root, no `anyOf`/`oneOf`/`allOf`
//! there, and no boolean where a property's schema should be.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde_json::{Map, Value, json};

/// Returns the schema of a parameter struct, with an object at its root.
#[must_use]
pub fn of_params<P: JsonSchema>() -> Value {
    let mut schema = generate::<P>(SchemaSettings::draft2020_12().for_deserialize());
    if let Some(root) = schema.as_object_mut() {
        root.entry("type").or_insert_with(|| json!("object"));
        root.entry("properties").or_insert_with(|| json!({}));
    }
    schema
}

/// Returns the schema of a result. It declares its type also where it is one of several objects:
/// MCP clients take no other output schema.
#[must_use]
pub fn of_result<R: JsonSchema>() -> Value {
    let mut schema = generate::<R>(SchemaSettings::draft2020_12().for_serialize());
    if is_object(&schema, &schema)
        && let Some(root) = schema.as_object_mut()
    {
        root.entry("type").or_insert_with(|| json!("object"));
    }
    schema
}

/// Declares the `type` that serde writes into a tagged struct and schemars leaves out.
pub(crate) fn tagged(tag: &'static str) -> impl FnMut(&mut Schema) {
    move |schema| {
        let root = schema.ensure_object();
        let fields = root.entry("properties").or_insert_with(|| json!({}));
        if let Some(fields) = fields.as_object_mut() {
            fields.insert("type".into(), json!({"type": "string", "const": tag}));
        }
        let required = root.entry("required").or_insert_with(|| json!([]));
        if let Some(required) = required.as_array_mut() {
            required.insert(0, json!("type"));
        }
    }
}

/// Says whether everything that `schema` admits is an object.
fn is_object(schema: &Value, root: &Value) -> bool {
    if let Some(kind) = schema.get("type") {
        return kind == "object";
    }
    if let Some(to) = schema.get("$ref").and_then(Value::as_str) {
        return root.pointer(to.trim_start_matches('#')).is_some_and(|to| is_object(to, root));
    }
    ["oneOf", "anyOf"].iter().any(|key| {
        let branches = schema.get(*key).and_then(Value::as_array);
        branches.is_some_and(|all| all.iter().all(|branch| is_object(branch, root)))
    })
}

fn generate<T: JsonSchema>(settings: SchemaSettings) -> Value {
    let schema = SchemaGenerator::new(settings).into_root_schema_for::<T>();
    let mut value = schema.to_value();
    if let Some(root) = value.as_object_mut() {
        // Doors say what a schema is for by where they put it.
        root.remove("$schema");
        root.remove("title");
    }
    tidy(&mut value);
    value
}

/// Removes what schemars says of Rust's numbers (`uint32`), because JSON Schema does not know these
/// formats and validators warn, and joins the lines of a description, which are broken for readers
/// of the source.
fn tidy(schema: &mut Value) {
    match schema {
        Value::Object(map) => {
            let is_number = map.get("type").is_some_and(|kind| {
                let number = |kind: &Value| kind == "integer" || kind == "number";
                number(kind) || kind.as_array().is_some_and(|kinds| kinds.iter().any(number))
            });
            if is_number && map.get("format").is_some_and(Value::is_string) {
                map.remove("format");
            }
            if let Some(Value::String(text)) = map.get_mut("description") {
                *text = text.replace('\n', " ");
            }
            map.values_mut().for_each(tidy);
            split_types(map);
        }
        Value::Array(items) => items.iter_mut().for_each(tidy),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

/// Turns a list of types (`["string", "null"]`) into `anyOf` with one type each: some clients map
/// schemas onto a dialect that knows single types only. Words for people stay outside.
fn split_types(map: &mut Map<String, Value>) {
    let Some(Value::Array(types)) = map.get("type") else { return };
    let types = types.clone();
    let outside = ["description", "title", "default"];
    let (said, limits): (Map<_, _>, Map<_, _>) =
        std::mem::take(map).into_iter().partition(|(key, _)| outside.contains(&key.as_str()));
    let branches = types.into_iter().map(|kind| {
        let mut branch = if kind == "null" { Map::new() } else { limits.clone() };
        branch.insert("type".into(), kind);
        Value::Object(branch)
    });
    let branches = branches.collect();
    *map = said;
    map.insert("anyOf".into(), branches);
}

/// Checks a parameter schema against what MCP clients are known to reject.
///
/// # Errors
/// Says where and what.
pub fn check_params(schema: &Value) -> Result<(), String> {
    let root = schema.as_object().ok_or("the root is not an object")?;
    if root.get("type") != Some(&json!("object")) {
        return Err("the root's type is not object".into());
    }
    if let Some(key) = ["anyOf", "oneOf", "allOf"].into_iter().find(|key| root.contains_key(*key)) {
        return Err(format!("{key} at the root"));
    }
    no_boolean_schemas(schema, "")
}

/// Finds a property or item whose schema is `true` or `false`.
///
/// # Errors
/// Says where.
pub fn no_boolean_schemas(schema: &Value, at: &str) -> Result<(), String> {
    match schema {
        Value::Object(map) => {
            for (key, value) in map {
                let here = format!("{at}/{key}");
                match (key.as_str(), value) {
                    ("properties" | "$defs", Value::Object(named)) => {
                        for (name, inner) in named {
                            if inner.is_boolean() {
                                return Err(format!("{here}/{name} is a bare boolean"));
                            }
                            no_boolean_schemas(inner, &format!("{here}/{name}"))?;
                        }
                    }
                    ("items", Value::Bool(_)) => return Err(format!("{here} is a bare boolean")),
                    ("enum" | "const" | "default" | "examples" | "required", _) => {}
                    _ => no_boolean_schemas(value, &here)?,
                }
            }
            Ok(())
        }
        Value::Array(items) => items
            .iter()
            .enumerate()
            .try_for_each(|(i, item)| no_boolean_schemas(item, &format!("{at}/{i}"))),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_types_becomes_branches_of_one_type() {
        let mut schema = json!({"properties": {"a": {
            "type": ["integer", "null"], "minimum": 1, "description": "one\ntwo", "format": "uint32",
        }}});
        tidy(&mut schema);
        let branches = json!([{"type": "integer", "minimum": 1}, {"type": "null"}]);
        let tidied = json!({"anyOf": branches, "description": "one two"});
        assert_eq!(schema["properties"]["a"], tidied);
    }
}
