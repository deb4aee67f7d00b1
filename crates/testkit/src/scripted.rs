//! A shell script in place of an agent, in its own directory, and marked so that leftover processes
//! can be found.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use tempfile::TempDir;
use uuid::Uuid;

/// A program that runs a shell script. Its directory is removed when this is dropped.
#[derive(Debug)]
pub struct Scripted {
    dir: TempDir,
    mark: String,
    script: String,
}

impl Scripted {
    /// Makes a program that runs `script`.
    pub fn new(script: &str) -> Result<Self> {
        let dir = tempfile::tempdir().context("could not make a directory for the script")?;
        Ok(Self { dir, mark: format!("TEST-{}", Uuid::new_v4()), script: script.to_owned() })
    }

    /// Returns the program to start.
    #[must_use]
    pub fn program() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("children/scripted")
    }

    /// Returns the variables that the program needs in its environment.
    #[must_use]
    pub fn env(&self) -> [(&'static str, &str); 2] {
        [("CHILD_SCRIPT", &self.script), ("TEST_MARK", &self.mark)]
    }

    /// Returns the directory for the program to run in.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Reads a file that the program wrote into its directory.
    pub fn read(&self, name: &str) -> Result<String> {
        std::fs::read_to_string(self.dir().join(name))
            .with_context(|| format!("the script left no file {name}"))
    }

    /// Waits until no process that the program started is alive.
    pub async fn wait_until_nothing_is_left(&self) {
        #[cfg(target_os = "linux")]
        crate::eventually_async("the end of every process", crate::wait::PATIENCE, || {
            let left = crate::process::marked(&self.mark);
            std::future::ready(left.is_ok_and(|left| left.is_empty()).then_some(()))
        })
        .await;
    }
}
