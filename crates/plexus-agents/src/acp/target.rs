//! What a call of a tool would act on, read from the arguments that the profile names.

use plexus_wire::{FileChange, FileEdit, ShellLanguage, ToolCall, ToolTarget};
use serde_json::Value;

use super::profile::{Acts, ToolProfile};

impl ToolProfile {
    /// Returns what a call acts on.
    pub fn tool_call(&self, tool_name: &str, input: &Value) -> ToolCall {
        let known = match self.target(input) {
            Ok(target) => ToolCall::new(tool_name, target).doubted(self.unknown_argument(input)),
            Err(missing) => ToolCall::unknown(tool_name).doubted(Some(missing)),
        };
        known.doubted(self.doubt.clone())
    }

    fn target(&self, input: &Value) -> Result<ToolTarget, String> {
        Ok(match self.acts {
            Acts::Shell => {
                let cwd = self.cwd.iter().find_map(|name| input[name].as_str());
                ToolTarget::Shell {
                    command: text(input, self.command.as_deref())?,
                    cwd: cwd.map(Into::into),
                    language: ShellLanguage::Posix,
                }
            }
            Acts::Write => ToolTarget::Write { changes: self.changes(input)? },
            Acts::Read => {
                ToolTarget::Read { path: Some(text(input, self.path.as_deref())?), tree: false }
            }
            Acts::ReadTree => ToolTarget::Read { path: self.tree(input)?, tree: true },
            Acts::Fetch => ToolTarget::Fetch {
                url: self.url.as_deref().map(|name| text(input, Some(name))).transpose()?,
            },
            Acts::Agent => ToolTarget::Agent {},
            Acts::Think => ToolTarget::Think {},
        })
    }

    /// Returns a directory; `None` is the working directory.
    fn tree(&self, input: &Value) -> Result<Option<String>, String> {
        match self.path.as_deref().map(|name| &input[name]) {
            None | Some(Value::Null) => Ok(None),
            Some(_) => text(input, self.path.as_deref()).map(Some),
        }
    }

    fn changes(&self, input: &Value) -> Result<Vec<FileChange>, String> {
        if self.diff {
            return shown_changes(input);
        }
        let path = text(input, self.path.as_deref())?;
        let at = |name: &String| input[name].is_string().then(|| format!("/{name}"));
        let place = |name: &Option<String>| name.as_ref().and_then(at);
        let edit = match (place(&self.content), place(&self.before), place(&self.after)) {
            (Some(after), _, _) => FileEdit::Whole { after },
            (None, Some(before), Some(after)) => {
                let every = self.every.as_ref().is_some_and(|name| input[name] == true);
                FileEdit::Replace { before, after, every }
            }
            _ => FileEdit::Unknown {},
        };
        Ok(vec![FileChange { path, edit }])
    }

    /// Finds an argument that the profile does not name. It may change what the call acts on.
    fn unknown_argument(&self, input: &Value) -> Option<String> {
        let own = [
            &self.command,
            &self.path,
            &self.content,
            &self.before,
            &self.after,
            &self.every,
            &self.url,
        ];
        let shown = ["title", "content"];
        let is_known = |name: &String| {
            self.harmless.contains(name)
                || self.cwd.contains(name)
                || own.iter().any(|own| own.as_ref() == Some(name))
                || (self.diff && shown.contains(&name.as_str()))
        };
        let unspoken = matches!(self.acts, Acts::Agent | Acts::Think);
        let mut names = input.as_object()?.iter();
        let says = |value: &Value| !matches!(value, Value::Null | Value::Bool(false));
        let (name, _) = names.find(|(name, value)| !unspoken && !is_known(name) && says(value))?;
        Some(format!("the call carries `{name}`, which rules do not cover"))
    }
}

fn text(input: &Value, name: Option<&str>) -> Result<String, String> {
    let name = name.ok_or_else(|| "the profile names no such argument".to_owned())?;
    let text = input[name].as_str().map(str::to_owned);
    text.ok_or_else(|| format!("the call has no text `{name}`"))
}

