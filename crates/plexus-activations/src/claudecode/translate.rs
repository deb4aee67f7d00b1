//! From lines of the CLI to steps of ours: a pure function with a small memory.
//!
//! Nothing here reads or writes anything. [`Translation`] is what must be known of earlier lines; it is stored together with the journal
//! position, so that going on in the middle translates the same.

mod control;
mod said;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use claude_code::event::EventBody;
use claude_code::event::control::ControlRequestBody;
use claude_code::event::message::AssistantMessage;
use claude_code::event::result::ResultEvent;
use claude_code::event::stream::{Delta, StreamEvent, StreamPart};
use claude_code::event::system::SystemEvent;
use claude_code::{ClaudeStreamJsonEvent, RawJson};
use plexus_store::UnixMillis;
use plexus_wire::{ChatEvent, Usage};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use self::said::passthrough;
use crate::scrub;

/// Requests of our own on the control channel have ids with this prefix; every other id belongs to the CLI.
pub(crate) const OUR_REQUEST: &str = "plexus-";

/// Lines of stderr that become notices in one chat. A child that floods stderr is told about once more, then only its tail is kept.
const MAX_STDERR_NOTICES: u32 = 100;

/// What a reader is told when the conversation cannot be taken up again.
const NO_CONVERSATION: &str =
    "the agent names its conversation by something that is no id; the next chat begins a new one";

/// Less than anything costs: two ways to add up the same sums differ by less.
const ROUNDING_USD: f64 = 1e-9;

/// How much of stderr is kept to explain a run that died.
const STDERR_TAIL_BYTES: usize = 4 * 1024;

/// What must be known of earlier lines of a run.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct Translation {
    /// The chat that is open, if one is.
    pub(crate) chat: Option<OpenChat>,
    /// Background tasks that the last `background_tasks_changed` named.
    pub(crate) background_tasks: usize,
    /// What the conversation had cost when the open chat began: the CLI counts on through all chats, also of earlier processes.
    pub(crate) cost_before: f64,
    /// What the conversation has cost.
    pub(crate) cost_total: f64,
    /// The end of stderr.
    pub(crate) stderr_tail: String,
    /// The CLI's own id of the conversation, as its `init` lines say.
    pub(crate) conversation: Option<String>,
    /// Calls that we allowed and whose allow the CLI echoed; they may run.
    pub(crate) allowed: BTreeSet<String>,
    /// Requests that we refused without an approval (not served, not storable), so that their echo is no surprise.
    pub(crate) refused: BTreeSet<String>,
    /// What the child did that nobody allowed, once it did: it is being ended, whether or not a chat is open.
    pub(crate) breach: Option<String>,
}

/// The chat that a run serves.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub(crate) struct OpenChat {
    pub(crate) number: u32,
    /// The prompt by its uuid; `None` for a turn that the child started itself.
    pub(crate) prompt: Option<Uuid>,
    /// Whether the process was started for it.
    pub(crate) begun: Begun,
    /// When it came to this run; what it takes on the wall is counted from there.
    pub(crate) began_at: UnixMillis,
    /// How far the CLI is with our prompt.
    pub(crate) progress: PromptProgress,
    /// Messages that were put into the chat, which the CLI has not done with. The chat is not over before.
    pub(crate) outstanding: BTreeSet<Uuid>,
    /// The last result of this chat.
    pub(crate) result: Option<TurnResult>,
    /// The agent's own id of the last thing it said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) last_message: Option<Uuid>,
    /// What its results used so far, without cost.
    pub(crate) usage: Usage,
    /// Why somebody wants it to end, once they said so.
    pub(crate) cancel: Option<String>,
    /// What the child did that nobody allowed, once it did.
    pub(crate) breach: Option<String>,
    stderr_notices: u32,
}

impl OpenChat {
    pub(crate) fn new(number: u32, prompt: Option<Uuid>, begun: Begun) -> Self {
        Self {
            number,
            prompt,
            begun,
            began_at: UnixMillis::now(),
            progress: PromptProgress::Unseen,
            outstanding: BTreeSet::new(),
            result: None,
            last_message: None,
            usage: Usage::default(),
            cancel: None,
            breach: None,
            stderr_notices: 0,
        }
    }
}

