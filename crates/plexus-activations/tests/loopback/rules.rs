//! Standing rules end to end: scopes, bounds, examples, remembering, modes and the operator's file.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use plexus_core::{Caller, ErrorKind, SessionId};
use plexus_store::{Change, CreateRun, EndRun, JsonText, Priority, RemoveRules};
use serde_json::{Value, json};

use crate::childless_hub::{ChildlessHub, answer, bash, pass};

/// What happens to a Bash command of a session: `allow`, `deny`, or `ask` when it waits (it is then
/// denied, so that the next may come).
async fn outcome(hub: &Arc<ChildlessHub>, session: SessionId, command: &str) -> String {
    let id = format!("{command} {}", uuid::Uuid::now_v7());
    let tested = hub
        .ok(
            "loopback.rule_test",
            json!({"tool_name": "Bash", "input": bash(command), "session_id": session}),
        )
        .await["decision"]
        .as_str()
        .unwrap()
        .to_owned();
    let live = if tested == "ask" {
        let (task, asked) = hub.ask(session, &id, "Bash", bash(command)).await;
        hub.respond(Caller::Operator, &asked, false).await.unwrap();
        answer(task).await;
        "ask".to_owned()
    } else {
        hub.permit(session, &id, "Bash", bash(command)).await["behavior"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    assert_eq!(tested, live, "rule_test and the live path agree on {command}");
    live
}

async fn add(hub: &ChildlessHub, params: Value) -> Value {
    hub.ok("loopback.rule_add", params).await["rule_id"].clone()
}

#[tokio::test]
async fn a_rule_answers_before_anybody_is_asked_and_says_which() {
    let hub = Arc::new(ChildlessHub::new().await);
    let session = hub.create("s", json!({})).await;
    let allow =
        add(&hub, json!({"decision": "allow", "pattern": "Bash(git:*)", "reason": "only shows"}))
            .await;
    let deny = add(
        &hub,
        json!({"decision": "deny", "pattern": "Bash(git push:*)", "reason": "a person pushes"}),
    )
    .await;
    let ask = add(&hub, json!({"decision": "ask", "pattern": "Bash(git commit:*)"})).await;
    assert_eq!(outcome(&hub, session, "git log").await, "allow");
    let decided = hub.last_decision(session).await;
    assert_eq!(
        (&decided["decided_by"], &decided["status"]),
        (&json!({"rule": allow}), &json!("allowed"))
    );
    assert_eq!(outcome(&hub, session, "git push origin").await, "deny");
    let decided = hub.last_decision(session).await;
    assert_eq!(decided["decided_by"], json!({"rule": deny}));
    assert!(decided["message"].as_str().unwrap().contains("a person pushes"), "{decided}");
    assert_eq!(outcome(&hub, session, "git commit -m x").await, "ask");
    assert_eq!(outcome(&hub, session, "git log && rm x").await, "ask");
    let tested = hub
        .ok(
            "loopback.rule_test",
            json!({"tool_name": "Bash", "input": bash("git commit"), "session_id": session}),
        )
        .await;
    assert_eq!((&tested["decision"], &tested["rule_id"]), (&json!("ask"), &ask));
    let rules = hub.ok("loopback.rules", json!({})).await["rules"].clone();
    let used: Vec<&Value> = rules.as_array().unwrap().iter().map(|rule| &rule["used"]).collect();
    assert_eq!(used, [1, 1, 0]);
    hub.ok("loopback.rule_remove", json!({"rule_id": allow})).await;
    assert_eq!(outcome(&hub, session, "git log").await, "ask");
    assert_eq!(
        hub.call("loopback.rule_remove", json!({"rule_id": allow})).await.unwrap_err().kind,
        ErrorKind::NotFound
    );
}

#[tokio::test]
async fn scopes_bound_where_a_rule_holds() {
    let hub = Arc::new(ChildlessHub::new().await);
    let top = hub.create("top", json!({"can_spawn": true, "may_decide": ["*"]})).await;
    let child = hub.create_as(Caller::Session(top), "child", json!({})).await.unwrap();
    let other = hub.create("other", json!({})).await;
    let everywhere = async |command: &str| {
        let mut got = Vec::new();
        for session in [top, child, other] {
            got.push(outcome(&hub, session, command).await);
        }
        got
    };
    add(&hub, json!({"decision": "allow", "pattern": "Bash(a)", "scope": {"session": top}})).await;
    add(&hub, json!({"decision": "allow", "pattern": "Bash(b)", "scope": {"subtree": top}})).await;
    add(&hub, json!({"decision": "allow", "pattern": "Bash(c)", "scope": "all"})).await;
    assert_eq!(everywhere("a").await, ["allow", "ask", "ask"]);
    assert_eq!(everywhere("b").await, ["allow", "allow", "ask"]);
    assert_eq!(everywhere("c").await, ["allow", "allow", "allow"]);
    // A session's rule covers what is below it, never itself.
    let own = json!({"decision": "allow", "pattern": "Bash(d)"});
    let rule =
        hub.call_as(Caller::Session(top), "loopback.rule_add", own).await.unwrap()["rule_id"]
            .clone();
    assert_eq!(everywhere("d").await, ["ask", "allow", "ask"]);
    // It sees and removes its own, and not the operator's.
    let seen =
        hub.call_as(Caller::Session(top), "loopback.rules", json!({})).await.unwrap()["rules"]
            .clone();
    assert_eq!(
        seen.as_array().unwrap().iter().map(|rule| &rule["id"]).collect::<Vec<_>>(),
        [&rule]
    );
    hub.call_as(Caller::Session(top), "loopback.rule_remove", json!({"rule_id": rule}))
        .await
        .unwrap();
    assert_eq!(everywhere("d").await, ["ask", "ask", "ask"]);
}

#[tokio::test]
async fn an_approval_shows_the_directory_of_its_session() {
    let hub = Arc::new(ChildlessHub::new().await);
    let session = hub.create("s", json!({})).await;
    let (task, asked) = hub.ask(session, "t", "Bash", bash("make")).await;
    assert_eq!(asked["working_dir"], json!(hub.work()));
    hub.respond(Caller::Operator, &asked, false).await.unwrap();
    answer(task).await;
}

#[tokio::test]
async fn a_rule_ends_with_its_uses_and_with_its_time() {
    let hub = Arc::new(ChildlessHub::new().await);
    let session = hub.create("s", json!({})).await;
    add(&hub, json!({"decision": "allow", "pattern": "Bash(a)", "uses": 2})).await;
    for expected in ["allow", "allow", "ask"] {
        assert_eq!(outcome(&hub, session, "a").await, expected);
    }
    // Two rules, one of which cannot end while this runs: whether the short one still holds is up
    // to the machine.
    add(&hub, json!({"decision": "allow", "pattern": "Bash(b)", "expires_in_secs": 1})).await;
    add(&hub, json!({"decision": "allow", "pattern": "Bash(c)", "expires_in_secs": 3_600})).await;
    pass(Duration::from_millis(2_100)).await;
    assert_eq!(outcome(&hub, session, "b").await, "ask");
    assert_eq!(outcome(&hub, session, "c").await, "allow");
}

#[tokio::test]
async fn a_rule_that_does_not_mean_what_it_says_is_refused_whole() {
    let hub = ChildlessHub::new().await;
    for wrong in [
        json!({"decision": "allow", "pattern": "Bash("}),
        json!({"decision": "maybe", "pattern": "Bash"}),
        json!({"decision": "allow", "pattern": "Bash(git:*)", "matches": ["Bash(gitk)"]}),
        json!({"decision": "allow", "pattern": "Bash(git:*)", "does_not_match": ["Bash(git log)"]}),
        json!({"decision": "allow", "pattern": "Bash", "matches": ["ls -l"]}),
        json!({"decision": "allow", "pattern": "Bash", "uses": 0}),
        json!({"decision": "allow", "pattern": "Bash", "expires_in_secs": 0}),
    ] {
        let refused = hub.call("loopback.rule_add", wrong.clone()).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Invalid, "{wrong}: {refused:?}");
    }
    let nobody =
        json!({"decision": "allow", "pattern": "Bash", "scope": {"session": uuid::Uuid::nil()}});
    assert_eq!(hub.call("loopback.rule_add", nobody).await.unwrap_err().kind, ErrorKind::NotFound);
    assert_eq!(hub.ok("loopback.rules", json!({})).await["rules"], json!([]));
    let fine = json!({"decision": "allow", "pattern": "Bash(git log:*)", "matches": ["Bash(git log -3)"], "does_not_match": ["Bash(git push)"]});
    add(&hub, fine).await;
}

#[tokio::test]
async fn a_session_has_a_bounded_number_of_rules() {
    let hub = ChildlessHub::new().await;
    let parent = hub.ok("identity.parent", json!({"name": "outside"})).await;
    let caller = Caller::Session(parent["session_id"].as_str().unwrap().parse().unwrap());
    let deny = |pattern: String| json!({"decision": "deny", "pattern": pattern});
    let long = deny(format!("Bash({})", "x".repeat(1024 * 1024 - 10)));
    for n in 0..500 {
        hub.call_as(caller, "loopback.rule_add", deny(format!("Bash({n})"))).await.unwrap();
    }
    for more in [deny("Bash(500)".to_owned()), long.clone()] {
        let refused = hub.call_as(caller, "loopback.rule_add", more).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Conflict, "{refused:?}");
    }
    // Others have room for their own.
    add(&hub, deny("Bash(500)".to_owned())).await;
    let other = hub.ok("identity.parent", json!({"name": "other"})).await;
    let other = Caller::Session(other["session_id"].as_str().unwrap().parse().unwrap());
    hub.call_as(other, "loopback.rule_add", long).await.unwrap();
    let refused = hub.call_as(other, "loopback.rule_add", deny("Bash(x:*)".to_owned())).await;
    assert_eq!(refused.unwrap_err().kind, ErrorKind::Conflict);
}

