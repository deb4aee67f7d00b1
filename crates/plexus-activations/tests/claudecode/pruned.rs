//! What is left of chats that were pruned: a shape of its own, wherever it can be read.

use plexus_store::{Prompts, Pruned};
use serde_json::{Value, json};

use crate::answers::fits;
use crate::common::{SimulatedHub, types};
use crate::flow::WRITE;

/// A session whose one chat has asked, was answered and has ended; with the types of its events.
async fn ended_chat(hub: &SimulatedHub) -> (String, Vec<String>) {
    let session = hub.create("old", json!({})).await;
    hub.chat(&session, WRITE).await;
    let approval = hub.wait_for_approval(&session).await;
    hub.respond(&approval, true).await;
    hub.wait_for_end(&session, 0).await;
    let kinds = types(&hub.events(&session, 0).await).into_iter().map(str::to_owned).collect();
    (session, kinds)
}

async fn answer_of(hub: &SimulatedHub, method: &str, params: Value) -> Value {
    let answer = hub.ok(method, params).await;
    let methods = hub.hub().all_methods();
    let schema = &methods.iter().find(|each| each.full_name() == method).unwrap().result;
    fits(schema, schema, &answer, method).unwrap();
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn pruned_events_have_a_shape_of_their_own_wherever_they_are_read() {
    let hub = SimulatedHub::new().await;
    let (session, kinds) = ended_chat(&hub).await;
    let render = json!({"session_id": session});
    let before = answer_of(&hub, "claudecode.render_context", render.clone()).await;
    let tree = hub.session(&session).await["head"]["tree_id"].clone();
    let drawn = hub.ok("arbor.tree_render", json!({"tree_id": tree})).await;
    assert_eq!(hub.prune_all(Prompts::Keep).await.events, kinds.len() as u64);

    let page = answer_of(&hub, "claudecode.poll", json!({"session_id": session, "from_seq": 0}));
    let page = page.await;
    let left: Vec<Value> =
        page["events"].as_array().unwrap().iter().map(|e| e["event"].clone()).collect();
    let expected: Vec<Value> =
        kinds.iter().map(|was| json!({"type": "pruned", "was": was})).collect();
    assert_eq!(left, expected);

    // The prompt was not asked for, so it is there; the rest says what it was, and nothing is null.
    let rendered = answer_of(&hub, "claudecode.render_context", render).await;
    assert_eq!(rendered["messages"][0], before["messages"][0]);
    let blocks = |all: &Value| -> Vec<Value> {
        let messages = all["messages"].as_array().unwrap();
        messages.iter().flat_map(|each| each["content"].as_array().unwrap().clone()).collect()
    };
    let was: Vec<Value> = blocks(&rendered)[1..].iter().map(|block| block["was"].clone()).collect();
    assert_eq!(was, ["content", "tool_use", "tool_result", "content"]);
    assert_eq!(blocks(&rendered).len(), blocks(&before).len());
    let drawn_now = hub.ok("arbor.tree_render", json!({"tree_id": tree})).await;
    let lines = |drawn: &Value| -> Vec<String> {
        drawn["text"].as_str().unwrap().lines().map(str::to_owned).collect()
    };
    let (then, now) = (lines(&drawn), lines(&drawn_now));
    // The prompt and the line of the chat are as they were.
    assert_eq!((now.len(), &now[..2]), (then.len(), &then[..2]));
    assert!(now[2..].iter().all(|line| line.ends_with(", pruned)")), "{now:#?}");
    // An event's handle still finds it.
    let handle = json!({"handle": page["events"][2]["handle"]});
    let found = answer_of(&hub, "plexus.resolve_handle", handle).await;
    assert_eq!(found["event"], json!({"type": "pruned", "was": "content"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn prompts_are_pruned_only_when_that_was_asked_for_and_are_no_root() {
    let hub = SimulatedHub::new().await;
    let (session, _) = ended_chat(&hub).await;
    let start = hub.events(&session, 0).await[0].clone();
    hub.prune_all(Prompts::Keep).await;
    let node = json!({"node_id": start["user_position"]["node_id"]});
    let kept = answer_of(&hub, "arbor.node_get", node.clone()).await;
    assert_eq!(kept["node"]["data"], json!({"type": "text", "content": WRITE}));

    let pruned = hub.prune_all(Prompts::Remove).await;
    assert_eq!(pruned, Pruned { prompts: 1, ..Pruned::default() });
    let gone = answer_of(&hub, "arbor.node_get", node).await;
    assert_eq!(gone["node"]["data"], json!({"type": "pruned"}));
    let tree = json!({"tree_id": start["user_position"]["tree_id"]});
    let drawn = hub.ok("arbor.tree_render", tree).await["text"].as_str().unwrap().to_owned();
    let first: Vec<&str> = drawn.lines().take(2).map(str::trim).collect();
    assert_eq!(first, ["(pruned)", "chat 0 of old · complete"]);
    let rendered = answer_of(&hub, "claudecode.render_context", json!({"session_id": session}));
    let first = rendered.await["messages"][0].clone();
    assert_eq!(first["role"], "user");
    assert_eq!(first["content"], json!([{"type": "pruned", "was": "prompt"}]));
    // The stream's handle stands for the prompt.
    let streams = hub.ok("claudecode.streams", json!({"session_id": session})).await;
    let stream = json!({"node_id": streams["streams"][0]["root_node"]});
    let node = hub.ok("arbor.node_get", stream).await;
    let handle = json!({"handle": node["node"]["data"]["handle"]});
    let message = answer_of(&hub, "plexus.resolve_handle", handle).await;
    assert_eq!((&message["content"], &message["pruned"]), (&json!(""), &json!(true)));
}