/// How a chat came to its process.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Begun {
    /// The process was started for it.
    WithProcess,
    /// It was handed to a process that waited for work, and may have left in that moment.
    OnWarm,
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
    /// The CLI asks under an id that is no string, so that no record could carry it.
    Unnamed { request_id: RawJson },
    /// A tool call was let run, and by whom.
    Accepted { tool_use_id: String, source: String },
    /// A tool call has its result: its request's key is free again.
    Finished { tool_use_id: String },
    /// A piece of text, live; never stored.
    Delta(String),
    /// A message begins: live text that has not become an event is void. It comes again after a broken connection to the model.
    DeltaStart,
    /// A text has ended, and its event has been written: the next piece belongs to another.
    DeltaEnd,
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
            EventBody::Assistant(message) => {
                self.note_message(line, message);
                said::assistant(line, message)
            }
            EventBody::User(message) => said::user(line, message),
            EventBody::Result(result) => {
                self.result(result);
                Vec::new()
            }
            EventBody::Stream(event) => live(event).into_iter().collect(),
            EventBody::ControlRequest(request) => {
                let request_id = request.request_id.as_str().to_owned();
                vec![match &request.request {
                    ControlRequestBody::CanUseTool(ask) => {
                        Step::Asked(Box::new(control::as_ask(request_id, ask)))
                    }
                    ControlRequestBody::Unnamed { request_id } => {
                        Step::Unnamed { request_id: request_id.clone() }
                    }
                    ControlRequestBody::Other { subtype, .. } => {
                        let subtype = subtype
                            .as_ref()
                            .map_or("unknown", |subtype| subtype.as_str())
                            .to_owned();
                        Step::Unserved { request_id, subtype }
                    }
                    // Whatever a later `claude_code` can read is not served here until it is added.
                    _ => Step::Unserved { request_id, subtype: "unknown".to_owned() },
                }]
            }
            EventBody::ControlResponse(response) => vec![control::control_response(response)],
            EventBody::ControlCancelRequest(cancel) => {
                vec![Step::Withdrawn { request_id: cancel.request_id.as_str().to_owned() }]
            }
            EventBody::CommandLifecycle(event) => {
                self.lifecycle(event.command_uuid.as_deref(), event.state.as_deref());
                Vec::new()
            }
            EventBody::KeepAlive => Vec::new(),
            EventBody::Unknown { .. } if line.event_type() == "plexus_stderr" => self.stderr(line),
            // Lines that are of use to some readers, as they are: rate limits, progress of tools,
            // summaries, and every type that has no name yet.
            _ => vec![passthrough(line, line.event_type())],
        }
    }

    /// Whether this line begins a turn that no prompt of ours started, with no chat open for it.
    pub(crate) fn needs_own_chat(&self, line: &ClaudeStreamJsonEvent) -> bool {
        self.chat.is_none() && matches!(&line.body, EventBody::System(SystemEvent::Init(_)))
    }

    /// What a line that cannot be read becomes. Nothing of its content is shown.
    pub(crate) fn unreadable(&mut self, message: &str) -> Vec<Step> {
        vec![Step::Event(ChatEvent::Error {
            message: format!("a line of the agent could not be read: {message}"),
        })]
    }

    fn system(&mut self, line: &ClaudeStreamJsonEvent, event: &SystemEvent) -> Vec<Step> {
        match event {
            SystemEvent::Init(_) => {
                // It becomes an argument of a command and part of a path: nothing but a UUID is one.
                let named = |id: &str| match Uuid::try_parse(id) {
                    Ok(_) => Step::ClaudeSession(id.to_owned()),
                    Err(_) => Step::Event(ChatEvent::Error { message: NO_CONVERSATION.to_owned() }),
                };
                line.session_id().map(named).into_iter().collect()
            }
            SystemEvent::ApiRetry(retry) => {
                let (attempt, of) = (retry.attempt.unwrap_or(0), retry.max_retries.unwrap_or(0));
                let status = retry
                    .error_status
                    .map_or_else(|| "failed".to_owned(), |status| format!("answered {status}"));
                let wait = retry
                    .retry_delay_ms
                    .map_or_else(String::new, |ms| format!(", next in {:.1} s", ms / 1000.0));
                vec![Step::Event(ChatEvent::notice(format!(
                    "the model's API {status}; retry {attempt} of {of}{wait}"
                )))]
            }
            SystemEvent::PermissionDenied(denied) => {
                let tool = denied.tool_name.as_ref().map_or("a tool", |name| name.as_str());
                let why = denied
                    .message
                    .as_ref()
                    .or(denied.decision_reason.as_ref())
                    .map_or("", |text| text.as_str());
                vec![Step::Event(ChatEvent::notice(format!(
                    "the agent's own settings refused {tool}: {why}"
                )))]
            }
            SystemEvent::BackgroundTasksChanged(changed) => {
                self.background_tasks = changed.tasks.len();
                Vec::new()
            }
            SystemEvent::SessionStateChanged(changed)
                if changed.state.as_deref() == Some("idle") =>
            {
                self.idle()
            }
            SystemEvent::Informational(notice)
            | SystemEvent::Notification(notice)
            | SystemEvent::MirrorError(notice) => {
                let words =
                    notice.content.as_ref().or(notice.message.as_ref()).or(notice.error.as_ref());
                words
                    .map(|words| Step::Event(ChatEvent::notice(words.as_str())))
                    .into_iter()
                    .collect()
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
            Some(chat) if self.background_tasks == 0 && chat.outstanding.is_empty() => {
                match (chat.prompt, chat.progress) {
                    (None, _) | (Some(_), PromptProgress::Done) => vec![Step::ChatOver],
                    (Some(_), PromptProgress::Unseen | PromptProgress::Taken) => Vec::new(),
                }
            }
            Some(_) | None => Vec::new(),
        }
    }

    fn lifecycle(&mut self, uuid: Option<&str>, state: Option<&str>) {
        let Some(chat) = &mut self.chat else { return };
        let Some(uuid) = uuid.and_then(|uuid| Uuid::parse_str(uuid).ok()) else { return };
        let is_prompt = chat.prompt == Some(uuid);
        match state {
            Some("queued" | "started") if is_prompt && chat.progress == PromptProgress::Unseen => {
                chat.progress = PromptProgress::Taken;
            }
            Some("completed" | "cancelled") if is_prompt => chat.progress = PromptProgress::Done,
            Some("completed" | "cancelled") => {
                chat.outstanding.remove(&uuid);
            }
            _ => {}
        }
    }

    /// Remembers where in the agent's own conversation the chat stands. What a subagent says stands in another. The id becomes an argument of a
    /// command one day: nothing but a UUID is one.
    fn note_message(&mut self, line: &ClaudeStreamJsonEvent, message: &AssistantMessage) {
        if message.meta.parent_tool_use_id.is_none()
            && let Some(chat) = &mut self.chat
        {
            chat.last_message =
                line.uuid.as_ref().and_then(|uuid| Uuid::try_parse(uuid.as_str()).ok());
        }
    }

    fn result(&mut self, result: &ResultEvent) {
        if let Some(total) = result.total_cost_usd {
            if total < self.cost_total - ROUNDING_USD {
                // The CLI before it was killed and noted nothing: this one counts from an earlier time, at worst from nothing.
                self.cost_before = 0.0;
            }
            self.cost_total = total;
        }
        let Some(chat) = &mut self.chat else { return };
        if let Some(usage) = &result.usage {
            chat.usage.input_tokens += usage.input_tokens.unwrap_or(0);
            chat.usage.output_tokens += usage.output_tokens.unwrap_or(0);
        }
        chat.usage.num_turns += result.num_turns.unwrap_or(0);
        chat.result = Some(TurnResult { failure: result.failed().then(|| failure_of(result)) });
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
            n if n < MAX_STDERR_NOTICES => {
                vec![Step::Event(ChatEvent::notice(format!("stderr: {text}")))]
            }
            MAX_STDERR_NOTICES => {
                vec![Step::Event(ChatEvent::notice(
                    "stderr: the agent writes more than is shown here",
                ))]
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

/// What whoever watches live gets of a partial message. Subagents speak to the main agent, not to the reader.
fn live(event: &StreamEvent) -> Option<Step> {
    if event.parent_tool_use_id.is_some() {
        return None;
    }
    match &event.event {
        StreamPart::MessageStart(_) => Some(Step::DeltaStart),
        StreamPart::ContentBlockStop { .. } => Some(Step::DeltaEnd),
        StreamPart::ContentBlockDelta { delta: Delta::Text(text), .. } => {
            Some(Step::Delta(text.as_str().to_owned()))
        }
        _ => None,
    }
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
