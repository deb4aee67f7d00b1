//! Items of a turn, and calls that ran unasked.

use agent_lines::json::RawJson;
use codex_app::ServerLine;
use codex_app::event::item::{
    CommandExecution, FileChange, Item, ItemBody, McpToolCall, ToolStatus, UserMessage,
};
use plexus_engine::driver::Step;
use plexus_store::JsonText;
use plexus_wire::ChatEvent;
use serde_json::{Value, json};
use uuid::Uuid;

use super::super::memory::{Call, Called, CodexMemory, Mode};
use super::super::{EXEC, PATCH};
use super::asks::command_input;
use super::{as_json, notice, passthrough};

/// Calls that may be open at the same time. An agent with more is looping; its further calls count
/// as unasked.
pub(super) const MAX_CALLS: usize = 1_024;

impl CodexMemory {
    pub(super) fn item_started(&mut self, item: &Item, line: &ServerLine, ours: bool) -> Vec<Step> {
        match &item.body {
            ItemBody::AgentMessage(_) if ours => vec![Step::DeltaStart],
            ItemBody::CommandExecution(command) => self.command_started(item, command, line),
            ItemBody::FileChange(_) => {
                let changes = changes_of(item.raw());
                let input = json!({ "changes": changes });
                self.announce(item, line, Called::Patch(Some(changes.to_string())));
                vec![tool_use(PATCH, item, input)]
            }
            ItemBody::McpToolCall(call) => {
                let arguments = call.arguments.as_ref().map_or("{}", |arguments| arguments.get());
                let input: Value = serde_json::from_str(arguments).unwrap_or_default();
                let (server, tool) = (call.server.as_str(), call.tool.as_str());
                let name = format!("mcp__{server}__{tool}");
                let (server, tool) = (server.to_owned(), tool.to_owned());
                let arguments = arguments.to_owned();
                self.announce(item, line, Called::Mcp { server, tool, arguments });
                vec![tool_use(&name, item, input)]
            }
            ItemBody::ContextCompaction if ours => {
                vec![notice("the agent summarises the conversation")]
            }
            _ => Vec::new(),
        }
    }

    pub(super) fn item_completed(
        &mut self,
        item: &Item,
        line: &ServerLine,
        ours: bool,
    ) -> Vec<Step> {
        match &item.body {
            ItemBody::UserMessage(message) if ours => self.message_repeated(message),
            ItemBody::AgentMessage(message) if ours => vec![
                Step::Event(ChatEvent::Content { text: message.text.as_str().to_owned() }),
                Step::DeltaEnd,
            ],
            ItemBody::Reasoning(raw) if ours => {
                let thinking = thoughts(raw);
                match thinking.is_empty() {
                    true => Vec::new(),
                    false => vec![Step::Event(ChatEvent::Thinking { thinking })],
                }
            }
            ItemBody::CommandExecution(command) => self.command_completed(item, command, line),
            ItemBody::FileChange(change) => self.patch_completed(item, change, line),
            ItemBody::McpToolCall(call) => self.mcp_completed(item, call, line),
            ItemBody::ContextCompaction if ours => Vec::new(),
            ItemBody::UserMessage(_) | ItemBody::Reasoning(_) | ItemBody::ContextCompaction => {
                vec![passthrough(line.raw_json(), "subagent")]
            }
            ItemBody::AgentMessage(_) | ItemBody::SubAgentActivity(_) => {
                vec![passthrough(line.raw_json(), "subagent")]
            }
            ItemBody::Plan(_) => vec![passthrough(line.raw_json(), "plan")],
            ItemBody::WebSearch(_) => vec![passthrough(line.raw_json(), "webSearch")],
            ItemBody::ImageView(_) => vec![passthrough(line.raw_json(), "imageView")],
            ItemBody::DynamicToolCall(_) | ItemBody::CollabAgentToolCall(_) => {
                vec![passthrough(line.raw_json(), "tool")]
            }
            ItemBody::Untyped { item_type } | ItemBody::Unknown { item_type } => {
                vec![passthrough(line.raw_json(), item_type)]
            }
        }
    }

    /// Notes that something was typed into a running command.
    pub(super) fn typed(&mut self, key: &str, text: &str) -> Vec<Step> {
        let asked = self.calls.get_mut(key).and_then(|call| call.typing.take());
        // An empty input only reads the output.
        if text.is_empty() || (asked.is_none() && self.mode != Mode::Strict) {
            return Vec::new();
        }
        vec![Step::Ran { request_id: asked, what: "typing into a running command".to_owned() }]
    }

    /// Notes that the agent repeats a message of ours: from here on it is on disk.
    fn message_repeated(&mut self, message: &UserMessage) -> Vec<Step> {
        let mut steps = Vec::new();
        if let (Some(thread), false) = (&self.thread, self.durable) {
            self.durable = true;
            steps.push(Step::Conversation(thread.clone()));
        }
        let id = message.client_id.as_ref().and_then(|id| Uuid::try_parse(id).ok());
        if let Some(turn) = &mut self.turn {
            turn.heard |= id.is_some() && turn.prompt == id;
        }
        steps.extend(id.map(|id| self.steer_over(id)).unwrap_or_default());
        steps
    }

