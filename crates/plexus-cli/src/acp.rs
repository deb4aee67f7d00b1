//! `plexus acp`, the agent for an editor, and `plexus acp-config`: what to paste into an editor.

use anyhow::{Context as _, Result};
use plexus_client::wire::Supervise;
use plexus_editor::Settings;
use plexus_render::error::complain;
use serde_json::{Value, json};

use crate::args::{Acp, Editor, Global};
use crate::exit;
use crate::server::{Found, find_or_start};
use plexus_render::screen;

/// Runs the command. Nothing else may write to stdout here.
pub(crate) async fn acp(global: &Global, arguments: Acp) -> Result<u8> {
    let data_dir = global.data_dir()?;
    let (client, found) = find_or_start(&data_dir, &[]).await?;
    if let Found::Started { log } = found {
        complain(&format!("plexus acp: started a server (log: {})", log.display()));
    }
    let Acp { agent, session, model, supervise_all } = arguments;
    let supervise = supervise_all.then_some(Supervise::All);
    let settings = Settings { agent, session, model, supervise, data_dir };
    plexus_editor::serve(client, settings).await.context("could not read what the editor sends")?;
    Ok(exit::OK)
}

/// `plexus acp-config`.
pub(crate) fn acp_config(global: &Global, editor: Editor) -> Result<u8> {
    let own = std::env::current_exe().context("could not find this program itself")?;
    let mut words = vec!["acp".to_owned()];
    if global.data_dir.is_some() {
        words.extend(["--data-dir".to_owned(), global.data_dir()?.display().to_string()]);
    }
    screen::line(&pasted(editor, &own.display().to_string(), &words))?;
    Ok(exit::OK)
}

/// What an editor's settings need.
fn pasted(editor: Editor, program: &str, words: &[String]) -> String {
    let plain = json!({"command": program, "args": words, "env": {}});
    match editor {
        Editor::Zed => {
            let mut entry = plain;
            entry["type"] = Value::from("custom");
            format!("// ~/.config/zed/settings.json\n{}", servers(&entry))
        }
        Editor::Jetbrains => format!("// ~/.jetbrains/acp.json\n{}", servers(&plain)),
        Editor::Neovim => {
            let quoted: Vec<String> = words.iter().map(|word| lua(word)).collect();
            format!(
                "-- avante.nvim\n\
                 require(\"avante\").setup({{\n  \
                   provider = \"plexus\",\n  \
                   acp_providers = {{\n    \
                     plexus = {{ command = {}, args = {{ {} }}, env = {{}} }},\n  \
                   }},\n\
                 }})",
                lua(program),
                quoted.join(", ")
            )
        }
    }
}

fn servers(entry: &Value) -> String {
    format!("{:#}", json!({"agent_servers": {"Plexus": entry}}))
}

/// A string of Lua. Its escapes are those of JSON for everything that a path holds.
fn lua(text: &str) -> String {
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
    format!("\"{escaped}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_editor_gets_the_program_with_its_arguments() {
        let words = ["acp".to_owned(), "--data-dir".to_owned(), "/a \"b\"".to_owned()];
        for editor in [Editor::Zed, Editor::Jetbrains] {
            let text = pasted(editor, "/bin/plexus", &words);
            let (comment, json) = text.split_once('\n').unwrap();
            assert!(comment.starts_with("// ~/"), "{comment}");
            let value: Value = serde_json::from_str(json).unwrap();
            let entry = &value["agent_servers"]["Plexus"];
            assert_eq!((&entry["command"], &entry["args"]), (&json!("/bin/plexus"), &json!(words)));
        }
        let lua = pasted(Editor::Neovim, "/bin/plexus", &words);
        let line =
            r#"command = "/bin/plexus", args = { "acp", "--data-dir", "/a \"b\"" }, env = {} },"#;
        assert!(lua.contains(line), "{lua}");
    }
}
