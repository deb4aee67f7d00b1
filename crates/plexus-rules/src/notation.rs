//! The notation of rules: the tools that patterns and examples name, and what their inputs act on.
//!
//! It is the notation of Claude Code, whose driver reads every call with it. Drivers of other
//! agents make a [`ToolCall`] of their own tools, and the same rules then fit it.

use plexus_wire::{FileChange, FileEdit, ShellLanguage, ToolCall, ToolTarget};
use serde_json::Value;

/// The fields that a Bash call may have beside its command. Any other, such as a switch that turns
/// the sandbox off, is a doubt.
const BASH_FIELDS: &[&str] = &["command", "description", "timeout", "run_in_background"];

/// The tool under which a wall asks about a connection. No agent has it.
pub const NETWORK_TOOL: &str = "Network";

/// The tool that writes whole files.
pub(crate) const WRITE_TOOL: &str = "Write";

/// The fields of a question about a connection.
const CONNECT_FIELDS: &[&str] = &["host", "port"];

/// The fields that a WebFetch call may have beside its URL.
const FETCH_FIELDS: &[&str] = &["url", "prompt"];

/// Field names under which present or future tools take a path. A call that has one of them beside
/// the field that its tool is known to use is doubtful, so no rule allows it.
const PATH_FIELDS: &[&str] =
    &["file_path", "notebook_path", "path", "paths", "filepath", "file", "filename", "directory"];

/// Reads a call that is written in the notation of rules. A tool that the notation does not know is
/// [`ToolTarget::Other`].
#[must_use]
pub fn read(tool_name: &str, input: &Value) -> ToolCall {
    let text = |field: &str| text(input, field);
    match tool_name {
        "Bash" => match text("command") {
            Some(command) => {
                let (cwd, language) = (None, ShellLanguage::Posix);
                let doubt = unknown_field(input, BASH_FIELDS, "commands");
                ToolCall::new(tool_name, ToolTarget::Shell { command, cwd, language })
                    .doubted(doubt)
            }
            None => ToolCall::unknown(tool_name).doubted(Some("the call has no command")),
        },
        "PowerShell" => match text("command") {
            Some(command) => {
                let (cwd, language) = (None, ShellLanguage::PowerShell);
                ToolCall::new(tool_name, ToolTarget::Shell { command, cwd, language })
            }
            None => ToolCall::unknown(tool_name),
        },
        "Write" => write(tool_name, input, "file_path", |path| vec![whole(path, input)]),
        "Edit" => write(tool_name, input, "file_path", |path| vec![replace(path, "", input)]),
        "MultiEdit" => write(tool_name, input, "file_path", |path| multi_edit(path, input)),
        "NotebookEdit" => write(tool_name, input, "notebook_path", |path| vec![cell(path, input)]),
        "Read" => look(tool_name, input, "file_path", Reach::File),
        "NotebookRead" => look(tool_name, input, "notebook_path", Reach::File),
        "Grep" | "LS" => look(tool_name, input, "path", Reach::Tree),
        "Glob" => {
            let strays = input.get("pattern").is_none_or(|pattern| !stays_below(pattern));
            let doubt = strays.then_some("the file pattern may lead out of its directory");
            look(tool_name, input, "path", Reach::Tree).doubted(doubt)
        }
        "WebFetch" => match text("url") {
            Some(url) => ToolCall::new(tool_name, ToolTarget::Fetch { url: Some(url) })
                .doubted(unknown_field(input, FETCH_FIELDS, "hosts")),
            None => ToolCall::unknown(tool_name).doubted(Some("the call has no URL")),
        },
        "WebSearch" => ToolCall::new(tool_name, ToolTarget::Fetch { url: None }),
        NETWORK_TOOL => {
            let port = input.get("port").and_then(Value::as_u64).map(u16::try_from);
            match (text("host"), port) {
                (Some(host), Some(Ok(port))) => {
                    ToolCall::new(tool_name, ToolTarget::Connect { host, port })
                        .doubted(unknown_field(input, CONNECT_FIELDS, "connections"))
                }
                _ => ToolCall::unknown(tool_name).doubted(Some("the call names no host and port")),
            }
        }
        "Agent" | "Task" => ToolCall::new(tool_name, ToolTarget::Agent {}),
        "TodoWrite" => ToolCall::new(tool_name, ToolTarget::Think {}),
        "AskUserQuestion" | "ExitPlanMode" => ToolCall::new(tool_name, ToolTarget::Question {}),
        _ => ToolCall::new(tool_name, mcp(tool_name).unwrap_or(ToolTarget::Other {})),
    }
}

