//! What the real CLI reads of a repository: its instructions, and nothing that acts.

use std::path::PathBuf;

use anyhow::Result;
use serde_json::json;
use testkit::messages_api::{Step, prompt};

use crate::hub_with_claude::HubWithClaude;

pub(crate) async fn instructions_are_read_while_a_hook_beside_them_is_not_run(
    cli: PathBuf,
) -> Result<()> {
    let setup = HubWithClaude::new(cli, |_| {}).await?;
    let work = setup.sandbox.work();
    let outside = setup.sandbox.outside("secret.md");
    std::fs::write(&outside, "WORDS-FROM-OUTSIDE")?;
    std::fs::create_dir_all(work.join(".claude/rules"))?;
    std::fs::write(work.join("more.md"), "WORDS-OF-AN-IMPORT")?;
    let instructions = format!("WORDS-OF-THE-PROJECT @more.md @{}", outside.display());
    std::fs::write(work.join("CLAUDE.md"), instructions)?;
    std::fs::write(work.join(".claude/rules/style.md"), "WORDS-OF-A-RULE")?;
    let touches = |name: &str| work.join(name).display().to_string();
    let hook = json!([{"hooks": [{"type": "command", "command": "touch hook-ran"}]}]);
    let settings = json!({
        "hooks": {"SessionStart": hook, "UserPromptSubmit": hook, "PreToolUse": hook},
        "permissions": {"allow": ["Bash"]},
    });
    std::fs::write(work.join(".claude/settings.json"), settings.to_string())?;
    let server = json!({"command": "touch", "args": [touches("server-ran")]});
    std::fs::write(work.join(".mcp.json"), json!({"mcpServers": {"x": server}}).to_string())?;
    let session = setup.session("instructed").await;
    let steps = [Step::bash("touch made"), Step::text("done")];
    let chat = setup.hub.chat(&session, &prompt(&steps)).await;
    let approval = setup.hub.wait_for_approval(&session).await;
    setup.hub.respond(&approval, false).await;
    assert_eq!(setup.hub.wait_for_end(&session, chat).await, "complete");
    let read = setup.api.main_requests()[0].body.to_string();
    for words in ["WORDS-OF-THE-PROJECT", "WORDS-OF-AN-IMPORT", "WORDS-OF-A-RULE"] {
        assert!(read.contains(words), "the model did not read {words}");
    }
    assert!(!read.contains("WORDS-FROM-OUTSIDE"), "an import led out of the project");
    for made in ["made", "hook-ran", "server-ran"] {
        assert!(!work.join(made).exists(), "{made}");
    }
    let events = setup.hub.events(&session, chat).await;
    let told = events.iter().filter_map(|event| event["message"].as_str()).find(|words| {
        *words
            == "read of the project: CLAUDE.md, .claude/rules; \
                not read of the project: .claude/settings.json, .mcp.json"
    });
    assert!(told.is_some(), "{events:#?}");
    Ok(())
}
