//! What a call of one of Codex's tools would act on, in the form that rules and screens read.

use plexus_wire::{FileChange, FileEdit, ShellLanguage, ToolCall, ToolTarget};
use serde_json::Value;

use super::{EXEC, PATCH, question};

/// Shells whose commands rules can read.
const READABLE: [&str; 3] = ["bash", "sh", "dash"];

/// Where they are. The model may name a shell; a file of that name elsewhere is another program.
const SHELL_DIRS: [&str; 3] = ["/bin", "/usr/bin", "/usr/local/bin"];

/// Reads a call from the input of its question.
pub(super) fn read(tool_name: &str, input: &Value) -> ToolCall {
    let text = |name: &str| input[name].as_str().map(str::to_owned);
    match tool_name {
        EXEC => {
            let target = ToolTarget::Shell {
                command: text("command").unwrap_or_default(),
                cwd: text("cwd").map(Into::into),
                language: ShellLanguage::Posix,
            };
            let shell = text("shell").unwrap_or_else(|| "sh".to_owned());
            let program = shell.split(' ').next().unwrap_or_default();
            let is_known = match program.rsplit_once('/') {
                Some((dir, name)) => SHELL_DIRS.contains(&dir) && READABLE.contains(&name),
                None => READABLE.contains(&program),
            };
            // A question of another kind, and a further one about a call, are about something that
            // the command does not show.
            let shown = ["command", "shell", "cwd"];
            let more = input
                .as_object()
                .into_iter()
                .flatten()
                .any(|(name, _)| !shown.contains(&name.as_str()));
            ToolCall::new(tool_name, target)
                .doubted((!is_known).then_some("its shell may read it otherwise"))
                .doubted(more.then_some("it asks about more than a command"))
        }
        PATCH => {
            let changes = input["changes"].as_array().map(Vec::as_slice).unwrap_or_default();
            let changes = changes.iter().enumerate().flat_map(|(at, change)| changed(at, change));
            let grants = text("grant_root").is_some();
            ToolCall::new(tool_name, ToolTarget::Write { changes: changes.collect() })
                .doubted(grants.then_some("it also asks for a directory"))
        }
        _ if question::read(tool_name, input).is_some() => {
            ToolCall::new(tool_name, ToolTarget::Question {})
        }
        _ => match tool_name.strip_prefix("mcp__").and_then(|name| name.split_once("__")) {
            Some((server, tool)) => {
                let (server, tool) = (server.to_owned(), tool.to_owned());
                ToolCall::new(tool_name, ToolTarget::Mcp { server, tool })
            }
            None => ToolCall::unknown(tool_name),
        },
    }
}

/// Returns the changes of one file, and of the file that it is moved to.
fn changed(at: usize, change: &Value) -> Vec<FileChange> {
    let (path, kind) = (change["path"].as_str().unwrap_or_default(), &change["kind"]);
    let shown = format!("/changes/{at}/diff");
    let edit = match kind["type"].as_str() {
        Some("add") => FileEdit::Whole { after: shown },
        Some("update") => FileEdit::Diff { diff: shown },
        Some("delete") => FileEdit::Delete {},
        _ => FileEdit::Unknown {},
    };
    let moved = kind["move_path"].as_str().map(|to| (to, FileEdit::Unknown {}));
    let all = std::iter::once((path, edit)).chain(moved);
    all.map(|(path, edit)| FileChange { path: path.to_owned(), edit }).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_command_is_its_script_in_its_directory() {
        let input = json!({"command": "git diff", "shell": "/bin/bash -lc", "cwd": "/w"});
        let call = read(EXEC, &input);
        let (command, cwd) = ("git diff".to_owned(), Some("/w".into()));
        let target = ToolTarget::Shell { command, cwd, language: ShellLanguage::Posix };
        assert_eq!((call.target, call.doubt), (target, None));
        for more in [
            json!({"shell": "/bin/zsh -lc"}),
            json!({"shell": "/w/bash -lc"}),
            json!({"shell": "./bash -lc"}),
            json!({"shell": "/bash -lc"}),
            json!({"approval_id": "a"}),
        ] {
            let mut input = input.clone();
            for (name, value) in more.as_object().unwrap() {
                input[name] = value.clone();
            }
            assert!(read(EXEC, &input).doubt.is_some(), "{input}");
        }
    }

    #[test]
    fn a_patch_names_every_file_that_it_touches() {
        let input = json!({"changes": [
            {"path": "/w/a", "kind": {"type": "add"}, "diff": "x"},
            {"path": "/w/b", "kind": {"type": "update", "move_path": "/w/c"}, "diff": "@@"},
            {"path": "/w/d", "kind": {"type": "delete"}, "diff": "y"},
        ]});
        let ToolTarget::Write { changes } = read(PATCH, &input).target else { panic!("no write") };
        let paths: Vec<&str> = changes.iter().map(|change| change.path.as_str()).collect();
        assert_eq!(paths, ["/w/a", "/w/b", "/w/c", "/w/d"]);
        assert_eq!(changes[1].edit, FileEdit::Diff { diff: "/changes/1/diff".into() });
    }

    #[test]
    fn tools_of_servers_and_others_are_known_by_their_names() {
        let target = ToolTarget::Mcp { server: "s".into(), tool: "do__it".into() };
        assert_eq!(read("mcp__s__do__it", &json!({})).target, target);
        assert_eq!(read("request_permissions", &json!({})).target, ToolTarget::Other {});
    }
}
