//! What is promised of one agent; each name is a claim.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::json;
use testkit::messages_api::{Step, prompt};
use testkit::picture;
use testkit::real_acp::Agent;

use crate::common::texts;
use crate::hub_with_agent::HubWithAgent;

pub(crate) async fn a_model_is_set_and_a_session_cannot_undo_the_settings(
    agent: Agent,
    cli: PathBuf,
) -> Result<()> {
    let setup = HubWithAgent::new(agent, cli).await?;
    let known = setup.params(json!({"model": "fake/stand-in"}));
    let session = setup.hub.create("model", known).await;
    let events = setup.hub.chat_to_end(&session, &prompt(&[Step::text("Hello.")])).await;
    assert_eq!(texts(&events), ["Hello."], "{events:#?}");
    for (name, params, expected) in [
        ("unknown", json!({"model": "fake/no-such"}), "did not take the model"),
        ("undone", json!({"env": {"OPENCODE_PERMISSION": "{}"}}), "OPENCODE_PERMISSION"),
        ("trusting", json!({"project_settings": "trust"}), "trust the project's settings"),
    ] {
        let session = setup.hub.create(name, setup.params(params)).await;
        let events = setup.hub.chat_to_end(&session, &prompt(&[Step::text("Hello.")])).await;
        let error = events.last().unwrap()["message"].as_str().unwrap();
        assert!(error.contains(expected), "{name}: {events:#?}");
    }
    Ok(())
}

pub(crate) async fn a_fork_remembers_the_conversation(agent: Agent, cli: PathBuf) -> Result<()> {
    let setup = HubWithAgent::new(agent, cli).await?;
    let session = setup.session("trunk").await;
    setup.hub.chat_to_end(&session, &prompt(&[Step::text("words-of-one")])).await;
    let params = json!({"session_id": session, "new_name": "branch"});
    let fork = setup.hub.ok("agents.fork", params).await["id"].as_str().unwrap().to_owned();
    let events = setup.hub.chat_to_end(&fork, &prompt(&[Step::text("Mine.")])).await;
    assert_eq!(texts(&events), ["Mine."], "{events:#?}");
    let heard = setup.heard();
    assert!(heard.contains("words-of-one"), "{heard}");
    // The trunk does not know what the branch said.
    setup.hub.chat_to_end(&session, &prompt(&[Step::text("On.")])).await;
    let heard = setup.heard();
    assert!(!heard.contains("Mine."), "{heard}");
    Ok(())
}

pub(crate) async fn a_prompt_with_a_slash_reaches_the_model(
    agent: Agent,
    cli: PathBuf,
) -> Result<()> {
    let setup = HubWithAgent::new(agent, cli).await?;
    let session = setup.session("slash").await;
    let words = format!("/nothing {}", prompt(&[Step::text("I heard.")]));
    let events = setup.hub.chat_to_end(&session, &words).await;
    assert_eq!(texts(&events), ["I heard."], "{events:#?}");
    Ok(())
}

/// It shows commands in their titles, and settings of the repository change nothing.
pub(crate) async fn it_asks_in_spite_of_a_hostile_repository(
    agent: Agent,
    cli: PathBuf,
) -> Result<()> {
    let setup = HubWithAgent::new(agent, cli).await?;
    let work = setup.props.sandbox.work();
    let touch = format!("touch {}", work.join("hooked").display());
    let hook = json!([{"matcher": "*", "hooks": [{"type": "command", "command": touch}]}]);
    let settings = json!({
        "mcpServers": {"x": {"command": "sh", "args": ["-c", touch]}},
        "tools": {"allowed": ["run_shell_command"]},
        "hooks": {"SessionStart": hook, "BeforeAgent": hook},
    });
    std::fs::create_dir_all(work.join(".gemini"))?;
    std::fs::write(work.join(".gemini/settings.json"), settings.to_string())?;
    let session =
        setup.hub.create("hostile", setup.params(json!({"model": "gemini-2.5-flash"}))).await;
    let call = |command: &str| Step::tool(agent.shell_tool(), json!({"command": command}));
    let steps = [call("echo no >> made"), call("echo yes >> made"), Step::text("Done.")];
    let images = json!([{"mime_type": picture::TYPE, "data": picture::PNG}]);
    let asked = json!({"session_id": session, "prompt": prompt(&steps), "images": images});
    let chat = setup.hub.ok("agents.chat_async", asked).await["chat"].as_u64().unwrap();
    for (command, approve) in [("echo no >> made", false), ("echo yes >> made", true)] {
        let approval = setup.hub.wait_for_approval(&session).await;
        assert_eq!(approval["tool_name"], agent.shell_tool(), "{approval:#}");
        assert_eq!(approval["input"]["title"], command, "{approval:#}");
        assert_eq!(setup.file("made"), None, "it ran before it was allowed");
        setup.hub.respond(&approval, approve).await;
    }
    let ended = setup.hub.wait_for_end(&session, chat).await;
    let events = setup.hub.events(&session, chat).await;
    assert_eq!((ended.as_str(), texts(&events)), ("complete", vec!["Done."]), "{events:#?}");
    assert_eq!(setup.file("made").as_deref(), Some("yes\n"));
    assert_eq!(setup.file("hooked"), None, "a hook or server of the repository ran");
    assert!(setup.heard().contains(picture::PNG), "{}", setup.heard());
    setup.nothing_lives().await;
    Ok(())
}

