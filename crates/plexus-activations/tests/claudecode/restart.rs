//! The server goes and comes back on the same data while its children live, or die: events are complete, in order, once.

use serde_json::json;

use crate::common::{DEADLINE, World, texts, types};
use crate::flow::WRITE;

fn numbered(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("{n} xxxx")).collect()
}

/// Texts of a `burst`, cut to their number and a few letters.
fn bursts(texts: &[&str]) -> Vec<String> {
    texts
        .iter()
        .map(|text| text.split_once(' ').map_or_else(|| (*text).to_owned(), |(n, _)| format!("{n} xxxx")))
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_child_streams() {
    let mut world = World::new().await;
    let session = world.create("streams", json!({})).await;
    let script: String = (0..40).map(|n| format!("\nsay {n} xxxx\nsleep 20")).collect();
    let chat = world.chat(&session, &format!("sim:{script}")).await;
    for _ in 0..4 {
        let before = world.page(&session, chat, 0, 1).await["total_events"].as_u64().unwrap();
        world.wait_for(&session, "another event", |page| page["total_events"].as_u64().unwrap() > before).await;
        let picked_up;
        (world, picked_up) = world.restart().await;
        assert_eq!(picked_up, 1);
    }
    assert_eq!(world.wait_for_end(&session, chat).await, "complete");
    let events = world.events(&session, chat).await;
    assert_eq!(bursts(&texts(&events)), numbered(40));
    assert_eq!(types(&events).iter().filter(|kind| **kind == "complete").count(), 1);
    // The same process, which never noticed, takes the next chat.
    world.chat_to_end(&session, "sim:\nsay next").await;
    assert_eq!(world.runs(&session).await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_child_waits_for_permission() {
    let world = World::new().await;
    let session = world.create("asks", json!({})).await;
    let chat = world.chat(&session, WRITE).await;
    let approval = world.wait_for_approval(&session).await;
    let (world, _) = world.restart().await;
    let (world, _) = world.restart().await;
    let still = world.wait_for_approval(&session).await;
    assert_eq!(still["id"], approval["id"], "the same question, not asked again");
    world.respond(&still, true).await;
    assert_eq!(world.wait_for_end(&session, chat).await, "complete");
    let events = world.events(&session, chat).await;
    assert_eq!(types(&events).iter().filter(|kind| **kind == "awaiting_approval").count(), 1);
    assert_eq!(std::fs::read_to_string(world.work().join("note.txt")).unwrap(), "hello");
}

#[tokio::test(flavor = "multi_thread")]
async fn while_the_server_is_away_the_child_finishes_and_leaves() {
    let world = World::with(|settings| settings.max_warm = 0).await;
    let session = world.create("away", json!({})).await;
    let chat = world.chat(&session, "sim:\nsay begun\nsleep 300\nburst 500 40\nsay over\nexit 0").await;
    world.wait_for_event(&session, "content").await;
    let down = world.down().await;
    let exit = down.data().join("runs").join(&session).join("0").join("exit.json");
    testkit::eventually_async("exit.json", DEADLINE, || std::future::ready(exit.exists().then_some(()))).await;
    let (world, picked_up) = down.up().await;
    assert_eq!(picked_up, 1);
    assert_eq!(world.wait_for_end(&session, chat).await, "failed", "it left without a result");
    let events = world.events(&session, chat).await;
    assert_eq!(texts(&events).len(), 502);
    assert!(events.last().unwrap()["message"].as_str().unwrap().contains("exit code 0"), "{:?}", events.last());
}
