//! Readers: each with a position of its own, at its own speed, through all chats; and what else can
//! be read of a session.

use std::time::Duration;

use plexus_core::Reader;
use serde_json::{Value, json};

use crate::common::{SimulatedHub, take, texts, types};

/// Reads as a named consumer until it has seen `complete` events of `chats` chats, `limit` events
/// at a time; acknowledges each page by asking for the next.
async fn read_as(
    hub: &SimulatedHub,
    session: &str,
    consumer: &str,
    limit: u64,
    chats: usize,
    pause: Duration,
) -> Vec<(u64, u64)> {
    let mut seen = Vec::new();
    let mut cursor: Option<Value> = None;
    let mut completed = 0;
    while completed < chats {
        let mut params =
            json!({"session_id": session, "consumer": consumer, "limit": limit, "wait_ms": 1000});
        if let Some(cursor) = &cursor {
            params["cursor"] = cursor.clone();
        }
        let page = hub.ok("claudecode.poll", params).await;
        // A lost reply: the same page comes again until its cursor is handed back.
        for event in page["events"].as_array().unwrap() {
            seen.push((event["chat"].as_u64().unwrap(), event["seq"].as_u64().unwrap()));
            completed += usize::from(event["event"]["type"] == "complete");
        }
        cursor = Some(page["cursor"].clone());
        tokio::time::sleep(pause).await;
    }
    seen
}

