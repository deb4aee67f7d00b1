//! Search through the hub: what a caller finds, and what it must not.

use plexus_core::{Caller, ErrorKind};
use serde_json::{Value, json};

use crate::common::SimulatedHub;

fn names(found: &Value) -> Vec<&str> {
    let hits = found["hits"].as_array().unwrap();
    hits.iter().map(|hit| hit["session_name"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_finds_what_it_may_read_and_nothing_else() {
    let hub = SimulatedHub::new().await;
    let parent = hub.create("parent", json!({})).await;
    let child = hub.create("child", json!({"parent": parent})).await;
    let other = hub.create("other", json!({})).await;
    for session in [&parent, &child, &other] {
        hub.chat_to_end(session, "sim:\nsay the needle is here").await;
    }
    let query = json!({"query": "needle", "kind": "said"});
    // The search itself indexes what was just said.
    let all = hub.ok("agents.search", query.clone()).await;
    assert_eq!(names(&all), ["other", "child", "parent"]);
    assert_eq!(all["behind"], 0);
    let as_parent = Caller::Session(parent.parse().unwrap());
    let found = hub.call_as(as_parent, "agents.search", query.clone()).await.unwrap();
    assert_eq!(names(&found), ["child"]);
    // Naming what it may not read is refused as something that does not exist.
    for (field, value) in
        [("session_id", &other), ("session_id", &parent), ("name", &"other".into())]
    {
        let mut named = query.clone();
        named[field] = json!(value);
        let refused = hub.call_as(as_parent, "agents.search", named).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::NotFound, "{field} {value}");
    }
    let as_child = Caller::Session(child.parse().unwrap());
    let found = hub.call_as(as_child, "agents.search", query.clone()).await.unwrap();
    assert_eq!(names(&found), Vec::<&str>::new());
    let asking = Caller::Child(child.parse().unwrap());
    hub.call_as(asking, "agents.search", query.clone()).await.unwrap_err();
    // What is deleted is found by nobody.
    hub.ok("agents.delete", json!({"session_id": parent})).await;
    assert_eq!(names(&hub.ok("agents.search", query).await), ["other"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_query_that_is_not_understood_says_why() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("s", json!({})).await;
    hub.chat_to_end(&session, "sim:\nsay one thing or another").await;
    let found = hub.ok("agents.search", json!({"query": "one OR \"another", "name": "s"})).await;
    let notes = found["notes"].to_string();
    assert!(notes.contains("OR is looked for as a word"), "{notes}");
    assert!(notes.contains("a quote has no end"), "{notes}");
    assert_eq!(found["hits"][0]["excerpt"][0], json!({"text": "one", "hit": true}));
    for (params, field) in [
        (json!({"query": "->"}), "query"),
        (json!({"query": "a".repeat(1_001)}), "query"),
        (json!({"query": "a", "limit": 101}), "limit"),
        (json!({"query": "a", "cursor": "nonsense"}), "cursor"),
        (json!({"query": "a", "kind": "shouted"}), "kind"),
    ] {
        let refused = hub.call("agents.search", params.clone()).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Invalid, "{params}: {refused:?}");
        assert_eq!(refused.field.as_deref(), Some(field), "{params}: {refused:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_of_hits_go_on_by_their_cursor() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("s", json!({})).await;
    let prompt: String = std::iter::once("sim:".to_owned())
        .chain((0..7).map(|n| format!("\nsay needle {n}")))
        .collect();
    hub.chat_to_end(&session, &prompt).await;
    let (mut seen, mut params) =
        (Vec::new(), json!({"query": "needle", "kind": "said", "limit": 3}));
    loop {
        let page = hub.ok("agents.search", params.clone()).await;
        seen.extend(
            page["hits"].as_array().unwrap().iter().map(|hit| hit["seq"].as_u64().unwrap()),
        );
        match page.get("cursor") {
            Some(cursor) => params["cursor"] = cursor.clone(),
            None => break,
        }
    }
    assert_eq!(seen.len(), 7);
    assert!(seen.is_sorted_by(|a, b| a > b), "{seen:?}");
}
