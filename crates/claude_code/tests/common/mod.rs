//! Shared by the test files: the recorded lines of the real CLI.

use std::fs;
use std::path::PathBuf;

/// Where the recordings are.
pub fn fixture_dir() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/claude-2.1.325")
}

/// Every recorded line, with `file:line` to name it.
pub fn fixture_lines() -> impl Iterator<Item = (String, String)> {
    let mut files: Vec<PathBuf> =
        fs::read_dir(fixture_dir()).expect("the fixtures").map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    files.into_iter().filter(|path| path.extension().is_some_and(|extension| extension == "jsonl")).flat_map(|path| {
        let text = fs::read_to_string(&path).expect("a fixture");
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.into_iter().enumerate().map(move |(number, line)| (format!("{name}:{}", number + 1), line))
    })
}