#[tokio::test]
async fn a_remembered_answer_releases_what_it_covers_each_on_its_own_record() {
    let hub = Arc::new(ChildlessHub::new().await);
    let (one, two) = (hub.create("one", json!({})).await, hub.create("two", json!({})).await);
    let (first, asked) = hub.ask(one, "t1", "Bash", bash("npm test")).await;
    let (same, same_asked) = hub.ask(one, "t2", "Bash", bash("npm test")).await;
    let (elsewhere, elsewhere_asked) = hub.ask(two, "t3", "Bash", bash("npm test")).await;
    let (different, other) = hub.ask(one, "t4", "Bash", bash("npm publish")).await;
    let remember =
        json!({"approval_id": asked["id"], "approve": true, "remember": {"scope": "all"}});
    let told = hub.ok("loopback.respond", remember.clone()).await;
    let mut released: Vec<&Value> = told["released"].as_array().unwrap().iter().collect();
    released.sort_by_key(|id| id.to_string());
    let mut expected = [&same_asked["id"], &elsewhere_asked["id"]];
    expected.sort_by_key(|id| id.to_string());
    assert_eq!(released, expected);
    for task in [first, same, elsewhere] {
        assert_eq!(answer(task).await["behavior"], "allow");
    }
    let decided = hub.last_decision(two).await;
    assert_eq!(decided["decided_by"], json!({"rule": told["rule_id"]}));
    // The narrowest pattern was taken, and the same answer again makes no second rule.
    assert_eq!(hub.ok("loopback.respond", remember).await["rule_id"], told["rule_id"]);
    let rules = hub.ok("loopback.rules", json!({})).await["rules"].clone();
    let patterns: Vec<&Value> =
        rules.as_array().unwrap().iter().map(|rule| &rule["pattern"]).collect();
    assert_eq!(patterns, ["Bash(npm test)"]);
    hub.respond(Caller::Operator, &other, false).await.unwrap();
    answer(different).await;
    assert_eq!(outcome(&hub, two, "npm test").await, "allow");
}

