//! Conversations, one file each in `CODEX_HOME/sessions`. The first turn creates the file, as
//! with the real CLI.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::wire;

/// The token usage of one call of the model.
const INPUT_TOKENS: u64 = 100;
const OUTPUT_TOKENS: u64 = 20;

/// A conversation.
#[derive(Clone, Default, Serialize, Deserialize)]
pub(super) struct Thread {
    pub(super) id: String,
    pub(super) forked_from: Option<String>,
    pub(super) cwd: String,
    /// When it asks for approval.
    pub(super) policy: Value,
    sandbox: String,
    model: String,
    /// Its turns, with the prompt of each.
    turns: Vec<(String, String)>,
    calls: u64,
}

impl Thread {
    /// Starts, resumes or forks a conversation.
    pub(super) fn open(method: &str, params: &Value) -> Result<Self, String> {
        let mut thread = match params["threadId"].as_str() {
            None => Self { id: wire::new_id(), ..Self::default() },
            Some(id) => Self::load(id)?,
        };
        if method == "thread/fork" {
            if let Some(last) = params["lastTurnId"].as_str() {
                let at = thread.turns.iter().position(|(id, _)| id == last);
                thread.turns.truncate(at.ok_or("the turn is not in the thread")? + 1);
            }
            thread.forked_from = Some(std::mem::replace(&mut thread.id, wire::new_id()));
        }
        let text = |name: &str| params[name].as_str().map(str::to_owned);
        thread.cwd = text("cwd").unwrap_or(thread.cwd);
        thread.sandbox = text("sandbox").unwrap_or(thread.sandbox);
        thread.model = text("model").unwrap_or_else(|| "gpt-5.5".to_owned());
        thread.policy = params["approvalPolicy"].clone();
        Ok(thread)
    }

    fn load(id: &str) -> Result<Self, String> {
        let missing = || format!("no rollout found for thread id {id}");
        // Only a valid id may become part of a path.
        uuid::Uuid::try_parse(id).map_err(|_| format!("invalid session id: {id}"))?;
        let text = std::fs::read_to_string(path_of(id)).map_err(|_| missing())?;
        serde_json::from_str(&text).map_err(|_| missing())
    }

    /// Starts a turn, and saves it.
    pub(super) fn begin(&mut self, turn: &str, prompt: &str) -> std::io::Result<()> {
        self.turns.push((turn.to_owned(), prompt.to_owned()));
        self.keep()
    }

    /// Counts a call of the model.
    pub(super) fn count(&mut self) -> std::io::Result<()> {
        self.calls += 1;
        self.keep()
    }

    fn keep(&self) -> std::io::Result<()> {
        let path = path_of(&self.id);
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        crate::tools::write_whole(&path, &serde_json::to_vec(self)?)
    }

    /// Returns the prompts before the turn under way.
    pub(super) fn earlier(&self) -> Vec<String> {
        let before = self.turns.len().saturating_sub(1);
        self.turns.iter().take(before).map(|(_, prompt)| prompt.clone()).collect()
    }

    pub(super) fn last_turn(&self) -> Option<String> {
        self.turns.last().map(|(id, _)| id.clone())
    }

    pub(super) fn usage(&self) -> Value {
        let tokens = |calls: u64| {
            let (input, output) = (calls * INPUT_TOKENS, calls * OUTPUT_TOKENS);
            json!({
                "totalTokens": input + output, "inputTokens": input, "cachedInputTokens": 0,
                "cacheWriteInputTokens": 0, "outputTokens": output, "reasoningOutputTokens": 0,
            })
        };
        let last = self.calls.min(1);
        json!({ "total": tokens(self.calls), "last": tokens(last), "modelContextWindow": 258_400 })
    }

    pub(super) fn shown(&self) -> Value {
        json!({
            "id": self.id, "sessionId": self.id, "forkedFromId": self.forked_from,
            "parentThreadId": null, "preview": "", "ephemeral": false, "model": self.model,
            "status": { "type": "idle" }, "cwd": self.cwd, "cliVersion": super::VERSION,
            "turns": [],
        })
    }

    /// Returns the answer to the request that opened it.
    pub(super) fn opened(&self) -> Value {
        let sandbox = match self.sandbox.as_str() {
            "danger-full-access" => "dangerFullAccess",
            "read-only" => "readOnly",
            _ => "workspaceWrite",
        };
        json!({
            "thread": self.shown(), "model": self.model, "cwd": self.cwd,
            "approvalPolicy": self.policy, "approvalsReviewer": "user",
            "sandbox": { "type": sandbox }, "instructionSources": [],
        })
    }
}

fn path_of(id: &str) -> PathBuf {
    let home = std::env::var_os("CODEX_HOME").map(PathBuf::from).unwrap_or_default();
    home.join("sessions").join("plexus-sim").join(format!("{id}.json"))
}
