//! Finds the handles in an answer.

use serde_json::Value;

/// Returns every handle in `answer`, each once.
pub(crate) fn handles_in(answer: &Value) -> Vec<Value> {
    let mut found = Vec::new();
    collect(answer, &mut found);
    found
}

fn collect(value: &Value, found: &mut Vec<Value>) {
    match value {
        Value::Object(fields) => {
            let is_handle = fields.len() == 4
                && fields.get("plugin_id").is_some_and(Value::is_string)
                && ["plugin_id", "version", "method", "meta"]
                    .iter()
                    .all(|it| fields.contains_key(*it));
            if is_handle && !found.contains(value) {
                found.push(value.clone());
            }
            fields.values().for_each(|inner| collect(inner, found));
        }
        Value::Array(items) => items.iter().for_each(|inner| collect(inner, found)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}
