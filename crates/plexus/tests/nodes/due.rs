//! An expiry and a step of escalation happen once and are seen everywhere, also when the server
//! that took the request is dead.

use serde_json::{Value, json};
use testkit::postgres;

use crate::cluster::{Cluster, LONG_LEASE, texts, writes};
use crate::history::{self, Told};

/// After how many seconds somebody is reminded of a request with a deadline. It happens once,
/// because less time than this remains after the first reminder.
const REMIND_SECS: u64 = 8;

/// When such a request is denied.
const DEADLINE_SECS: u64 = 14;

/// When a request without a deadline is passed on.
const STEP_SECS: u64 = 4;

/// The events of one type.
fn of<'e>(events: &'e [Value], kind: &str) -> Vec<&'e Value> {
    events.iter().filter(|event| event["type"] == kind).collect()
}

/// How many notices of a chat say this.
fn notices(events: &[Value], words: &str) -> usize {
    of(events, "notice")
        .iter()
        .filter(|event| event["message"].as_str().unwrap().contains(words))
        .count()
}

/// Whether a page has an event with this text in it. Events stay, so it does not matter how late a
/// busy machine looks.
fn has(words: &'static str) -> impl Fn(&Value) -> bool {
    move |page| {
        page["events"]
            .as_array()
            .unwrap()
            .iter()
            .any(|event| event["event"].to_string().contains(words))
    }
}

/// Starts a session that asks at once, and waits until another server has seen that.
async fn ask(cluster: &Cluster, node: usize, name: &str, params: Value) -> String {
    let mut all = json!({"name": name, "working_dir": cluster.work()});
    all.as_object_mut().unwrap().extend(params.as_object().unwrap().clone());
    let session =
        cluster.call(node, "claudecode.create", all).await["id"].as_str().unwrap().to_owned();
    cluster.chat(node, &session, &writes(&format!("{name}.txt"))).await;
    cluster.wait_for(2, &session, "the question", has("awaiting_approval")).await;
    session
}

pub(crate) async fn a_deadline_is_kept_once_whichever_servers_are_there() {
    let postgres = postgres::shared();
    let url = postgres.fresh_database().unwrap();
    let mut cluster = Cluster::start(&[&url, &url, &url], LONG_LEASE).await;
    let params =
        json!({"escalate_after_secs": REMIND_SECS, "loopback_timeout_secs": DEADLINE_SECS});
    let dead = ask(&cluster, 0, "dead", params.clone()).await;
    let alive = ask(&cluster, 1, "alive", params).await;
    cluster.nodes[0].kill_9().unwrap();
    for session in [&dead, &alive] {
        for reader in [1, 2] {
            let page =
                cluster.wait_for(reader, session, "the expiry", has("approval_resolved")).await;
            assert_eq!(page["pending_approvals"], json!([]));
        }
        let record = &cluster.call(2, "loopback.history", json!({"session_id": session})).await["decisions"]
            [0];
        assert_eq!(
            (&record["status"], &record["decided_by"]),
            (&json!("expired"), &json!("deadline"))
        );
    }

    // Back within its lease, the server brings the denial to the child that waits for it, and
    // changes nothing else.
    cluster.nodes[0].start_again().await.unwrap();
    for session in [&dead, &alive] {
        for reader in 0..3 {
            let (status, events) = cluster.end(reader, session).await;
            assert_eq!(
                (status.as_str(), texts(&events)),
                ("complete", vec!["before", "after"]),
                "at {reader}"
            );
            let resolved = of(&events, "approval_resolved");
            assert_eq!(
                (resolved.len(), &resolved[0]["approved"]),
                (1, &json!(false)),
                "at {reader}"
            );
            // Two servers find the reminder due in the same moment; one that is late finds the
            // deadline first, and reminds of nothing.
            let reminders = notices(&events, "still waiting for the operator");
            assert!(reminders <= 1, "reminded {reminders} times of one step: {events:#?}");
        }
    }
    assert!(
        !cluster.work().join("dead.txt").exists() && !cluster.work().join("alive.txt").exists()
    );
    history::check(&cluster, 0, &[dead, alive], &[]).await;
}

pub(crate) async fn a_step_of_escalation_is_taken_once_whichever_servers_are_there() {
    let postgres = postgres::shared();
    let url = postgres.fresh_database().unwrap();
    let mut cluster = Cluster::start(&[&url, &url, &url], LONG_LEASE).await;
    let parent = json!({"name": "parent", "working_dir": cluster.work(), "may_decide": ["Write"]});
    let parent = cluster.call(0, "claudecode.create", parent).await["id"].clone();
    // A parent that does not answer, and no deadline that could come before the step.
    let params =
        json!({"parent": parent, "escalate_after_secs": STEP_SECS, "loopback_timeout_secs": 0});
    let dead = ask(&cluster, 0, "dead", params.clone()).await;
    let alive = ask(&cluster, 1, "alive", params).await;
    cluster.nodes[0].kill_9().unwrap();
    let mut told = Vec::new();
    for session in [&dead, &alive] {
        for reader in [1, 2] {
            let page = cluster
                .wait_for(reader, session, "the step", has("passed on to the operator"))
                .await;
            assert_eq!(page["pending_approvals"][0]["escalated_to"], "operator", "at {reader}");
        }
        let approval = cluster.approval(2, session).await;
        cluster.allow(2, &approval).await;
        told.push(Told {
            approval: approval["id"].as_str().unwrap().to_owned(),
            approve: true,
            ok: true,
        });
    }
    cluster.nodes[0].start_again().await.unwrap();
    for session in [&dead, &alive] {
        for reader in 0..3 {
            let (status, events) = cluster.end(reader, session).await;
            assert_eq!(
                (status.as_str(), texts(&events)),
                ("complete", vec!["before", "after"]),
                "at {reader}"
            );
            assert_eq!(
                notices(&events, "passed on to the operator"),
                1,
                "at {reader}: {events:#?}"
            );
        }
    }
    history::check(&cluster, 0, &[dead, alive], &told).await;
}
