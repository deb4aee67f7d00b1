//! Many at once and many in a row: everything is there once, and nothing is left. The full numbers
//! run with `PLEXUS_FULL=1`.

use std::time::Duration;

use serde_json::json;

use crate::common::{DEADLINE, SimulatedHub, texts};

/// The number of the normal suite, or the one that the promise names.
fn full(quick: usize, full: usize) -> usize {
    if std::env::var_os("PLEXUS_FULL").is_some() { full } else { quick }
}

#[tokio::test(flavor = "multi_thread")]
async fn children_that_burst_at_once_lose_nothing_and_repeat_nothing() {
    let (children, events) = (full(8, 64), full(1_000, 10_000));
    let hub = SimulatedHub::with(|settings| settings.max_warm = 64).await;
    let began = std::time::Instant::now();
    let mut sessions = Vec::new();
    for n in 0..children {
        let session = hub.create(&format!("burst-{n}"), json!({})).await;
        hub.chat(&session, &format!("sim:\nburst {events} 40")).await;
        sessions.push(session);
    }
    for session in &sessions {
        while hub.session(session).await["status"] == "running" {
            let total = hub.page(session, 0, 0, 1).await["total_events"].clone();
            hub.ok(
                "claudecode.poll",
                json!({"session_id": session, "from_seq": total, "wait_ms": 1000}),
            )
            .await;
        }
    }
    let took = began.elapsed();
    let own = testkit::process::peak_resident_bytes(std::process::id()).unwrap();
    println!(
        "{children} children with {events} events each: {took:?}, {:.0} events/s, peak {} MiB",
        (children * events) as f64 / took.as_secs_f64(),
        own >> 20
    );
    for session in &sessions {
        let stored = hub.events(session, 0).await;
        let numbers: Vec<usize> = texts(&stored)
            .iter()
            .map(|text| text.split(' ').next().unwrap().parse().unwrap())
            .collect();
        assert_eq!(numbers, (0..events).collect::<Vec<_>>());
        assert_eq!(stored.last().unwrap()["type"], "complete");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn warm_children_stay_within_their_bound_and_the_longest_idle_leaves_first() {
    let hub = SimulatedHub::with(|settings| settings.max_warm = 2).await;
    let mut sessions = Vec::new();
    for n in 0..4 {
        let session = hub.create(&format!("warm-{n}"), json!({})).await;
        hub.chat_to_end(&session, "sim:\nsay x").await;
        sessions.push(session);
    }
    let bounded = || std::future::ready((hub.children() == 2).then_some(()));
    testkit::eventually_async("two children left", DEADLINE, bounded).await;
    for (session, runs) in sessions.iter().zip([2, 2, 1, 1]).rev() {
        hub.chat_to_end(session, "sim:\nsay again").await;
        assert_eq!(hub.runs(session).await, runs, "{session}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn more_children_than_may_run_is_busy_and_a_warm_one_makes_room() {
    let hub = SimulatedHub::with(|settings| settings.max_running = 1).await;
    let (a, b) = (hub.create("a", json!({})).await, hub.create("b", json!({})).await);
    hub.chat_to_end(&a, "sim:\nsay idle now").await;
    hub.chat(&b, "sim:\nsay mine\nhang").await;
    hub.wait_for_event(&b, "content").await;
    let busy = hub
        .call("claudecode.chat_async", json!({"session_id": a, "prompt": "sim:\nsay x"}))
        .await
        .unwrap_err();
    assert_eq!(serde_json::to_value(busy.kind).unwrap(), "busy");
    hub.ok("claudecode.cancel", json!({"session_id": b})).await;
    hub.wait_for_end(&b, 0).await;
    assert_eq!(hub.chat_to_end(&a, "sim:\nsay again").await.last().unwrap()["type"], "complete");
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_warm_children_leave_as_places_are_wanted() {
    let hub =
        SimulatedHub::with(|settings| (settings.max_running, settings.max_warm) = (2, 2)).await;
    let mut sessions = Vec::new();
    for name in ["a", "b", "c", "d"] {
        sessions.push(hub.create(name, json!({})).await);
    }
    for session in &sessions[..2] {
        hub.chat_to_end(session, "sim:\nsay idle now").await;
    }
    for session in &sessions[2..] {
        hub.chat(session, "sim:\nsay mine").await;
    }
    for session in &sessions[2..] {
        assert_eq!(hub.wait_for_end(session, 0).await, "complete");
    }
    for session in &sessions[..2] {
        hub.chat_to_end(session, "sim:\nrecall").await;
        assert_eq!(hub.runs(session).await, 2, "its first process had to leave");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chat_cancelled_while_it_waits_for_a_place_never_starts() {
    // A process that must make room and does not end would be killed after the grace period.
    let hour = Duration::from_secs(3_600);
    let hub =
        SimulatedHub::with(|settings| (settings.max_running, settings.grace) = (1, hour)).await;
    let (a, b) = (hub.create("a", json!({})).await, hub.create("b", json!({})).await);
    hub.chat_to_end(&a, "sim:\nsay idle now").await;
    let child = hub.pids(&a, 0).1;
    testkit::process::signal(child, rustix::process::Signal::STOP);
    let chat = hub.chat(&b, "sim:\nsay mine").await;
    hub.ok("claudecode.cancel", json!({"session_id": b})).await;
    assert_eq!(hub.wait_for_end(&b, chat).await, "cancelled");
    testkit::process::signal(child, rustix::process::Signal::KILL);
    assert_eq!(texts(&hub.chat_to_end(&a, "sim:\nsay again").await), ["again"]);
    assert_eq!((hub.runs(&b).await, hub.runs(&a).await), (0, 2));
    assert_eq!(hub.events(&b, chat).await.len(), 2, "it began and was cancelled, nothing else");
}
