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
async fn price(world: &SimulatedHub) -> f64 {
    let session = world.create("price", json!({})).await;
    world.chat_to_end(&session, "sim:\nsay hello").await;
    world.ok("claudecode.get", json!({"session_id": session})).await["session"]["spent"]["cost_usd"]
        .as_f64()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_that_the_budget_has_no_room_for_does_not_start() {
    let world = SimulatedHub::new().await;
    let one = price(&world).await;
    assert!(one > 0.0);
    let session = world.create("s", json!({"budget": {"cost_usd": one * 1.5}})).await;
    world.chat_to_end(&session, "sim:\nsay one").await;
    world.chat_to_end(&session, "sim:\nsay two").await;
    let refused = world
        .call("claudecode.chat_async", json!({"session_id": session, "prompt": "three"}))
        .await
        .unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Forbidden);
    assert!(refused.message.contains("budget of s for cost"), "{}", refused.message);
    let shown = world.ok("claudecode.get", json!({"session_id": session})).await["session"].clone();
    assert_eq!(shown["budget"], json!({"cost_usd": one * 1.5}));
    assert!(shown["spent"]["cost_usd"].as_f64().unwrap() > one * 1.5);
}

async fn child_of(world: &SimulatedHub, parent: &str, name: &str) -> String {
    world.create(name, json!({"parent": parent, "env": {}})).await
}

