//! `allowed_tools` of a session are rules of that session, judged as every other rule.

use std::sync::Arc;

use plexus_core::{Caller, ErrorKind};
use serde_json::json;

use crate::childless_hub::{ChildlessHub, answer, bash};

#[tokio::test]
async fn an_allowed_tool_is_a_rule_with_a_record() {
    let hub = Arc::new(ChildlessHub::new().await);
    let session = hub.create("s", json!({"allowed_tools": ["Bash(git log:*)"]})).await;
    let allowed = hub.permit(session, "t1", "Bash", bash("git log -1")).await;
    assert_eq!(allowed["behavior"], "allow", "{allowed}");
    let decided = hub.last_decision(session).await;
    assert_eq!(decided["input"], bash("git log -1"));
    assert!(decided["decided_by"]["rule"].is_string(), "{decided}");
    assert!(decided["message"].as_str().unwrap().contains("allowed_tools"), "{decided}");
    // Claude Code's own rule of the same text runs this.
    let (task, asked) = hub.ask(session, "t2", "Bash", bash("git log -1 --output=pwned")).await;
    assert_eq!(asked["status"], "pending", "{asked}");
    hub.respond(Caller::Operator, &asked, false).await.unwrap();
    assert_eq!(answer(task).await["behavior"], "deny");
    // It is of this session alone.
    let other = hub.create("other", json!({})).await;
    let (task, asked) = hub.ask(other, "t3", "Bash", bash("git log -1")).await;
    hub.respond(Caller::Operator, &asked, false).await.unwrap();
    assert_eq!(answer(task).await["behavior"], "deny");
}

#[tokio::test]
async fn a_deny_rule_beats_an_allowed_tool() {
    let hub = Arc::new(ChildlessHub::new().await);
    let session = hub.create("s", json!({"allowed_tools": ["Bash"]})).await;
    let deny = json!({"decision": "deny", "pattern": "Bash(rm:*)"});
    hub.ok("loopback.rule_add", deny).await;
    assert_eq!(hub.permit(session, "t1", "Bash", bash("make")).await["behavior"], "allow");
    assert_eq!(hub.permit(session, "t2", "Bash", bash("rm x")).await["behavior"], "deny");
}

#[tokio::test]
async fn an_allowed_tool_never_exceeds_its_creator() {
    let hub = Arc::new(ChildlessHub::new().await);
    let inner = hub.work().join("inner");
    std::fs::create_dir(&inner).unwrap();
    std::fs::write(inner.join("x"), "").unwrap();
    let of = |dir: &std::path::Path| format!("Read({}/**)", dir.display());
    let grants = json!({"can_spawn": true, "allowed_tools": [of(&hub.work())]});
    let parent = Caller::Session(hub.create("parent", grants).await);
    let allowed = json!({"allowed_tools": [of(&inner)]});
    let child = hub.create_as(parent, "child", allowed).await.unwrap();
    let read = || json!({"file_path": inner.join("x")});
    assert_eq!(hub.permit(child, "t1", "Read", read()).await["behavior"], "allow");
    // The directory becomes a link that leads out of what the parent may read.
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("x"), "").unwrap();
    std::fs::rename(&inner, hub.work().join("moved")).unwrap();
    std::os::unix::fs::symlink(outside.path(), &inner).unwrap();
    let (task, asked) = hub.ask(child, "t2", "Read", read()).await;
    assert_eq!(asked["status"], "pending", "{asked}");
    hub.respond(Caller::Operator, &asked, false).await.unwrap();
    assert_eq!(answer(task).await["behavior"], "deny");
}

#[tokio::test]
async fn an_allowed_tool_that_cannot_be_a_rule_is_refused() {
    let hub = ChildlessHub::new().await;
    for more in [
        json!({"allowed_tools": ["Read", "Bash(git log"]}),
        json!({"allowed_tools": ["Read"], "loopback_enabled": false}),
    ] {
        let refused = hub.create_as(Caller::Operator, "s", more.clone()).await.unwrap_err();
        assert_eq!(refused.kind, ErrorKind::Invalid, "{more}");
        assert!(refused.field.unwrap().starts_with("allowed_tools"), "{more}");
    }
}
