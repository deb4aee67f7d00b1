//! From lines of the CLI to steps of ours: a pure function with a small memory.
//!
//! Nothing here reads or writes anything. [`Translation`] is what must be known of earlier lines; it is stored together with the journal
//! position, so that going on in the middle translates the same.

use std::collections::BTreeSet;

use claude_code::event::EventBody;
use claude_code::event::control::{CanUseTool, ControlOutcome, ControlRequestBody, ControlResponse, EchoedDecision};
use claude_code::event::message::{AssistantMessage, ContentBlock, MessageContent, ToolResult, UserMessage};
use claude_code::event::result::ResultEvent;
use claude_code::event::stream::{Delta, StreamPart};
use claude_code::event::system::SystemEvent;
use claude_code::{ClaudeStreamJsonEvent, RawJson};
use plexus_store::JsonText;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::event::{ChatEvent, Usage};
use crate::scrub;

/// Requests of our own on the control channel have ids with this prefix; every other id belongs to the CLI.
pub(crate) const OUR_REQUEST: &str = "plexus-";

/// Lines of stderr that become notices in one chat. A child that floods stderr is told about once more, then only its tail is kept.
const MAX_STDERR_NOTICES: u32 = 100;

/// How much of stderr is kept to explain a run that died.
const STDERR_TAIL_BYTES: usize = 4 * 1024;

/// What must be known of earlier lines of a run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Translation {
    /// The chat that is open, if one is.
    pub(crate) chat: Option<OpenChat>,
    /// Background tasks that the last `background_tasks_changed` named.
    pub(crate) background_tasks: usize,
    /// What the process had cost when the chat before this one ended: the CLI counts on through all chats of a process.
    pub(crate) cost_before: f64,
    /// What the process has cost.
    pub(crate) cost_total: f64,
    /// The end of stderr.
    pub(crate) stderr_tail: String,
    /// The CLI's own id of the conversation, as its `init` lines say.
    pub(crate) conversation: Option<String>,
    /// Calls that we allowed and whose allow the CLI echoed; they may run.
    pub(crate) allowed: BTreeSet<String>,
    /// Requests that we refused without an approval (not served, not storable), so that their echo is no surprise.
    pub(crate) refused: BTreeSet<String>,
}

/// The chat that a run serves.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct OpenChat {
    pub(crate) number: u32,
    /// The prompt by its uuid; `None` for a turn that the child started itself.
    pub(crate) prompt: Option<Uuid>,
    /// How far the CLI is with our prompt.
    pub(crate) progress: PromptProgress,
    /// The last result of this chat.
    pub(crate) result: Option<TurnResult>,
    /// What its results used so far, without cost.
    pub(crate) usage: Usage,
    /// Why somebody wants it to end, once they said so.
    pub(crate) cancel: Option<String>,
    /// What the child did that nobody allowed, once it did.
    pub(crate) breach: Option<String>,
    stderr_notices: u32,
}

impl OpenChat {
    pub(crate) fn new(number: u32, prompt: Option<Uuid>) -> Self {
        Self {
            number,
            prompt,
            progress: PromptProgress::Unseen,
            result: None,
            usage: Usage::default(),
            cancel: None,
            breach: None,
            stderr_notices: 0,
        }
    }
}

/// How far the CLI is with a prompt, as its `command_lifecycle` lines say.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum PromptProgress {
    /// Nothing was heard of it.
    Unseen,
    /// It has been taken.
    Taken,
    /// It is done, or was cancelled.
    Done,
}

/// How a turn ended.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct TurnResult {
    /// What went wrong, in the CLI's words; `None` when nothing did.
    pub(crate) failure: Option<String>,
}

