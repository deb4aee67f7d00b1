//! Budgets: shared by a session and everything below it, told at 80 %, stopped at 100 %, and not
//! for a child to raise.

use plexus_core::{Caller, ErrorKind};
use serde_json::{Value, json};

use crate::common::SimulatedHub;

fn notices(events: &[Value]) -> Vec<&str> {
    events
        .iter()
        .filter(|event| event["type"] == "notice")
        .map(|event| event["message"].as_str().unwrap())
        .collect()
}

/// The simulator's price of one turn without tools, as its results say.
async fn price(hub: &SimulatedHub) -> f64 {
    let session = hub.create("price", json!({})).await;
    hub.chat_to_end(&session, "sim:\nsay hello").await;
    hub.ok("claudecode.get", json!({"session_id": session})).await["session"]["spent"]["cost_usd"]
        .as_f64()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_that_the_budget_has_no_room_for_does_not_start() {
    let hub = SimulatedHub::new().await;
    let one = price(&hub).await;
    assert!(one > 0.0);
    let session = hub.create("s", json!({"budget": {"cost_usd": one * 1.5}})).await;
    hub.chat_to_end(&session, "sim:\nsay one").await;
    hub.chat_to_end(&session, "sim:\nsay two").await;
    let refused = hub
        .call("claudecode.chat_async", json!({"session_id": session, "prompt": "three"}))
        .await
        .unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Forbidden);
    assert!(refused.message.contains("budget of s for cost"), "{}", refused.message);
    let shown = hub.ok("claudecode.get", json!({"session_id": session})).await["session"].clone();
    assert_eq!(shown["budget"], json!({"cost_usd": one * 1.5}));
    assert!(shown["spent"]["cost_usd"].as_f64().unwrap() > one * 1.5);
}

async fn child_of(hub: &SimulatedHub, parent: &str, name: &str) -> String {
    hub.create(name, json!({"parent": parent, "env": {}})).await
}