/// Goose runs the hooks of plugins that lie in a repository, and no switch turns that off.
pub(crate) async fn a_repository_with_plugin_hooks_is_refused(
    agent: Agent,
    cli: PathBuf,
) -> Result<()> {
    let setup = HubWithAgent::new(agent, cli).await?;
    let session = setup.session("plugins").await;
    // The session has a process that waits for the next prompt when the hook appears.
    setup.hub.chat_to_end(&session, &prompt(&[Step::text("Clean.")])).await;
    let hooks = setup.props.sandbox.work().join(".agents/plugins/p/hooks");
    std::fs::create_dir_all(&hooks)?;
    let command = json!({"type": "command", "command": "touch hooked"});
    let hook = json!({"hooks": {"UserPromptSubmit": [{"hooks": [command]}]}});
    std::fs::write(hooks.join("hooks.json"), hook.to_string())?;
    let events = setup.hub.chat_to_end(&session, &prompt(&[Step::text("Hello.")])).await;
    let error = events.last().unwrap()["message"].as_str().unwrap();
    assert!(error.contains(".agents/plugins"), "{events:#?}");
    assert_eq!(setup.file("hooked"), None, "the hook ran");
    Ok(())
}

/// It asks its user with a form, and its model reads the answer.
pub(crate) async fn a_question_of_the_model_is_answered(agent: Agent, cli: PathBuf) -> Result<()> {
    let setup = HubWithAgent::new(agent, cli).await?;
    let session = setup.session("question").await;
    let options = json!([
        {"label": "SQLite", "description": "one file"},
        {"label": "PostgreSQL", "description": "a server"},
    ]);
    let input = json!({"questions": [
        {"question": "Which database?", "header": "DB", "options": options, "multiSelect": false},
        {"question": "Which extras?", "header": "X", "options": options, "multiSelect": true},
    ]});
    let ask = || Step::tool("AskUserQuestion", input.clone());
    let chat = setup.hub.chat(&session, &prompt(&[ask(), ask(), Step::text("Fine.")])).await;
    let approval = setup.hub.wait_for_approval(&session).await;
    assert_eq!(approval["question"]["kind"], "choices", "{approval:#}");
    assert_eq!(approval["question"]["questions"][0]["text"], "Which database?");
    assert_eq!(approval["question"]["questions"][0]["options"], options);
    let answers = json!({"question_0": ["PostgreSQL"], "question_1": ["SQLite", "my own words"]});
    let yes = json!({"approval_id": approval["id"], "approve": true, "answers": answers});
    setup.hub.ok("loopback.respond", yes).await;
    let refused = setup.hub.wait_for_approval(&session).await;
    setup.hub.respond(&refused, false).await;
    assert_eq!(setup.hub.wait_for_end(&session, chat).await, "complete");
    let results = setup.props.api.tool_results();
    let read: Vec<String> = results.iter().map(|result| format!("{result:?}")).collect();
    assert!(read[0].contains("PostgreSQL") && read[0].contains("my own words"), "{read:#?}");
    assert!(!read[1].contains("PostgreSQL"), "{read:#?}");
    Ok(())
}

