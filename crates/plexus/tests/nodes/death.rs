//! `SIGKILL` of a server: one that comes back in time goes on, one that does not loses its sessions
//! to another, and one that is cut off ends its own children in time.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::postgres;
use testkit::process::is_alive;
use testkit::proxy::{Proxy, Weather};

use crate::cluster::{Cluster, DEADLINE, LONG_LEASE, SHORT_LEASE, texts, writes};
use crate::history::{self, Told};

pub(crate) async fn a_server_that_comes_back_within_its_lease_goes_on_as_if_nothing_had_been() {
    let postgres = postgres::shared();
    let url = postgres.fresh_database().unwrap();
    let mut cluster = Cluster::start(&[&url, &url], LONG_LEASE).await;
    let session = cluster.create(0, "back").await;
    cluster.chat(0, &session, &writes("back.txt")).await;
    let approval = cluster.approval(1, &session).await;
    let before = cluster.pids(0, &session, 0);
    cluster.nodes[0].kill_9().unwrap();
    // Decided while no server is there to carry the answer.
    cluster.allow(1, &approval).await;
    cluster.nodes[0].start_again().await.unwrap();
    for reader in 0..2 {
        let (status, events) = cluster.end(reader, &session).await;
        assert_eq!((status.as_str(), texts(&events)), ("complete", vec!["before", "after"]));
    }
    assert!(
        before.iter().all(|pid| is_alive(*pid)),
        "the child that asked is the child that was answered, and is warm now"
    );
    let told =
        Told { approval: approval["id"].as_str().unwrap().to_owned(), approve: true, ok: true };
    history::check(&cluster, 1, &[session], &[told]).await;
}

pub(crate) async fn open_chats_of_a_server_that_does_not_come_back_end_for_good() {
    let postgres = postgres::shared();
    let url = postgres.fresh_database().unwrap();
    let mut cluster = Cluster::with_leases(&[(&url, SHORT_LEASE), (&url, LONG_LEASE)]).await;
    let (asks, decided, talks) = (
        cluster.create(0, "asks").await,
        cluster.create(0, "decided").await,
        cluster.create(0, "talks").await,
    );
    cluster.chat(0, &asks, &writes("asks.txt")).await;
    cluster.chat(0, &decided, &writes("decided.txt")).await;
    let words: String = (0..600).map(|n| format!("\nsay {n}\nsleep 50")).collect();
    cluster.chat(0, &talks, &format!("sim:{words}")).await;
    cluster.approval(1, &asks).await;
    let approval = cluster.approval(1, &decided).await;
    cluster
        .wait_for(1, &talks, "its first words", |page| page["total_events"].as_u64().unwrap() > 3)
        .await;
    let pids: Vec<u32> =
        [&asks, &decided, &talks].iter().flat_map(|session| cluster.pids(0, session, 0)).collect();
    cluster.nodes[0].kill_9().unwrap();
    cluster.allow(1, &approval).await;

    for session in [&asks, &decided, &talks] {
        let (status, events) = cluster.end(1, session).await;
        let last = events.last().unwrap()["message"].as_str().unwrap();
        assert_eq!(status, "failed");
        assert!(last.contains("n0") && last.contains("did not come back"), "{last}");
    }
    assert!(!pids.iter().any(|pid| is_alive(*pid)), "no child outlives the lease of its server");
    let record =
        &cluster.call(1, "loopback.history", json!({"session_id": decided})).await["decisions"][0];
    assert_eq!(
        (&record["status"], &record["delivered_at"]),
        (&json!("allowed"), &Value::Null),
        "void, not delivered"
    );
    let record =
        &cluster.call(1, "loopback.history", json!({"session_id": asks})).await["decisions"][0];
    assert_eq!(record["status"], "cancelled");
    let told =
        Told { approval: approval["id"].as_str().unwrap().to_owned(), approve: true, ok: true };
    history::check(&cluster, 1, &[asks.clone(), decided.clone(), talks.clone()], &[told]).await;
    assert!(
        !cluster.work().join("asks.txt").exists() && !cluster.work().join("decided.txt").exists()
    );

    // Too late: it finds its runs ended, and reports what their journals still hold instead of
    // appending it.
    let ended = cluster.end(1, &talks).await.1.len();
    cluster.nodes[0].start_again().await.unwrap();
    let lost = cluster.nodes[0].data_dir().join("lost").join(format!("{talks}-0/lost.json"));
    testkit::eventually_async("a note of what was lost", DEADLINE, || {
        std::future::ready(lost.exists().then_some(()))
    })
    .await;
    let note: Value = serde_json::from_slice(&std::fs::read(&lost).unwrap()).unwrap();
    assert!(note["lines"].as_u64().unwrap() > 0, "{note}");
    assert_eq!(cluster.end(0, &talks).await.1.len(), ended, "what has ended gets no more events");
    // A server that has its directories goes on with the session.
    cluster.chat(1, &asks, "sim:\nsay again").await;
    let (status, events) = cluster.end(0, &asks).await;
    assert_eq!((status.as_str(), texts(&events)), ("complete", vec!["again"]));
}

pub(crate) async fn a_server_that_loses_the_database_lets_its_children_go_before_another_takes_over_and_then_comes_back()
 {
    let postgres = postgres::shared();
    let url = postgres.fresh_database().unwrap();
    let proxy = Proxy::start(postgres.address()).await.unwrap();
    let through = postgres.url_through(&url, proxy.address()).unwrap();
    let cluster = Cluster::with_leases(&[(&through, SHORT_LEASE), (&url, LONG_LEASE)]).await;
    let session = cluster.create(0, "cut").await;
    cluster.chat(0, &session, &writes("cut.txt")).await;
    let approval = cluster.approval(1, &session).await;
    let pids = cluster.pids(0, &session, 0);
    proxy.set(Weather::Stalled);
    let (status, _) = cluster.end(1, &session).await;
    assert_eq!(status, "failed");
    assert!(!pids.iter().any(|pid| is_alive(*pid)), "the child was gone before the chat was ended");
    let late = cluster.nodes[1]
        .call("loopback.respond", json!({"approval_id": approval["id"], "approve": true}))
        .await;
    assert!(
        format!("{:#}", late.unwrap_err()).contains("cancelled"),
        "nobody is told that a question without an asker was answered"
    );

    proxy.set(Weather::Clear);
    // The server that comes back is a server like any other.
    testkit::eventually_async("a chat on the server that was cut off", DEADLINE, || async {
        let prompt = json!({"session_id": session, "prompt": "sim:\nsay back"});
        let started = cluster.nodes[0].call("claudecode.chat_async", prompt).await.ok();
        if started.is_none() {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        started
    })
    .await;
    let (status, events) = cluster.end(1, &session).await;
    assert_eq!((status.as_str(), texts(&events)), ("complete", vec!["back"]));
    assert!(!cluster.work().join("cut.txt").exists());
    history::check(&cluster, 1, &[session], &[]).await;
}
