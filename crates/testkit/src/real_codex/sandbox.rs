//! A home, a working directory and the environment that keep a run of the real CLI away from
//! everything real.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use tempfile::TempDir;
use uuid::Uuid;

use crate::responses_api::ResponsesApi;

/// A model of the CLI's own catalogue that calls its tools directly.
const DIRECT_MODEL: &str = "gpt-5.5";

/// The folder layout and the environment of one server, or of several that share a home. Removed
/// when dropped.
#[derive(Debug)]
pub struct Sandbox {
    folder: TempDir,
    marker: String,
}

impl Sandbox {
    /// Makes the folders for servers that ask `api` instead of the vendor.
    pub fn new(api: &ResponsesApi) -> Result<Self> {
        // Below /tmp every sandboxed command of the CLI fails: it hides that folder from them, and
        // its own helper with it.
        let folder = tempfile::Builder::new()
            .prefix("real-codex-")
            .tempdir_in("/var/tmp")
            .context("could not make a sandbox")?;
        for part in ["home", "codex", "work", "outside"] {
            std::fs::create_dir(folder.path().join(part)).context("could not make a sandbox")?;
        }
        let config = format!(
            "model = \"{DIRECT_MODEL}\"\nmodel_provider = \"stand_in\"\n\
             [model_providers.stand_in]\nname = \"stand-in\"\nbase_url = \"{}/v1\"\n\
             wire_api = \"responses\"\nenv_key = \"STAND_IN_KEY\"\n\
             request_max_retries = 0\nstream_max_retries = 2\n",
            api.base_url()
        );
        std::fs::write(folder.path().join("codex/config.toml"), config)
            .context("could not write the settings")?;
        Ok(Self { folder, marker: format!("sandbox-{}", Uuid::new_v4()) })
    }

    /// Returns where the server keeps its settings, login and transcripts.
    #[must_use]
    pub fn codex_home(&self) -> PathBuf {
        self.folder.path().join("codex")
    }

    /// Returns the home directory of the user.
    #[must_use]
    pub fn home(&self) -> PathBuf {
        self.folder.path().join("home")
    }

    /// Returns the directory that threads work in.
    #[must_use]
    pub fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Returns a directory outside of the working directory that a sandboxed command may not write.
    #[must_use]
    pub fn outside(&self) -> PathBuf {
        self.folder.path().join("outside")
    }

    /// Returns a text that is in the environment of every server and of whatever it starts, so that
    /// leftover processes can be found.
    #[must_use]
    pub fn marker(&self) -> &str {
        &self.marker
    }

    /// Returns the whole environment of a server; give it nothing else.
    #[must_use]
    pub fn env(&self) -> Vec<(String, String)> {
        let path = |path: &Path| path.display().to_string();
        let pairs = [
            ("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned()),
            ("HOME", path(&self.home())),
            ("CODEX_HOME", path(&self.codex_home())),
            ("LANG", "C.UTF-8".to_owned()),
            ("STAND_IN_KEY", "dummy-key-of-a-test".to_owned()),
            ("PLEXUS_TEST_MARKER", self.marker.clone()),
        ];
        pairs.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
    }
}