/// What a tool reads at its path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reach {
    /// One file.
    File,
    /// Everything below a directory.
    Tree,
}

fn text(input: &Value, field: &str) -> Option<String> {
    input.get(field).and_then(Value::as_str).map(str::to_owned)
}

/// Returns the call of a tool that changes the file named by `field`.
fn write(
    tool_name: &str,
    input: &Value,
    field: &str,
    changes: impl FnOnce(String) -> Vec<FileChange>,
) -> ToolCall {
    match path(input, field) {
        Ok(path) => ToolCall::new(tool_name, ToolTarget::Write { changes: changes(path) })
            .doubted(second_path(input, field)),
        Err(doubt) => ToolCall::unknown(tool_name).doubted(Some(doubt)),
    }
}

/// Returns the call of a tool that reads the path named by `field`.
fn look(tool_name: &str, input: &Value, field: &str, reach: Reach) -> ToolCall {
    let tree = reach == Reach::Tree;
    let path = match input.get(field) {
        // Tools that read directories start in the working directory by default.
        None | Some(Value::Null) if tree => Ok(None),
        _ => path(input, field).map(Some),
    };
    match path {
        Ok(path) => ToolCall::new(tool_name, ToolTarget::Read { path, tree })
            .doubted(second_path(input, field)),
        Err(doubt) => ToolCall::unknown(tool_name).doubted(Some(doubt)),
    }
}

fn path(input: &Value, field: &str) -> Result<String, String> {
    match input.get(field) {
        None => Err(format!("the call has no `{field}`")),
        Some(Value::String(path)) => Ok(path.clone()),
        Some(_) => Err(format!("`{field}` is not a text")),
    }
}

fn second_path(input: &Value, field: &str) -> Option<String> {
    let other = PATH_FIELDS.iter().find(|&&other| other != field && input.get(other).is_some())?;
    Some(format!("the call carries a second path, `{other}`"))
}

/// Returns a doubt when a field that is not in the list has a value other than null or false.
fn unknown_field(input: &Value, known: &[&str], what: &str) -> Option<String> {
    let says = |value: &Value| !matches!(value, Value::Null | Value::Bool(false));
    let mut fields = input.as_object()?.iter();
    let (field, _) = fields.find(|(name, value)| !known.contains(&name.as_str()) && says(value))?;
    Some(format!("the call carries `{field}`, which rules for {what} do not cover"))
}

fn whole(path: String, input: &Value) -> FileChange {
    let edit = match input.get("content") {
        Some(Value::String(_)) => FileEdit::Whole { after: "/content".to_owned() },
        _ => FileEdit::Unknown {},
    };
    FileChange { path, edit }
}

/// Returns a replacement. Its texts are in `fields`, which is at `at` in the input.
fn replace(path: String, at: &str, fields: &Value) -> FileChange {
    let texts = ["old_string", "new_string"].map(|field| fields.get(field));
    let edit = match texts {
        [Some(Value::String(_)), Some(Value::String(_))] => FileEdit::Replace {
            before: format!("{at}/old_string"),
            after: format!("{at}/new_string"),
            every: fields.get("replace_all") == Some(&Value::Bool(true)),
        },
        _ => FileEdit::Unknown {},
    };
    FileChange { path, edit }
}

fn multi_edit(path: String, input: &Value) -> Vec<FileChange> {
    match input.get("edits").and_then(Value::as_array) {
        Some(edits) if !edits.is_empty() => {
            let edits = edits.iter().enumerate();
            edits.map(|(n, edit)| replace(path.clone(), &format!("/edits/{n}"), edit)).collect()
        }
        _ => vec![FileChange { path, edit: FileEdit::Unknown {} }],
    }
}

