//! What was approved is what runs. A child that does something else is stopped, and the audit says why.

use plexus_store::PageRequest;
use serde_json::{Value, json};

use crate::common::{DEADLINE, World};

async fn audited(world: &World) -> Vec<String> {
    let page = world.store().audit(None, PageRequest::first(100)).await.unwrap();
    page.items
        .iter()
        .filter(|line| line.kind == "breach")
        .map(|line| line.body.to_value()["what"].to_string())
        .collect()
}

async fn is_stopped(world: &World, session: &str, chat: u64, why: &str) -> Vec<Value> {
    assert_eq!(world.wait_for_end(session, chat).await, "failed");
    let events = world.events(session, chat).await;
    let last = events.last().unwrap()["message"].as_str().unwrap();
    assert!(last.starts_with("stopped: ") && last.contains(why), "{last}");
    let audited = audited(world).await;
    assert!(audited.iter().any(|what| what.contains(why)), "{audited:?}");
    assert_eq!(
        events.iter().filter(|event| event["type"] == "error").count(),
        2,
        "said once, and once as the end: {events:#?}"
    );
    let gone = || std::future::ready(world.processes().is_empty().then_some(()));
    testkit::eventually_async("the end of the child", DEADLINE, gone).await;
    events
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tool_that_ran_without_asking_is_a_breach() {
    let world = World::new().await;
    let session = world.create("breach", json!({})).await;
    let chat = world.chat(&session, "sim:\nbreach Bash {\"command\":\"true\"}\nsay I got away with it\nhang").await;
    is_stopped(&world, &session, chat, "user_temporary").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_hook_that_overrules_a_question_is_a_breach() {
    let world = World::new().await;
    let session = world.create("overruled", json!({})).await;
    let chat = world.chat(&session, "sim:\noverrule Bash {\"command\":\"touch it\"}\nhang").await;
    is_stopped(&world, &session, chat, "accepted by hook").await;
    let history = world.ok("loopback.history", json!({})).await;
    assert_eq!(history["decisions"][0]["status"], "cancelled", "{history:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_somebody_else_put_into_the_inbox_is_a_breach() {
    let world = World::new().await;
    let session = world.create("forged", json!({})).await;
    let chat = world.chat(&session, crate::flow::WRITE).await;
    let approval = world.wait_for_approval(&session).await;
    let id: plexus_core::ApprovalId = approval["id"].as_str().unwrap().parse().unwrap();
    let record = world.store().approval(id).await.unwrap();
    // Code of the same user writes an allow for the child, past us.
    let input = claude_code::RawJson::from_text(record.input.as_str().to_owned()).unwrap();
    let allow = claude_code::control::PermissionAnswer::Allow { updated_input: input, updated_permissions: None };
    let line = claude_code::control::answer_permission(&record.request_id, &allow);
    let dir = plexus_shim::layout::RunDir::new(world.run_dir(&session, 0));
    let seq = dir.inbox_state().unwrap().next_seq();
    dir.put_inbox(seq, line.as_str().as_bytes()).unwrap();
    is_stopped(&world, &session, chat, "not the one that was decided").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_request_of_the_cli_is_answered_with_an_error_and_the_chat_goes_on() {
    let world = World::new().await;
    let session = world.create("newer", json!({})).await;
    let events = world.chat_to_end(&session, "sim:\nrequest brew_coffee\nsay went on").await;
    assert_eq!(events.last().unwrap()["type"], "complete");
    let texts = crate::common::texts(&events).join("\n");
    assert!(texts.contains("brew_coffee") && texts.contains("error") && texts.contains("went on"), "{events:#?}");
    assert_eq!(audited(&world).await, [] as [String; 0]);
}