#[tokio::test]
async fn a_session_remembers_only_what_it_may_decide_and_only_below_itself() {
    let hub = Arc::new(ChildlessHub::new().await);
    let top = hub.create("top", json!({"can_spawn": true, "may_decide": ["Bash(git:*)"]})).await;
    let child = hub.create_as(Caller::Session(top), "child", json!({})).await.unwrap();
    let other = hub.create("other", json!({})).await;
    let (task, asked) = hub.ask(child, "t", "Bash", bash("git status")).await;
    let (own_task, own) = hub.ask(top, "t", "Bash", bash("git status")).await;
    let (other_task, others) = hub.ask(other, "t", "Bash", bash("git status")).await;
    let answer_with = |remember: Value| json!({"approval_id": asked["id"], "approve": true, "remember": remember});
    for too_much in [
        json!({"scope": "all"}),
        json!({"scope": {"subtree": top}, "pattern": "Bash"}),
        json!({"scope": {"session": top}}),
        json!({"scope": {"session": other}}),
    ] {
        let refused = hub
            .call_as(Caller::Session(top), "loopback.respond", answer_with(too_much.clone()))
            .await;
        let kind = refused.unwrap_err().kind();
        assert!(matches!(kind, ErrorKind::Forbidden | ErrorKind::NotFound), "{too_much}: {kind:?}");
    }
    assert_eq!(
        hub.pending_for(child, "t").await["status"],
        "pending",
        "a refused rule decides nothing"
    );
    let fine = answer_with(json!({"scope": {"subtree": top}, "pattern": "Bash(git status:*)"}));
    hub.call_as(Caller::Session(top), "loopback.respond", fine).await.unwrap();
    assert_eq!(answer(task).await["behavior"], "allow");
    // Neither itself nor a stranger was released.
    for (task, asked, session) in [(own_task, own, top), (other_task, others, other)] {
        assert_eq!(hub.pending_for(session, "t").await["id"], asked["id"]);
        hub.respond(Caller::Operator, &asked, false).await.unwrap();
        answer(task).await;
    }
}