/// What one line asks of the run.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Step {
    /// Append this to the open chat.
    Event(ChatEvent),
    /// The CLI's own id of the conversation.
    ClaudeSession(String),
    /// A turn begins that no prompt of ours started, and no chat is open for it.
    SelfStarted,
    /// A child asks for permission.
    Asked(Box<Ask>),
    /// The CLI no longer wants an answer.
    Withdrawn { request_id: String },
    /// The CLI has taken an answer to its request.
    Echoed { request_id: String, decision: Option<Echo> },
    /// The CLI answers a request of ours.
    Answered { request_id: String, outcome: Box<Answered> },
    /// The CLI asks for something that we do not serve.
    Unserved { request_id: String, subtype: String },
    /// A tool call was let run, and by whom.
    Accepted { tool_use_id: String, source: String },
    /// A tool call has its result: its request's key is free again.
    Finished { tool_use_id: String },
    /// A piece of text, live; never stored.
    Delta(String),
    /// The chat is over.
    ChatOver,
}

/// A permission request.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Ask {
    pub(crate) request_id: String,
    pub(crate) tool_name: String,
    pub(crate) tool_use_id: String,
    pub(crate) input: RawJson,
    pub(crate) description: Option<String>,
}

/// The decision inside an echo.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Echo {
    Allow { updated_input: Option<RawJson> },
    Deny,
}

/// The answer to a request of ours.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Answered {
    /// Prompts that an interrupt came too early for.
    pub(crate) still_queued: Vec<String>,
    /// Open permission requests, when the answer is to `initialize`.
    pub(crate) open_requests: Option<Vec<Ask>>,
    /// What the CLI said was wrong.
    pub(crate) error: Option<String>,
}

impl Translation {
    /// Translates one line.
    pub(crate) fn line(&mut self, line: &ClaudeStreamJsonEvent) -> Vec<Step> {
        match &line.body {
            EventBody::System(event) => self.system(line, event),
            EventBody::Assistant(message) => assistant(line, message),
            EventBody::User(message) => self.user(message),
            EventBody::Result(result) => {
                self.result(result);
                Vec::new()
            }
            EventBody::Stream(event) => match &event.event {
                StreamPart::ContentBlockDelta { delta: Delta::Text(text), .. }
                    if event.parent_tool_use_id.is_none() =>
                {
                    vec![Step::Delta(text.as_str().to_owned())]
                }
                _ => Vec::new(),
            },
            EventBody::ControlRequest(request) => {
                let request_id = request.request_id.as_str().to_owned();
                vec![match &request.request {
                    ControlRequestBody::CanUseTool(ask) => Step::Asked(Box::new(as_ask(request_id, ask))),
                    ControlRequestBody::Other { subtype, .. } => {
                        let subtype = subtype.as_ref().map_or("unknown", |subtype| subtype.as_str()).to_owned();
                        Step::Unserved { request_id, subtype }
                    }
                }]
            }
            EventBody::ControlResponse(response) => vec![control_response(response)],
            EventBody::ControlCancelRequest(cancel) => {
                vec![Step::Withdrawn { request_id: cancel.request_id.as_str().to_owned() }]
            }
            EventBody::CommandLifecycle(event) => {
                self.lifecycle(event.command_uuid.as_deref(), event.state.as_deref());
                Vec::new()
            }
            EventBody::KeepAlive => Vec::new(),
            EventBody::Unknown { .. } if line.event_type() == "plexus_stderr" => self.stderr(line),
            EventBody::RateLimit(_)
            | EventBody::ToolProgress(_)
            | EventBody::AuthStatus(_)
            | EventBody::ToolUseSummary(_)
            | EventBody::PromptSuggestion(_)
            | EventBody::ConversationReset(_)
            | EventBody::Unknown { .. } => vec![passthrough(line, line.event_type())],
        }
    }

    /// What a line that cannot be read becomes. Nothing of its content is shown.
    pub(crate) fn unreadable(&mut self, message: &str) -> Vec<Step> {
        vec![Step::Event(ChatEvent::Error { message: format!("a line of the agent could not be read: {message}") })]
    }

