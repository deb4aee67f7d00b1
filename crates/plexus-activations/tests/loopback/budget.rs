//! Budgets: shared by a session and everything below it, told at 80 %, stopped at 100 %, and not for a child to raise.

use plexus_core::{Caller, ErrorKind};
use serde_json::{Value, json};

use crate::common::World;

fn notices(events: &[Value]) -> Vec<&str> {
    events.iter().filter(|event| event["type"] == "notice").map(|event| event["message"].as_str().unwrap()).collect()
}

/// The simulator's price of one turn without tools, as its results say.
async fn price(world: &World) -> f64 {
    let session = world.create("price", json!({})).await;
    world.chat_to_end(&session, "sim:\nsay hello").await;
    world.ok("claudecode.get", json!({"session_id": session})).await["session"]["spent"]["cost_usd"].as_f64().unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_that_the_budget_has_no_room_for_does_not_start() {
    let world = World::new().await;
    let one = price(&world).await;
    assert!(one > 0.0);
    let session = world.create("s", json!({"budget": {"cost_usd": one * 1.5}})).await;
    world.chat_to_end(&session, "sim:\nsay one").await;
    world.chat_to_end(&session, "sim:\nsay two").await;
    let refused =
        world.call("claudecode.chat_async", json!({"session_id": session, "prompt": "three"})).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Forbidden);
    assert!(refused.message.contains("budget of s for cost"), "{}", refused.message);
    let shown = world.ok("claudecode.get", json!({"session_id": session})).await["session"].clone();
    assert_eq!(shown["budget"], json!({"cost_usd": one * 1.5}));
    assert!(shown["spent"]["cost_usd"].as_f64().unwrap() > one * 1.5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shared_budget_stops_every_chat_below_it_within_one_result() {
    let world = World::new().await;
    let one = price(&world).await;
    let top = world.create("top", json!({"can_spawn": true, "budget": {"cost_usd": one * 0.9}})).await;
    let params = |name: &str| world.create_params(name, json!({"parent": top, "env": {}}));
    let mut running = Vec::new();
    for n in 0..3 {
        let id = world.ok("claudecode.create", params(&format!("c{n}"))).await["id"].as_str().unwrap().to_owned();
        let chat = world.chat(&id, "sim:\nsay I go on and on\nhang").await;
        world.wait_for_event(&id, "content").await;
        running.push((id, chat));
    }
    let spender = world.ok("claudecode.create", params("spender")).await["id"].as_str().unwrap().to_owned();
    world.chat_to_end(&spender, "sim:\nsay done").await;
    for (id, chat) in running {
        assert_eq!(world.wait_for_end(&id, chat).await, "failed");
        let events = world.events(&id, chat).await;
        let end = events.last().unwrap();
        assert_eq!(end["message"], "stopped: the budget of top for cost is used up");
    }
    let refused =
        world.call("claudecode.chat_async", json!({"session_id": spender, "prompt": "more"})).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Forbidden);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_runs_is_told_when_most_of_a_budget_is_used_up() {
    let world = World::new().await;
    let one = price(&world).await;
    let top = world.create("top", json!({"can_spawn": true, "budget": {"cost_usd": one * 1.2}})).await;
    let child = world.ok("claudecode.create", world.create_params("c", json!({"parent": top, "env": {}}))).await;
    let child = child["id"].as_str().unwrap().to_owned();
    let other = world.ok("claudecode.create", world.create_params("o", json!({"parent": top, "env": {}}))).await;
    let other = other["id"].as_str().unwrap().to_owned();
    let chat = world.chat(&other, "sim:\nsay waiting\nhang").await;
    world.wait_for_event(&other, "content").await;
    world.chat_to_end(&child, "sim:\nsay one").await;
    world.wait_for(&other, "a warning", |page| page.to_string().contains("83 % of the budget of top for cost")).await;
    world.ok("claudecode.cancel", json!({"session_id": other})).await;
    assert_eq!(world.wait_for_end(&other, chat).await, "cancelled");
    assert_eq!(notices(&world.events(&other, chat).await).iter().filter(|it| it.contains("83 %")).count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn time_on_the_wall_stops_a_chat_that_never_ends() {
    let world = World::new().await;
    let session = world.create("s", json!({"budget": {"wall_secs": 2}})).await;
    let chat = world.chat(&session, "sim:\nsay hm\nhang").await;
    assert_eq!(world.wait_for_end(&session, chat).await, "failed");
    let events = world.events(&session, chat).await;
    assert_eq!(events.last().unwrap()["message"], "stopped: the budget of s for wall time is used up");
}

#[tokio::test(flavor = "multi_thread")]
async fn children_and_generations_are_counted_and_a_child_cannot_raise_its_own() {
    let world = World::new().await;
    let budget = json!({"children": 2, "depth": 2, "cost_usd": 1.0});
    let top = world.create("top", json!({"can_spawn": true, "budget": budget})).await;
    let as_top = Caller::Session(top.parse().unwrap());
    let create = async |caller: Caller, name: &str, more: Value| {
        let mut params = world.create_params(name, more);
        params.as_object_mut().unwrap().remove("env");
        world.call_as(caller, "claudecode.create", params).await
    };
    let raised = create(as_top, "greedy", json!({"budget": {"cost_usd": 5.0}})).await.unwrap_err();
    assert_eq!(raised.kind, ErrorKind::Forbidden);
    let child = create(as_top, "child", json!({"can_spawn": true})).await.unwrap()["id"].clone();
    let as_child = Caller::Session(child.as_str().unwrap().parse().unwrap());
    let grandchild = create(as_child, "grandchild", json!({"can_spawn": true})).await.unwrap()["id"].clone();
    let as_grandchild = Caller::Session(grandchild.as_str().unwrap().parse().unwrap());
    let too_deep = create(as_grandchild, "deep", json!({})).await.unwrap_err();
    assert_eq!(too_deep.kind, ErrorKind::Forbidden);
    let too_many = create(as_top, "third", json!({})).await.unwrap_err();
    assert_eq!(too_many.kind, ErrorKind::Busy);
}