/// Reads the file changes in the content that an agent shows, which holds both whole files.
fn shown_changes(input: &Value) -> Result<Vec<FileChange>, String> {
    let parts = input["content"].as_array().map(Vec::as_slice).unwrap_or_default();
    let diffs = parts.iter().enumerate().filter(|(_, part)| part["type"] == "diff");
    let change = |(at, part): (usize, &Value)| {
        let path = part["path"].as_str()?.to_owned();
        let edit = FileEdit::Whole { after: format!("/content/{at}/newText") };
        Some(FileChange { path, edit })
    };
    let changes: Option<Vec<_>> = diffs.map(change).collect();
    match changes {
        Some(changes) if !changes.is_empty() => Ok(changes),
        _ => Err("the agent shows no change of a file".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::acp::Profile;

    fn call(agent: &str, tool: &str, input: Value) -> ToolCall {
        let known = Profile::known().into_iter().find(|(name, _)| *name == agent);
        known.unwrap().1.tools[tool].tool_call(tool, &input)
    }

    fn shell(command: &str, cwd: Option<&str>) -> ToolTarget {
        let (command, cwd) = (command.to_owned(), cwd.map(Into::into));
        ToolTarget::Shell { command, cwd, language: ShellLanguage::Posix }
    }

    #[test]
    fn the_tools_of_each_agent_act_on_the_same_things() {
        let change = |path: &str, edit| ToolTarget::Write {
            changes: vec![FileChange { path: path.to_owned(), edit }],
        };
        let whole = |after: &str| FileEdit::Whole { after: after.to_owned() };
        let replace = |before: &str, after: &str| FileEdit::Replace {
            before: before.to_owned(),
            after: after.to_owned(),
            every: false,
        };
        let diff = json!({"type": "diff", "path": "/w/a", "oldText": "", "newText": "x"});
        for (agent, tool, input, target) in [
            (
                "opencode",
                "bash",
                json!({"command": "ls", "workdir": "/x", "cwd": "/w"}),
                shell("ls", Some("/x")),
            ),
            ("goose", "shell", json!({"command": "ls"}), shell("ls", None)),
            ("claude_acp", "Bash", json!({"command": "ls", "description": "d"}), shell("ls", None)),
            (
                "opencode",
                "write",
                json!({"filePath": "/w/a", "content": "x", "diff": "d"}),
                change("/w/a", whole("/content")),
            ),
            (
                "goose",
                "edit",
                json!({"path": "a", "before": "x", "after": "y"}),
                change("a", replace("/before", "/after")),
            ),
            (
                "gemini",
                "write_file",
                json!({"title": "Writing to a", "content": [diff], "kind": "edit", "locations": []}),
                change("/w/a", whole("/content/0/newText")),
            ),
            (
                "opencode",
                "read",
                json!({"filePath": "/w/a"}),
                ToolTarget::Read { path: Some("/w/a".to_owned()), tree: false },
            ),
            (
                "opencode",
                "webfetch",
                json!({"url": "https://x", "format": "text"}),
                ToolTarget::Fetch { url: Some("https://x".to_owned()) },
            ),
        ] {
            let call = call(agent, tool, input);
            assert_eq!(call.target, target, "{agent} {tool}");
            assert_eq!(call.doubt, None, "{agent} {tool}");
        }
    }

    #[test]
    fn a_tool_that_the_profile_does_not_know_is_a_doubt() {
        for (agent, tool, input, expected) in [
            ("goose", "shell", json!({"command": "ls", "sandbox": "off"}), "`sandbox`"),
            ("goose", "shell", json!({"command": 1}), "`command`"),
            ("opencode", "bash", json!({"command": "a", "of_the_request": {}}), "`of_the_request`"),
            ("gemini", "write_file", json!({"title": "Writing to a", "content": []}), "no change"),
            ("gemini", "run_shell_command", json!({"title": "ls"}), "does not say"),
        ] {
            let doubt = call(agent, tool, input).doubt.unwrap_or_default();
            assert!(doubt.contains(expected), "{agent} {tool}: {doubt}");
        }
    }
}
