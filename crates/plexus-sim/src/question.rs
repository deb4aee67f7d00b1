//! The contents of a permission question on the control channel: a description, a reason, and the
//! rules that would make it unnecessary next time.

use std::path::Path;

use serde_json::{Value, json};

use crate::ask::ToolCall;
use crate::rules::{AskedBecause, resolve, subject};
use crate::wire::{CanUseTool, raw};

/// Commands whose first argument is a path that they change.
const PATH_CHANGERS: &[&str] = &["touch", "mkdir", "rm", "rmdir"];

/// Returns the question for a call.
pub(crate) fn can_use_tool(call: &ToolCall, because: AskedBecause, cwd: &Path) -> CanUseTool {
    let input = match completed_input(call, cwd) {
        Some(input) => raw(&input),
        None => call.raw_input.clone(),
    };
    let mut question = CanUseTool {
        subtype: "can_use_tool",
        tool_name: call.name.clone(),
        mcp_server: None,
        display_name: call.name.clone(),
        input,
        description: None,
        permission_suggestions: Vec::new(),
        blocked_path: None,
        decision_reason: None,
        decision_reason_type: None,
        decision_reason_rule_source: None,
        server_policy_ask_only: Some(true),
        tool_use_id: call.id.clone(),
    };
    match call.name.as_str() {
        "Bash" => describe_bash(&mut question, call, cwd),
        "Write" | "Edit" => {
            question.description = Some(shown_path(subject(&call.input), cwd));
            question.permission_suggestions =
                vec![json!({"type": "setMode", "mode": "acceptEdits", "destination": "session"})];
        }
        "Read" => {
            let path = resolve(cwd, subject(&call.input));
            question.description = Some(shown_path(subject(&call.input), cwd));
            let folder = path.parent().unwrap_or(Path::new("/")).display().to_string();
            let rule = format!("/{}/**", folder.trim_end_matches('/'));
            question.permission_suggestions =
                vec![add_rules(&json!({"toolName": "Read", "ruleContent": rule}), "session")];
            question.decision_reason = Some("Path is outside allowed working directories");
            question.decision_reason_type = Some("workingDir");
        }
        name => {
            if let Some((server, tool)) =
                name.strip_prefix("mcp__").and_then(|name| name.split_once("__"))
            {
                question.mcp_server = Some(json!({"name": server, "source": "dynamic"}));
                question.display_name = tool.to_owned();
            }
            question.permission_suggestions =
                vec![add_rules(&json!({"toolName": name}), "localSettings")];
        }
    }
    if because == AskedBecause::Rule {
        // The rule would ask again after any suggestion, so there are none.
        question.permission_suggestions = Vec::new();
        question.blocked_path = None;
        question.decision_reason = None;
        question.decision_reason_type = Some("rule");
        question.decision_reason_rule_source = Some("flagSettings");
        question.server_policy_ask_only = Some(false);
    }
    question
}

/// Returns the input as the CLI completes it before it asks: absolute paths, and the default of
/// `replace_all`. `None` if the model's input is complete.
pub(crate) fn completed_input(call: &ToolCall, cwd: &Path) -> Option<Value> {
    if !matches!(call.name.as_str(), "Read" | "Write" | "Edit") {
        return None;
    }
    let mut input = call.input.clone();
    let path = resolve(cwd, input.get("file_path")?.as_str()?);
    input["file_path"] = json!(path);
    if call.name == "Edit" && input.get("replace_all").is_none() {
        input["replace_all"] = json!(false);
    }
    (input != call.input).then_some(input)
}

fn describe_bash(question: &mut CanUseTool, call: &ToolCall, cwd: &Path) {
    let command = subject(&call.input);
    question.description = call.input.get("description").and_then(Value::as_str).map(str::to_owned);
    question.server_policy_ask_only = None;
    let mut words = command.split_whitespace();
    let changes_path = words.next().is_some_and(|program| PATH_CHANGERS.contains(&program));
    let path = words.find(|word| !word.starts_with('-')).filter(|_| changes_path);
    let Some(path) = path else {
        let rule = json!({"toolName": "Bash", "ruleContent": command});
        question.permission_suggestions = vec![add_rules(&rule, "localSettings")];
        question.decision_reason = Some("This command requires approval");
        question.decision_reason_type = Some("other");
        return;
    };
    let pattern =
        if command.contains([';', '&', '|']) { command.to_owned() } else { format!("{command} *") };
    question.permission_suggestions = vec![
        add_rules(&json!({"toolName": "Bash", "ruleContent": pattern}), "localSettings"),
        json!({"type": "addDirectories", "directories": [cwd], "destination": "session"}),
        json!({"type": "setMode", "mode": "acceptEdits", "destination": "session"}),
    ];
    question.blocked_path = Some(resolve(cwd, path.trim_end_matches(';')).display().to_string());
}

fn add_rules(rule: &Value, destination: &str) -> Value {
    json!({"type": "addRules", "rules": [rule], "behavior": "allow", "destination": destination})
}

/// Returns a path for display: relative inside the working directory.
fn shown_path(path: &str, cwd: &Path) -> String {
    let path = resolve(cwd, path);
    path.strip_prefix(cwd).unwrap_or(&path).display().to_string()
}
