//! Checks what happened to every approval against the promises: a history of (requests, decisions,
//! deliveries), as events, records and files tell it.

use std::collections::HashMap;

use serde_json::{Value, json};

use crate::cluster::Cluster;

/// What a caller was told when it answered.
#[derive(Debug, Clone)]
pub(crate) struct Told {
    pub(crate) approval: String,
    pub(crate) approve: bool,
    /// Whether the server said `ok`; a call without any answer is in no history.
    pub(crate) ok: bool,
}

/// Reads the history of some sessions at one server and holds it against the promises. `told` is
/// what answerers were told.
pub(crate) async fn check(cluster: &Cluster, node: usize, sessions: &[String], told: &[Told]) {
    let mut decisions: HashMap<String, Value> = HashMap::new();
    for session in sessions {
        let page = cluster
            .call(node, "loopback.history", json!({"session_id": session, "limit": 1000}))
            .await;
        for decision in page["decisions"].as_array().unwrap() {
            let id = decision["approval_id"].as_str().unwrap().to_owned();
            assert!(
                decisions.insert(id, decision.clone()).is_none(),
                "P3: one record for each approval: {decision}"
            );
        }
    }
    // P1 and P3: an answer that was taken stands, and no other one was taken beside it.
    for answer in told.iter().filter(|answer| answer.ok) {
        let stands = &decisions
            .get(&answer.approval)
            .unwrap_or_else(|| panic!("P1: {answer:?} was lost"))["status"];
        let said = if answer.approve { "allowed" } else { "denied" };
        assert_eq!(stands, said, "P3: somebody was told that {answer:?} stands");
    }
    for session in sessions {
        let page = cluster
            .call(
                node,
                "claudecode.poll",
                json!({"session_id": session, "from_seq": 0, "limit": 1000}),
            )
            .await;
        let events: Vec<&Value> = page["events"].as_array().unwrap().iter().collect();
        for (n, event) in events.iter().enumerate() {
            assert_eq!(event["seq"], n, "P2: a gap or a repeat in {session}");
        }
        let of = |kind: &str| {
            events.iter().map(|it| &it["event"]).filter(|it| it["type"] == kind).collect::<Vec<_>>()
        };
        let (asked, resolved, results) =
            (of("awaiting_approval"), of("approval_resolved"), of("tool_result"));
        for ask in &asked {
            let id = ask["approval_id"].as_str().unwrap();
            let same = |other: &&&Value| other["approval_id"] == ask["approval_id"];
            assert_eq!(asked.iter().filter(same).count(), 1, "P5: asked once: {ask}");
            let ended = resolved.iter().filter(same).collect::<Vec<_>>();
            let Some(decision) = decisions.get(id) else {
                assert!(ended.is_empty(), "P3: resolved without a decision: {ask}");
                continue;
            };
            assert_eq!(ended.len(), 1, "P2: a decision is told once: {ask}");
            let allowed = decision["status"] == "allowed";
            assert_eq!(ended[0]["approved"], allowed, "P3: what is told is what stands");
            // P4: what was not allowed did not run; what ran was allowed.
            let ran = results
                .iter()
                .any(|it| it["tool_use_id"] == ask["tool_use_id"] && it["is_error"] != true);
            assert!(!ran || allowed, "P4: {ask} ran, and was {}", decision["status"]);
            assert!(decision["breach"].is_null(), "P4: {decision}");
            if ran {
                assert!(
                    !decision["delivered_at"].is_null(),
                    "P4: it ran, so its answer was delivered: {decision}"
                );
            }
        }
        // P6: nothing waits in a chat that is over.
        if !["running", "awaiting_permission"].contains(&page["status"].as_str().unwrap()) {
            assert_eq!(page["pending_approvals"], json!([]), "P6: {session}");
            assert_eq!(asked.len(), resolved.len(), "P6: every question of {session} has an end");
        }
    }
}
