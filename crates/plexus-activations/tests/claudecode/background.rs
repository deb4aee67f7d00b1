//! Work in the background: a `result` is not the end, and a turn that nobody prompted ends the run.

use plexus_store::PageRequest;
use serde_json::{Value, json};

use crate::common::{DEADLINE, SimulatedHub, texts, types};

#[tokio::test(flavor = "multi_thread")]
async fn a_task_that_ends_after_the_first_result_belongs_to_its_chat_which_ends_once() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("background", json!({"allowed_tools": ["Bash"]})).await;
    let input =
        json!({"command": "while ! test -e go; do sleep 0.05; done", "run_in_background": true});
    let chat = hub.chat(&session, &format!("sim:\ntool Bash {input}\nsay main is done")).await;
    hub.wait_for(&session, "the main turn's last words", |page| {
        page.to_string().contains("main is done")
    })
    .await;
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    assert_eq!(hub.session(&session).await["status"], "running", "the task still runs");
    std::fs::write(hub.work().join("go"), "").unwrap();
    assert_eq!(hub.wait_for_end(&session, chat).await, "complete");
    let events = hub.events(&session, chat).await;
    assert_eq!(types(&events).iter().filter(|kind| **kind == "complete").count(), 1);
    assert!(
        texts(&events).len() >= 2,
        "the turn that the task started is in it: {:?}",
        texts(&events)
    );
    assert_eq!(hub.session(&session).await["chat"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelling_a_chat_ends_its_background_tasks() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("endless", json!({"allowed_tools": ["Bash"]})).await;
    let input =
        json!({"command": "touch begun; while :; do sleep 0.05; done", "run_in_background": true});
    let chat = hub.chat(&session, &format!("sim:\ntool Bash {input}\nsay main is done")).await;
    let begun = hub.work().join("begun");
    testkit::eventually_async("the task", DEADLINE, || {
        std::future::ready(begun.exists().then_some(()))
    })
    .await;
    hub.wait_for(&session, "the main turn's last words", |page| {
        page.to_string().contains("main is done")
    })
    .await;
    hub.ok("claudecode.cancel", json!({"session_id": session})).await;
    assert_eq!(hub.wait_for_end(&session, chat).await, "cancelled");
    assert_eq!(hub.processes(), []);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_turn_that_nobody_prompted_ends_the_run() {
    let hub = SimulatedHub::new().await;
    let session = hub.create("wakes", json!({})).await;
    let asked = hub.chat_to_end(&session, "sim:\nwake 1 I woke up.\nsay good night").await;
    assert_eq!(texts(&asked), ["good night"]);
    let gone = || std::future::ready(hub.processes().is_empty().then_some(()));
    testkit::eventually_async("the end of the process", DEADLINE, gone).await;
    let lines = hub.store().audit(None, PageRequest::first(100)).await.unwrap().items;
    let breaches: Vec<Value> = lines
        .iter()
        .filter(|numbered| numbered.line.kind == "breach")
        .map(|numbered| numbered.line.body.to_value())
        .collect();
    assert_eq!(breaches.len(), 1, "{breaches:?}");
    assert_eq!(breaches[0]["kind"], "unprompted_turn", "{breaches:?}");
    assert_eq!(hub.session(&session).await["chat"], 0, "the turn has no chat");
    // The session goes on, with another process.
    let next = hub.chat_to_end(&session, "sim:\nsay and on").await;
    assert_eq!(texts(&next), ["and on"]);
    assert_eq!(hub.runs(&session).await, 2);
}
