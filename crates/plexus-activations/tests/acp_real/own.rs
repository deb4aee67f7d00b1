//! What is promised of one agent; each name is a claim.

use std::path::PathBuf;

use anyhow::Result;
use serde_json::json;
use testkit::messages_api::{Step, prompt};
use testkit::real_acp::Agent;

use crate::common::texts;
use crate::stage::Stage;

pub(crate) async fn a_model_is_set_and_a_session_cannot_undo_the_settings(
    agent: Agent,
    cli: PathBuf,
) -> Result<()> {
    let stage = Stage::new(agent, cli).await?;
    let known = stage.params(json!({"model": "fake/stand-in"}));
    let session = stage.world.create("model", known).await;
    let events = stage.world.chat_to_end(&session, &prompt(&[Step::text("Hello.")])).await;
    assert_eq!(texts(&events), ["Hello."], "{events:#?}");
    for (name, params, expected) in [
        ("unknown", json!({"model": "fake/no-such"}), "did not take the model"),
        ("undone", json!({"env": {"OPENCODE_PERMISSION": "{}"}}), "OPENCODE_PERMISSION"),
        ("trusting", json!({"project_settings": "trust"}), "trust the project's settings"),
    ] {
        let session = stage.world.create(name, stage.params(params)).await;
        let events = stage.world.chat_to_end(&session, &prompt(&[Step::text("Hello.")])).await;
        let error = events.last().unwrap()["message"].as_str().unwrap();
        assert!(error.contains(expected), "{name}: {events:#?}");
    }
    Ok(())
}

pub(crate) async fn a_fork_remembers_the_conversation(agent: Agent, cli: PathBuf) -> Result<()> {
    let stage = Stage::new(agent, cli).await?;
    let session = stage.session("trunk").await;
    stage.world.chat_to_end(&session, &prompt(&[Step::text("words-of-one")])).await;
    let params = json!({"session_id": session, "new_name": "branch"});
    let fork = stage.world.ok("agents.fork", params).await["id"].as_str().unwrap().to_owned();
    let events = stage.world.chat_to_end(&fork, &prompt(&[Step::text("Mine.")])).await;
    assert_eq!(texts(&events), ["Mine."], "{events:#?}");
    let heard = stage.heard();
    assert!(heard.contains("words-of-one"), "{heard}");
    // The trunk does not know what the branch said.
    stage.world.chat_to_end(&session, &prompt(&[Step::text("On.")])).await;
    let heard = stage.heard();
    assert!(!heard.contains("Mine."), "{heard}");
    Ok(())
}

pub(crate) async fn a_prompt_with_a_slash_reaches_the_model(
    agent: Agent,
    cli: PathBuf,
) -> Result<()> {
    let stage = Stage::new(agent, cli).await?;
    let session = stage.session("slash").await;
    let words = format!("/nothing {}", prompt(&[Step::text("I heard.")]));
    let events = stage.world.chat_to_end(&session, &words).await;
    assert_eq!(texts(&events), ["I heard."], "{events:#?}");
    Ok(())
}

/// Goose runs the hooks of plugins that lie in a repository, and no switch turns that off.
pub(crate) async fn a_repository_with_plugin_hooks_is_refused(
    agent: Agent,
    cli: PathBuf,
) -> Result<()> {
    let stage = Stage::new(agent, cli).await?;
    let session = stage.session("plugins").await;
    // The session has a process that waits for the next prompt when the hook appears.
    stage.world.chat_to_end(&session, &prompt(&[Step::text("Clean.")])).await;
    let hooks = stage.props.sandbox.work().join(".agents/plugins/p/hooks");
    std::fs::create_dir_all(&hooks)?;
    let command = json!({"type": "command", "command": "touch hooked"});
    let hook = json!({"hooks": {"UserPromptSubmit": [{"hooks": [command]}]}});
    std::fs::write(hooks.join("hooks.json"), hook.to_string())?;
    let events = stage.world.chat_to_end(&session, &prompt(&[Step::text("Hello.")])).await;
    let error = events.last().unwrap()["message"].as_str().unwrap();
    assert!(error.contains(".agents/plugins"), "{events:#?}");
    assert_eq!(stage.file("hooked"), None, "the hook ran");
    Ok(())
}

pub(crate) async fn the_reason_of_a_denial_reaches_the_model(
    agent: Agent,
    cli: PathBuf,
) -> Result<()> {
    let stage = Stage::new(agent, cli).await?;
    let session = stage.session("reason").await;
    let chat = stage.world.chat(&session, &stage.shell(&["echo ran >> made"], "Fine.")).await;
    let approval = stage.world.wait_for_approval(&session).await;
    let denial =
        json!({"approval_id": approval["id"], "approve": false, "message": "not in this house"});
    stage.world.ok("loopback.respond", denial).await;
    assert_eq!(stage.world.wait_for_end(&session, chat).await, "complete");
    let results = stage.props.api.tool_results();
    let read: String = results.iter().map(|result| format!("{result:?}\n")).collect();
    assert!(read.contains("not in this house"), "the model read {read}");
    Ok(())
}
