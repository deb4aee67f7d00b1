//! The lines of the app-server, with the fields of the recorded conversations.

use jiff::Timestamp;
use serde_json::{Value, json};
use uuid::Uuid;

/// Returns a new id for a thread, a turn or a message.
pub(super) fn new_id() -> String {
    Uuid::now_v7().to_string()
}

pub(super) fn now_ms() -> i64 {
    Timestamp::now().as_millisecond()
}

pub(super) fn initialized() -> Value {
    let home = std::env::var("CODEX_HOME").unwrap_or_default();
    json!({
        "userAgent": format!("plexus/{} (simulator)", super::VERSION),
        "codexHome": home,
        "platformFamily": "unix",
        "platformOs": "linux",
    })
}

/// Returns a turn.
pub(super) fn turn(id: &str, status: &str, error: Option<Value>) -> Value {
    json!({
        "id": id, "rootTurnId": id, "items": [], "itemsView": "notLoaded", "status": status,
        "error": error, "startedAt": null, "completedAt": null, "durationMs": null,
    })
}

pub(super) fn user_message(id: &str, client_id: Option<&str>, text: &str) -> Value {
    let content = json!([{ "type": "text", "text": text, "text_elements": [] }]);
    json!({ "type": "userMessage", "id": id, "clientId": client_id, "content": content })
}

pub(super) fn agent_message(id: &str, text: &str) -> Value {
    json!({
        "type": "agentMessage", "id": id, "text": text, "phase": null, "memoryCitation": null,
        "delivery": null, "questions": null,
    })
}

pub(super) fn reasoning(id: &str, summary: &str) -> Value {
    json!({ "type": "reasoning", "id": id, "summary": [summary], "content": [] })
}

/// Returns a command. `ran` is its output and exit code.
pub(super) fn command(id: &str, line: &str, cwd: &str, status: &str, ran: Option<Ran>) -> Value {
    let (output, code, process, source) = match ran {
        Some(ran) => {
            let process = Some("60000".to_owned());
            (ran.output, ran.code, process, "unifiedExecStartup")
        }
        None => (None, None, None, "agent"),
    };
    json!({
        "type": "commandExecution", "id": id, "pluginId": null, "scriptPath": null,
        "command": line, "cwd": cwd, "processId": process, "source": source, "status": status,
        "commandActions": [], "aggregatedOutput": output, "exitCode": code, "durationMs": null,
    })
}

/// The output and exit code of a command that runs or ran.
pub(super) struct Ran {
    pub(super) output: Option<String>,
    pub(super) code: Option<i32>,
}

pub(super) fn file_change(id: &str, changes: &Value, status: &str) -> Value {
    json!({ "type": "fileChange", "id": id, "changes": changes, "status": status })
}

/// Returns the name of an error of the model's service.
pub(super) fn error(status: u16) -> Value {
    let info = match status {
        500 => json!("internalServerError"),
        429 => json!("usageLimitExceeded"),
        other => json!({ "httpConnectionFailed": { "httpStatusCode": other } }),
    };
    json!({
        "message": format!("unexpected status {status}"),
        "codexErrorInfo": info,
        "additionalDetails": null,
    })
}
