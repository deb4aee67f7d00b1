//! The tools that really run: commands, and changes of files.

use std::path::Path;

use serde_json::{Value, json};

use crate::bash::Shell;

/// A tool call in the terms of Codex.
pub(super) enum Tool {
    /// A script for the shell.
    Command(String),
    /// The new content of a file, and the change as it is shown.
    Patch { path: String, content: String, changes: Value },
    /// Not simulated.
    Unknown,
}

impl Tool {
    /// Translates a call of the script, which uses the tool names of Claude Code.
    pub(super) fn of(name: &str, input: &Value, cwd: &str) -> Self {
        let text = |name: &str| input[name].as_str().unwrap_or_default().to_owned();
        let path = || Path::new(cwd).join(text("file_path")).display().to_string();
        match name {
            "Bash" => Self::Command(text("command")),
            "Read" => Self::Command(format!("cat {}", quoted(&text("file_path")))),
            "Write" => {
                let (path, content) = (path(), text("content"));
                let kind = json!({ "type": "add" });
                let changes = json!([{ "path": path, "kind": kind, "diff": content }]);
                Self::Patch { path, content, changes }
            }
            "Edit" => {
                let path = path();
                let before = std::fs::read_to_string(&path).unwrap_or_default();
                let (old, new) = (text("old_string"), text("new_string"));
                let content = before.replacen(&old, &new, 1);
                let kind = json!({ "type": "update", "move_path": null });
                let diff = format!("@@\n-{old}\n+{new}\n");
                let changes = json!([{ "path": path, "kind": kind, "diff": diff }]);
                Self::Patch { path, content, changes }
            }
            _ => Self::Unknown,
        }
    }
}

/// Returns a command line as Codex shows it.
pub(super) fn shown(script: &str) -> String {
    format!("/bin/bash -lc {}", quoted(script))
}

/// Runs a script, and returns its output and exit code.
pub(super) async fn run(script: &str, cwd: &str) -> std::io::Result<(String, i32)> {
    let output = Shell::start(script, Path::new(cwd))?.finish().await?;
    Ok((output.stdout + &output.stderr, output.code))
}

/// Writes a file, and creates the folders above it.
pub(super) fn apply(path: &str, content: &str) -> std::io::Result<()> {
    if let Some(folder) = Path::new(path).parent() {
        std::fs::create_dir_all(folder)?;
    }
    std::fs::write(path, content)
}

fn quoted(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "/-_.".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        return text.to_owned();
    }
    format!("'{}'", text.replace('\'', "'\\''"))
}