    fn system(&mut self, line: &ClaudeStreamJsonEvent, event: &SystemEvent) -> Vec<Step> {
        match event {
            SystemEvent::Init(_) => {
                let mut steps = Vec::new();
                if self.chat.is_none() {
                    steps.push(Step::SelfStarted);
                }
                steps.extend(line.session_id().map(|id| Step::ClaudeSession(id.to_owned())));
                steps
            }
            SystemEvent::ApiRetry(retry) => {
                let (attempt, of) = (retry.attempt.unwrap_or(0), retry.max_retries.unwrap_or(0));
                let status =
                    retry.error_status.map_or_else(|| "failed".to_owned(), |status| format!("answered {status}"));
                let wait =
                    retry.retry_delay_ms.map_or_else(String::new, |ms| format!(", next in {:.1} s", ms / 1000.0));
                vec![Step::Event(ChatEvent::notice(format!("the model's API {status}; retry {attempt} of {of}{wait}")))]
            }
            SystemEvent::PermissionDenied(denied) => {
                let tool = denied.tool_name.as_ref().map_or("a tool", |name| name.as_str());
                let why = denied.message.as_ref().or(denied.decision_reason.as_ref()).map_or("", |text| text.as_str());
                vec![Step::Event(ChatEvent::notice(format!("the agent's own settings refused {tool}: {why}")))]
            }
            SystemEvent::BackgroundTasksChanged(changed) => {
                self.background_tasks = changed.tasks.len();
                Vec::new()
            }
            SystemEvent::SessionStateChanged(changed) if changed.state.as_deref() == Some("idle") => self.idle(),
            SystemEvent::Informational(notice)
            | SystemEvent::Notification(notice)
            | SystemEvent::MirrorError(notice) => {
                let words = notice.content.as_ref().or(notice.message.as_ref()).or(notice.error.as_ref());
                words.map(|words| Step::Event(ChatEvent::notice(words.as_str()))).into_iter().collect()
            }
            // What only a screen would show: it comes many times a turn and says nothing that an event of ours does not.
            SystemEvent::SessionStateChanged(_)
            | SystemEvent::Status(_)
            | SystemEvent::ThinkingTokens(_)
            | SystemEvent::SessionTitleChanged(_)
            | SystemEvent::UiInvalidate(_) => Vec::new(),
            other => {
                let event_type = format!("system/{}", other.subtype().unwrap_or("unknown"));
                vec![passthrough(line, &event_type)]
            }
        }
    }

    /// Judges whether the chat is over; only here, since a result is not the end.
    fn idle(&mut self) -> Vec<Step> {
        match &self.chat {
            Some(chat) if self.background_tasks == 0 => match (chat.prompt, chat.progress) {
                (None, _) | (Some(_), PromptProgress::Done) => vec![Step::ChatOver],
                (Some(_), PromptProgress::Unseen | PromptProgress::Taken) => Vec::new(),
            },
            Some(_) | None => Vec::new(),
        }
    }

    fn lifecycle(&mut self, uuid: Option<&str>, state: Option<&str>) {
        let Some(chat) = &mut self.chat else { return };
        let ours = uuid.and_then(|uuid| Uuid::parse_str(uuid).ok());
        if ours.is_none() || ours != chat.prompt {
            return;
        }
        match state {
            Some("queued" | "started") if chat.progress == PromptProgress::Unseen => {
                chat.progress = PromptProgress::Taken
            }
            Some("completed" | "cancelled") => chat.progress = PromptProgress::Done,
            _ => {}
        }
    }

    fn result(&mut self, result: &ResultEvent) {
        self.cost_total = result.total_cost_usd.unwrap_or(self.cost_total);
        let Some(chat) = &mut self.chat else { return };
        if let Some(usage) = &result.usage {
            chat.usage.input_tokens += usage.input_tokens.unwrap_or(0);
            chat.usage.output_tokens += usage.output_tokens.unwrap_or(0);
        }
        chat.usage.num_turns += result.num_turns.unwrap_or(0);
        chat.result = Some(TurnResult { failure: result.failed().then(|| failure_of(result)) });
    }