#[tokio::test]
async fn a_mode_holds_for_a_while_is_shown_and_ends_by_itself() {
    let hub = Arc::new(ChildlessHub::new().await);
    let session = hub.create("s", json!({})).await;
    let set = |mode: &str, secs: u64| json!({"session_id": session, "mode": mode, "expires_in_secs": secs});
    for wrong in [set("allow_all", 0), set("allow_all", 86_401), set("sudo", 5)] {
        assert_eq!(
            hub.call("loopback.mode_set", wrong).await.unwrap_err().kind,
            ErrorKind::Invalid
        );
    }
    let (waiting, _) = hub.ask(session, "before", "Bash", bash("make")).await;
    hub.ok("loopback.mode_set", set("allow_all", 3_600)).await;
    assert_eq!(answer(waiting).await["behavior"], "allow", "what waited is answered too");
    assert_eq!(hub.last_decision(session).await["decided_by"], "operator");
    let shown =
        hub.ok("claudecode.get", json!({"session_id": session})).await["session"]["mode"].clone();
    assert_eq!(shown["mode"], "allow_all");
    assert_eq!(outcome(&hub, session, "rm -rf build").await, "allow");
    add(&hub, json!({"decision": "deny", "pattern": "Bash(rm:*)"})).await;
    assert_eq!(
        outcome(&hub, session, "rm -rf build").await,
        "deny",
        "a rule that denies beats a mode"
    );
    assert_eq!(outcome(&hub, session, "make").await, "allow");
    hub.ok("loopback.mode_set", set("allow_all", 1)).await;
    pass(Duration::from_millis(2_100)).await;
    assert_eq!(outcome(&hub, session, "make").await, "ask");
    assert_eq!(
        hub.ok("claudecode.get", json!({"session_id": session})).await["session"].get("mode"),
        None
    );

    hub.ok("loopback.mode_set", set("accept_edits", 60)).await;
    assert_eq!(outcome(&hub, session, "make").await, "ask");
    let inside = json!({"file_path": hub.work().join("a.txt"), "content": "x"});
    assert_eq!(hub.permit(session, "w", "Write", inside).await["behavior"], "allow");
    let hook = json!({"file_path": hub.work().join(".git/hooks/pre-commit"), "content": "x"});
    let (task, asked) = hub.ask(session, "h", "Write", hook).await;
    hub.respond(Caller::Operator, &asked, false).await.unwrap();
    answer(task).await;
    let outside = json!({"file_path": hub.folder.path().join("a.txt"), "content": "x"});
    let (task, asked) = hub.ask(session, "o", "Write", outside).await;
    hub.ok("loopback.mode_set", set("ask", 60)).await;
    assert_eq!(hub.pending_for(session, "o").await["id"], asked["id"]);
    hub.respond(Caller::Operator, &asked, false).await.unwrap();
    answer(task).await;
}

