//! What whoever creates a session and writes its prompts gives to the real CLI.

use std::path::PathBuf;

use anyhow::Result;
use serde_json::json;
use testkit::mcp_tool;
use testkit::responses_api::{Call, Step, prompt};

use crate::stage::Stage;

pub(crate) async fn a_tool_of_a_given_mcp_server_is_asked_about(cli: PathBuf) -> Result<()> {
    let stage = Stage::new(cli, |_| {}).await?;
    let outside = tempfile::tempdir()?;
    let file = outside.path().join("put");
    let servers = mcp_tool::servers(outside.path(), &file)?;
    let session = stage.session_with("given", json!({"mcp_servers": servers})).await;
    let call = || Call::Function("mcp__given/put".to_owned(), json!({"note": "x"}));
    let put = || Step::default().and_call(call());
    let chat = stage.world.chat(&session, &prompt(&[put(), put(), Step::text("Done.")])).await;
    for approve in [false, true] {
        let asked = stage.world.wait_for_approval(&session).await;
        assert_eq!(asked["tool_name"], "mcp__given__put", "{asked:#}");
        assert!(!file.exists(), "it ran before anybody allowed it");
        assert_eq!(mcp_tool::shown_in_arguments()?, []);
        stage.world.respond(&asked, approve).await;
    }
    assert_eq!(stage.world.wait_for_end(&session, chat).await, "complete");
    assert_eq!(std::fs::read_to_string(&file)?, format!("{}\n", mcp_tool::SECRET));
    let events = format!("{:?}", stage.world.events(&session, chat).await);
    assert!(!events.contains(mcp_tool::SECRET), "{events}");
    Ok(())
}
