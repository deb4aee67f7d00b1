//! A tree of both agents: Claude Code, below it Codex, below that Claude Code again. Claude Code is
//! played by the simulator, Codex is the real one.

use std::path::PathBuf;

use anyhow::Result;
use plexus_core::{Caller, ErrorKind};
use serde_json::{Value, json};
use testkit::responses_api::{Step, prompt};

use crate::hub_with_codex::HubWithCodex;

/// What a session of the tree may allow those below it.
const TOUCH: &str = "Bash(touch:*)";

fn as_session(id: &str) -> Caller {
    Caller::Session(id.parse().unwrap())
}

pub(crate) async fn a_tree_of_both_agents_has_one_queue_one_budget_and_one_history(
    cli: PathBuf,
) -> Result<()> {
    let setup = HubWithCodex::new(cli, |_| {}).await?;
    let hub = &setup.hub;
    let grants = json!({
        "agent": "claude_code", "can_spawn": true, "may_decide": [TOUCH], "budget": {"tokens": 1_000_000},
    });
    let parent = setup.session_with("parent", grants).await;
    // Authority only narrows, whichever agent is below.
    let child = |name: &str, agent: &str, more: Value| {
        let mut params = json!({
            "agent": agent, "supervise": "all", "working_dir": setup.sandbox.work(), "env": setup.env(),
        });
        for (key, value) in more.as_object().cloned().unwrap_or_default() {
            params[key] = value;
        }
        hub.create_params(name, params)
    };
    for more in [json!({"may_decide": ["Bash(rm:*)"]}), json!({"budget": {"tokens": 2_000_000}})] {
        let too_much = child("too much", "codex", more);
        let refused = hub.call_as(as_session(&parent), "agents.create", too_much).await;
        assert_eq!(refused.unwrap_err().kind, ErrorKind::Forbidden);
    }
    let params = child("codex", "codex", json!({"may_decide": [TOUCH]}));
    let made = hub.call_as(as_session(&parent), "agents.create", params).await.unwrap();
    let codex = made["id"].as_str().unwrap().to_owned();
    // This hub has no door through which Codex could create it.
    let params = child("grandchild", "claude_code", json!({"parent": codex}));
    let made = hub.ok("agents.create", params).await;
    let grandchild = made["id"].as_str().unwrap().to_owned();

    let steps = [Step::shell("touch codex.txt"), Step::text("Done.")];
    let first = hub.chat(&codex, &prompt(&steps)).await;
    let script = "sim:\ntool Bash {\"command\":\"touch grandchild.txt\"}\nsay Done.";
    let second = hub.chat(&grandchild, script).await;
    let asked = [hub.wait_for_approval(&codex).await, hub.wait_for_approval(&grandchild).await];
    // One queue, in which both commands read alike.
    let queue = hub.ok("loopback.pending", json!({})).await;
    assert_eq!(queue["approvals"].as_array().unwrap().len(), 2, "{queue:#}");
    for open in queue["approvals"].as_array().unwrap() {
        assert_eq!(open["target"]["kind"], "shell", "{open:#}");
    }
    // Each is answered by whoever is above: Claude Code for Codex, Codex for Claude Code.
    for (by, approval) in [(&parent, &asked[0]), (&codex, &asked[1])] {
        let answer = json!({"approval_id": approval["id"], "approve": true});
        hub.call_as(as_session(by), "loopback.respond", answer).await.unwrap();
    }
    assert_eq!(hub.wait_for_end(&codex, first).await, "complete");
    assert_eq!(hub.wait_for_end(&grandchild, second).await, "complete");
    assert!(setup.file("codex.txt").is_some() && setup.file("grandchild.txt").is_some());
    // One history and one account for the whole tree.
    let history = hub.ok("loopback.history", json!({})).await;
    let by: Vec<&Value> =
        history["decisions"].as_array().unwrap().iter().map(|one| &one["decided_by"]).collect();
    assert!(by.contains(&&json!({"session": parent})), "{by:?}");
    assert!(by.contains(&&json!({"session": codex})), "{by:?}");
    let spent = hub.session(&parent).await["spent"].clone();
    assert!(spent["input_tokens"].as_u64().unwrap() >= 200, "{spent}");

    // A budget in tokens holds for what is below it: Codex knows no money without a price.
    let spent = hub.session(&codex).await["spent"].clone();
    let count = |name: &str| spent[name].as_u64().unwrap();
    let tokens = count("input_tokens") + count("output_tokens");
    let limit = json!({"session_id": codex, "budget": {"tokens": tokens}});
    hub.ok("agents.budget_set", limit).await;
    let used_up = hub
        .call("agents.chat_async", json!({"session_id": codex, "prompt": "more"}))
        .await
        .unwrap_err();
    assert!(used_up.message.contains("tokens"), "{}", used_up.message);
    Ok(())
}