#[tokio::test]
async fn rules_of_the_file_hold_count_and_are_replaced_whole() {
    let hub = Arc::new(ChildlessHub::new().await);
    let session = hub.create("s", json!({})).await;
    let file = Path::new("loopback.toml");
    let text = "[[rule]]\ndecision = \"allow\"\npattern = \"Bash(ls:*)\"\n\n[[rule]]\ndecision = \"allow\"\npattern = \"Bash(make)\"\nuses = 1\n";
    let (waiting, _) = hub.ask(session, "before", "Bash", bash("ls -l")).await;
    assert_eq!(hub.engine.load_rules(file, text).unwrap(), 2);
    assert_eq!(outcome(&hub, session, "ls").await, "allow");
    assert_eq!(outcome(&hub, session, "make").await, "allow");
    assert_eq!(outcome(&hub, session, "make").await, "ask", "its one use is taken");
    assert_eq!(hub.ok("loopback.rules", json!({})).await["rules"].as_array().unwrap().len(), 2);
    assert_eq!(answer(waiting).await["behavior"], "allow");
    let wrong = "[[rule]]\ndecision = \"allow\"\npattern = \"Bash(rm:*)\"\n\n[[rule]]\ndecision = \"allow\"\npattern = \"Bash(\"\n";
    let refused = hub.engine.load_rules(file, wrong).unwrap_err();
    assert!(refused.to_string().starts_with("loopback.toml, line 7: "), "{refused}");
    assert_eq!(outcome(&hub, session, "rm x").await, "ask", "half of a file is not taken");
    assert_eq!(outcome(&hub, session, "ls").await, "allow", "what was in force stays");
    assert_eq!(hub.engine.load_rules(file, "").unwrap(), 0);
    assert_eq!(outcome(&hub, session, "ls").await, "ask");
}

#[tokio::test]
async fn a_call_is_tested_without_any_session_in_the_directory_that_is_named() {
    let hub = Arc::new(ChildlessHub::new().await);
    add(&hub, json!({"decision": "allow", "pattern": "Bash(git status:*)"})).await;
    let relative = add(&hub, json!({"decision": "allow", "pattern": "Read(src/**)"})).await;
    let tested = hub
        .ok("loopback.rule_test", json!({"tool_name": "Bash", "input": bash("git status -s")}))
        .await;
    assert_eq!(tested["decision"], "allow");
    let work = hub.work();
    let read = json!({"file_path": work.join("src/a.rs")});
    let inside = json!({"tool_name": "Read", "input": read, "working_dir": work});
    let tested = hub.ok("loopback.rule_test", inside).await;
    assert_eq!((&tested["decision"], &tested["rule_id"]), (&json!("allow"), &relative));
    let tested = hub.ok("loopback.rule_test", json!({"tool_name": "Read", "input": read})).await;
    assert_eq!(tested["decision"], "ask", "nobody named the directory");
    // As a session: what its own child would be told, in its own directory.
    let top = hub.create("top", json!({"can_spawn": true, "may_decide": ["Bash(make:*)"]})).await;
    hub.call_as(
        Caller::Session(top),
        "loopback.rule_add",
        json!({"decision": "allow", "pattern": "Bash(make:*)"}),
    )
    .await
    .unwrap();
    let make = json!({"tool_name": "Bash", "input": bash("make all")});
    let tested =
        hub.call_as(Caller::Session(top), "loopback.rule_test", make.clone()).await.unwrap();
    assert_eq!(tested["decision"], "allow");
    for wrong in [json!({"working_dir": "src"}), json!({"working_dir": work, "session_id": top})] {
        let mut params = make.clone();
        params.as_object_mut().unwrap().extend(wrong.as_object().unwrap().clone());
        assert_eq!(
            hub.call("loopback.rule_test", params).await.unwrap_err().kind,
            ErrorKind::Invalid
        );
    }
}

