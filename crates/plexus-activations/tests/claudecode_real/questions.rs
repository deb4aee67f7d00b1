//! Questions of the real CLI to its user: what it asks, and what its model reads of the answer.

use std::path::PathBuf;

use anyhow::Result;
use serde_json::{Value, json};
use testkit::messages_api::{PLAN_FILE, Step, prompt};

use crate::hub_with_claude::HubWithClaude;

/// What the model reads as the result of its call, in the order of the results.
fn results(events: &[Value]) -> Vec<String> {
    let results = events.iter().filter(|event| event["type"] == "tool_result");
    results.map(|event| event["output"].as_str().unwrap_or_default().to_owned()).collect()
}

pub(crate) async fn a_question_is_answered_with_an_option(cli: PathBuf) -> Result<()> {
    let setup = HubWithClaude::new(cli, |_| {}).await?;
    let session = setup.session("question").await;
    let options = json!([
        {"label": "SQLite", "description": "one file"},
        {"label": "PostgreSQL", "description": "a server"},
    ]);
    let input = json!({"questions": [
        {"question": "Which database?", "header": "DB", "options": options, "multiSelect": false},
        {"question": "Which extras?", "header": "X", "options": options, "multiSelect": true},
    ]});
    let steps = [Step::tool("AskUserQuestion", input), Step::text("done")];
    let chat = setup.hub.chat(&session, &prompt(&steps)).await;
    let approval = setup.hub.wait_for_approval(&session).await;
    assert_eq!(approval["question"]["kind"], "choices");
    assert_eq!(approval["question"]["questions"][0]["options"], options);
    let answers =
        json!({"Which database?": ["PostgreSQL"], "Which extras?": ["SQLite", "my own words"]});
    let yes = json!({"approval_id": approval["id"], "approve": true, "answers": answers});
    setup.hub.ok("loopback.respond", yes).await;
    assert_eq!(setup.hub.wait_for_end(&session, chat).await, "complete");
    let events = setup.hub.events(&session, chat).await;
    let [read] = results(&events).try_into().unwrap();
    assert!(read.contains("\"Which database?\"=\"PostgreSQL\""), "{read}");
    assert!(read.contains("\"Which extras?\"=\"SQLite, my own words\""), "{read}");
    let resolved = events.iter().find(|event| event["type"] == "approval_resolved").unwrap();
    assert_eq!(resolved["answers"], answers);
    Ok(())
}

pub(crate) async fn a_plan_is_sent_back_once_and_then_approved(cli: PathBuf) -> Result<()> {
    let setup = HubWithClaude::new(cli, |_| {}).await?;
    let session = setup.session("plan").await;
    let plan = |text: &str| Step::tool("Write", json!({"file_path": PLAN_FILE, "content": text}));
    let steps = [
        Step::tool("EnterPlanMode", json!({})),
        // Commands of plan mode come to us and to no classifier.
        Step::bash("touch looked"),
        plan("# First\n1. do it"),
        Step::tool("ExitPlanMode", json!({})),
        Step::tool("Read", json!({"file_path": PLAN_FILE})),
        plan("# Second\n1. test it"),
        Step::tool("ExitPlanMode", json!({})),
        Step::bash("touch made"),
        Step::text("done"),
    ];
    let chat = setup.hub.chat(&session, &prompt(&steps)).await;
    let looks = setup.hub.wait_for_approval(&session).await;
    assert_eq!(looks["input"]["command"], "touch looked");
    setup.hub.respond(&looks, false).await;
    let asks = |plan: &'static str| {
        move |page: &Value| {
            let open = page["pending_approvals"].as_array().unwrap();
            open.iter()
                .any(|it| it["question"]["plan"].as_str().is_some_and(|it| it.contains(plan)))
        }
    };
    let page = setup.hub.wait_for(&session, "the first plan", asks("First")).await;
    let first = &page["pending_approvals"][0];
    assert_eq!(first["question"]["plan"], "# First\n1. do it");
    let back = json!({"approval_id": first["id"], "approve": false, "message": "and test it"});
    setup.hub.ok("loopback.respond", back).await;
    let page = setup.hub.wait_for(&session, "the second plan", asks("Second")).await;
    setup.hub.respond(&page["pending_approvals"][0], true).await;
    setup.hub.allow_next(&session).await;
    assert_eq!(setup.hub.wait_for_end(&session, chat).await, "complete");
    let read = results(&setup.hub.events(&session, chat).await);
    assert!(read.iter().any(|text| text == "and test it"), "{read:#?}");
    assert!(read.iter().any(|text| text.contains("approved your plan")), "{read:#?}");
    let made = |name: &str| setup.sandbox.work().join(name).exists();
    assert!(made("made") && !made("looked"));
    Ok(())
}
