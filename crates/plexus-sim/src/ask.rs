//! Asking for permission, on whichever channel the command line names.

use serde_json::value::RawValue;
use serde_json::{Map, Value, json};
use tokio::sync::oneshot;

use crate::answer::{self, Answer};
use crate::mcp::CallError;
use crate::rules::{resolve, subject};
use crate::sim::Sim;
use crate::wire::{CanUseTool, ControlCancelRequest, ControlRequest, line_id};

/// `--permission-prompt-tool stdio` means the control channel.
const CONTROL_CHANNEL: &str = "stdio";

/// Commands whose first argument is a path that they change.
const PATH_CHANGERS: &[&str] = &["touch", "mkdir", "rm", "rmdir"];

/// A permission question that waits for its answer on the control channel.
pub(crate) struct Question {
    pub(crate) request_id: String,
    pub(crate) request: CanUseTool,
    answer: oneshot::Sender<Answer>,
}

impl Question {
    pub(crate) fn give(self, answer: Answer) {
        // A turn that was interrupted in between no longer listens.
        let _ = self.answer.send(answer);
    }
}

/// A tool call with all that a question needs.
#[derive(Debug)]
pub(crate) struct ToolCall {
    pub(crate) id: String,
    pub(crate) name: String,
    pub(crate) raw_input: Box<RawValue>,
    pub(crate) input: Value,
}

impl Sim {
    /// Waits for an answer; `None` when nobody could be asked at all.
    pub(crate) async fn ask(&self, call: &ToolCall) -> Option<Answer> {
        match self.options.permission_prompt_tool.as_deref() {
            None => None,
            Some(CONTROL_CHANNEL) if self.options.stream_input => Some(self.ask_on_stdio(call).await),
            Some(CONTROL_CHANNEL) => Some(stream_closed()),
            Some(tool) => Some(self.ask_permit_tool(tool, call).await),
        }
    }

    async fn ask_permit_tool(&self, tool: &str, call: &ToolCall) -> Answer {
        let mut arguments = Map::new();
        arguments.insert("tool_name".to_owned(), json!(call.name));
        arguments.insert("input".to_owned(), call.input.clone());
        arguments.insert("tool_use_id".to_owned(), json!(call.id));
        match self.servers.call(tool, arguments, &call.id).await {
            Ok(result) => answer::parse_tool_result(&result),
            Err(CallError::NoSuchTool { available }) => Answer::NobodyToAsk {
                error: format!(
                    "Error: MCP tool {tool} (passed via --permission-prompt-tool) not found. Available MCP tools: {}",
                    if available.is_empty() { "none" } else { &available }
                ),
            },
            Err(CallError::Failed(error)) => Answer::Failed { error },
        }
    }

    async fn ask_on_stdio(&self, call: &ToolCall) -> Answer {
        if self.input_closed.get() {
            return stream_closed();
        }
        let request_id = line_id().to_string();
        let request = self.can_use_tool(call);
        let (answer, wait) = oneshot::channel();
        if self.questions.borrow().is_empty() {
            self.set_state("requires_action");
        }
        self.emit(&ControlRequest { r#type: "control_request", request_id: &request_id, request: &request });
        self.questions.borrow_mut().push(Question { request_id, request, answer });
        wait.await.unwrap_or_else(|_| stream_closed())
    }

    fn can_use_tool(&self, call: &ToolCall) -> CanUseTool {
        let mut suggestions = Vec::new();
        let mut blocked_path = None;
        let accept_edits = json!({"type": "setMode", "mode": "acceptEdits", "destination": "session"});
        match call.name.as_str() {
            "Bash" => {
                let command = subject(&call.input);
                suggestions.push(json!({
                    "type": "addRules", "rules": [{"toolName": "Bash", "ruleContent": command}],
                    "behavior": "allow", "destination": "localSettings",
                }));
                let mut words = command.split_whitespace();
                if words.next().is_some_and(|program| PATH_CHANGERS.contains(&program))
                    && let Some(path) = words.find(|word| !word.starts_with('-'))
                {
                    blocked_path = Some(resolve(&self.cwd, path.trim_end_matches(';')).to_string_lossy().into_owned());
                    suggestions.push(json!({
                        "type": "addDirectories", "directories": [self.cwd], "destination": "session",
                    }));
                    suggestions.push(accept_edits);
                }
            }
            "Write" | "Edit" => suggestions.push(accept_edits),
            "Read" => {
                blocked_path = Some(resolve(&self.cwd, subject(&call.input)).to_string_lossy().into_owned());
                suggestions.push(json!({
                    "type": "addRules", "rules": [{"toolName": "Read", "ruleContent": subject(&call.input)}],
                    "behavior": "allow", "destination": "session",
                }));
            }
            name => suggestions.push(json!({
                "type": "addRules", "rules": [{"toolName": name}], "behavior": "allow", "destination": "localSettings",
            })),
        }
        let described = call.input.get("description").or_else(|| call.input.get("file_path"));
        CanUseTool {
            subtype: "can_use_tool",
            tool_name: call.name.clone(),
            display_name: call.name.clone(),
            input: call.raw_input.clone(),
            description: described.and_then(Value::as_str).map(str::to_owned),
            permission_suggestions: suggestions,
            blocked_path,
            tool_use_id: call.id.clone(),
        }
    }

    /// Withdraws every open question.
    pub(crate) fn cancel_questions(&self) {
        for question in self.questions.take() {
            self.emit(&ControlCancelRequest { r#type: "control_cancel_request", request_id: &question.request_id });
        }
    }

    /// Denies every open question because nobody can answer any more.
    pub(crate) fn close_questions(&self) {
        for question in self.questions.take() {
            question.give(stream_closed());
        }
    }
}

fn stream_closed() -> Answer {
    Answer::Failed {
        error: "Tool permission request failed: Error: Tool permission stream closed before response received"
            .to_owned(),
    }
}