#[tokio::test]
async fn a_preview_names_exactly_what_remembering_then_releases() {
    let hub = Arc::new(ChildlessHub::new().await);
    let (a, b) = (hub.create("a", json!({})).await, hub.create("b", json!({})).await);
    let (first, asked) = hub.ask(a, "t1", "Bash", bash("npm test")).await;
    let (same, like_it) = hub.ask(b, "t2", "Bash", bash("npm test")).await;
    let (other, _) = hub.ask(b, "t3", "Bash", bash("npm publish")).await;
    let remember = json!({"scope": "all"});
    let preview = json!({"approval_id": asked["id"], "approve": true, "remember": remember});
    let previewed = hub.ok("loopback.rule_preview", preview.clone()).await;
    assert_eq!(previewed["releases"], json!([like_it["id"]]));
    assert_eq!(previewed["pattern"], "Bash(npm test)");
    let narrow =
        json!({"approval_id": asked["id"], "approve": true, "remember": {"scope": {"session": a}}});
    assert_eq!(hub.ok("loopback.rule_preview", narrow).await["releases"], json!([]));
    assert_eq!(hub.ok("loopback.rules", json!({})).await["rules"], json!([]), "nothing was made");
    assert_eq!(
        hub.ok("loopback.pending", json!({})).await["approvals"].as_array().unwrap().len(),
        3
    );
    let responded = hub.ok("loopback.respond", preview).await;
    assert_eq!(responded["released"], previewed["releases"]);
    assert_eq!(
        (answer(first).await["behavior"].clone(), answer(same).await["behavior"].clone()),
        (json!("allow"), json!("allow"))
    );
    other.abort();
    let wrong = json!({"approval_id": asked["id"], "approve": true, "remember": {"scope": "all", "pattern": "Bash("}});
    assert_eq!(
        hub.call("loopback.rule_preview", wrong).await.unwrap_err().kind,
        ErrorKind::Invalid
    );
}

#[tokio::test]
async fn a_session_whose_run_has_ended_leaves_no_rule_behind() {
    let hub = Arc::new(ChildlessHub::new().await);
    let top = hub.create("top", json!({"can_spawn": true, "may_decide": ["*"]})).await;
    let add_as_top = async || {
        let params = json!({"decision": "allow", "pattern": "Bash(make:*)"});
        hub.call_as(Caller::Session(top), "loopback.rule_add", params).await
    };
    let run = CreateRun {
        session: top,
        expects_n: None,
        channel: "control".into(),
        launch: JsonText::empty_object(),
    };
    let committed = hub.store.commit(vec![Change::CreateRun(run)], Priority::Normal).await.unwrap();
    let key = committed.run().unwrap();
    let rule: plexus_core::RuleId =
        add_as_top().await.unwrap()["rule_id"].as_str().unwrap().parse().unwrap();
    assert_eq!(hub.store.rule(rule).await.unwrap().rule.ends_with, Some(key));
    let end = vec![
        Change::EndRun(EndRun { run: key, exit: JsonText::empty_object() }),
        Change::RemoveRules(RemoveRules::EndingWith(key)),
    ];
    hub.store.commit(end, Priority::Normal).await.unwrap();
    assert_eq!(add_as_top().await.unwrap_err().kind, ErrorKind::Conflict);
    assert_eq!(hub.ok("loopback.rules", json!({})).await["rules"], json!([]));
}
