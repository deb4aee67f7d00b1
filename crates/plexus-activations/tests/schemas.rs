//! The JSON Schemas of all methods and events in `schemas/` are those of the code.
//! `UPDATE_SCHEMAS=1` writes them anew.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

/// Every file that belongs into the folder, with its text.
async fn expected() -> BTreeMap<String, String> {
    let hub = common::SimulatedHub::new().await;
    let mut files = BTreeMap::new();
    let mut add = |name: String, schema: Value| {
        files.insert(format!("{name}.json"), format!("{schema:#}\n"));
    };
    // Including what a child alone may call, and leaving out what no door offers.
    for method in hub.hub().all_methods() {
        if method.door == plexus_core::Door::Internal {
            continue;
        }
        let shape = format!("{:?}", method.shape).to_lowercase();
        let name = method.full_name();
        add(
            name.clone(),
            json!({"method": name, "description": method.description, "shape": shape, "params": method.params, "result": method.result}),
        );
    }
    add("chat_event".into(), plexus_wire::schema::of_result::<plexus_wire::ChatEvent>());
    add("wire".into(), plexus_wire::document::document());
    files
}

#[tokio::test(flavor = "multi_thread")]
async fn the_methods_of_the_hub_are_those_of_the_wire() {
    let hub = common::SimulatedHub::new().await;
    let document = plexus_wire::document::document();
    let of_the_wire: BTreeSet<String> = document["methods"]
        .as_object()
        .unwrap()
        .keys()
        // Those of the program, which wires them in itself.
        .filter(|name| !name.starts_with("server.") && !name.starts_with("notify."))
        .cloned()
        .collect();
    let of_the_hub: BTreeSet<String> = hub
        .hub()
        .all_methods()
        .iter()
        .filter(|method| method.door != plexus_core::Door::Internal)
        .map(|method| method.full_name())
        .collect();
    assert_eq!(of_the_hub, of_the_wire);
}

#[test]
fn schemas_declare_their_types_and_fields() {
    // Objects whose fields are not ours: a tool's, a creator's, an agent's, another activation's.
    const FREE: &[&str] = &[
        "input",
        "updated_input",
        "updatedInput",
        "metadata",
        "data",
        "params",
        "result",
        "activations",
        "AuditBody",
        "Resolved",
        "ToolOutput",
    ];
    fn walk(schema: &Value, name: &str, wrong: &mut Vec<String>) {
        match schema {
            Value::Object(map) => {
                let kind = map.get("type");
                let number = kind.is_some_and(|kind| kind == "integer" || kind == "number");
                if number && map.contains_key("format") {
                    wrong.push(format!("{name}: format {}", map["format"]));
                }
                let is_object = kind.is_some_and(|kind| kind == "object" || kind[0] == "object");
                let several = map.contains_key("oneOf") || map.contains_key("anyOf");
                let bare = is_object
                    && !several
                    && !map.contains_key("properties")
                    && map.get("additionalProperties").is_none_or(Value::is_boolean);
                let last = name.rsplit('/').next().unwrap_or_default();
                if bare && !FREE.contains(&last) {
                    wrong.push(format!("{name}: an object without fields"));
                }
                for (key, value) in map {
                    match key.as_str() {
                        "properties" | "$defs" => {
                            for (field, inner) in value.as_object().unwrap() {
                                walk(inner, &format!("{name}/{field}"), wrong);
                            }
                        }
                        "enum" | "const" | "required" => {}
                        _ => walk(value, name, wrong),
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| walk(item, name, wrong)),
            _ => {}
        }
    }
    let document = plexus_wire::document::document();
    let mut wrong = Vec::new();
    for (name, schema) in document["$defs"].as_object().unwrap() {
        walk(schema, name, &mut wrong);
    }
    for (method, of) in document["methods"].as_object().unwrap() {
        let at = of["result"]["$ref"].as_str().unwrap().trim_start_matches('#');
        let result = document.pointer(at).unwrap();
        if result["type"] != "object" {
            wrong.push(format!("{method}: its result may be something else than an object"));
        }
        let tagged = result["properties"]["type"]["const"].is_string();
        let several = ["oneOf", "anyOf"].iter().any(|key| result.get(*key).is_some());
        if !tagged && !several {
            wrong.push(format!("{method}: its result declares no `type`"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_schemas_in_the_folder_are_those_of_the_code() {
    let folder = testkit::fixtures::workspace_root().join("schemas");
    let expected = expected().await;
    if std::env::var_os("UPDATE_SCHEMAS").is_some() {
        std::fs::create_dir_all(&folder).unwrap();
        for (name, text) in &expected {
            std::fs::write(folder.join(name), text).unwrap();
        }
    }
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        let ours = [
            "agents.",
            "claudecode.",
            "cone.",
            "loopback.",
            "arbor.",
            "health.",
            "identity.",
            "plexus.",
            "chat_event.",
            "wire.",
        ];
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if ours.iter().any(|prefix| name.starts_with(prefix)) {
            found.insert(name, std::fs::read_to_string(&path).unwrap());
        }
    }
    let stale: Vec<&String> = expected
        .iter()
        .filter(|(name, text)| found.get(*name) != Some(*text))
        .map(|(name, _)| name)
        .collect();
    let left: Vec<&String> = found.keys().filter(|name| !expected.contains_key(*name)).collect();
    assert!(
        stale.is_empty() && left.is_empty(),
        "stale: {stale:?}, without a method: {left:?}; run with UPDATE_SCHEMAS=1"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn every_tool_with_one_answer_has_an_output_schema() {
    /// Number formats that JSON Schema does not know, anywhere.
    fn formats(schema: &Value, found: &mut BTreeSet<String>) {
        match schema {
            Value::Object(map) => {
                if let Some(format) = map.get("format").and_then(Value::as_str) {
                    found.insert(format.to_owned());
                }
                map.values().for_each(|inner| formats(inner, found));
            }
            Value::Array(items) => items.iter().for_each(|item| formats(item, found)),
            _ => {}
        }
    }
    let hub = common::SimulatedHub::new().await;
    let mut found = BTreeSet::new();
    for method in hub.hub().all_methods() {
        let name = method.full_name();
        formats(&method.params, &mut found);
        formats(&method.result, &mut found);
        assert_eq!(method.params["type"], "object", "{name}");
        let exact = method.wire == plexus_core::WireForm::ExactText;
        if exact || method.shape == plexus_core::Shape::Streaming {
            continue;
        }
        assert_eq!(method.result["type"], "object", "{name}");
        plexus_core::schema::no_boolean_schemas(&method.result, &name).unwrap();
    }
    assert_eq!(found.into_iter().collect::<Vec<_>>(), ["uuid"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_protocol_says_who_may_call_each_method_of_the_hub() {
    let path = testkit::fixtures::workspace_root().join("docs/protocol.md");
    let page = std::fs::read_to_string(path).unwrap();
    let hub = common::SimulatedHub::new().await;
    let mut seen = 0;
    for method in hub.hub().all_methods() {
        if method.namespace != "plexus" {
            continue;
        }
        let words = match method.audience {
            plexus_core::Audience::Everyone => "For everybody with a token.",
            plexus_core::Audience::Parents => "For the operator and for sessions.",
            plexus_core::Audience::Operator => "For the operator.",
            plexus_core::Audience::Child => "For a child.",
        };
        let heading = format!("### {}\n", method.full_name());
        let section = page.split(&heading).nth(1).unwrap().split("\n### ").next().unwrap();
        assert!(section.contains(words), "{} does not say {words:?}", method.full_name());
        seen += 1;
    }
    assert_eq!(seen, 6);
}
