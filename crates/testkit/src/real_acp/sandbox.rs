//! A home, a working directory and the environment that keep a run of a real agent away from
//! everything real, with the settings that make it ask. Why each setting is there is in
//! `docs/acp.md`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use serde_json::json;
use tempfile::TempDir;
use uuid::Uuid;

use super::Agent;
use crate::messages_api::MessagesApi;

/// Goose's extensions that act without a question, or that only cost time.
const GOOSE_EXTENSIONS: [&str; 10] = [
    "summon",
    "apps",
    "extensionmanager",
    "skills",
    "analyze",
    "chatrecall",
    "code_execution",
    "tom",
    "todo",
    "orchestrator",
];

/// The folder layout and the environment of one agent. Removed when dropped.
#[derive(Debug)]
pub struct Sandbox {
    folder: TempDir,
    agent: Agent,
    base_url: String,
    marker: String,
}

impl Sandbox {
    /// Makes the folders and settings for processes of `agent` that ask `api` instead of a vendor.
    pub fn new(agent: Agent, api: &MessagesApi) -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("real-acp-")
            .tempdir()
            .context("could not make a sandbox")?;
        for part in ["home", "work", "tmp"] {
            std::fs::create_dir(folder.path().join(part)).context("could not make a sandbox")?;
        }
        let marker = format!("sandbox-{}", Uuid::new_v4());
        let sandbox = Self { folder, agent, base_url: api.base_url(), marker };
        match agent {
            Agent::OpenCode => {
                sandbox.settings(".config/opencode/opencode.json", &sandbox.opencode_settings())?;
            }
            Agent::Goose => sandbox.settings(".config/goose/config.yaml", &goose_settings())?,
            Agent::Claude | Agent::Gemini => {}
        }
        Ok(sandbox)
    }

    /// Returns the directory that sessions work in.
    #[must_use]
    pub fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// Returns a text that is in the environment of every process and of whatever it starts, so
    /// that leftover processes can be found.
    #[must_use]
    pub fn marker(&self) -> &str {
        &self.marker
    }

    /// Returns the whole environment of a process; give it nothing else.
    #[must_use]
    pub fn env(&self) -> Vec<(String, String)> {
        let path = |path: &Path| path.display().to_string();
        let common = [
            ("PATH", "/usr/local/bin:/usr/bin:/bin".to_owned()),
            ("HOME", path(&self.folder.path().join("home"))),
            ("TMPDIR", path(&self.folder.path().join("tmp"))),
            ("LANG", "C.UTF-8".to_owned()),
            ("SHELL", "/bin/sh".to_owned()),
            ("ANTHROPIC_API_KEY", "dummy-key-of-a-test".to_owned()),
            ("PLEXUS_TEST_MARKER", self.marker.clone()),
        ];
        let own: Vec<(&str, String)> = match self.agent {
            Agent::OpenCode => vec![
                ("OPENCODE_DISABLE_PROJECT_CONFIG", "1".to_owned()),
                ("OPENCODE_DISABLE_AUTOUPDATE", "1".to_owned()),
                ("OPENCODE_DISABLE_MODELS_FETCH", "1".to_owned()),
                ("OPENCODE_DISABLE_LSP_DOWNLOAD", "1".to_owned()),
            ],
            Agent::Goose => vec![
                ("GOOSE_PROVIDER", "anthropic".to_owned()),
                ("GOOSE_MODEL", "claude-sonnet-4-5".to_owned()),
                ("ANTHROPIC_HOST", self.base_url.clone()),
                ("GOOSE_MODE", "approve".to_owned()),
                ("GOOSE_DISABLE_KEYRING", "1".to_owned()),
                ("GOOSE_TELEMETRY_ENABLED", "false".to_owned()),
                ("GOOSE_DISABLE_TOOL_CALL_SUMMARY", "true".to_owned()),
                ("GOOSE_DISABLE_SESSION_NAMING", "true".to_owned()),
            ],
            Agent::Gemini => vec![
                ("GEMINI_API_KEY", "dummy-key-of-a-test".to_owned()),
                ("GOOGLE_GEMINI_BASE_URL", self.base_url.clone()),
            ],
            Agent::Claude => vec![
                ("ANTHROPIC_BASE_URL", self.base_url.clone()),
                ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1".to_owned()),
                // Else a refused key is tried again for minutes.
                ("CLAUDE_CODE_MAX_RETRIES", "1".to_owned()),
                ("CLAUDE_CODE_ENABLE_PROMPT_SUGGESTION", "false".to_owned()),
                ("DISABLE_TELEMETRY", "1".to_owned()),
                ("DISABLE_AUTOUPDATER", "1".to_owned()),
            ],
        };
        let pairs = common.into_iter().chain(own);
        pairs.map(|(name, value)| (name.to_owned(), value)).collect()
    }

    fn settings(&self, path: &str, text: &str) -> Result<()> {
        let path = self.folder.path().join("home").join(path);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder).context("could not make a folder for settings")?;
        }
        std::fs::write(&path, text).context("could not write the settings")
    }

    fn opencode_settings(&self) -> String {
        let model = json!({
            "name": "stand-in",
            "limit": { "context": 200_000, "output": 8_000 },
            "attachment": true,
            "modalities": { "input": ["text", "image"], "output": ["text"] },
        });
        let provider = json!({
            "npm": "@ai-sdk/anthropic",
            "name": "stand-in",
            "options": {
                "baseURL": format!("{}/v1", self.base_url),
                "apiKey": "dummy-key-of-a-test",
            },
            "models": { "stand-in": model },
        });
        json!({
            "model": "fake/stand-in",
            "small_model": "fake/stand-in",
            "autoupdate": false,
            "share": "disabled",
            "permission": { "*": "ask", "task": "deny" },
            "experimental": { "continue_loop_on_deny": true },
            "provider": { "fake": provider },
        })
        .to_string()
    }
}

fn goose_settings() -> String {
    let extension = |name: &str| {
        format!(
            "  {name}:\n    enabled: false\n    type: platform\n    name: {name}\n    \
             description: off\n    bundled: true\n    available_tools: []\n"
        )
    };
    let extensions: String = GOOSE_EXTENSIONS.map(extension).concat();
    format!("extensions:\n{extensions}")
}