async fn set_aside(world: &SimulatedHub, session: &str) -> f64 {
    world.session(session).await["reserved"]["cost_usd"].as_f64().unwrap_or(0.0)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shared_budget_stops_every_chat_below_it_within_one_result() {
    let world = SimulatedHub::new().await;
    let one = price(&world).await;
    let top =
        world.create("top", json!({"can_spawn": true, "budget": {"cost_usd": one * 6.5}})).await;
    let spender = child_of(&world, &top, "spender").await;
    // From its result on, what a chat costs here is known, and several fit.
    world.chat_to_end(&spender, "sim:\nsay done").await;
    let mut running = Vec::new();
    for n in 0..3 {
        let id = child_of(&world, &top, &format!("c{n}")).await;
        let chat = world.chat(&id, "sim:\nsay I go on and on\nhang").await;
        world.wait_for_event(&id, "content").await;
        running.push((id, chat));
    }
    // This one costs more than any before it.
    let more = "\ntool Read {\"file_path\":\"none\"}".repeat(8);
    world.chat_to_end(&spender, &format!("sim:{more}")).await;
    for (id, chat) in running {
        assert_eq!(world.wait_for_end(&id, chat).await, "failed");
        let events = world.events(&id, chat).await;
        let end = events.last().unwrap();
        assert_eq!(end["message"], "stopped: the budget of top for cost is used up");
    }
    let refused = world
        .call("claudecode.chat_async", json!({"session_id": spender, "prompt": "more"}))
        .await
        .unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Forbidden);
    assert_eq!(
        set_aside(&world, &top).await,
        0.0,
        "nothing is set aside for chats that have ended"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_running_chat_reserves_budget_until_its_result() {
    let world = SimulatedHub::new().await;
    let one = price(&world).await;
    let top =
        world.create("top", json!({"can_spawn": true, "budget": {"cost_usd": one * 1.5}})).await;
    let (a, b) = (child_of(&world, &top, "a").await, child_of(&world, &top, "b").await);
    let chat = world.chat(&a, "sim:\nsay thinking\nhang").await;
    assert!(set_aside(&world, &top).await >= one * 1.5, "what a chat costs is not known yet");
    let prompt = json!({"session_id": b, "prompt": "sim:\nsay two"});
    let busy = world.call("claudecode.chat_async", prompt.clone()).await.unwrap_err();
    assert_eq!(busy.kind, ErrorKind::Busy, "{}", busy.message);
    assert!(busy.retry_after_ms.is_some());
    // A server that goes away and comes back has set the same aside.
    world.wait_for_event(&a, "content").await;
    let (world, _) = world.restart().await;
    assert_eq!(
        world.call("claudecode.chat_async", prompt.clone()).await.unwrap_err().kind,
        ErrorKind::Busy
    );
    world.ok("claudecode.cancel", json!({"session_id": a})).await;
    world.wait_for_end(&a, chat).await;
    assert_eq!(set_aside(&world, &top).await, 0.0);
    world.ok("claudecode.chat_async", prompt).await;
    world.wait_for_status(&b, "complete").await;
    let shown = world.session(&top).await;
    let spent = shown["spent"]["cost_usd"].as_f64().unwrap();
    assert!(spent >= one, "{shown:#}");
    assert!(shown["spent"]["wall_ms"].as_u64().unwrap() > 0, "{shown:#}");
    let line =
        world.ok("claudecode.wait", json!({"session_ids": [top]})).await["sessions"][0].clone();
    assert_eq!(line["budget"]["of"], "cost");
    assert!(
        (line["budget"]["used"].as_f64().unwrap() - spent / (one * 1.5)).abs() < 1e-6,
        "{line:#}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_that_runs_can_start_a_child_within_its_own_budget() {
    let world = SimulatedHub::new().await;
    let top = world.create("top", json!({"can_spawn": true, "budget": {"cost_usd": 1.0}})).await;
    let (a, b) = (child_of(&world, &top, "a").await, child_of(&world, &top, "b").await);
    world.chat(&top, "sim:\nsay I wait for my child\nhang").await;
    assert_eq!(set_aside(&world, &top).await, 1.0);
    world.chat(&a, "sim:\nsay working\nhang").await;
    // Beside that child there is no room for another one.
    let second = json!({"session_id": b, "prompt": "sim:\nsay two"});
    let busy = world.call("claudecode.chat_async", second).await.unwrap_err();
    assert_eq!(busy.kind, ErrorKind::Busy, "{}", busy.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fan_out_of_twenty_goes_beyond_its_budget_by_less_than_one_result() {
    let world = SimulatedHub::new().await;
    let one = price(&world).await;
    let top =
        world.create("top", json!({"can_spawn": true, "budget": {"cost_usd": one * 5.5}})).await;
    let mut children = Vec::new();
    for n in 0..20 {
        children.push(child_of(&world, &top, &format!("c{n}")).await);
    }
    // Every child tries until it is told that nothing is left.
    let spend = async |child: &str| {
        let began = std::time::Instant::now();
        loop {
            let prompt = json!({"session_id": child, "prompt": "sim:\nsay one"});
            match world.call("claudecode.chat_async", prompt).await {
                Ok(started) => {
                    drop(world.wait_for_end(child, started["chat"].as_u64().unwrap()).await)
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
    let spent = world.session(&top).await["spent"]["cost_usd"].as_f64().unwrap();
    assert!((one * 5.5..one * 6.5).contains(&spent), "{spent} of {}", one * 5.5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_below_what_is_spent_is_refused_and_a_larger_one_lets_go_on() {
    let world = SimulatedHub::new().await;
    let one = price(&world).await;
    let top = world
        .create("top", json!({"can_spawn": true, "budget": {"cost_usd": one * 0.5, "turns": 50}}))
        .await;
    let child = child_of(&world, &top, "child").await;
    world.chat_to_end(&child, "sim:\nsay one").await;
    let set = async |caller, session: &str, budget: Value| {
        world
            .call_as(
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
        world.session(&top).await["budget"]["cost_usd"].as_f64().unwrap(),
        one * 0.5,
        "nothing changed"
    );
    // Nobody raises their own, and nobody gives what they have not.
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
        world.call("claudecode.chat_async", json!({"session_id": child, "prompt": "two"})).await;
    assert_eq!(refused.unwrap_err().kind, ErrorKind::Forbidden);
    set(Caller::Operator, &top, json!({"cost_usd": one * 3.0})).await.unwrap();
    world.chat_to_end(&child, "sim:\nsay two").await;
    // A child that is deleted has spent all the same.
    world.ok("claudecode.delete", json!({"session_id": child})).await;
    let spent = world.session(&top).await["spent"]["cost_usd"].as_f64().unwrap();
    assert!((spent - one * 2.0).abs() < 1e-9, "{spent}");
    let bad = world
        .call(
            "claudecode.create",
            world.create_params("bad", json!({"budget": {"cost_usd": -0.1}})),
        )
        .await;
    assert_eq!(bad.unwrap_err().kind, ErrorKind::Invalid);
}

#[tokio::test(flavor = "multi_thread")]
async fn parallel_creates_do_not_exceed_the_number_of_children() {
    let world = SimulatedHub::new().await;
    let top = world.create("top", json!({"can_spawn": true, "budget": {"children": 3}})).await;
    let as_top = Caller::Session(top.parse().unwrap());
    let create = async |n: usize| {
        let mut params = world.create_params(&format!("c{n}"), json!({}));
        params.as_object_mut().unwrap().remove("env");
        world.call_as(as_top, "claudecode.create", params).await
    };
    let made = futures::future::join_all((0..20).map(create)).await;
    assert_eq!(made.iter().filter(|made| made.is_ok()).count(), 3);
    assert!(made.into_iter().filter_map(Result::err).all(|error| error.kind == ErrorKind::Busy));
}

#[tokio::test(flavor = "multi_thread")]
async fn running_chats_are_told_when_most_of_a_budget_is_used() {
    let world = SimulatedHub::new().await;
    let one = price(&world).await;
    let top =
        world.create("top", json!({"can_spawn": true, "budget": {"cost_usd": one * 1.2}})).await;
    let (child, other) = (child_of(&world, &top, "c").await, child_of(&world, &top, "o").await);
    world.chat_to_end(&child, "sim:\nsay one").await;
    let chat = world.chat(&other, "sim:\nsay waiting\nhang").await;
    world
        .wait_for(&other, "a warning", |page| {
            page.to_string().contains("83 % of the budget of top for cost")
        })
        .await;
    world.ok("claudecode.cancel", json!({"session_id": other})).await;
    assert_eq!(world.wait_for_end(&other, chat).await, "cancelled");
    assert_eq!(
        notices(&world.events(&other, chat).await).iter().filter(|it| it.contains("83 %")).count(),
        1
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn time_on_the_wall_stops_a_chat_that_never_ends() {
    let world = SimulatedHub::new().await;
    let session = world.create("s", json!({"budget": {"wall_secs": 2}})).await;
    let chat = world.chat(&session, "sim:\nsay hm\nhang").await;
    assert_eq!(world.wait_for_end(&session, chat).await, "failed");
    let events = world.events(&session, chat).await;
    assert_eq!(
        events.last().unwrap()["message"],
        "stopped: the budget of s for wall time is used up"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn children_and_generations_are_counted_and_a_child_cannot_raise_its_own() {
    let world = SimulatedHub::new().await;
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
    let grandchild =
        create(as_child, "grandchild", json!({"can_spawn": true})).await.unwrap()["id"].clone();
    let as_grandchild = Caller::Session(grandchild.as_str().unwrap().parse().unwrap());
    let too_deep = create(as_grandchild, "deep", json!({})).await.unwrap_err();
    assert_eq!(too_deep.kind, ErrorKind::Forbidden);
    let too_many = create(as_top, "third", json!({})).await.unwrap_err();
    assert_eq!(too_many.kind, ErrorKind::Busy);
}
