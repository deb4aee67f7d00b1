//! One tool call as the rules see it, and the short form in which examples write one.

use std::borrow::Cow;
use std::path::Path;

use plexus_wire::{FileChange, FileEdit, SessionId, ShellLanguage, ToolCall, ToolTarget};
use serde_json::json;

use super::files::Family;
use super::notation::{self, NETWORK_TOOL, WRITE_TOOL};
use super::paths::PathResolver;

/// One tool call and its origin. It holds everything a decision depends on, so that a decision can
/// be reproduced.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// The tool and what it would act on.
    pub tool: &'a ToolCall,
    /// The session's working directory, where relative paths start.
    pub working_dir: &'a Path,
    /// The home directory of the child, where `~/` starts. Without it, somebody is asked about such
    /// paths.
    pub home: Option<&'a Path>,
    /// The session that asks.
    pub session: SessionId,
    /// Its strict ancestors, in any order.
    pub ancestors: &'a [SessionId],
    /// The time of the decision, in seconds since 1970.
    pub now: i64,
    /// How symbolic links are followed.
    pub paths: &'a dyn PathResolver,
}

impl<'a> Call<'a> {
    /// Returns the tool's name in the notation of rules. The name follows from the target of the
    /// call, so that a rule means the same for every agent. Only a call whose target is unknown
    /// keeps the name that its agent gives it.
    pub(super) fn rule_tool(&self) -> Cow<'a, str> {
        let ToolCall { tool_name, target, .. } = self.tool;
        let one_of = |family: Family| family.tools().contains(&tool_name.as_str());
        match target {
            ToolTarget::Shell { language: ShellLanguage::Posix, .. } => "Bash".into(),
            ToolTarget::Shell { language: ShellLanguage::PowerShell, .. } => "PowerShell".into(),
            // The notation has several names for such a tool; an agent's own choice among them is
            // kept.
            ToolTarget::Write { .. } if one_of(Family::Edit) => tool_name.into(),
            ToolTarget::Write { changes } => {
                if changes.iter().all(is_whole) {
                    WRITE_TOOL.into()
                } else {
                    "Edit".into()
                }
            }
            ToolTarget::Read { .. } if one_of(Family::Read) => tool_name.into(),
            ToolTarget::Read { .. } => "Read".into(),
            ToolTarget::Fetch { url: Some(_) } => "WebFetch".into(),
            ToolTarget::Fetch { url: None } => "WebSearch".into(),
            ToolTarget::Connect { .. } => NETWORK_TOOL.into(),
            ToolTarget::Mcp { server, tool } => format!("mcp__{server}__{tool}").into(),
            ToolTarget::Agent {}
            | ToolTarget::Think {}
            | ToolTarget::Question {}
            | ToolTarget::Other {} => tool_name.into(),
        }
    }
}

/// Says whether a change writes a whole file.
pub(super) fn is_whole(change: &FileChange) -> bool {
    matches!(change.edit, FileEdit::Whole { .. })
}

/// Why an example is not a call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the example `{example}` is not a call: write `Tool(argument)`, as in `Bash(git status -s)`"
)]
pub struct CallParseError {
    /// The example as written.
    pub example: String,
}

/// Reads an example: `Tool(argument)` or a bare `Tool`.
pub(super) fn read_example(example: &str) -> Result<ToolCall, CallParseError> {
    let refuse = || CallParseError { example: example.to_owned() };
    let (tool, argument) = match example.split_once('(') {
        None => (example, None),
        Some((tool, rest)) => (tool, Some(rest.strip_suffix(')').ok_or_else(refuse)?)),
    };
    if tool.is_empty() || !tool.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-') {
        return Err(refuse());
    }
    let input = match (tool, argument) {
        (_, None) => json!({}),
        ("Bash", Some(command)) => json!({ "command": command }),
        ("WebFetch", Some(url)) => json!({ "url": url, "prompt": "" }),
        (NETWORK_TOOL, Some(reached)) => {
            let (host, port) = reached.split_once(':').unwrap_or((reached, "443"));
            let port: u16 = port.parse().map_err(|_| refuse())?;
            json!({ "host": host, "port": port })
        }
        ("Glob", Some(path)) => json!({ "path": path, "pattern": "*" }),
        ("Grep", Some(path)) => json!({ "path": path, "pattern": "x" }),
        ("LS", Some(path)) => json!({ "path": path }),
        ("NotebookEdit" | "NotebookRead", Some(path)) => json!({ "notebook_path": path }),
        ("Read" | "Edit" | "Write" | "MultiEdit", Some(path)) => json!({ "file_path": path }),
        (_, Some(_)) => return Err(refuse()),
    };
    Ok(notation::read(tool, &input))
}