#[tokio::test(flavor = "multi_thread")]
async fn ten_consumers_at_different_speeds_each_see_everything_once_and_in_order() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("read", json!({})).await;
    hub.chat(&session, "sim:\nburst 60 20").await;
    let readers = (0..10u64).map(|n| {
        let (hub, session) = (&hub, &session);
        async move {
            let name = format!("reader-{n}");
            read_as(hub, session, &name, 1 + n * 7, 2, Duration::from_millis(n)).await
        }
    });
    let second = async {
        hub.wait_for_end(&session, 0).await;
        hub.chat(&session, "sim:\nburst 30 20").await;
    };
    let (all, ()) = futures::future::join(futures::future::join_all(readers), second).await;
    let expected: Vec<(u64, u64)> =
        (0..63).map(|seq| (0, seq)).chain((0..32).map(|seq| (1, seq))).collect();
    for (n, seen) in all.into_iter().enumerate() {
        assert_eq!(seen, expected, "reader-{n}");
    }
    let cursors = hub.ok("claudecode.cursors", json!({"session_id": session})).await;
    assert_eq!(cursors["cursors"].as_array().unwrap().len(), 10);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_was_not_acknowledged_comes_again_also_after_a_restart() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("acknowledged", json!({})).await;
    hub.chat_to_end(&session, "sim:\nburst 5 5").await;
    let params = json!({"session_id": session, "consumer": "c", "limit": 3});
    let first = hub.ok("claudecode.poll", params.clone()).await;
    let (hub, _) = hub.restart().await;
    let again = hub.ok("claudecode.poll", params.clone()).await;
    assert_eq!(first["events"], again["events"]);
    let mut acknowledge = params.clone();
    acknowledge["cursor"] = again["cursor"].clone();
    let next = hub.ok("claudecode.poll", acknowledge).await;
    assert_eq!(next["events"][0]["seq"], 3);
    let (hub, _) = hub.restart().await;
    assert_eq!(hub.ok("claudecode.poll", params).await["events"], next["events"]);
    // An event's node is a position too.
    let behind = json!({"session_id": session, "cursor": first["events"][1]["node_id"]});
    assert_eq!(hub.ok("claudecode.poll", behind).await["events"][0]["seq"], 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_event_of_a_page_that_spans_chats_says_its_own() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("spans", json!({})).await;
    let mut expected = Vec::new();
    for chat in 0..3 {
        let events = hub.chat_to_end(&session, "sim:\nsay one").await;
        expected.extend((0..events.len() as u64).map(|seq| (chat, seq)));
    }
    let start = hub.ok("claudecode.poll", json!({"session_id": session, "consumer": "c"})).await;
    let page = hub
        .ok("claudecode.poll", json!({"session_id": session, "consumer": "all", "limit": 1000}))
        .await;
    let told = |event: &Value| (event["chat"].as_u64().unwrap(), event["seq"].as_u64().unwrap());
    let seen: Vec<_> = page["events"].as_array().unwrap().iter().map(told).collect();
    assert_eq!(seen, expected);
    assert_eq!(page["chat"], 2);
    assert_eq!(start["events"], page["events"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn readers_name_a_session_as_their_siblings_do() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("by-name", json!({})).await;
    hub.create("another", json!({})).await;
    hub.chat(&session, crate::flow::WRITE).await;
    hub.wait_for_approval(&session).await;
    let same = async |method: &str, more: Value| {
        let with = |key: &str, value: &str| {
            let mut params = more.clone();
            params[key] = json!(value);
            params
        };
        let by_id = hub.ok(method, with("session_id", &session)).await;
        assert_eq!(hub.ok(method, with("name", "by-name")).await, by_id, "{method}");
        let unknown = hub.call(method, with("name", "by-nam")).await.unwrap_err();
        assert_eq!(unknown.kind, plexus_core::ErrorKind::NotFound, "{method}");
        let mut both = with("name", "by-name");
        both["session_id"] = json!(session);
        let refused = hub.call(method, both).await.unwrap_err();
        assert_eq!(refused.kind, plexus_core::ErrorKind::Invalid, "{method}");
        by_id
    };
    let page = same("claudecode.poll", json!({"from_seq": 0})).await;
    let cursor = page["cursor"].clone();
    same("claudecode.streams", json!({})).await;
    same("claudecode.cursor_set", json!({"consumer": "c", "cursor": cursor})).await;
    let readers = same("claudecode.cursors", json!({})).await;
    assert_eq!(readers["cursors"].as_array().unwrap().len(), 1);
    let waiting = same("loopback.pending", json!({})).await;
    assert_eq!(waiting["approvals"].as_array().unwrap().len(), 1);
    same("loopback.wait_for_approval", json!({})).await;
    same("loopback.history", json!({})).await;
    same("loopback.audit", json!({})).await;
    let deleted = json!({"name": "by-name", "consumer": "c"});
    hub.ok("claudecode.cursor_delete", deleted).await;
    let readers = hub.ok("claudecode.cursors", json!({"name": "by-name"})).await;
    assert_eq!(readers["cursors"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn poll_is_not_called_idempotent_where_it_moves_a_position() {
    let hub = SimulatedHub::new().await;
    let methods = hub.hub().all_methods();
    let poll = methods.iter().find(|method| method.full_name() == "claudecode.poll").unwrap();
    assert!(!poll.hints.read_only && !poll.hints.idempotent);
    // With each of these a second call is the same as the first.
    let session = hub.create("again", json!({})).await;
    hub.chat_to_end(&session, "sim:\nburst 5 5").await;
    let start = hub.ok("claudecode.poll", json!({"session_id": session, "consumer": "c"})).await;
    for name in poll.hints.idempotent_with {
        let value = match *name {
            "from_seq" => json!(0),
            "consumer" => json!("c"),
            "cursor" => start["events"][0]["node_id"].clone(),
            other => panic!("{other} is not tried here"),
        };
        let params = json!({"session_id": session, *name: value, "limit": 2});
        let first = hub.ok("claudecode.poll", params.clone()).await;
        assert_eq!(hub.ok("claudecode.poll", params).await, first, "{name}");
    }
    let moving = json!({"session_id": session, "limit": 2});
    let first = hub.ok("claudecode.poll", moving.clone()).await;
    assert_ne!(hub.ok("claudecode.poll", moving).await["events"], first["events"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_default_position_moves_with_each_page_and_from_seq_moves_nobody() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("default", json!({})).await;
    hub.chat_to_end(&session, "sim:\nburst 5 5").await;
    let read = |more: Value| {
        let mut params = json!({"session_id": session, "limit": 2});
        params.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        hub.ok("claudecode.poll", params)
    };
    let seqs = |page: &Value| {
        page["events"]
            .as_array()
            .unwrap()
            .iter()
            .map(|event| event["seq"].as_u64().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(seqs(&read(json!({})).await), [0, 1]);
    assert_eq!(seqs(&read(json!({"from_seq": 0})).await), [0, 1]);
    assert_eq!(seqs(&read(json!({})).await), [2, 3]);
    let rest = read(json!({"limit": 100})).await;
    assert_eq!(
        (seqs(&rest), &rest["has_more"], &rest["read_position"]),
        (vec![4, 5, 6, 7], &json!(false), &json!(8))
    );
    assert_eq!(seqs(&read(json!({})).await), [] as [u64; 0]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_default_position_stays_where_it_is_when_a_page_is_not_given() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("refused", json!({})).await;
    hub.chat_to_end(&session, "sim:\nburst 5 5").await;
    let params = json!({"session_id": session, "limit": 2});
    assert!(hub.may_be_refused("claudecode.poll"), "unread pages are bounded");
    hub.refuse("claudecode.poll", params.clone()).await;
    for seq in [0, 2] {
        let page = hub.ok("claudecode.poll", params.clone()).await;
        assert_eq!(
            (&page["events"][0]["seq"], &page["read_position"]),
            (&json!(seq), &json!(seq + 2))
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_gets_every_event_through_all_chats_and_live_text_besides() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("followed", json!({})).await;
    let mut plain = hub.stream("claudecode.follow", json!({"session_id": session})).await;
    let mut live =
        hub.stream("claudecode.follow", json!({"session_id": session, "deltas": true})).await;
    hub.chat(&session, "sim:\nslowly 10 one two three").await;
    let first = take(&mut plain, 4).await;
    hub.wait_for_end(&session, 0).await;
    hub.chat(&session, "sim:\nsay again").await;
    let second = take(&mut plain, 3).await;
    let kinds = |items: &[Value]| {
        items
            .iter()
            .map(|item| item["event"]["type"].as_str().unwrap().to_owned())
            .collect::<Vec<_>>()
    };
    assert_eq!(kinds(&first), ["start", "notice", "content", "complete"]);
    assert_eq!(kinds(&second), ["start", "content", "complete"]);
    assert_eq!((&second[0]["chat"], &second[2]["seq"]), (&json!(1), &json!(2)));
    let mut spoken = String::new();
    while spoken.trim() != "one two three" {
        let item = take(&mut live, 1).await.remove(0);
        if item["event"]["type"] == "delta" {
            spoken.push_str(item["event"]["text"].as_str().unwrap());
        }
    }
    let stored = hub.events(&session, 0).await;
    assert!(!types(&stored).contains(&"delta"), "live text is never stored");
}

#[tokio::test(flavor = "multi_thread")]
async fn wait_tells_only_what_changed() {
    let hub = SimulatedHub::new().await;
    let (a, b) = (hub.create("a", json!({})).await, hub.create("b", json!({})).await);
    let all = hub.ok("claudecode.wait", json!({})).await;
    assert_eq!(all["sessions"].as_array().unwrap().len(), 2);
    hub.chat_to_end(&a, "sim:\nsay said by a").await;
    let changed = hub.ok("claudecode.wait", json!({"after": all["after"], "wait_ms": 5000})).await;
    let [only] = changed["sessions"].as_array().unwrap().as_slice() else { panic!("{changed}") };
    assert_eq!(
        (&only["session_id"], &only["status"], &only["total_events"]),
        (&json!(a), &json!("complete"), &json!(4))
    );
    let none = hub
        .ok(
            "claudecode.wait",
            json!({"after": changed["after"], "session_ids": [b], "wait_ms": 50}),
        )
        .await;
    assert_eq!(none["sessions"], json!([]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fork_shares_the_past_and_goes_its_own_way() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("trunk", json!({})).await;
    hub.chat_to_end(&session, "sim:\nsay shared").await;
    let forked =
        hub.ok("claudecode.fork", json!({"session_id": session, "new_name": "branch"})).await;
    let branch = forked["id"].as_str().unwrap();
    assert_eq!(forked["head"], hub.session(&session).await["head"]);
    let on_branch = hub.chat_to_end(branch, "sim:\nsay on the branch\nrecall").await;
    let on_trunk = hub.chat_to_end(&session, "sim:\nsay on the trunk\nrecall").await;
    assert_eq!(texts(&on_branch), ["on the branch", "sim:\nsay shared"]);
    assert_eq!(texts(&on_trunk), ["on the trunk", "sim:\nsay shared"]);
    let (trunk, fork) = (hub.session(&session).await, hub.session(branch).await);
    assert_ne!(trunk["claude_session_id"], fork["claude_session_id"]);
    assert_eq!(trunk["head"]["tree_id"], fork["head"]["tree_id"]);
    // The second chat of the branch resumes the branch, and its cost is its own.
    let again = hub.chat_to_end(branch, "sim:\nrecall").await;
    assert!(
        texts(&again)[0].contains("on the branch") && !texts(&again)[0].contains("on the trunk")
    );
    for events in [&on_branch, &on_trunk, &again] {
        let cost = events.last().unwrap()["usage"]["cost_usd"].as_f64().unwrap();
        assert!((cost - 0.0008).abs() < 1e-9, "{cost}");
    }
    let messages =
        hub.ok("claudecode.render_context", json!({"session_id": branch})).await["messages"]
            .clone();
    let roles: Vec<&str> = messages
        .as_array()
        .unwrap()
        .iter()
        .map(|message| message["role"].as_str().unwrap())
        .collect();
    assert_eq!(roles, ["user", "assistant", "user", "assistant", "user", "assistant"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_ephemeral_chat_leaves_the_head_and_the_conversation_where_they_were() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("ephemeral", json!({})).await;
    hub.chat_to_end(&session, "sim:\nsay kept").await;
    let before = hub.session(&session).await;
    let aside =
        json!({"session_id": session, "prompt": "sim:\nsay aside\nrecall", "ephemeral": true});
    let chat = hub.ok("claudecode.chat_async", aside).await["chat"].as_u64().unwrap();
    assert_eq!(hub.wait_for_end(&session, chat).await, "complete");
    let events = hub.events(&session, chat).await;
    assert_eq!(texts(&events), ["aside", "sim:\nsay kept"], "it knows what was said before it");
    let after = hub.session(&session).await;
    assert_eq!(
        (&after["head"], &after["claude_session_id"]),
        (&before["head"], &before["claude_session_id"])
    );
    assert_eq!(events.last().unwrap()["new_head"], before["head"]);
    let next = hub.chat_to_end(&session, "sim:\nrecall").await;
    assert_eq!(texts(&next), ["sim:\nsay kept"], "nothing later knows of it");
}

#[tokio::test(flavor = "multi_thread")]
async fn handles_of_events_and_messages_resolve_and_every_event_is_in_the_tree() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("handled", json!({})).await;
    hub.chat_to_end(&session, "sim:\nsay look me up").await;
    let page = hub.page(&session, 0, 0, 100).await;
    for event in page["events"].as_array().unwrap() {
        let resolved = hub.ok("plexus.resolve_handle", json!({"handle": event["handle"]})).await;
        assert_eq!(resolved["type"], "event");
        assert_eq!((&resolved["event"], &resolved["seq"]), (&event["event"], &event["seq"]));
        let node = hub.ok("arbor.node_get", json!({"node_id": event["node_id"]})).await;
        assert_eq!(node["node"]["data"]["handle"], event["handle"], "{node}");
    }
    let streams =
        hub.ok("claudecode.streams", json!({"session_id": session})).await["streams"].clone();
    let stream = &streams[0];
    assert_eq!((&stream["status"], &stream["total_events"]), (&json!("complete"), &json!(4)));
    assert_eq!(stream["head_node"], page["events"][3]["node_id"]);
    let root = hub.ok("arbor.node_get", json!({"node_id": stream["root_node"]})).await;
    let message =
        hub.ok("plexus.resolve_handle", json!({"handle": root["node"]["data"]["handle"]})).await;
    assert_eq!(
        (&message["type"], &message["content"]),
        (&json!("message"), &json!("sim:\nsay look me up"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn no_piece_of_a_text_comes_after_the_event_it_belongs_to() {
    const TEXTS: usize = 6;
    let hub = SimulatedHub::new().await;
    let session = hub.create("ordered", json!({})).await;
    let follow = json!({"session_id": session, "deltas": true});
    let mut live = hub.stream("claudecode.follow", follow.clone()).await;
    let mut shown = 0;
    for chat in 0..5 {
        let lines: Vec<String> = (0..TEXTS)
            .map(|n| format!("slowly {} c{chat}t{n}a c{chat}t{n}b c{chat}t{n}c", n % 2))
            .collect();
        hub.chat(&session, &format!("sim:\n{}", lines.join("\n"))).await;
        let (mut told, mut piece) = (Vec::new(), String::new());
        loop {
            let item = take(&mut live, 1).await.remove(0);
            match item["event"]["type"].as_str().unwrap() {
                "delta_start" => piece.clear(),
                "delta" => {
                    let text = item["event"]["text"].as_str().unwrap();
                    piece.push_str(text);
                    let late = told.iter().find(|whole: &&String| whole.contains(text.trim()));
                    assert_eq!(late, None, "{text:?} came after its event");
                    shown += 1;
                }
                "content" => {
                    let text = item["event"]["text"].as_str().unwrap().to_owned();
                    // What was shown since the message began is how this very text begins.
                    assert!(text.starts_with(piece.trim()), "{piece:?} before {text:?}");
                    piece.clear();
                    told.push(text);
                }
                "complete" => break,
                _ => {}
            }
        }
        assert_eq!(told.len(), TEXTS);
    }
    assert!(shown > 0, "no live text came at all");
    // A later reader reads the past events first, and none of their pieces.
    let mut late = hub.stream("claudecode.follow", follow).await;
    let past = take(&mut late, 5 * (TEXTS + 2)).await;
    assert!(past.iter().all(|item| item["seq"].is_u64()), "{past:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_late_client_is_told_the_beginning_of_the_text() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("joined", json!({})).await;
    let follow = json!({"session_id": session, "deltas": true});
    let mut first = hub.stream("claudecode.follow", follow.clone()).await;
    // The last word would come after an hour.
    hub.chat(&session, "sim:\nslowly 3600000 beginning end").await;
    let is_piece = |item: &Value| item["event"]["type"] == "delta";
    while !is_piece(&take(&mut first, 1).await[0]) {}
    let mut late = hub.stream("claudecode.follow", follow).await;
    let mut seen = Vec::new();
    while !seen.last().is_some_and(is_piece) {
        seen.extend(take(&mut late, 1).await);
    }
    let live: Vec<&Value> = seen.iter().filter(|item| item["seq"].is_null()).collect();
    assert_eq!(live[0]["event"], json!({"type": "delta_start"}), "{seen:#?}");
    assert_eq!(live[1]["event"]["text"].as_str().unwrap().trim(), "beginning");
    hub.ok("claudecode.cancel", json!({"session_id": session})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_model_is_told_handles_and_targets_only_when_it_asks_or_uses_the_first_names() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("read", json!({"allowed_tools": ["Read"]})).await;
    hub.chat_to_end(&session, "sim:\ntool Read {\"file_path\": \"note.txt\"}").await;
    for (reader, method, asks, handles, targets) in [
        (Reader::Model, "agents.poll", json!({}), false, false),
        (Reader::Model, "agents.poll", json!({"handles": true}), true, true),
        (Reader::Model, "claudecode.poll", json!({}), true, false),
        (Reader::Model, "claudecode.poll", json!({"handles": true}), true, true),
        (Reader::Program, "agents.poll", json!({}), true, true),
        (Reader::Program, "agents.poll", json!({"handles": false}), false, false),
    ] {
        let mut params = json!({"session_id": session, "from_seq": 0});
        params.as_object_mut().unwrap().extend(asks.as_object().unwrap().clone());
        let page = hub.read_by(reader, method, params.clone()).await;
        let events = page["events"].as_array().unwrap();
        let of = format!("{method} by {reader:?} with {params}");
        for event in events {
            let has = ["handle", "node_id"].map(|key| event.get(key).is_some());
            assert_eq!(has, [handles; 2], "{of}: {event}");
        }
        let call = events.iter().find(|event| event["event"]["type"] == "tool_use");
        assert_eq!(call.unwrap().get("target").is_some(), targets, "{of}: {call:?}");
    }
}
