//! One request, one decision, and that what was approved is what runs.

use std::sync::Arc;

use plexus_core::{Caller, ErrorKind};
use serde_json::json;

use crate::childless_hub::{ChildlessHub, answer, bash};

#[tokio::test]
async fn an_allow_carries_the_whole_input_and_a_denial_its_reason() {
    let hub = Arc::new(ChildlessHub::new().await);
    let session = hub.create("s", json!({})).await;
    let (task, asked) = hub.ask(session, "t1", "Bash", bash("make")).await;
    assert_eq!(
        hub.respond(Caller::Operator, &asked, true).await.unwrap(),
        json!({"type": "ok", "approval_id": asked["id"]})
    );
    assert_eq!(
        answer(task).await,
        json!({"behavior": "allow", "updatedInput": {"command": "make"}})
    );

    let (task, asked) = hub.ask(session, "t2", "Bash", bash("rm -rf /")).await;
    let no = json!({"approval_id": asked["id"], "approve": false, "message": "not that"});
    hub.ok("loopback.respond", no).await;
    assert_eq!(answer(task).await, json!({"behavior": "deny", "message": "not that"}));

    let (task, asked) = hub.ask(session, "t3", "Bash", bash("rm -rf /")).await;
    // The other spelling of `approve`.
    hub.ok("loopback.respond", json!({"approval_id": asked["id"], "allow": false})).await;
    assert_eq!(answer(task).await, json!({"behavior": "deny", "message": "Bash was denied"}));
}

#[tokio::test]
async fn an_edited_input_is_what_the_child_gets() {
    let hub = Arc::new(ChildlessHub::new().await);
    let session = hub.create("s", json!({})).await;
    let (task, asked) = hub.ask(session, "t", "Bash", bash("make all")).await;
    let edited = json!({"approval_id": asked["id"], "approve": true, "updated_input": bash("make -n all"), "input_digest": asked["input_digest"]});
    hub.ok("loopback.respond", edited).await;
    assert_eq!(
        answer(task).await,
        json!({"behavior": "allow", "updatedInput": {"command": "make -n all"}})
    );
    let decided = hub.last_decision(session).await;
    assert_eq!(decided["input"], bash("make all"));
    assert_eq!(decided["updated_input"], bash("make -n all"));
}

#[tokio::test]
async fn an_edit_that_a_rule_denies_is_refused_and_the_request_still_waits() {
    let hub = Arc::new(ChildlessHub::new().await);
    let session = hub.create("s", json!({})).await;
    hub.ok(
        "loopback.rule_add",
        json!({"decision": "deny", "pattern": "Bash(rm:*)", "reason": "no deleting"}),
    )
    .await;
    let (task, asked) = hub.ask(session, "t", "Bash", bash("ls")).await;
    let edited =
        json!({"approval_id": asked["id"], "approve": true, "updated_input": bash("rm x")});
    let refused = hub.call("loopback.respond", edited).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Forbidden);
    assert!(refused.message.contains("no deleting"), "{}", refused.message);
    hub.respond(Caller::Operator, &asked, true).await.unwrap();
    assert_eq!(answer(task).await["updatedInput"], bash("ls"));
}

#[tokio::test]
async fn a_decision_for_other_input_than_was_seen_is_a_conflict() {
    let hub = Arc::new(ChildlessHub::new().await);
    let session = hub.create("s", json!({})).await;
    let (task, asked) = hub.ask(session, "t", "Bash", bash("ls")).await;
    let seen_another =
        json!({"approval_id": asked["id"], "approve": true, "input_digest": "0".repeat(64)});
    let refused = hub.call("loopback.respond", seen_another).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Conflict);
    let standing = refused.standing.unwrap();
    assert_eq!(
        (&standing["status"], &standing["input_digest"]),
        (&json!("pending"), &asked["input_digest"])
    );
    hub.respond(Caller::Operator, &asked, false).await.unwrap();
    assert_eq!(answer(task).await["behavior"], "deny");
}

#[tokio::test]
async fn the_same_answer_again_is_fine_and_another_names_what_stands() {
    let hub = Arc::new(ChildlessHub::new().await);
    let session = hub.create("s", json!({})).await;
    let (task, asked) = hub.ask(session, "t", "Bash", bash("ls")).await;
    let no = json!({"approval_id": asked["id"], "approve": false, "message": "first"});
    hub.ok("loopback.respond", no.clone()).await;
    hub.ok("loopback.respond", no).await;
    let yes = json!({"approval_id": asked["id"], "approve": true});
    let refused = hub.call("loopback.respond", yes).await.unwrap_err();
    assert_eq!(refused.kind, ErrorKind::Conflict);
    let standing = refused.standing.unwrap();
    assert_eq!(standing["status"], "denied");
    assert_eq!(standing["decided_by"], "operator");
    assert_eq!(standing["message"], "first");
    assert_eq!(answer(task).await, json!({"behavior": "deny", "message": "first"}));

    let (task, asked) = hub.ask(session, "e", "Bash", bash("ls")).await;
    let edit =
        |to: &str| json!({"approval_id": asked["id"], "approve": true, "updated_input": bash(to)});
    hub.ok("loopback.respond", edit("ls -l")).await;
    hub.ok("loopback.respond", edit("ls -l")).await;
    assert_eq!(
        hub.call("loopback.respond", edit("ls -a")).await.unwrap_err().kind,
        ErrorKind::Conflict
    );
    assert_eq!(answer(task).await["updatedInput"], bash("ls -l"));
}

