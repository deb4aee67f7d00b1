//! What a session's parameters and prompts give to a real agent.

use std::path::PathBuf;

use anyhow::Result;
use serde_json::json;
use testkit::messages_api::Step;
use testkit::real_acp::Agent;
use testkit::{mcp_tool, picture};

use crate::hub_with_agent::HubWithAgent;

/// What Claude Code calls the tool. It lists tools of MCP servers only when its model searches.
const UNLISTED: &str = "mcp__given__put";

/// The prompt of the second chat.
const LATER: &str = "what is it?";

pub(crate) async fn a_given_tool_is_asked_about_and_an_image_is_seen(
    agent: Agent,
    cli: PathBuf,
) -> Result<()> {
    let setup = HubWithAgent::new(agent, cli).await?;
    setup.props.api.respond_with(move |asked| {
        // The history of a later chat does not tell: Goose sometimes leaves a tool call out of it.
        let is_later = asked.texts_to_model().iter().any(|text| text.contains(LATER));
        if is_later || asked.tool_results().len() == 2 {
            return Some(Step::text("Done."));
        }
        let listed = asked.tool_names().into_iter().find(|tool| tool.ends_with("put"));
        Some(Step::tool(listed.unwrap_or(UNLISTED), json!({"note": "x"})))
    });
    let outside = tempfile::tempdir()?;
    let file = outside.path().join("put");
    let servers = mcp_tool::servers(outside.path(), &file)?;
    let params = setup.params(json!({"mcp_servers": servers}));
    let session = setup.hub.create("given", params).await;
    let got = setup.hub.ok("agents.get", json!({"session_id": session})).await;
    assert_eq!(got["session"]["mcp_servers"], json!([mcp_tool::NAME]));
    let chat = setup.hub.chat(&session, "put it twice").await;
    for approve in [false, true] {
        let asked = setup.hub.wait_for_approval(&session).await;
        let name = asked["tool_name"].as_str().unwrap();
        assert!(name.contains(mcp_tool::NAME) && name.ends_with("put"), "{asked:#}");
        assert!(!file.exists(), "it ran before anybody allowed it");
        assert_eq!(mcp_tool::shown_in_arguments()?, []);
        setup.hub.respond(&asked, approve).await;
    }
    assert_eq!(setup.hub.wait_for_end(&session, chat).await, "complete");
    assert_eq!(std::fs::read_to_string(&file)?, format!("{}\n", mcp_tool::SECRET));
    let events = format!("{:?}", setup.hub.events(&session, chat).await);
    assert!(!events.contains(mcp_tool::SECRET), "{events}");

    let images = json!([{"mime_type": picture::TYPE, "data": picture::PNG}]);
    let seen = json!({"session_id": session, "prompt": LATER, "images": images});
    let chat = setup.hub.ok("agents.chat_async", seen).await["chat"].as_u64().unwrap();
    assert_eq!(setup.hub.wait_for_end(&session, chat).await, "complete");
    let heard = setup.heard();
    assert!(heard.contains(picture::PNG), "{heard}");
    assert!(heard.contains("[image 1: image/png, 70 bytes]"), "{heard}");
    setup.nothing_lives().await;
    Ok(())
}
