//! The recorded logs of the real CLI, and other files of the workspace. Conversations with other
//! agents ([`recordings`]) are those of [`codex`] and of [`acp`].
//!
//! Paths come from where this crate was compiled, so a test finds them whatever its working
//! directory is.

pub mod acp;
pub mod codex;
pub mod recordings;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};

/// The version of the CLI that the logs in `fixtures/` were recorded with.
pub const RECORDED_VERSION: &str = "2.1.325";

/// Returns the root of the workspace.
#[must_use]
pub fn workspace_root() -> &'static Path {
    // This crate lies two folders below the root, which is what `members = ["crates/*"]` says.
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap_or(Path::new("."))
}

/// Returns the folder of the recorded logs.
#[must_use]
pub fn folder() -> PathBuf {
    workspace_root().join("fixtures").join(format!("claude-{RECORDED_VERSION}"))
}

/// Reads one recorded log by its name without the ending, such as `control_echo_uuid`.
pub fn read(name: &str) -> Result<String> {
    let path = folder().join(format!("{name}.jsonl"));
    std::fs::read_to_string(&path)
        .with_context(|| format!("could not read the fixture {}", path.display()))
}

/// Returns every recorded log as `(name, text)`, in the order of their names.
pub fn all() -> Result<Vec<(String, String)>> {
    all_in(&folder())
}

/// Returns every file of JSON lines in a folder as `(name, text)`, in the order of their names.
fn all_in(folder: &Path) -> Result<Vec<(String, String)>> {
    let entries = std::fs::read_dir(folder)
        .with_context(|| format!("could not list {}", folder.display()))?;
    let mut logs = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|ending| ending == "jsonl") {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let text = std::fs::read_to_string(&path)
                .with_context(|| format!("could not read {}", path.display()))?;
            logs.push((name, text));
        }
    }
    logs.sort();
    Ok(logs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_recorded_log_is_found_and_holds_json_lines() {
        let logs = all().unwrap();
        assert!(logs.len() >= 30, "only {} logs", logs.len());
        for (name, text) in logs {
            for line in text.lines() {
                assert!(serde_json::from_str::<serde_json::Value>(line).is_ok(), "{name}: {line}");
            }
        }
    }

    #[test]
    fn a_missing_log_is_an_error_with_its_path() {
        assert!(read("no_such_log").unwrap_err().to_string().contains("no_such_log.jsonl"));
    }
}
