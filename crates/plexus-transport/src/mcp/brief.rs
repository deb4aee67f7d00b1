//! Shortens the input schema of a tool for a model, which reads the schemas of all tools before its
//! first turn.
//!
//! A brief schema has no `null` for optional fields, no references, no descriptions of single
//! choices, no lower bound of zero and no bound on a list that no model reaches. The server checks
//! parameters against the full schema, which `plexus.schema` returns.

use serde_json::{Map, Value, json};

/// From how many entries on the bound of a list says nothing to a model.
const MANY_ENTRIES: u64 = 64;

/// Shortens the schema. A recursive one is returned unchanged.
pub(super) fn brief(schema: &Value) -> Value {
    let mut within = Vec::new();
    let Some(Value::Object(mut root)) = shortened(schema, schema, &mut within) else {
        return schema.clone();
    };
    // The tool's own description says what it is for.
    root.remove("description");
    Value::Object(root)
}

/// Shortens one schema of `root`. `within` names the definitions that contain it; returns `None`
/// when it contains itself.
fn shortened(schema: &Value, root: &Value, within: &mut Vec<String>) -> Option<Value> {
    let Value::Object(map) = schema else { return Some(schema.clone()) };
    let mut short = Map::new();
    for (key, value) in map {
        match key.as_str() {
            "$defs" | "$ref" | "anyOf" | "oneOf" => {}
            "minimum" if value == &json!(0) || value == &json!(0.0) => {}
            "maxItems" if value.as_u64().is_some_and(|most| most >= MANY_ENTRIES) => {}
            "properties" => {
                let mut properties = Map::new();
                for (name, property) in value.as_object()? {
                    properties.insert(name.clone(), shortened(property, root, within)?);
                }
                short.insert(key.clone(), Value::Object(properties));
            }
            "items" | "additionalProperties" => {
                short.insert(key.clone(), shortened(value, root, within)?);
            }
            _ => {
                short.insert(key.clone(), value.clone());
            }
        }
    }
    if let Some(to) = map.get("$ref").and_then(Value::as_str) {
        if within.iter().any(|name| name == to) {
            return None;
        }
        within.push(to.to_owned());
        let named = shortened(root.pointer(to.trim_start_matches('#'))?, root, within)?;
        within.pop();
        merge(&mut short, &named);
    }
    for key in ["anyOf", "oneOf"] {
        let Some(branches) = map.get(key).and_then(Value::as_array) else { continue };
        let is_null = |branch: &&Value| branch["type"] == "null";
        let mut kept = Vec::new();
        for branch in branches.iter().filter(|branch| !is_null(branch)) {
            kept.push(shortened(branch, root, within)?);
        }
        match (choices(&kept), kept.as_slice()) {
            (Some(choices), _) => merge(&mut short, &json!({"type": "string", "enum": choices})),
            (None, [only]) => merge(&mut short, only),
            (None, _) => {
                short.insert(key.to_owned(), Value::Array(kept));
            }
        }
    }
    Some(Value::Object(short))
}

/// Adds the keywords of `other` that `short` lacks. The type's description is dropped: only that of
/// the field is kept.
fn merge(short: &mut Map<String, Value>, other: &Value) {
    for (key, value) in other.as_object().into_iter().flatten() {
        if key != "description" {
            short.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
}

/// Returns the values of the branches when each branch is a single string.
fn choices(branches: &[Value]) -> Option<Vec<&Value>> {
    let values: Vec<&Value> =
        branches.iter().map(|branch| branch.get("const")).collect::<Option<_>>()?;
    (!values.is_empty() && values.iter().all(|value| value.is_string())).then_some(values)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::brief;

    #[test]
    fn a_brief_schema_has_no_nulls_references_or_words_about_types() {
        let whole = json!({
            "$defs": {
                "Id": {"description": "An id.", "type": "string", "format": "uuid"},
                "Mode": {"description": "A mode.", "oneOf": [
                    {"const": "ask", "type": "string", "description": "Asks."},
                    {"const": "allow", "type": "string"}]},
                "Scope": {"oneOf": [
                    {"const": "all", "type": "string"},
                    {"type": "object", "properties": {"one": {"$ref": "#/$defs/Id"}}}]},
            },
            "description": "Parameters.",
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "id": {"anyOf": [{"$ref": "#/$defs/Id"}, {"type": "null"}], "description": "Which."},
                "mode": {"$ref": "#/$defs/Mode"},
                "count": {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "null"}]},
                "scope": {"$ref": "#/$defs/Scope"},
                "ids": {"type": "array", "maxItems": 1000, "items": {"$ref": "#/$defs/Id"}},
                "few": {"type": "array", "maxItems": 4},
            },
            "required": ["mode"],
        });
        let id = json!({"type": "string", "format": "uuid"});
        assert_eq!(
            brief(&whole),
            json!({
                "type": "object",
                "additionalProperties": false,
                "properties": {
                    "id": {"type": "string", "format": "uuid", "description": "Which."},
                    "mode": {"type": "string", "enum": ["ask", "allow"]},
                    "count": {"type": "integer"},
                    "scope": {"oneOf": [
                        {"const": "all", "type": "string"},
                        {"type": "object", "properties": {"one": id}}]},
                    "ids": {"type": "array", "items": id},
                    "few": {"type": "array", "maxItems": 4},
                },
                "required": ["mode"],
            })
        );
    }

    #[test]
    fn a_schema_that_contains_itself_stays_as_it_is() {
        let whole = json!({
            "$defs": {"Tree": {"type": "object", "properties": {
                "below": {"type": "array", "items": {"$ref": "#/$defs/Tree"}}}}},
            "type": "object",
            "properties": {"tree": {"$ref": "#/$defs/Tree"}},
        });
        assert_eq!(brief(&whole), whole);
    }
}
