//! The tools that really run after approval: Bash, Read, Write, Edit, and every tool of an MCP
//! server.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::bash::{Output, Shell};
use crate::rules::resolve;

/// The tools that the model has besides those of MCP servers, in the order of the CLI's own list.
pub(crate) const BUILT_IN: &[&str] =
    &["Task", "Bash", "Edit", "Read", "Skill", "ToolSearch", "Write"];

/// Programs that are expected to print nothing.
const SILENT_PROGRAMS: &[&str] =
    &["touch", "mkdir", "rm", "rmdir", "mv", "cp", "ln", "chmod", "chown"];

/// The CLI's note to the model after every change of a file.
const STATE_IS_CURRENT: &str = "(file state is current in your context — no need to Read it back)";

/// Writes a file whole or not at all: a simulator that is killed leaves a conversation that can be
/// read.
pub(crate) fn write_whole(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let draft = path.with_extension(format!("{}.tmp", std::process::id()));
    fs::write(&draft, bytes)?;
    fs::rename(draft, path)
}

/// The output of a tool: for the model, and for readers of the stream.
#[derive(Debug)]
pub(crate) struct ToolOutput {
    /// The `content` of the result block: a text, or the blocks of an MCP result.
    pub(crate) content: Value,
    /// `Some` when the block says whether it is an error; successful file tools leave it out.
    pub(crate) is_error: Option<bool>,
    /// The `tool_use_result` of the line.
    pub(crate) detail: Value,
}

impl ToolOutput {
    pub(crate) fn error(text: &str) -> Self {
        Self { content: json!(text), is_error: Some(true), detail: json!(format!("Error: {text}")) }
    }

    /// Returns an error of the call itself rather than of the tool.
    pub(crate) fn use_error(text: &str) -> Self {
        Self {
            content: json!(format!("<tool_use_error>{text}</tool_use_error>")),
            is_error: Some(true),
            detail: json!(text),
        }
    }

    /// Returns the text of the result, for `${last.…}`.
    pub(crate) fn text(&self) -> String {
        match &self.content {
            Value::String(text) => text.clone(),
            Value::Array(blocks) => blocks
                .iter()
                .filter_map(|block| block.get("text").and_then(Value::as_str))
                .collect(),
            _ => String::new(),
        }
    }
}

/// Runs a shell command to its end.
pub(crate) async fn bash(input: &Value, cwd: &Path) -> ToolOutput {
    let Some(command) = text(input, "command") else { return missing("Bash", "command") };
    let silent =
        command.split_whitespace().next().is_some_and(|program| SILENT_PROGRAMS.contains(&program));
    let finished = match Shell::start(command, cwd) {
        Ok(shell) => shell.finish().await,
        Err(error) => Err(error),
    };
    match finished {
        Ok(output) => bash_output(&output, silent && !command.contains([';', '&', '|'])),
        Err(error) => ToolOutput::error(&format!("could not run bash: {error}")),
    }
}

fn bash_output(output: &Output, no_output_expected: bool) -> ToolOutput {
    let stdout = output.stdout.trim_end_matches('\n');
    let stderr = output.stderr.trim_end_matches('\n');
    let both: Vec<&str> = [stdout, stderr].into_iter().filter(|text| !text.is_empty()).collect();
    if output.code != 0 {
        let mut lines = vec![format!("Exit code {}", output.code)];
        lines.extend(both.iter().map(|text| (*text).to_owned()));
        return ToolOutput::error(&lines.join("\n"));
    }
    let content = if both.is_empty() {
        "(Bash completed with no output)".to_owned()
    } else {
        both.join("\n")
    };
    let detail = json!({
        "stdout": stdout, "stderr": stderr, "interrupted": false, "isImage": false,
        "noOutputExpected": no_output_expected,
    });
    ToolOutput { content: json!(content), is_error: Some(false), detail }
}

