//! Tests the gate alone; the test acts as the backend.

use std::{process::ExitStatus, time::Duration};

use futures::{FutureExt, StreamExt, poll};

use super::*;
use crate::{AgentWrapperOutcome, DynAgentWrapperCompletion};

fn kind() -> AgentWrapperKind {
    AgentWrapperKind::new("test").unwrap()
}

fn text(text: &str) -> AgentWrapperEvent {
    AgentWrapperEvent::text(&kind(), text)
}

fn success() -> RunResult {
    Ok(AgentWrapperCompletion {
        status: ExitStatus::default(),
        outcome: AgentWrapperOutcome::Succeeded,
        final_text: None,
        data: None,
    })
}

fn cancelled() -> RunResult {
    Err(AgentWrapperError::Backend { message: "cancelled".to_owned() })
}

/// Lets every other task run until it waits: time is paused, so the clock advances only when all
/// tasks are idle.
async fn settle() {
    tokio::time::sleep(Duration::from_millis(1)).await;
}

async fn is_pending(completion: &mut DynAgentWrapperCompletion) -> bool {
    settle().await;
    poll!(completion).is_pending()
}

#[tokio::test(start_paused = true)]
async fn completion_waits_for_the_process() {
    let (AgentWrapperRunControl { mut handle, .. }, sink) = open(kind());
    drop(handle.events);
    assert!(is_pending(&mut handle.completion).await);
    sink.end(success());
    assert_eq!(handle.completion.await, success());
}

#[tokio::test(start_paused = true)]
async fn completion_waits_for_the_end_of_the_stream() {
    let (AgentWrapperRunControl { mut handle, .. }, sink) = open(kind());
    assert_eq!(sink.send(text("a")).await, Forwarded::Sent);
    sink.end(success());
    assert!(is_pending(&mut handle.completion).await, "an event is unread");
    assert_eq!(handle.events.next().await, Some(text("a")));
    assert!(is_pending(&mut handle.completion).await, "the end is unread");
    assert_eq!(handle.events.next().await, None);
    assert_eq!(handle.completion.await, success());
}

#[tokio::test(start_paused = true)]
async fn a_completion_that_is_waited_for_wakes_at_the_end_of_the_stream() {
    let (AgentWrapperRunControl { mut handle, .. }, sink) = open(kind());
    let waiting = tokio::spawn(handle.completion);
    sink.end(success());
    settle().await;
    assert!(!waiting.is_finished());
    assert_eq!(handle.events.next().await, None);
    assert_eq!(waiting.await.unwrap(), success());
}

#[tokio::test(start_paused = true)]
async fn dropping_the_events_waives_them() {
    let (AgentWrapperRunControl { handle, .. }, sink) = open(kind());
    drop(handle.events);
    assert_eq!(sink.send(text("a")).await, Forwarded::Unread);
    assert!(!sink.is_cancelled());
    sink.end(success());
    assert_eq!(handle.completion.await, success());
}