    fn user(&mut self, message: &UserMessage) -> Vec<Step> {
        if message.meta.is_replay == Some(true) {
            return Vec::new();
        }
        let mut steps = Vec::new();
        for meta in &message.meta.tool_result_meta {
            let decision = meta.permission_decision.as_ref();
            let accepted = decision.filter(|decision| decision.decision.as_deref() == Some("accept"));
            if let (Some(id), Some(source)) = (&meta.id, accepted.and_then(|decision| decision.source.as_ref())) {
                steps.push(Step::Accepted { tool_use_id: id.as_str().to_owned(), source: source.as_str().to_owned() });
            }
        }
        match &message.message.content {
            MessageContent::Text(text) => steps.push(Step::Event(ChatEvent::notice(text.as_str()))),
            MessageContent::Blocks(blocks) => {
                for block in blocks {
                    match block {
                        ContentBlock::ToolResult(result) => {
                            steps.push(Step::Event(tool_result(result)));
                            steps.push(Step::Finished { tool_use_id: result.tool_use_id.as_str().to_owned() });
                        }
                        // Words that the CLI puts into the user's mouth, such as that the turn was interrupted.
                        ContentBlock::Text(text) => steps.push(Step::Event(ChatEvent::notice(text.as_str()))),
                        _ => {}
                    }
                }
            }
            MessageContent::Other(_) => {}
        }
        steps
    }

    fn stderr(&mut self, line: &ClaudeStreamJsonEvent) -> Vec<Step> {
        #[derive(Deserialize)]
        struct Stderr {
            text: String,
        }
        let Ok(Stderr { text }) = serde_json::from_str(line.raw()) else { return Vec::new() };
        let text = scrub::text(&text);
        self.stderr_tail.push_str(&text);
        self.stderr_tail.push('\n');
        if self.stderr_tail.len() > STDERR_TAIL_BYTES {
            let mut cut = self.stderr_tail.len() - STDERR_TAIL_BYTES;
            while !self.stderr_tail.is_char_boundary(cut) {
                cut += 1;
            }
            self.stderr_tail.drain(..cut);
        }
        let Some(chat) = &mut self.chat else { return Vec::new() };
        chat.stderr_notices = chat.stderr_notices.saturating_add(1);
        match chat.stderr_notices {
            n if n < MAX_STDERR_NOTICES => vec![Step::Event(ChatEvent::notice(format!("stderr: {text}")))],
            MAX_STDERR_NOTICES => {
                vec![Step::Event(ChatEvent::notice("stderr: the agent writes more than is shown here"))]
            }
            _ => Vec::new(),
        }
    }

    /// Returns what the open chat has used, its cost included.
    pub(crate) fn usage(&self) -> Usage {
        let usage = self.chat.as_ref().map(|chat| chat.usage).unwrap_or_default();
        Usage { cost_usd: (self.cost_total - self.cost_before).max(0.0), ..usage }
    }

    /// Closes the open chat and gets ready for the next.
    pub(crate) fn close_chat(&mut self) -> Option<OpenChat> {
        self.cost_before = self.cost_total;
        self.chat.take()
    }
}

fn as_ask(request_id: String, ask: &CanUseTool) -> Ask {
    Ask {
        request_id,
        tool_name: ask.tool_name.as_str().to_owned(),
        tool_use_id: ask.tool_use_id.as_ref().map_or_else(String::new, |id| id.as_str().to_owned()),
        input: ask.input.clone(),
        description: ask.description.as_ref().map(|text| text.as_str().to_owned()),
    }
}

fn control_response(response: &ControlResponse) -> Step {
    let request_id = response.request_id.as_str().to_owned();
    if !request_id.starts_with(OUR_REQUEST) {
        let decision = match &response.outcome {
            ControlOutcome::Success(success) => success.decision.as_ref().map(|decision| match decision {
                EchoedDecision::Allow { updated_input } => Echo::Allow { updated_input: updated_input.clone() },
                EchoedDecision::Deny { .. } => Echo::Deny,
            }),
            ControlOutcome::Error(_) | ControlOutcome::Other(_) => None,
        };
        return Step::Echoed { request_id, decision };
    }
    let open_requests = response.pending_permission_requests.as_ref().map(|requests| {
        let asks = requests.iter().filter_map(|request| match &request.request {
            ControlRequestBody::CanUseTool(ask) => Some(as_ask(request.request_id.as_str().to_owned(), ask)),
            ControlRequestBody::Other { .. } => None,
        });
        asks.collect()
    });
    let mut answered = Answered { open_requests, ..Answered::default() };
    match &response.outcome {
        ControlOutcome::Success(success) => {
            answered.still_queued =
                success.interrupt.still_queued.iter().map(|uuid| uuid.as_str().to_owned()).collect();
        }
        ControlOutcome::Error(error) => answered.error = Some(error.as_str().to_owned()),
        ControlOutcome::Other(_) => {}
    }
    Step::Answered { request_id, outcome: Box::new(answered) }
}

