//! JSON Schemas as MCP clients accept them.
//!
//! Some clients reject a whole tool list over one schema that is legal but unusual, so every schema is checked when its table is built into a hub:
//! an object at the root, no `anyOf`/`oneOf`/`allOf` there, and no boolean where a property's schema should be.

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Value, json};

/// Returns the schema of a parameter struct, with an object at its root.
pub(crate) fn of_params<P: JsonSchema>() -> Value {
    let mut schema = generate::<P>(SchemaSettings::draft2020_12().for_deserialize());
    if let Some(root) = schema.as_object_mut() {
        root.entry("type").or_insert_with(|| json!("object"));
        root.entry("properties").or_insert_with(|| json!({}));
    }
    schema
}

/// Returns the schema of a result.
pub(crate) fn of_result<R: JsonSchema>() -> Value {
    generate::<R>(SchemaSettings::draft2020_12().for_serialize())
}

fn generate<T: JsonSchema>(settings: SchemaSettings) -> Value {
    let schema = SchemaGenerator::new(settings).into_root_schema_for::<T>();
    let mut value = schema.to_value();
    if let Some(root) = value.as_object_mut() {
        // Doors say what a schema is for by where they put it.
        root.remove("$schema");
        root.remove("title");
    }
    value
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
