//! The JSON Schemas of all methods and events in `schemas/` are those of the code. `UPDATE_SCHEMAS=1` writes them anew.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a test fails by panicking"
)]

mod common;

use std::collections::BTreeMap;

use serde_json::{Value, json};

/// Every file that belongs into the folder, with its text.
async fn expected() -> BTreeMap<String, String> {
    let world = common::World::new().await;
    let mut files = BTreeMap::new();
    let mut add = |name: String, schema: Value| {
        files.insert(format!("{name}.json"), format!("{schema:#}\n"));
    };
    // Including what a child alone may call, and leaving out what no door offers.
    for method in world.hub().all_methods() {
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
    let events = schemars::schema_for!(plexus_activations::claudecode::event::ChatEvent);
    add("chat_event".into(), events.to_value());
    files
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
            "claudecode.",
            "loopback.",
            "arbor.",
            "health.",
            "identity.",
            "plexus.",
            "chat_event.",
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