fn assistant(line: &ClaudeStreamJsonEvent, message: &AssistantMessage) -> Vec<Step> {
    let of_subagent = message.meta.parent_tool_use_id.is_some();
    let synthetic =
        message.meta.is_api_error_message == Some(true) || message.message.model.as_deref() == Some("<synthetic>");
    let text_of = |text: &str| match (synthetic, of_subagent) {
        (true, _) => Step::Event(ChatEvent::notice(text)),
        (false, true) => passthrough(line, "assistant/subagent"),
        (false, false) => Step::Event(ChatEvent::Content { text: text.to_owned() }),
    };
    let blocks = match &message.message.content {
        MessageContent::Text(text) => return vec![text_of(text.as_str())],
        MessageContent::Blocks(blocks) => blocks,
        MessageContent::Other(_) => return vec![passthrough(line, "assistant")],
    };
    let steps = blocks.iter().map(|block| match block {
        ContentBlock::Text(text) => text_of(text.as_str()),
        ContentBlock::Thinking(thinking) if !of_subagent => {
            Step::Event(ChatEvent::Thinking { thinking: thinking.thinking.as_str().to_owned() })
        }
        ContentBlock::ToolUse(tool) | ContentBlock::ServerToolUse(tool) => Step::Event(ChatEvent::ToolUse {
            tool_name: tool.name.as_str().to_owned(),
            tool_use_id: tool.id.as_str().to_owned(),
            input: as_json(&tool.input),
        }),
        _ => passthrough(line, "assistant"),
    });
    steps.collect()
}

fn tool_result(result: &ToolResult) -> ChatEvent {
    let output = match &result.content {
        MessageContent::Text(text) => JsonText::from(serde_json::Value::from(text.as_str())),
        MessageContent::Blocks(blocks) if blocks.iter().all(|block| matches!(block, ContentBlock::Text(_))) => {
            JsonText::from(serde_json::Value::from(result.content.text()))
        }
        MessageContent::Blocks(_) | MessageContent::Other(_) => raw_content(result),
    };
    ChatEvent::ToolResult {
        tool_use_id: result.tool_use_id.as_str().to_owned(),
        output,
        is_error: result.is_error.unwrap_or(false),
    }
}

/// Keeps blocks that are not text (images) as the CLI wrote them.
fn raw_content(result: &ToolResult) -> JsonText {
    match &result.content {
        MessageContent::Other(raw) => as_json(raw),
        MessageContent::Text(_) | MessageContent::Blocks(_) => {
            JsonText::from(serde_json::Value::from(result.content.text()))
        }
    }
}

fn passthrough(line: &ClaudeStreamJsonEvent, event_type: &str) -> Step {
    Step::Event(ChatEvent::Passthrough { event_type: event_type.to_owned(), data: as_json(line.raw_json()) })
}

/// The parser has checked this JSON already; an empty object stands in for what could not be kept, which it rules out.
pub(crate) fn as_json(raw: &RawJson) -> JsonText {
    JsonText::parse(raw.get()).unwrap_or_else(|_| JsonText::empty_object())
}

fn failure_of(result: &ResultEvent) -> String {
    let errors: Vec<&str> = result.errors.iter().map(|error| error.as_str()).collect();
    let words = match (&result.result, errors.is_empty()) {
        (_, false) => errors.join("; "),
        (Some(text), true) if !text.as_str().is_empty() => text.as_str().to_owned(),
        _ => String::new(),
    };
    let kind = match result.subtype.as_str() {
        "success" => "the agent reported a failure",
        "error_max_turns" => "the agent reached its limit of turns",
        "error_max_budget_usd" => "the agent reached its limit of cost",
        "error_during_execution" => "the agent stopped in the middle of its work",
        other => return format!("the agent ended with {other}: {words}"),
    };
    if words.is_empty() { kind.to_owned() } else { format!("{kind}: {words}") }
}