fn cell(path: String, input: &Value) -> FileChange {
    let edit = match input.get("new_source") {
        Some(Value::String(_)) => {
            FileEdit::Part { name: text(input, "cell_id"), after: "/new_source".to_owned() }
        }
        _ => FileEdit::Unknown {},
    };
    FileChange { path, edit }
}

/// Reads `mcp__SERVER__TOOL`.
fn mcp(tool_name: &str) -> Option<ToolTarget> {
    let (server, tool) = tool_name.strip_prefix("mcp__")?.split_once("__")?;
    Some(ToolTarget::Mcp { server: server.to_owned(), tool: tool.to_owned() })
}

/// Returns whether the pattern of a Glob call finds only files below its directory.
fn stays_below(pattern: &Value) -> bool {
    pattern.as_str().is_some_and(|pattern| {
        !pattern.is_empty()
            && !pattern.starts_with(['/', '~'])
            && !pattern.contains("..")
            && !pattern.contains(['\\', '{', '(', '$'])
            && !pattern.chars().any(char::is_control)
            && !pattern.split('/').any(may_be_parent)
    })
}

/// Returns whether a step of a file pattern may stand for `..`, with wildcards for its dots. Of the
/// usual patterns it is known that they do not.
fn may_be_parent(step: &str) -> bool {
    if !step.contains(['*', '?', '[']) || matches!(step, "*" | "**" | "*.*") {
        return false;
    }
    // Where a bracket ends is read differently, so whatever may be in one says nothing.
    let (before, after) = match step.split_once('[') {
        Some((before, rest)) => (before, rest.rsplit_once(']').map_or("", |(_, after)| after)),
        None => (step, ""),
    };
    let is_dot_or_wild = |c: char| matches!(c, '.' | '*' | '?');
    before.chars().chain(after.chars()).all(is_dot_or_wild)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_pointers_of_a_change_find_its_texts() {
        let input = json!({"file_path": "/w/a", "edits": [
            {"old_string": "one", "new_string": "two"},
            {"old_string": "three", "new_string": "four", "replace_all": true},
        ]});
        let ToolTarget::Write { changes } = read("MultiEdit", &input).target else { panic!() };
        let texts: Vec<(&str, &str, bool)> = changes
            .iter()
            .map(|change| match &change.edit {
                FileEdit::Replace { before, after, every } => {
                    let text = |at: &str| input.pointer(at).and_then(Value::as_str).unwrap();
                    (text(before), text(after), *every)
                }
                other => panic!("{other:?}"),
            })
            .collect();
        assert_eq!(texts, [("one", "two", false), ("three", "four", true)]);
    }

    #[test]
    fn a_file_pattern_may_not_stand_for_the_directory_above() {
        let bracket = "[a".repeat(100_000);
        let stars = "*".repeat(1_000_000);
        for pattern in [
            ".*/x",
            ".?/x",
            "[.][.]/x",
            "[[:punct:]][[:punct:]]/x",
            "[]-.].",
            "a/??/x",
            "[!a]*/x",
            "*?/x",
            "[",
            "../x",
            &bracket,
            &stars,
        ] {
            assert!(!stays_below(&json!(pattern)), "{pattern:.100}");
        }
        for pattern in ["**/*.rs", "*.*", "src/?.rs", ".*rc", ".github/*", "[a-z]*.rs"] {
            assert!(stays_below(&json!(pattern)), "{pattern}");
        }
    }

    #[test]
    fn a_call_without_the_field_it_needs_has_a_doubt_and_no_target() {
        let tools = ["Bash", "Write", "Edit", "MultiEdit", "NotebookEdit", "Read", "WebFetch"];
        for tool in tools {
            let call = read(tool, &json!({"x": 1}));
            assert_eq!(call.target, ToolTarget::Other {}, "{tool}");
            assert!(call.doubt.is_some(), "{tool}");
        }
        for tool in ["Hologram", "mcp__", "mcp__x"] {
            assert_eq!(read(tool, &json!({})), ToolCall::unknown(tool));
        }
        let mcp = ToolTarget::Mcp { server: "github".into(), tool: "create_issue".into() };
        assert_eq!(read("mcp__github__create_issue", &json!({})).target, mcp);
    }
}
