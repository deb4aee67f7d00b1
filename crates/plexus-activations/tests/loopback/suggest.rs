//! Rules that decisions support: proposed with evidence to the decider, and never made by
//! themselves.

use std::sync::Arc;

use plexus_core::{Caller, SessionId};
use serde_json::{Value, json};

use crate::childless_hub::{ChildlessHub, answer, bash};

/// Has a session ask for a command, and decides it.
async fn decide(
    hub: &Arc<ChildlessHub>,
    by: Caller,
    session: SessionId,
    command: &str,
    approve: bool,
) {
    let id = format!("{command} {}", uuid::Uuid::now_v7());
    let (task, asked) = hub.ask(session, &id, "Bash", bash(command)).await;
    hub.respond(by, &asked, approve).await.unwrap();
    answer(task).await;
}

fn patterns(suggested: &Value) -> Vec<(&str, u64)> {
    let all = suggested["suggestions"].as_array().unwrap().iter();
    all.map(|one| (one["pattern"].as_str().unwrap(), one["answers"].as_u64().unwrap())).collect()
}

#[tokio::test]
async fn a_rule_is_proposed_with_its_evidence_and_nothing_is_made() {
    let hub = Arc::new(ChildlessHub::new().await);
    let (one, other) = (hub.create("one", json!({})).await, hub.create("other", json!({})).await);
    for (session, command, approve) in [
        (one, "git diff --stat", true),
        (other, "git diff HEAD", true),
        (one, "git diff HEAD && rm -rf x", false),
        (one, "npm publish", true),
    ] {
        decide(&hub, Caller::Operator, session, command, approve).await;
    }
    let suggested = hub.ok("loopback.rule_suggest", json!({})).await;
    assert_eq!(suggested["looked_at"], 4);
    assert_eq!(patterns(&suggested), [("Bash(git diff:*)", 2)], "{suggested}");
    let rule = &suggested["suggestions"][0];
    assert_eq!(
        (&rule["scope"], &rule["denied"], &rule["sessions"]),
        (&json!("all"), &json!(0), &json!(2))
    );
    assert_eq!(rule["evidence"].as_array().unwrap().len(), 2);
    assert_eq!(hub.ok("loopback.rules", json!({})).await["rules"], json!([]), "none was made");

    // The newest alone are too few; once it is a rule, there is nothing left to propose.
    let newest = hub.ok("loopback.rule_suggest", json!({"last": 1})).await;
    assert_eq!((&newest["looked_at"], patterns(&newest)), (&json!(1), Vec::new()));
    let add = json!({"decision": "allow", "pattern": rule["pattern"], "scope": rule["scope"]});
    hub.ok("loopback.rule_add", add).await;
    assert_eq!(patterns(&hub.ok("loopback.rule_suggest", json!({})).await), []);
}

#[tokio::test]
async fn a_parent_is_proposed_only_what_it_decided_and_may_add() {
    let hub = Arc::new(ChildlessHub::new().await);
    let may = json!({"can_spawn": true, "may_decide": ["Bash(git diff:*)", "Bash(make a)"]});
    let parent = hub.create("parent", may).await;
    let child = hub.create_as(Caller::Session(parent), "child", json!({})).await.unwrap();
    let by = Caller::Session(parent);
    for command in ["git diff --stat", "git diff HEAD", "make a", "make a"] {
        decide(&hub, by, child, command, true).await;
    }
    // The operator's decisions are no evidence of the parent's.
    for command in ["git log -1", "git log -2"] {
        decide(&hub, Caller::Operator, child, command, true).await;
    }
    let suggested = hub.call_as(by, "loopback.rule_suggest", json!({})).await.unwrap();
    assert_eq!(suggested["looked_at"], 4);
    assert_eq!(patterns(&suggested), [("Bash(make a)", 2), ("Bash(git diff:*)", 2)]);
    assert_eq!(suggested["suggestions"][0]["scope"], json!({"subtree": parent}));
    let operators = hub.ok("loopback.rule_suggest", json!({})).await;
    assert_eq!(patterns(&operators), [("Bash(git log:*)", 2)]);
}
