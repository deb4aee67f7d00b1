//! Questions of an agent to its user: what is shown, who answers, and what the agent gets.

use std::sync::Arc;

use plexus_core::{Caller, ErrorKind};
use serde_json::{Value, json};

use crate::childless_hub::{ChildlessHub, answer};

fn asked() -> Value {
    json!({"questions": [
        {"question": "Which?", "header": "DB", "multiSelect": false, "options": [
            {"label": "SQLite", "description": "one file"}, {"label": "PostgreSQL", "description": "a server"},
        ]},
        {"question": "Extras?", "header": "X", "multiSelect": true, "options": [
            {"label": "a", "description": "A"}, {"label": "b", "description": "B"},
        ]},
    ]})
}

fn shown() -> Value {
    json!({"kind": "choices", "questions": [
        {"id": "Which?", "header": "DB", "text": "Which?", "free_text": true, "options": [
            {"label": "SQLite", "description": "one file"}, {"label": "PostgreSQL", "description": "a server"},
        ]},
        {"id": "Extras?", "header": "X", "text": "Extras?", "multiple": true, "free_text": true, "options": [
            {"label": "a", "description": "A"}, {"label": "b", "description": "B"},
        ]},
    ]})
}

#[tokio::test]
async fn a_question_is_shown_with_its_options_and_its_answers_reach_the_agent() {
    let hub = Arc::new(ChildlessHub::new().await);
    let session = hub.create("s", json!({})).await;
    let (task, pending) = hub.ask(session, "t1", "AskUserQuestion", asked()).await;
    assert_eq!(pending["question"], shown());
    assert_eq!(pending["target"], json!({"kind": "question"}));
    assert_eq!(pending["suggested_rules"], json!([]));
    let answers = json!({"Which?": ["SQLite"], "Extras?": ["a", "b"]});
    let yes = json!({"approval_id": pending["id"], "approve": true, "answers": answers});
    hub.ok("loopback.respond", yes.clone()).await;
    let mut carried = asked();
    carried["answers"] = json!({"Which?": "SQLite", "Extras?": "a, b"});
    assert_eq!(answer(task).await, json!({"behavior": "allow", "updatedInput": carried}));
    let decided = hub.last_decision(session).await;
    assert_eq!((&decided["question"], &decided["answers"]), (&shown(), &answers));
    // The same answer again is fine, another one is not.
    hub.ok("loopback.respond", yes).await;
    let other = json!({"Which?": ["PostgreSQL"], "Extras?": ["a"]});
    let other = json!({"approval_id": pending["id"], "approve": true, "answers": other});
    assert_eq!(hub.call("loopback.respond", other).await.unwrap_err().kind, ErrorKind::Conflict);
}

#[tokio::test]
async fn answers_that_do_not_fit_are_refused_and_the_question_still_waits() {
    let hub = Arc::new(ChildlessHub::new().await);
    let session = hub.create("s", json!({})).await;
    let (task, pending) = hub.ask(session, "t1", "AskUserQuestion", asked()).await;
    let (bash_task, bash) = hub.ask(session, "t2", "Bash", json!({"command": "ls"})).await;
    let id = &pending["id"];
    for (params, field, words) in [
        (json!({"approval_id": id, "approve": true}), "answers", "this is a question"),
        (
            json!({"approval_id": id, "approve": true, "answers": {"Which?": ["SQLite"]}}),
            "answers",
            "\"Extras?\" is not answered",
        ),
        (
            json!({"approval_id": id, "approve": true, "answers": {"Which?": ["SQLite", "PostgreSQL"], "Extras?": ["a"]}}),
            "answers",
            "\"Which?\" takes one answer",
        ),
        (
            json!({"approval_id": id, "approve": true, "answers": {"Which?": ["SQLite"], "Extras?": ["a"], "More?": ["x"]}}),
            "answers",
            "nothing is asked under the id \"More?\"",
        ),
        (
            json!({"approval_id": id, "approve": false, "answers": {}}),
            "answers",
            "answers go with an allow",
        ),
        (
            json!({"approval_id": id, "approve": true, "answers": {}, "updated_input": {}}),
            "updated_input",
            "give one",
        ),
        (
            json!({"approval_id": id, "approve": true, "remember": {"scope": "all"}}),
            "remember",
            "no rule answers one",
        ),
        (
            json!({"approval_id": bash["id"], "approve": true, "answers": {"Which?": ["a"]}}),
            "answers",
            "this request is not a question",
        ),
    ] {
        let refused = hub.call("loopback.respond", params.clone()).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Invalid, "{params}");
        assert_eq!(refused.field.as_deref(), Some(field), "{params}");
        assert!(refused.message.contains(words), "{params}: {}", refused.message);
    }
    // One decision for several cannot answer a question, but it can deny one.
    let many = json!({"approval_ids": [id, bash["id"]], "approve": true});
    let told = hub.ok("loopback.respond_many", many).await;
    assert_eq!(
        (&told["outcomes"][0]["ok"], &told["outcomes"][1]["ok"]),
        (&json!(false), &json!(true))
    );
    assert_eq!(answer(bash_task).await["behavior"], "allow");
    // A client that knows nothing of questions can always deny one.
    hub.respond(Caller::Operator, &pending, false).await.unwrap();
    assert_eq!(answer(task).await["behavior"], "deny");
}

#[tokio::test]
async fn neither_rules_nor_modes_answer_a_question() {
    let hub = Arc::new(ChildlessHub::new().await);
    let session = hub.create("s", json!({})).await;
    for (decision, pattern) in [("allow", "AskUserQuestion"), ("deny", "ExitPlanMode")] {
        hub.ok("loopback.rule_add", json!({"decision": decision, "pattern": pattern})).await;
    }
    let all = json!({"session_id": session, "mode": "allow_all", "expires_in_secs": 3600});
    hub.ok("loopback.mode_set", all).await;
    for (id, tool, input) in
        [("t1", "AskUserQuestion", asked()), ("t2", "ExitPlanMode", json!({"plan": "# Do it"}))]
    {
        let (task, pending) = hub.ask(session, id, tool, input.clone()).await;
        assert_eq!(pending["status"], "pending", "{tool}");
        let test = json!({"tool_name": tool, "input": input, "session_id": session});
        assert_eq!(hub.ok("loopback.rule_test", test).await["decision"], "ask", "{tool}");
        hub.respond(Caller::Operator, &pending, false).await.unwrap();
        assert_eq!(answer(task).await["behavior"], "deny");
    }
}

#[tokio::test]
async fn a_plan_is_sent_back_with_a_comment_and_then_approved() {
    let hub = Arc::new(ChildlessHub::new().await);
    let session = hub.create("s", json!({})).await;
    let plan = json!({"plan": "# Do it\n1. now", "planFilePath": "/p.md"});
    let (task, pending) = hub.ask(session, "t1", "ExitPlanMode", plan.clone()).await;
    let shown = json!({"kind": "plan", "plan": "# Do it\n1. now", "path": "/p.md"});
    assert_eq!(pending["question"], shown);
    let back = json!({"approval_id": pending["id"], "approve": false, "message": "add tests"});
    hub.ok("loopback.respond", back).await;
    assert_eq!(answer(task).await, json!({"behavior": "deny", "message": "add tests"}));
    let (task, pending) = hub.ask(session, "t2", "ExitPlanMode", plan.clone()).await;
    hub.respond(Caller::Operator, &pending, true).await.unwrap();
    assert_eq!(answer(task).await, json!({"behavior": "allow", "updatedInput": plan}));
}
