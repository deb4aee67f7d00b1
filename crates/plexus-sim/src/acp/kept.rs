//! Conversations, one file each in `.plexus-sim-acp` of the home directory. The first turn creates
//! the file, as with most agents.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

/// A conversation.
#[derive(Serialize, Deserialize)]
pub(super) struct Conversation {
    pub(super) id: String,
    pub(super) cwd: String,
    prompts: Vec<String>,
}

impl Conversation {
    pub(super) fn new(params: &Value) -> Self {
        let cwd = params["cwd"].as_str().unwrap_or(".").to_owned();
        Self { id: Uuid::now_v7().to_string(), cwd, prompts: Vec::new() }
    }

    pub(super) fn load(params: &Value) -> Result<Self, String> {
        let id = params["sessionId"].as_str().unwrap_or_default();
        // Only a valid id may become part of a path.
        let id = Uuid::try_parse(id).map_err(|_| format!("Resource not found: {id}"))?;
        let text = std::fs::read(path_of(&id.to_string()));
        let text = text.map_err(|_| format!("Resource not found: {id}"))?;
        serde_json::from_slice(&text).map_err(|error| error.to_string())
    }

    /// Starts a turn, and saves it.
    pub(super) fn begin(&mut self, prompt: &str) -> std::io::Result<()> {
        self.prompts.push(prompt.to_owned());
        let path = path_of(&self.id);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        crate::tools::write_whole(&path, &serde_json::to_vec(self)?)
    }

    /// Returns the prompts before the turn under way.
    pub(super) fn earlier(&self) -> Vec<String> {
        let before = self.prompts.len().saturating_sub(1);
        self.prompts.iter().take(before).cloned().collect()
    }
}

fn path_of(id: &str) -> PathBuf {
    let home = std::env::var_os("HOME").map(PathBuf::from).unwrap_or_default();
    home.join(".plexus-sim-acp").join(format!("{id}.json"))
}
