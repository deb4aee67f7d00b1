//! All shapes in one JSON document, from which the dashboard's TypeScript is made:
//! `schemas/wire.json`.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use serde_json::{Map, Value, json};

use crate::method::{self, Method, Visitor};
use crate::schema::{of_params, of_result};
use crate::{ChatEvent, HookAnswer, HookAnswered, HookMessage};

/// Returns `{"methods": {NAME: {"params": REF, "result": REF}}, "$defs": {SHAPE: SCHEMA}}`.
///
/// A result is described as it is written, parameters as they are read. Where one shape is both and
/// that makes a difference (a field may be left out by one side only), the parameters' half is
/// named `…Input`.
#[must_use]
pub fn document() -> Value {
    let mut all = Shapes::default();
    method::each(&mut all);
    all.result::<ChatEvent>("ChatEvent");
    all.result::<HookMessage>("HookMessage");
    all.params::<HookAnswer>("HookAnswer");
    all.result::<HookAnswered>("HookAnswered");
    all.finish()
}

#[derive(Default)]
struct Shapes {
    methods: BTreeMap<&'static str, (&'static str, &'static str)>,
    params: BTreeMap<String, Value>,
    results: BTreeMap<String, Value>,
}

impl Visitor for Shapes {
    fn visit<M: Method>(&mut self, params: &'static str, result: &'static str) {
        self.methods.insert(M::FULL_NAME, (params, result));
        self.params::<M::Params>(params);
        self.result::<M::Result>(result);
    }
}

impl Shapes {
    fn params<T: JsonSchema>(&mut self, name: &str) {
        add(&mut self.params, name, of_params::<T>());
    }

    fn result<T: JsonSchema>(&mut self, name: &str) {
        add(&mut self.results, name, of_result::<T>());
    }

    fn finish(mut self) -> Value {
        // A shape differs also when a part of it does, so this is looked at until nothing more is
        // found.
        let mut differ = BTreeSet::new();
        loop {
            let found: BTreeSet<String> = self
                .params
                .iter()
                .filter(|(name, schema)| {
                    let mut schema = (*schema).clone();
                    rename(&mut schema, &|part| input_name(part, &differ));
                    self.results.get(*name).is_some_and(|result| *result != schema)
                })
                .map(|(name, _)| name.clone())
                .collect();
            if found == differ {
                break;
            }
            differ = found;
        }
        let input = |name: &str| input_name(name, &differ);
        let mut shapes: Map<String, Value> = Map::new();
        for (name, mut schema) in std::mem::take(&mut self.params) {
            rename(&mut schema, &input);
            shapes.insert(input(&name), schema);
        }
        shapes.extend(self.results);
        let methods: Map<String, Value> = self
            .methods
            .iter()
            .map(|(name, (params, result))| {
                let (params, result) = (reference(&input(params)), reference(result));
                ((*name).to_owned(), json!({"params": params, "result": result}))
            })
            .collect();
        json!({
            "description": "Every shape of the wire. The test `schemas` writes it with \
                UPDATE_SCHEMAS=1.",
            "methods": methods,
            "$defs": shapes,
        })
    }
}

fn input_name(name: &str, differ: &BTreeSet<String>) -> String {
    if differ.contains(name) { format!("{name}Input") } else { name.to_owned() }
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/$defs/{name}")})
}

/// Adds a shape under its Rust name, and the shapes that it is made of.
fn add(shapes: &mut BTreeMap<String, Value>, name: &str, mut schema: Value) {
    let parts = schema.as_object_mut().and_then(|root| root.remove("$defs"));
    if let Some(Value::Object(parts)) = parts {
        shapes.extend(parts);
    }
    shapes.insert(name.to_owned(), schema);
}

/// Has every reference within `schema` follow the new names.
fn rename(schema: &mut Value, input: &impl Fn(&str) -> String) {
    match schema {
        Value::Object(map) => {
            for (key, value) in map {
                match (key.as_str(), value) {
                    ("$ref", Value::String(to)) => {
                        if let Some(name) = to.strip_prefix("#/$defs/") {
                            *to = format!("#/$defs/{}", input(name));
                        }
                    }
                    (_, value) => rename(value, input),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| rename(item, input)),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reference_leads_somewhere() {
        fn references(schema: &Value, found: &mut Vec<String>) {
            match schema {
                Value::Object(map) => {
                    for (key, value) in map {
                        match (key.as_str(), value) {
                            ("$ref", Value::String(to)) => found.push(to.clone()),
                            (_, value) => references(value, found),
                        }
                    }
                }
                Value::Array(items) => items.iter().for_each(|item| references(item, found)),
                _ => {}
            }
        }
        let document = document();
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > 100);
        for to in found {
            let name = to.strip_prefix("#/$defs/").unwrap_or_else(|| panic!("{to}"));
            assert!(document["$defs"].get(name).is_some(), "{to} leads nowhere");
        }
    }
}