#[tokio::test(start_paused = true)]
async fn dropping_the_events_frees_a_backend_that_waits_for_room() {
    let (AgentWrapperRunControl { handle, .. }, sink) = open(kind());
    for _ in 0..EVENT_CHANNEL_CAPACITY {
        assert_eq!(sink.send(text("a")).await, Forwarded::Sent);
    }
    assert!(sink.send(text("one too many")).now_or_never().is_none(), "the channel is bounded");
    let waiting = tokio::spawn(async move { sink.send(text("one too many")).await });
    settle().await;
    drop(handle.events);
    assert_eq!(waiting.await.unwrap(), Forwarded::Unread);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_whole_handle_cancels() {
    let (AgentWrapperRunControl { handle, .. }, sink) = open(kind());
    drop(handle);
    sink.cancelled().await;
    assert_eq!(sink.send(text("a")).await, Forwarded::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn dropping_the_cancel_handle_or_the_completion_alone_does_not_cancel() {
    let (AgentWrapperRunControl { mut handle, cancel }, sink) = open(kind());
    drop(cancel);
    drop(handle.completion);
    assert_eq!(sink.send(text("a")).await, Forwarded::Sent);
    assert_eq!(handle.events.next().await, Some(text("a")));
}

#[tokio::test(start_paused = true)]
async fn after_a_cancel_no_event_is_forwarded_though_it_waits_in_the_channel() {
    let (AgentWrapperRunControl { mut handle, cancel }, sink) = open(kind());
    assert_eq!(sink.send(text("a")).await, Forwarded::Sent);
    assert_eq!(sink.send(text("b")).await, Forwarded::Sent);
    assert_eq!(handle.events.next().await, Some(text("a")));
    cancel.cancel();
    assert_eq!(handle.events.next().await, None);
    assert_eq!(handle.events.next().await, None, "an ended stream stays ended");
    assert_eq!(sink.send(text("c")).await, Forwarded::Cancelled);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_wakes_a_waiting_reader_and_a_waiting_backend() {
    let (AgentWrapperRunControl { mut handle, cancel }, sink) = open(kind());
    let reader = tokio::spawn(async move { handle.events.next().await });
    let backend = tokio::spawn(async move { sink.cancelled().await });
    settle().await;
    cancel.cancel();
    assert_eq!(reader.await.unwrap(), None);
    backend.await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_completion_waits_for_the_process() {
    let (AgentWrapperRunControl { mut handle, cancel }, sink) = open(kind());
    cancel.cancel();
    cancel.cancel();
    assert_eq!(handle.events.next().await, None);
    assert!(is_pending(&mut handle.completion).await);
    sink.end(success());
    assert_eq!(handle.completion.await, cancelled());
}

#[tokio::test(start_paused = true)]
async fn after_a_cancel_the_completion_does_not_wait_for_a_reader() {
    let (AgentWrapperRunControl { handle, cancel }, sink) = open(kind());
    assert_eq!(sink.send(text("unread")).await, Forwarded::Sent);
    cancel.cancel();
    sink.end(success());
    let AgentWrapperRunHandle { mut events, completion } = handle;
    assert_eq!(completion.await, cancelled());
    assert_eq!(events.next().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_cancel_beats_an_end_that_nobody_has_observed() {
    let (AgentWrapperRunControl { mut handle, cancel }, sink) = open(kind());
    sink.end(success());
    assert_eq!(handle.events.next().await, None);
    cancel.cancel();
    assert_eq!(handle.completion.await, cancelled());
}

#[tokio::test(start_paused = true)]
async fn a_cancel_after_the_completion_was_observed_does_nothing() {
    let (AgentWrapperRunControl { mut handle, cancel }, sink) = open(kind());
    let facts = Arc::clone(&sink.facts);
    sink.end(success());
    assert_eq!(handle.events.next().await, None);
    assert_eq!((&mut handle.completion).await, success());
    cancel.cancel();
    drop(handle);
    assert!(!facts.cancelled.is_cancelled());
}

#[tokio::test(start_paused = true)]
async fn a_cancel_works_after_the_handle_is_gone() {
    let (AgentWrapperRunControl { handle, cancel }, sink) = open(kind());
    let AgentWrapperRunHandle { events, completion } = handle;
    drop(completion);
    cancel.cancel();
    drop(events);
    sink.cancelled().await;
}

#[tokio::test(start_paused = true)]
async fn a_backend_that_vanishes_ends_the_run_with_an_error() {
    let (AgentWrapperRunControl { mut handle, .. }, sink) = open(kind());
    drop(sink);
    assert_eq!(handle.events.next().await, None);
    assert!(matches!(handle.completion.await, Err(AgentWrapperError::Backend { .. })));
}

#[tokio::test(start_paused = true)]
async fn events_leave_within_their_bounds_and_under_the_kind_of_the_run() {
    let (AgentWrapperRunControl { handle, .. }, sink) = open(kind());
    let other = AgentWrapperKind::new("other").unwrap();
    let long = "é".repeat(bounds::MAX_TEXT_BYTES);
    assert_eq!(sink.send(AgentWrapperEvent::text(&other, long.clone())).await, Forwarded::Sent);
    sink.end(success());
    let got: Vec<_> = handle.events.collect().await;
    assert!(got.iter().all(|event| event.agent_kind == kind()));
    assert_eq!(got.iter().filter_map(|event| event.text.as_deref()).collect::<String>(), long);
    assert_eq!(got.len(), 2);
}

/// Runs the same four actions in many orders, on real threads: the completion always resolves, to
/// one of two answers.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cancel_racing_the_end_gives_one_of_two_answers() {
    for round in 0..500 {
        let (AgentWrapperRunControl { handle, cancel }, sink) = open(kind());
        let AgentWrapperRunHandle { mut events, completion } = handle;
        let backend = tokio::spawn(async move {
            let _ = sink.send(text("a")).await;
            sink.end(success());
        });
        let canceller = tokio::spawn(async move {
            if round % 3 > 0 {
                tokio::task::yield_now().await;
            }
            cancel.cancel();
        });
        let reader = tokio::spawn(async move { while events.next().await.is_some() {} });
        let answer = tokio::time::timeout(Duration::from_secs(30), completion)
            .await
            .expect("the completion resolves");
        assert!(answer == success() || answer == cancelled(), "{answer:?}");
        backend.await.unwrap();
        canceller.await.unwrap();
        reader.await.unwrap();
    }
}