#[tokio::test]
async fn many_are_decided_by_exact_ids_and_each_says_how_it_went() {
    let hub = Arc::new(ChildlessHub::new().await);
    let session = hub.create("s", json!({})).await;
    let (one, first) = hub.ask(session, "t1", "Bash", bash("a")).await;
    let (two, second) = hub.ask(session, "t2", "Bash", bash("b")).await;
    hub.respond(Caller::Operator, &second, true).await.unwrap();
    let unknown = uuid::Uuid::nil();
    let many = json!({"approval_ids": [first["id"], second["id"], unknown], "approve": false, "message": "no"});
    let outcomes = hub.ok("loopback.respond_many", many).await["outcomes"].clone();
    assert_eq!(outcomes[0], json!({"approval_id": first["id"], "ok": true}));
    assert_eq!(
        (&outcomes[1]["ok"], &outcomes[1]["error"]["kind"]),
        (&json!(false), &json!("conflict"))
    );
    assert_eq!(
        (&outcomes[2]["ok"], &outcomes[2]["error"]["kind"]),
        (&json!(false), &json!("not_found"))
    );
    assert_eq!(answer(one).await["behavior"], "deny");
    assert_eq!(answer(two).await["behavior"], "allow");
    let none = hub
        .call("loopback.respond_many", json!({"approval_ids": [], "approve": true}))
        .await
        .unwrap_err();
    assert_eq!(none.kind, ErrorKind::Invalid);
}

#[tokio::test]
async fn a_malformed_answer_is_a_typed_error_and_decides_nothing() {
    let hub = Arc::new(ChildlessHub::new().await);
    let session = hub.create("s", json!({})).await;
    let (task, asked) = hub.ask(session, "t", "Bash", bash("ls")).await;
    let id = &asked["id"];
    for wrong in [
        json!({}),
        json!({"approval_id": id}),
        json!({"approval_id": "t", "approve": true}),
        json!({"approval_id": id, "approve": "yes"}),
        json!({"approval_id": id, "approve": true, "updated_input": "ls"}),
        json!({"approval_id": id, "approve": true, "updated_input": []}),
        json!({"approval_id": id, "approve": false, "updated_input": {}}),
        json!({"approval_id": id, "approve": true, "because": "x"}),
        json!({"approval_id": id, "approve": true, "remember": {"scope": "all", "pattern": "Bash("}}),
        json!({"approval_id": id, "approve": true, "remember": {"scope": "all", "pattern": "Read"}}),
        json!({"approval_id": id, "approve": false, "remember": {"scope": "all", "pattern": "Read"}}),
        json!({"approval_id": id, "approve": true, "remember": {"scope": "all", "uses": 0}}),
    ] {
        let refused = hub.call("loopback.respond", wrong.clone()).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Invalid, "{wrong}: {refused:?}");
    }
    let rules = hub.ok("loopback.rules", json!({})).await;
    assert_eq!(rules["rules"], json!([]));
    hub.respond(Caller::Operator, &asked, true).await.unwrap();
    assert_eq!(answer(task).await["behavior"], "allow");
}

#[tokio::test]
async fn a_request_asked_again_joins_what_stands() {
    let hub = Arc::new(ChildlessHub::new().await);
    let session = hub.create("s", json!({})).await;
    let (one, asked) = hub.ask(session, "t", "Bash", bash("ls")).await;
    let again = {
        let hub = Arc::clone(&hub);
        tokio::spawn(async move { hub.permit(session, "t", "Bash", bash("ls")).await })
    };
    hub.respond(Caller::Operator, &asked, true).await.unwrap();
    assert_eq!(answer(one).await, answer(again).await);
    // Later it is told what was decided, and nobody is asked, also when a rule would by now say
    // otherwise.
    hub.ok("loopback.rule_add", json!({"decision": "deny", "pattern": "Bash"})).await;
    assert_eq!(hub.permit(session, "t", "Bash", bash("ls")).await["behavior"], "allow");
    assert_eq!(
        hub.ok("loopback.history", json!({})).await["decisions"].as_array().unwrap().len(),
        1
    );
}

#[tokio::test]
async fn a_request_that_its_client_takes_back_is_cancelled() {
    let hub = Arc::new(ChildlessHub::new().await);
    let session = hub.create("s", json!({})).await;
    let (task, asked) = hub.ask(session, "t", "Bash", bash("ls")).await;
    let params = plexus_core::method::raw(&json!({"tool_use_id": "t"})).unwrap();
    let call = plexus_core::Call::plain(Caller::Child(session));
    hub.hub.call_internal(call, "loopback.permit_cancel", params).await.unwrap();
    assert_eq!(answer(task).await["behavior"], "deny");
    let decided = hub.last_decision(session).await;
    assert_eq!(
        (&decided["status"], &decided["decided_by"]),
        (&json!("cancelled"), &json!("agent_ended"))
    );
    let late = hub.respond(Caller::Operator, &asked, true).await.unwrap_err();
    assert_eq!(
        (late.kind(), &late.standing.unwrap()["status"]),
        (ErrorKind::Conflict, &json!("cancelled"))
    );
}