pub(crate) async fn the_reason_of_a_denial_reaches_the_model(
    agent: Agent,
    cli: PathBuf,
) -> Result<()> {
    let setup = HubWithAgent::new(agent, cli).await?;
    let session = setup.session("reason").await;
    let chat = setup.hub.chat(&session, &setup.shell(&["echo ran >> made"], "Fine.")).await;
    let approval = setup.hub.wait_for_approval(&session).await;
    let denial =
        json!({"approval_id": approval["id"], "approve": false, "message": "not in this house"});
    setup.hub.ok("loopback.respond", denial).await;
    assert_eq!(setup.hub.wait_for_end(&session, chat).await, "complete");
    let results = setup.props.api.tool_results();
    let read: String = results.iter().map(|result| format!("{result:?}\n")).collect();
    assert!(read.contains("not in this house"), "the model read {read}");
    Ok(())
}

/// Another Claude Code of the same user finds the session's inbox and writes into it.
pub(crate) async fn a_stranger_cannot_begin_a_turn(agent: Agent, cli: PathBuf) -> Result<()> {
    const WORDS: &str = "words-of-a-stranger";
    let setup = HubWithAgent::new(agent, cli.clone()).await?;
    let session = setup.session("inbox").await;
    setup.hub.chat_to_end(&session, &prompt(&[Step::text("Hello.")])).await;
    let env = setup.props.sandbox.env();
    let tmp = env.iter().find(|(name, _)| name == "TMPDIR").expect("a folder").1.clone();
    let mut inboxes = std::fs::read_dir(PathBuf::from(tmp).join("cc-socks"))?;
    let inbox = inboxes.next().expect("an inbox")?.path();
    let message = json!({
        "to": format!("uds:{}", inbox.display()), "summary": "a greeting", "message": WORDS,
    });
    let send = prompt(&[Step::tool("SendMessage", message), Step::text("Sent.")]);
    let mut stranger = Command::new(claude_code_of(&cli)?);
    stranger
        .args(["-p", "--model", "stand-in", "--allowedTools", "SendMessage", "--", &send])
        .current_dir(setup.props.sandbox.work())
        .env_clear()
        .envs(env);
    let sent = tokio::task::spawn_blocking(move || stranger.output()).await??;
    assert!(sent.status.success(), "{sent:?}");
    let results = setup.props.api.tool_results();
    let told = results.iter().any(|result| result.text.contains("in that session's inbox"));
    assert!(told, "the stranger found no inbox: {results:#?}");
    // What had come would be in the conversation by now.
    for _ in 0..2 {
        setup.hub.chat_to_end(&session, &prompt(&[Step::text("Still here.")])).await;
    }
    let heard = setup.heard();
    assert!(heard.contains("Still here.") && !heard.contains(WORDS), "{heard}");
    Ok(())
}

/// The model is offered no tool by which work begins without a prompt or reaches other sessions.
pub(crate) async fn tools_that_begin_turns_are_not_offered(
    agent: Agent,
    cli: PathBuf,
) -> Result<()> {
    let setup = HubWithAgent::new(agent, cli).await?;
    let session = setup.session("tools").await;
    let background = json!({"command": "touch made", "run_in_background": true});
    let find = json!({"query": "select:Monitor,CronCreate,SendMessage,ListAgents"});
    let steps =
        [Step::tool("ToolSearch", find), Step::tool("Bash", background), Step::text("Done.")];
    let events = setup.hub.chat_to_end(&session, &prompt(&steps)).await;
    assert_eq!(texts(&events), ["Done."], "{events:#?}");
    assert_eq!(setup.file("made"), None, "a command ran in the background");
    let requests = setup.props.api.main_requests();
    let offered = requests.last().unwrap().tool_names();
    assert!(offered.contains(&"Bash"), "{offered:?}");
    for tool in ["Workflow", "Monitor", "CronCreate", "SendMessage", "ListAgents"] {
        assert!(!offered.contains(&tool), "{tool} is offered: {offered:?}");
    }
    Ok(())
}

/// The Claude Code that an installed claude-agent-acp brings.
fn claude_code_of(agent: &Path) -> Result<PathBuf> {
    let program = agent.canonicalize()?;
    let packages = program.ancestors().find(|dir| dir.ends_with("node_modules"));
    let vendor = packages.context("no packages")?.join("@anthropic-ai");
    let mut found = std::fs::read_dir(vendor)?.flatten().map(|entry| entry.path().join("claude"));
    found.find(|program| program.is_file()).context("no Claude Code")
}
