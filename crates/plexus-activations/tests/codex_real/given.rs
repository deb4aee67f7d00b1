//! What a session's parameters and prompts give to the real CLI.

use std::path::PathBuf;

use anyhow::Result;
use serde_json::json;
use testkit::responses_api::{Call, Step, prompt};
use testkit::{mcp_tool, picture};

use crate::hub_with_codex::HubWithCodex;

pub(crate) async fn a_given_tool_is_asked_about_and_an_image_is_seen(cli: PathBuf) -> Result<()> {
    let setup = HubWithCodex::new(cli, |_| {}).await?;
    let outside = tempfile::tempdir()?;
    let file = outside.path().join("put");
    let servers = mcp_tool::servers(outside.path(), &file)?;
    let session = setup.session_with("given", json!({"mcp_servers": servers})).await;
    let call = || Call::Function("mcp__given/put".to_owned(), json!({"note": "x"}));
    let put = || Step::default().and_call(call());
    let chat = setup.hub.chat(&session, &prompt(&[put(), put(), Step::text("Done.")])).await;
    for approve in [false, true] {
        let asked = setup.hub.wait_for_approval(&session).await;
        assert_eq!(asked["tool_name"], "mcp__given__put", "{asked:#}");
        assert!(!file.exists(), "it ran before anybody allowed it");
        assert_eq!(mcp_tool::shown_in_arguments()?, []);
        setup.hub.respond(&asked, approve).await;
    }
    assert_eq!(setup.hub.wait_for_end(&session, chat).await, "complete");
    assert_eq!(std::fs::read_to_string(&file)?, format!("{}\n", mcp_tool::SECRET));
    let events = format!("{:?}", setup.hub.events(&session, chat).await);
    assert!(!events.contains(mcp_tool::SECRET), "{events}");

    let images = json!([{"mime_type": picture::TYPE, "data": picture::PNG}]);
    let seen =
        json!({"session_id": session, "prompt": prompt(&[Step::text("A dot.")]), "images": images});
    let chat = setup.hub.ok("agents.chat_async", seen).await["chat"].as_u64().unwrap();
    assert_eq!(setup.hub.wait_for_end(&session, chat).await, "complete");
    let heard = setup.api.last_input();
    assert!(heard.contains(picture::PNG), "{heard}");
    assert!(heard.contains("[image 1: image/png, 70 bytes]"), "{heard}");
    Ok(())
}
