//! Commands that the administrator of the machine leaves to a person.

use std::path::PathBuf;

use anyhow::Result;
use serde_json::{Value, json};
use testkit::real_codex::ManagedCli;
use testkit::responses_api::{Step, prompt};

use crate::hub_with_codex::HubWithCodex;

/// A hub whose Codex has a managed rule about `touch`, and a session that the operator lets do
/// everything.
async fn allowing_all(cli: &ManagedCli) -> Result<(HubWithCodex, String)> {
    let setup = HubWithCodex::new(cli.program(), |_| {}).await?;
    let session = setup.session("managed").await;
    setup.hub.ok("loopback.rule_add", json!({"decision": "allow", "pattern": "Bash"})).await;
    let all = json!({"session_id": session, "mode": "allow_all", "expires_in_secs": 3_600});
    setup.hub.ok("loopback.mode_set", all).await;
    Ok((setup, session))
}

/// A prompt that writes a file, which rules allow, and makes another one, which a person must look
/// at.
fn touch() -> String {
    prompt(&[Step::shell("echo b > b.txt"), Step::shell("touch a.txt"), Step::text("Done.")])
}

fn is_for_a_person(approval: &Value) {
    assert_eq!(approval["tool_name"], "exec_command");
    assert_eq!(approval["input"]["kind"], "humanCommand", "{approval:#}");
    assert_eq!(approval["input"]["command"], "touch a.txt");
    assert_eq!(approval["person_only"], "a managed rule of Codex asks a person");
    let said = approval["description"].as_str().unwrap();
    assert!(said.contains("a person must look"), "{said}");
}

pub(crate) async fn a_managed_rule_asks_in_spite_of_rules_and_modes(cli: PathBuf) -> Result<()> {
    let cli = ManagedCli::new(&cli)?;
    let (setup, session) = allowing_all(&cli).await?;
    let chat = setup.hub.chat(&session, &touch()).await;
    let approval = setup.hub.wait_for_approval(&session).await;
    is_for_a_person(&approval);
    assert_eq!(setup.file("b.txt").as_deref(), Some("b\n"), "an ordinary command was not allowed");
    assert_eq!(setup.file("a.txt"), None, "it ran before the answer");
    setup.hub.respond(&approval, true).await;
    // A command that was allowed is no breach, although its item comes only when it runs.
    assert_eq!(setup.hub.wait_for_end(&session, chat).await, "complete");
    assert_eq!(setup.file("a.txt").as_deref(), Some(""));
    Ok(())
}

pub(crate) async fn a_denied_managed_command_does_not_run(cli: PathBuf) -> Result<()> {
    let cli = ManagedCli::new(&cli)?;
    let (setup, session) = allowing_all(&cli).await?;
    let chat = setup.hub.chat(&session, &touch()).await;
    let approval = setup.hub.wait_for_approval(&session).await;
    let answer = json!({"approval_id": approval["id"], "approve": false, "message": "use make"});
    setup.hub.ok("loopback.respond", answer).await;
    assert_eq!(setup.hub.wait_for_end(&session, chat).await, "complete");
    assert_eq!(setup.file("a.txt"), None);
    let read = setup.api.last_input();
    assert!(read.contains("use make") && read.contains("rejected by user"), "it read {read}");
    Ok(())
}

pub(crate) async fn a_managed_rule_asks_within_the_sandbox_of_codex(cli: PathBuf) -> Result<()> {
    let cli = ManagedCli::new(&cli)?;
    let setup = HubWithCodex::new(cli.program(), |_| {}).await?;
    let session = setup.session_with("sandboxed", json!({"supervise": "default"})).await;
    let chat = setup.hub.chat(&session, &touch()).await;
    let approval = setup.hub.wait_for_approval(&session).await;
    is_for_a_person(&approval);
    setup.hub.respond(&approval, true).await;
    assert_eq!(setup.hub.wait_for_end(&session, chat).await, "complete");
    Ok(())
}

pub(crate) async fn a_restart_keeps_what_is_left_to_a_person(cli: PathBuf) -> Result<()> {
    let cli = ManagedCli::new(&cli)?;
    let (setup, session) = allowing_all(&cli).await?;
    let chat = setup.hub.chat(&session, &touch()).await;
    let before = setup.hub.wait_for_approval(&session).await;
    let setup = setup.restart().await;
    let after = setup.hub.wait_for_approval(&session).await;
    assert_eq!(before["id"], after["id"]);
    is_for_a_person(&after);
    assert_eq!(setup.file("a.txt"), None);
    setup.hub.respond(&after, true).await;
    assert_eq!(setup.hub.wait_for_end(&session, chat).await, "complete");
    assert_eq!(setup.file("a.txt").as_deref(), Some(""));
    Ok(())
}
