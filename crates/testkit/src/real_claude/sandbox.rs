//! A home, a working directory and an environment that isolate a run of the real CLI from the real
//! ones.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use tempfile::TempDir;
use uuid::Uuid;

use crate::messages_api::MessagesApi;

/// The folders and the environment of one child, or of several that share a home. Removed when
/// dropped.
#[derive(Debug)]
pub struct Sandbox {
    folder: TempDir,
    base_url: String,
    marker: String,
}

impl Sandbox {
    /// Creates the folders for children that talk to `api`.
    pub fn new(api: &MessagesApi) -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("real-claude-")
            .tempdir()
            .context("could not make a sandbox")?;
        for part in ["home", "work", "tmp"] {
            std::fs::create_dir(folder.path().join(part)).context("could not make a sandbox")?;
        }
        Ok(Self { folder, base_url: api.base_url(), marker: format!("sandbox-{}", Uuid::new_v4()) })
    }

    /// Returns the `HOME` of the children.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// Returns the directory that children work in.
    #[must_use]
    pub fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Returns a path in the sandbox that is outside the working directory.
    #[must_use]
    pub fn outside(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns a text in the environment of every child and its descendants, with which leftover
    /// processes can be found.
    #[must_use]
    pub fn marker(&self) -> &str {
        &self.marker
    }

    /// Returns the whole environment of a child; give it nothing else.
    #[must_use]
    pub fn env(&self) -> Vec<(String, String)> {
        let path = |path: &Path| path.display().to_string();
        let pairs = [
            ("PATH", "/usr/local/bin:/usr/bin:/bin".to_owned()),
            ("HOME", path(&self.home())),
            ("TMPDIR", path(&self.folder.path().join("tmp"))),
            ("LANG", "C.UTF-8".to_owned()),
            ("ANTHROPIC_API_KEY", "dummy-key-of-a-test".to_owned()),
            ("ANTHROPIC_BASE_URL", self.base_url.clone()),
            ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned()),
            ("DISABLE_TELEMETRY", "1".to_owned()),
            ("DISABLE_AUTOUPDATER", "1".to_owned()),
            ("PLEXUS_TEST_MARKER", self.marker.clone()),
        ];
        pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}