    fn command_started(
        &mut self,
        item: &Item,
        command: &CommandExecution,
        line: &ServerLine,
    ) -> Vec<Step> {
        let input = command_input(command.command.as_str(), command.cwd.as_deref());
        let mut steps = vec![tool_use(EXEC, item, Value::Object(input))];
        self.announce(item, line, Called::Command);
        let by_user = command.source.as_deref() == Some("userShell");
        let key = self.key(line.thread_id.as_deref(), &item.id);
        let asked = self.calls.get(&key).and_then(|call| call.question.clone());
        // A command with a process runs: it was asked about before its item, or not at all.
        let runs = command.process_id.is_some() && (asked.is_some() || self.mode == Mode::Strict);
        if by_user || runs {
            let request_id = asked.filter(|_| !by_user);
            let what = if request_id.is_some() { "a command" } else { "a command, unasked" };
            steps.push(Step::Ran { request_id, what: what.to_owned() });
        }
        steps
    }

    fn command_completed(
        &mut self,
        item: &Item,
        command: &CommandExecution,
        line: &ServerLine,
    ) -> Vec<Step> {
        let output = match &command.aggregated_output {
            Some(output) => output.as_str().to_owned(),
            None if command.status == ToolStatus::Declined => "declined".to_owned(),
            None => String::new(),
        };
        let failed = command.status != ToolStatus::Completed || command.exit_code != Some(0);
        let mut steps = vec![tool_result(item, Value::from(output), failed)];
        let ran = command.process_id.is_some() || command.exit_code.is_some();
        steps.extend(self.over(item, line, ran, "a command"));
        steps
    }

    fn patch_completed(
        &mut self,
        item: &Item,
        change: &FileChange,
        line: &ServerLine,
    ) -> Vec<Step> {
        let (words, ran) = match change.status {
            ToolStatus::Completed => ("applied", true),
            ToolStatus::Declined => ("declined", false),
            ToolStatus::Failed => ("failed", false),
            // Fail closed: it may have been applied.
            ToolStatus::InProgress | ToolStatus::Unknown => ("unknown", true),
        };
        let mut steps = vec![tool_result(item, Value::from(words), !ran)];
        steps.extend(self.over(item, line, ran, "a change of files"));
        steps
    }

    fn mcp_completed(&mut self, item: &Item, call: &McpToolCall, line: &ServerLine) -> Vec<Step> {
        let failed = call.status != ToolStatus::Completed;
        // Both fields are present, and one of them is null.
        let result = call.result.as_ref().filter(|result| result.get() != "null");
        let output = result.or(call.error.as_ref());
        let output = output.map_or_else(|| JsonText::from(Value::Null), as_json);
        let mut steps = vec![Step::Event(ChatEvent::ToolResult {
            tool_use_id: item.id.as_str().to_owned(),
            output: output.into(),
            is_error: failed,
        })];
        let ran = !failed || result.is_some();
        steps.extend(self.over(item, line, ran, "a tool of an MCP server"));
        steps
    }

    /// Remembers a call until it is over. A second call of the same id, whose question will be
    /// refused, is not kept.
    fn announce(&mut self, item: &Item, line: &ServerLine, what: Called) {
        let key = self.key(line.thread_id.as_deref(), &item.id);
        if let Some(open) = self.calls.get_mut(&key) {
            let follows = open.what == Called::Unannounced && what == Called::Command;
            if open.question.is_none() || follows {
                open.what = what;
            }
            return;
        }
        if self.calls.len() < MAX_CALLS {
            let turn = line.turn_id.as_ref().map(|turn| turn.as_str().to_owned());
            let call = Call { turn, what, question: None, typing: None, ambiguous: false };
            self.calls.insert(key, call);
        }
    }

    /// Notes that a call is over. A call that ran must have been allowed; in the sandbox, only if
    /// it was asked about.
    fn over(&mut self, item: &Item, line: &ServerLine, ran: bool, what: &str) -> Vec<Step> {
        let key = self.key(line.thread_id.as_deref(), &item.id);
        let call = self.calls.remove(&key);
        let mut steps = Vec::new();
        let ambiguous = call.as_ref().is_some_and(|call| call.ambiguous);
        let question = call.and_then(|call| call.question);
        if ran && ambiguous {
            let words = "one of two calls of the same id, which were both refused, has run";
            steps.push(Step::Breach(format!("{words} ({what})")));
        } else if ran && (question.is_some() || self.mode == Mode::Strict) {
            steps.push(Step::Ran { request_id: question, what: what.to_owned() });
        }
        steps.push(Step::Finished { tool_use_id: item.id.as_str().to_owned() });
        steps
    }
}

fn tool_use(name: &str, item: &Item, input: Value) -> Step {
    Step::Event(ChatEvent::ToolUse {
        tool_name: name.to_owned(),
        tool_use_id: item.id.as_str().to_owned(),
        input: JsonText::from(input).into(),
    })
}

fn tool_result(item: &Item, output: Value, is_error: bool) -> Step {
    Step::Event(ChatEvent::ToolResult {
        tool_use_id: item.id.as_str().to_owned(),
        output: JsonText::from(output).into(),
        is_error,
    })
}

/// The changes of a patch as the agent wrote them.
fn changes_of(item: &RawJson) -> Value {
    let item: Option<Value> = serde_json::from_str(item.get()).ok();
    item.and_then(|mut item| item.get_mut("changes").map(Value::take)).unwrap_or_default()
}

/// Returns what the model thought, if it shows that: a summary, or the whole.
fn thoughts(item: &RawJson) -> String {
    let item: Value = serde_json::from_str(item.get()).unwrap_or_default();
    let texts = |name: &str| {
        let parts = item[name].as_array().map(Vec::as_slice).unwrap_or_default();
        let text = |part: &Value| part.as_str().or(part["text"].as_str()).map(str::to_owned);
        parts.iter().filter_map(text).collect::<Vec<_>>().join("\n\n")
    };
    let summary = texts("summary");
    if summary.is_empty() { texts("content") } else { summary }
}