/// Reads, writes or edits a file.
pub(crate) fn file(tool: &str, input: &Value, cwd: &Path) -> ToolOutput {
    let Some(path) = text(input, "file_path") else { return missing(tool, "file_path") };
    let path = resolve(cwd, path);
    match tool {
        "Read" => read(&path, cwd),
        "Write" => match text(input, "content") {
            Some(content) => write(&path, content),
            None => missing(tool, "content"),
        },
        _ => match (text(input, "old_string"), text(input, "new_string")) {
            (Some(old), Some(new)) => {
                edit(&path, old, new, input.get("replace_all") == Some(&Value::Bool(true)))
            }
            _ => missing(tool, "old_string"),
        },
    }
}

fn read(path: &Path, cwd: &Path) -> ToolOutput {
    let content = match fs::read(path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            return ToolOutput::error(&format!(
                "File does not exist. Note: your current working directory is {}.",
                cwd.display()
            ));
        }
        Err(error) => {
            return ToolOutput::error(&format!("could not read {}: {error}", path.display()));
        }
    };
    let lines: Vec<&str> = content.split('\n').collect();
    let numbered: Vec<String> =
        lines.iter().enumerate().map(|(n, line)| format!("{}\t{line}", n + 1)).collect();
    let detail = json!({"type": "text", "file": {
        "filePath": path, "content": content, "numLines": lines.len(), "startLine": 1, "totalLines": lines.len(),
    }});
    let text = match content.as_str() {
        "" => "<system-reminder>Warning: the file exists but the contents are \
            empty.</system-reminder>"
            .to_owned(),
        _ => numbered.join("\n"),
    };
    ToolOutput { content: json!(text), is_error: None, detail }
}

fn write(path: &PathBuf, content: &str) -> ToolOutput {
    let original = fs::read_to_string(path).ok();
    let written =
        path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(path, content));
    if let Err(error) = written {
        return ToolOutput::error(&format!("could not write {}: {error}", path.display()));
    }
    let (kind, text) = match original {
        None => (
            "create",
            format!("File created successfully at: {} {STATE_IS_CURRENT}", path.display()),
        ),
        Some(_) => (
            "update",
            format!(
                "The file {} has been updated successfully. {STATE_IS_CURRENT}",
                path.display()
            ),
        ),
    };
    let detail = json!({
        "type": kind, "filePath": path, "content": content, "structuredPatch": [], "originalFile": original,
        "userModified": false,
    });
    ToolOutput { content: json!(text), is_error: None, detail }
}

fn edit(path: &PathBuf, old: &str, new: &str, replace_all: bool) -> ToolOutput {
    let original = match fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) => {
            return ToolOutput::error(&format!("could not read {}: {error}", path.display()));
        }
    };
    let edited = match original.matches(old).count() {
        0 => return ToolOutput::use_error("String to replace not found in file."),
        1 => original.replacen(old, new, 1),
        _ if replace_all => original.replace(old, new),
        n => return ToolOutput::use_error(&format!("Found {n} matches of the string to replace.")),
    };
    if let Err(error) = fs::write(path, edited) {
        return ToolOutput::error(&format!("could not write {}: {error}", path.display()));
    }
    let detail = json!({
        "filePath": path, "oldString": old, "newString": new, "originalFile": original, "structuredPatch": [],
        "userModified": false, "replaceAll": replace_all,
    });
    let text =
        format!("The file {} has been updated successfully. {STATE_IS_CURRENT}", path.display());
    ToolOutput { content: json!(text), is_error: None, detail }
}

/// Returns the result of an MCP tool, as the CLI shows it.
pub(crate) fn mcp_output(result: &Value) -> ToolOutput {
    let content = result.get("content").cloned().unwrap_or_else(|| json!([]));
    if result.get("isError") == Some(&Value::Bool(true)) {
        let error = ToolOutput { content, is_error: Some(true), detail: Value::Null };
        return ToolOutput::error(&error.text());
    }
    ToolOutput { detail: content.clone(), content, is_error: None }
}

fn text<'a>(input: &'a Value, key: &str) -> Option<&'a str> {
    input.get(key).and_then(Value::as_str)
}

fn missing(tool: &str, key: &str) -> ToolOutput {
    ToolOutput::use_error(&format!(
        "InputValidationError: {tool} failed due to the following issue: The required parameter \
         `{key}` is missing"
    ))
}
