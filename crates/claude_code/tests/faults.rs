//! Faults of a child: each is survived, and none leaves a process behind.

#![cfg(unix)]
#![allow(clippy::expect_used, reason = "a failed test is allowed to stop loudly")]

mod common;

use std::alloc::System;
use std::time::Duration;

use cap::Cap;
use claude_code::{ClaudeCodeError, ClaudePrintRequest, ClaudeStreamJsonParseErrorCode as Code};
use common::{Scripted, within};
use futures::StreamExt as _;

/// Counts allocations, so that a test can assert a bound.
#[global_allocator]
static MEMORY: Cap<System> = Cap::new(System, usize::MAX);

fn request() -> ClaudePrintRequest {
    ClaudePrintRequest::new("x")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_of_256_mebibytes_is_skipped_in_bounded_memory() {
    const MEBIBYTE: usize = 1024 * 1024;
    let child = Scripted::new(
        r#"echo '{"type":"before"}'; head -c 268435456 /dev/zero | tr '\0' 'x'; echo; echo '{"type":"after"}'"#,
    );
    let mut handle = child.client().print_stream_json(request()).await.expect("starts");
    let first =
        within("the first event", handle.events.next()).await.expect("an event").expect("readable");
    assert_eq!(first.event_type(), "before");
    let before = MEMORY.allocated();
    // A separate thread measures the memory while the line is read.
    let peak = std::thread::scope(|scope| {
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let watch = scope.spawn(move || {
            let mut peak = 0;
            while stopped
                .recv_timeout(Duration::from_millis(2))
                .is_err_and(|error| error == std::sync::mpsc::RecvTimeoutError::Timeout)
            {
                peak = peak.max(MEMORY.allocated());
            }
            peak
        });
        let error = tokio::task::block_in_place(|| {
            tokio::runtime::Handle::current().block_on(within("the error", handle.events.next()))
        });
        let error = error.expect("an item").expect_err("too long");
        assert_eq!((error.code, error.line_bytes), (Code::LineTooLong, Some(268_435_456)));
        drop(stop);
        watch.join().expect("watches")
    });
    // The limit of a line, doubled while its buffer grows, plus the memory of other tests in this
    // file.
    assert!(peak < before + 64 * MEBIBYTE, "{} MiB for one line", (peak - before) / MEBIBYTE);
    let after =
        within("the next event", handle.events.next()).await.expect("an event").expect("readable");
    assert_eq!(after.event_type(), "after");
    assert!(within("the completion", handle.completion).await.expect("ends").success());
    child.wait_until_nothing_is_left().await;
}

#[tokio::test]
async fn invalid_utf8_is_repaired_on_the_way() {
    let child =
        Scripted::new(r#"printf '{"type":"x","session_id":"a\377b"}\n\377\376\n{"type":"y"}\n'"#);
    let output = within("the run", child.client().print(request())).await.expect("runs");
    let [Ok(repaired), Err(error), Ok(clean)] = output.events.as_slice() else {
        panic!("{:?}", output.events)
    };
    assert_eq!((repaired.session_id(), repaired.repairs.invalid_utf8), (Some("a\u{fffd}b"), true));
    assert_eq!((error.code, clean.repairs.any()), (Code::JsonParse, false));
    child.wait_until_nothing_is_left().await;
}

#[tokio::test]
async fn a_detached_grandchild_that_floods_stdout_does_not_hold_the_stream() {
    let child = Scripted::new(
        r#"(while :; do echo '{"type":"flood"}'; done) & echo '{"type":"mine"}'; exit 7"#,
    );
    let mut handle = child.client().print_stream_json(request()).await.expect("starts");
    within("the end of the stream", async { while handle.events.next().await.is_some() {} }).await;
    assert_eq!(within("the completion", handle.completion).await.expect("ends").code(), Some(7));
    child.wait_until_nothing_is_left().await;
}

#[tokio::test]
async fn a_child_that_never_exits_and_ignores_everything_is_ended_by_its_timeout() {
    let child =
        Scripted::new("trap '' TERM INT HUP; exec > /dev/null; while :; do sleep 1000; done");
    let client = child
        .builder()
        .timeout(Duration::from_millis(300))
        .termination_grace(Duration::from_millis(200))
        .build();
    let error = within("the run", client.print(request())).await.expect_err("never exits");
    assert!(matches!(error, ClaudeCodeError::Timeout { .. }), "{error}");
    child.wait_until_nothing_is_left().await;
}

#[tokio::test]
async fn a_child_that_floods_stderr_for_ever_is_still_read_and_ended() {
    let child = Scripted::new(
        r#"(while :; do echo noise noise noise noise >&2; done) & sleep 0.2; echo '{"type":"a"}'; wait"#,
    );
    let mut handle = child.client().print_stream_json(request()).await.expect("starts");
    let tail = handle.stderr_tail();
    assert!(within("the event", handle.events.next()).await.expect("an event").is_ok());
    let noise = || std::future::ready(tail.text().contains("noise").then_some(()));
    testkit::wait::eventually_async("the noise", testkit::wait::PATIENCE, noise).await;
    drop(handle);
    child.wait_until_nothing_is_left().await;
}

#[tokio::test]
async fn a_consumer_that_stops_reading_and_then_leaves_takes_the_child_along() {
    let child = Scripted::new(r#"while :; do echo '{"type":"n"}'; done"#);
    let mut handle = child.client().print_stream_json(request()).await.expect("starts");
    assert!(within("an event", handle.events.next()).await.is_some());
    tokio::time::sleep(Duration::from_millis(200)).await;
    drop(handle.events);
    within("the completion", handle.completion).await.expect("ends");
    assert_eq!(child.processes(), [0; 0]);
}

#[tokio::test]
async fn a_kill_during_start_leaves_nothing() {
    let child = Scripted::new("sleep 1000 & sleep 1000");
    for round in 0..30 {
        let handle = child.client().print_stream_json(request()).await.expect("starts");
        match round % 3 {
            0 => drop(handle),
            1 => drop(handle.events),
            _ => {
                handle.termination().terminate();
                handle.termination().terminate();
                within("the completion", handle.completion).await.expect("ends");
            }
        }
    }
    child.wait_until_nothing_is_left().await;
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_grandchild_in_its_own_session_is_found_after_its_parents_are_gone() {
    // The parent of the sleeper exits long before the child does, so the process tree no longer
    // leads to it.
    let child = Scripted::new(
        r#"(setsid sh -c 'sleep 1000 & echo > detached; sleep 1000' < /dev/null > /dev/null 2>&1 &) ; while [ ! -e detached ]; do sleep 0.02; done; echo '{"type":"a"}'"#,
    );
    let output = within("the run", child.client().print(request())).await.expect("runs");
    assert_eq!(output.events.len(), 1);
    assert_eq!(child.processes(), [0; 0], "completion comes after the last process");
}
