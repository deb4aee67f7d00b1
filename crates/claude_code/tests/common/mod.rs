//! Shared by the test files: the recorded lines of the real CLI, and scripted children whose
//! leftover processes can be found.

#![allow(dead_code, reason = "each test file uses its own part of this")]
#![allow(clippy::expect_used, reason = "a failed test is allowed to stop loudly")]

use std::fs;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::time::Duration;

use claude_code::{ClaudeClient, ClaudeClientBuilder};
use testkit::wait::{self, PATIENCE};
use uuid::Uuid;

/// Returns every recorded line, with its `file:line`.
pub(crate) fn fixture_lines() -> impl Iterator<Item = (String, String)> {
    testkit::fixtures::all().expect("the fixtures").into_iter().flat_map(|(name, text)| {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines
            .into_iter()
            .enumerate()
            .map(move |(number, line)| (format!("{name}.jsonl:{}", number + 1), line))
    })
}

/// A child that runs a shell script instead of the CLI, in a directory of its own. A mark in its
/// environment makes leftover processes findable.
pub(crate) struct Scripted {
    pub(crate) dir: tempfile::TempDir,
    mark: String,
    script: String,
}

impl Scripted {
    pub(crate) fn new(script: &str) -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        Self { dir, mark: format!("TEST-{}", Uuid::new_v4()), script: script.to_owned() }
    }

    pub(crate) fn builder(&self) -> ClaudeClientBuilder {
        ClaudeClient::builder()
            .binary(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/children/scripted"))
            .env("CHILD_SCRIPT", &self.script)
            .env("TEST_MARK", &self.mark)
            .working_dir(self.dir.path())
    }

    pub(crate) fn client(&self) -> ClaudeClient {
        self.builder().build()
    }

    /// Returns the path of a file in the child's directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).expect(name)
    }

    /// Waits until the child has created a file.
    pub(crate) async fn wait_for_file(&self, name: &str) {
        wait_until(&format!("the child's file {name}"), || self.path(name).exists()).await;
    }

    /// Waits until no process of the child is left; zombies of other parents count as gone.
    pub(crate) async fn wait_until_nothing_is_left(&self) {
        wait_until("the end of every process", || self.processes().is_empty()).await;
    }

    /// Returns the living processes that inherited the mark.
    #[cfg(target_os = "linux")]
    pub(crate) fn processes(&self) -> Vec<u32> {
        let entries = fs::read_dir("/proc").expect("/proc");
        entries
            .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u32>().ok())
            .filter(|pid| *pid != std::process::id())
            .filter(|pid| {
                let environ = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
                environ.windows(self.mark.len()).any(|part| part == self.mark.as_bytes())
            })
            .collect()
    }

    /// Returns nothing, because other systems do not show the mark.
    #[cfg(not(target_os = "linux"))]
    pub(crate) fn processes(&self) -> Vec<u32> {
        Vec::new()
    }
}

/// Waits for a condition that no event announces.
pub(crate) async fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    within(what, async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    })
    .await;
}

/// Waits for a future, and names what did not come in time.
pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    wait::within(what, PATIENCE, future).await
}