async fn set_aside(hub: &SimulatedHub, session: &str) -> f64 {
    hub.session(session).await["reserved"]["cost_usd"].as_f64().unwrap_or(0.0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shared_budget_stops_every_chat_below_it_within_one_result() {
    let hub = SimulatedHub::new().await;
    let one = price(&hub).await;
    let top =
        hub.create("top", json!({"can_spawn": true, "budget": {"cost_usd": one * 6.5}})).await;
    let spender = child_of(&hub, &top, "spender").await;
    // From its result on, what a chat costs here is known, and several fit.
    hub.chat_to_end(&spender, "sim:\nsay done").await;
    let mut running = Vec::new();
    for n in 0..3 {
        let id = child_of(&hub, &top, &format!("c{n}")).await;
        let chat = hub.chat(&id, "sim:\nsay I go on and on\nhang").await;
        hub.wait_for_event(&id, "content").await;
        running.push((id, chat));
    }
    // This one costs more than any before it.
    let more = "\ntool Read {\"file_path\":\"none\"}".repeat(8);
    hub.chat_to_end(&spender, &format!("sim:{more}")).await;
    for (id, chat) in running {
        assert_eq!(hub.wait_for_end(&id, chat).await, "failed");
        let events = hub.events(&id, chat).await;
        let end = events.last().unwrap();
        assert_eq!(end["message"], "stopped: the budget of top for cost is used up");
    }
    let refused = hub
        .call("claudecode.chat_async", json!({"session_id": spender, "prompt": "more"}))
        .await
        .unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Forbidden);
    assert_eq!(set_aside(&hub, &top).await, 0.0, "nothing is set aside for chats that have ended");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_chat_reserves_budget_until_its_result() {
    let hub = SimulatedHub::new().await;
    let one = price(&hub).await;
    let top =
        hub.create("top", json!({"can_spawn": true, "budget": {"cost_usd": one * 1.5}})).await;
    let (a, b) = (child_of(&hub, &top, "a").await, child_of(&hub, &top, "b").await);
    let chat = hub.chat(&a, "sim:\nsay thinking\nhang").await;
    assert!(set_aside(&hub, &top).await >= one * 1.5, "what a chat costs is not known yet");
    let prompt = json!({"session_id": b, "prompt": "sim:\nsay two"});
    let busy = hub.call("claudecode.chat_async", prompt.clone()).await.unwrap_err();
    assert_eq!(busy.kind, ErrorKind::Busy, "{}", busy.message);
    assert!(busy.retry_after_ms.is_some());
    // A server that goes away and comes back has set the same aside.
    hub.wait_for_event(&a, "content").await;
    let (hub, _) = hub.restart().await;
    assert_eq!(
        hub.call("claudecode.chat_async", prompt.clone()).await.unwrap_err().kind,
        ErrorKind::Busy
    );
    hub.ok("claudecode.cancel", json!({"session_id": a})).await;
    hub.wait_for_end(&a, chat).await;
    assert_eq!(set_aside(&hub, &top).await, 0.0);
    hub.ok("claudecode.chat_async", prompt).await;
    hub.wait_for_status(&b, "complete").await;
    let shown = hub.session(&top).await;
    let spent = shown["spent"]["cost_usd"].as_f64().unwrap();
    assert!(spent >= one, "{shown:#}");
    assert!(shown["spent"]["wall_ms"].as_u64().unwrap() > 0, "{shown:#}");
    let line =
        hub.ok("claudecode.wait", json!({"session_ids": [top]})).await["sessions"][0].clone();
    assert_eq!(line["budget"]["of"], "cost");
    assert!(
        (line["budget"]["used"].as_f64().unwrap() - spent / (one * 1.5)).abs() < 1e-6,
        "{line:#}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_runs_can_start_a_child_within_its_own_budget() {
    let hub = SimulatedHub::new().await;
    let top = hub.create("top", json!({"can_spawn": true, "budget": {"cost_usd": 1.0}})).await;
    let (a, b) = (child_of(&hub, &top, "a").await, child_of(&hub, &top, "b").await);
    hub.chat(&top, "sim:\nsay I wait for my child\nhang").await;
    assert_eq!(set_aside(&hub, &top).await, 1.0);
    hub.chat(&a, "sim:\nsay working\nhang").await;
    // Beside that child there is no room for another one.
    let second = json!({"session_id": b, "prompt": "sim:\nsay two"});
    let busy = hub.call("claudecode.chat_async", second).await.unwrap_err();
    assert_eq!(busy.kind, ErrorKind::Busy, "{}", busy.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fan_out_of_twenty_goes_beyond_its_budget_by_less_than_one_result() {
    let hub = SimulatedHub::new().await;
    let one = price(&hub).await;
    let top =
        hub.create("top", json!({"can_spawn": true, "budget": {"cost_usd": one * 5.5}})).await;
    let mut children = Vec::new();
    for n in 0..20 {
        children.push(child_of(&hub, &top, &format!("c{n}")).await);
    }
    // Every child tries until it is told that nothing is left.
    let spend = async |child: &str| {
        let began = std::time::Instant::now();
        loop {
            let prompt = json!({"session_id": child, "prompt": "sim:\nsay one"});
            match hub.call("claudecode.chat_async", prompt).await {
                Ok(started) => {
                    drop(hub.wait_for_end(child, started["chat"].as_u64().unwrap()).await)
                }
                Err(error) if error.kind == ErrorKind::Busy => {
                    tokio::time::sleep(std::time::Duration::from_millis(20)).await;
                }
                Err(error) => return error,
            }
            assert!(began.elapsed() < crate::common::DEADLINE, "the budget is never used up");
        }
    };
    let refusals = futures::future::join_all(children.iter().map(|child| spend(child))).await;
    assert!(refusals.iter().all(|refusal| refusal.kind == ErrorKind::Forbidden), "{refusals:?}");
    let spent = hub.session(&top).await["spent"]["cost_usd"].as_f64().unwrap();
    assert!((one * 5.5..one * 6.5).contains(&spent), "{spent} of {}", one * 5.5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_below_what_is_spent_is_refused_and_a_larger_one_lets_go_on() {
    let hub = SimulatedHub::new().await;
    let one = price(&hub).await;
    let top = hub
        .create("top", json!({"can_spawn": true, "budget": {"cost_usd": one * 0.5, "turns": 50}}))
        .await;
    let child = child_of(&hub, &top, "child").await;
    hub.chat_to_end(&child, "sim:\nsay one").await;
    let set = async |caller, session: &str, budget: Value| {
        hub.call_as(
            caller,
            "claudecode.budget_set",
            json!({"session_id": session, "budget": budget}),
        )
        .await
    };
    let low = set(Caller::Operator, &top, json!({"cost_usd": one * 0.9})).await.unwrap_err();
    assert_eq!(low.kind, ErrorKind::Conflict);
    assert!(low.message.contains("cost_usd"), "{}", low.message);
    assert_eq!(low.standing.unwrap()["cost_usd"].as_f64().unwrap(), one);
    assert_eq!(
        set(Caller::Operator, &top, json!({"cost_usd": -1})).await.unwrap_err().kind,
        ErrorKind::Invalid
    );
    assert_eq!(
        hub.session(&top).await["budget"]["cost_usd"].as_f64().unwrap(),
        one * 0.5,
        "nothing changed"
    );
    // Nobody raises their own budget, and nobody gives more than they have.
    let as_top = Caller::Session(top.parse().unwrap());
    assert_eq!(
        set(as_top, &top, json!({"cost_usd": 9})).await.unwrap_err().kind,
        ErrorKind::NotFound
    );
    assert_eq!(
        set(as_top, &child, json!({"cost_usd": 9})).await.unwrap_err().kind,
        ErrorKind::Forbidden
    );
    let refused =
        hub.call("claudecode.chat_async", json!({"session_id": child, "prompt": "two"})).await;
    assert_eq!(refused.unwrap_err().kind, ErrorKind::Forbidden);
    set(Caller::Operator, &top, json!({"cost_usd": one * 3.0})).await.unwrap();
    hub.chat_to_end(&child, "sim:\nsay two").await;
    // A child that is deleted has spent all the same.
    hub.ok("claudecode.delete", json!({"session_id": child})).await;
    let spent = hub.session(&top).await["spent"]["cost_usd"].as_f64().unwrap();
    assert!((spent - one * 2.0).abs() < 1e-9, "{spent}");
    let bad = hub
        .call("claudecode.create", hub.create_params("bad", json!({"budget": {"cost_usd": -0.1}})))
        .await;
    assert_eq!(bad.unwrap_err().kind, ErrorKind::Invalid);
}

#[tokio::test(flavor = "multi_thread")]
async fn parallel_creates_do_not_exceed_the_number_of_children() {
    let hub = SimulatedHub::new().await;
    let top = hub.create("top", json!({"can_spawn": true, "budget": {"children": 3}})).await;
    let as_top = Caller::Session(top.parse().unwrap());
    let create = async |n: usize| {
        let mut params = hub.create_params(&format!("c{n}"), json!({}));
        params.as_object_mut().unwrap().remove("env");
        hub.call_as(as_top, "claudecode.create", params).await
    };
    let made = futures::future::join_all((0..20).map(create)).await;
    assert_eq!(made.iter().filter(|made| made.is_ok()).count(), 3);
    assert!(made.into_iter().filter_map(Result::err).all(|error| error.kind == ErrorKind::Busy));
}

#[tokio::test(flavor = "multi_thread")]
async fn running_chats_are_told_when_most_of_a_budget_is_used() {
    let hub = SimulatedHub::new().await;
    let one = price(&hub).await;
    let top =
        hub.create("top", json!({"can_spawn": true, "budget": {"cost_usd": one * 1.2}})).await;
    let (child, other) = (child_of(&hub, &top, "c").await, child_of(&hub, &top, "o").await);
    hub.chat_to_end(&child, "sim:\nsay one").await;
    let chat = hub.chat(&other, "sim:\nsay waiting\nhang").await;
    hub.wait_for(&other, "a warning", |page| {
        page.to_string().contains("83 % of the budget of top for cost")
    })
    .await;
    hub.ok("claudecode.cancel", json!({"session_id": other})).await;
    assert_eq!(hub.wait_for_end(&other, chat).await, "cancelled");
    assert_eq!(
        notices(&hub.events(&other, chat).await).iter().filter(|it| it.contains("83 %")).count(),
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn time_on_the_wall_stops_a_chat_that_never_ends() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("s", json!({"budget": {"wall_secs": 2}})).await;
    let chat = hub.chat(&session, "sim:\nsay hm\nhang").await;
    assert_eq!(hub.wait_for_end(&session, chat).await, "failed");
    let events = hub.events(&session, chat).await;
    assert_eq!(
        events.last().unwrap()["message"],
        "stopped: the budget of s for wall time is used up"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn children_and_generations_are_counted_and_a_child_cannot_raise_its_own() {
    let hub = SimulatedHub::new().await;
    let budget = json!({"children": 2, "depth": 2, "cost_usd": 1.0});
    let top = hub.create("top", json!({"can_spawn": true, "budget": budget})).await;
    let as_top = Caller::Session(top.parse().unwrap());
    let create = async |caller: Caller, name: &str, more: Value| {
        let mut params = hub.create_params(name, more);
        params.as_object_mut().unwrap().remove("env");
        hub.call_as(caller, "claudecode.create", params).await
    };
    let raised = create(as_top, "greedy", json!({"budget": {"cost_usd": 5.0}})).await.unwrap_err();
    assert_eq!(raised.kind, ErrorKind::Forbidden);
    let child = create(as_top, "child", json!({"can_spawn": true})).await.unwrap()["id"].clone();
    let as_child = Caller::Session(child.as_str().unwrap().parse().unwrap());
    let grandchild =
        create(as_child, "grandchild", json!({"can_spawn": true})).await.unwrap()["id"].clone();
    let as_grandchild = Caller::Session(grandchild.as_str().unwrap().parse().unwrap());
    let too_deep = create(as_grandchild, "deep", json!({})).await.unwrap_err();
    assert_eq!(too_deep.kind, ErrorKind::Forbidden);
    let too_many = create(as_top, "third", json!({})).await.unwrap_err();
    assert_eq!(too_many.kind, ErrorKind::Busy);
}
