//! One tool call as the rules see it, and the short form in which examples write one.

use std::path::Path;

use plexus_wire::SessionId;
use serde_json::{Value, json};

use super::paths::PathResolver;

/// One tool call and where it comes from. Everything a decision depends on is in here, so that it can be repeated.
#[derive(Clone, Copy)]
pub struct Call<'a> {
    /// The tool, as the CLI names it.
    pub tool_name: &'a str,
    /// The tool's input, whole.
    pub input: &'a Value,
    /// The session's working directory, where relative paths start.
    pub working_dir: &'a Path,
    /// The home directory of the child, where `~/` starts; without one such paths are asked.
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

/// Why an example is no call.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the example `{example}` is no call: write `Tool(argument)`, as in `Bash(git status -s)`")]
pub struct CallParseError {
    /// The example as written.
    pub example: String,
}

/// A tool name and an input, as an example gives them.
pub(crate) struct ExampleCall {
    pub(crate) tool_name: String,
    pub(crate) input: Value,
}

impl ExampleCall {
    /// Reads `Tool(argument)` or a bare `Tool`.
    pub(crate) fn parse(example: &str) -> Result<Self, CallParseError> {
        let refuse = || CallParseError { example: example.to_owned() };
        let (tool, argument) = match example.split_once('(') {
            None => (example, None),
            Some((tool, rest)) => (tool, Some(rest.strip_suffix(')').ok_or_else(refuse)?)),
        };
        if tool.is_empty()
            || !tool.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-')
        {
            return Err(refuse());
        }
        let input = match (tool, argument) {
            (_, None) => json!({}),
            ("Bash", Some(command)) => json!({ "command": command }),
            ("WebFetch", Some(url)) => json!({ "url": url, "prompt": "" }),
            ("Glob", Some(path)) => json!({ "path": path, "pattern": "*" }),
            ("Grep", Some(path)) => json!({ "path": path, "pattern": "x" }),
            ("LS", Some(path)) => json!({ "path": path }),
            ("NotebookEdit" | "NotebookRead", Some(path)) => json!({ "notebook_path": path }),
            ("Read" | "Edit" | "Write" | "MultiEdit", Some(path)) => json!({ "file_path": path }),
            (_, Some(_)) => return Err(refuse()),
        };
        Ok(Self { tool_name: tool.to_owned(), input })
    }
}
