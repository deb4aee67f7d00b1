//! Files, work and the key.

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use testkit::messages_api::Step;

use crate::site::{Site, Way};

pub(crate) async fn an_approved_cat_cannot_read_the_operators_token(
    cli: PathBuf,
    way: Way,
) -> Result<()> {
    let site = Site::new(cli, way).await?;
    let token = site.server.data_dir().join("operator.token");
    let secret = std::fs::read_to_string(&token)?.trim().to_owned();
    let command = format!("cat {} || echo closed", token.display());
    site.chat(&[Step::bash(&command), Step::text("done")]).await?;
    let asked = site.asked().await?;
    site.allow(&asked).await?;
    let events = site.completed().await?;
    let told = serde_json::to_string(&site.api.tool_results().pop().context("no result")?.text)?;
    ensure!(told.contains("closed") && !told.contains(&secret), "{told}: {events:#?}");
    // The session says what confines it.
    let shown = site.server.call("claudecode.get", json!({"session_id": site.session})).await?;
    let wall = &shown["session"]["confine"];
    ensure!(wall["profile"] == "workspace" && wall["tier"] == way.tier.unwrap_or(""), "{wall:#}");
    ensure!(wall["gaps"].as_array().is_some_and(|gaps| !gaps.is_empty()), "{wall:#}");
    let words = serde_json::to_string(&events)?;
    ensure!(words.contains("within the wall workspace"), "{words}");
    Ok(())
}

pub(crate) async fn editing_and_git_work(cli: PathBuf, way: Way) -> Result<()> {
    let site = Site::new(cli, way).await?;
    let git = "git init -q . && git config user.email a@b && git config user.name me; \
               git add -A && git -c user.email=a@b -c user.name=me commit -qm one && git log --oneline";
    site.chat(&[
        Step::bash("echo made > made && mktemp && python3 -c 'print(6 * 7)'"),
        Step::bash(git),
        Step::text("done"),
    ])
    .await?;
    for _ in 0..2 {
        let asked = site.asked().await?;
        site.allow(&asked).await?;
    }
    let events = site.completed().await?;
    let results = site.api.tool_results();
    ensure!(site.text_of("made") == "made\n", "{events:#?}");
    ensure!(results[0].text.contains("42") && results[1].text.contains("one"), "{results:#?}");
    Ok(())
}

pub(crate) async fn the_key_stays_outside(cli: PathBuf, way: Way) -> Result<()> {
    let site = Site::new(cli, way).await?;
    let key = site.sandbox.env().into_iter().find(|(name, _)| name == "ANTHROPIC_API_KEY");
    let (_, key) = key.context("the sandbox has no key")?;
    let command = "env; cat /proc/*/environ 2>/dev/null | tr '\\0' '\\n'; true";
    site.chat(&[Step::bash(command), Step::text("done")]).await?;
    let asked = site.asked().await?;
    site.allow(&asked).await?;
    site.completed().await?;
    let told = site.api.tool_results().pop().context("no result")?.text;
    ensure!(told.contains("PATH=") && !told.contains(&key), "{told}");
    // The model was called with the real one all the same.
    let sent = site.api.main_requests().pop().context("no request")?;
    ensure!(sent.headers.get("x-api-key") == Some(&key), "{sent:?}");
    let shown = site.server.call("claudecode.get", json!({"session_id": site.session})).await?;
    let place = shown["session"]["confine"]["key"].as_str().unwrap_or_default().to_owned();
    ensure!(place.starts_with("outside the wall"), "{place}");
    Ok(())
}

pub(crate) async fn a_command_cannot_touch_its_own_agent(cli: PathBuf, way: Way) -> Result<()> {
    let site = Site::new(cli, way).await?;
    let command = r#"
        cat "$CLAUDE_CONFIG_DIR/.claude.json" 2>/dev/null && echo "reads its configuration"
        ls "$CLAUDE_CONFIG_DIR/projects" 2>/dev/null && echo "lists its conversations"
        kill -0 $PPID 2>/dev/null && echo "signals it"
        cat /proc/$PPID/environ 2>/dev/null | grep -q . && echo "reads its environment"
        [ -n "$ANTHROPIC_API_KEY$ANTHROPIC_BASE_URL$PLEXUS_RUN" ] && echo "has its key"
        echo tried"#;
    site.chat(&[Step::bash(command), Step::text("done")]).await?;
    let asked = site.asked().await?;
    site.allow(&asked).await?;
    site.completed().await?;
    let told = site.api.tool_results().pop().context("no result")?.text;
    ensure!(told.trim() == "tried", "{told}");
    Ok(())
}

pub(crate) async fn the_mcp_channel_and_a_fork_work(cli: PathBuf, way: Way) -> Result<()> {
    let site = Site::new(cli, Way { channel: "mcp", ..way }).await?;
    site.chat(&[Step::bash("echo made > made"), Step::text("done")]).await?;
    let asked = site.asked().await?;
    site.allow(&asked).await?;
    site.completed().await?;
    ensure!(site.text_of("made") == "made\n");
    // The fork goes on with the conversation, which lies in the directory of its source.
    let fork = json!({"session_id": site.session, "new_name": "fork"});
    let fork = site.server.call("claudecode.fork", fork).await?;
    let prompt = testkit::messages_api::prompt(&[Step::text("again")]);
    let params = json!({"session_id": fork["id"], "prompt": prompt});
    let said = site.server.call("claudecode.chat", params).await?;
    ensure!(said["status"] == "complete" || said.to_string().contains("again"), "{said:#}");
    let last = site.api.main_requests().pop().context("no request")?;
    let remembers = serde_json::to_string(last.messages())?.contains("echo made > made");
    ensure!(remembers, "the fork remembers nothing: {last:?}");
    Ok(())
}
