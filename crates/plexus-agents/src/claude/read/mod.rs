//! From lines of the CLI to steps of the engine.
//!
//! Pure: the line and the memory are the only inputs.

mod control;
mod said;
#[cfg(test)]
mod tests;

use agent_lines::journal::LineContent;
use agent_lines::json::Text;
use claude_code::event::EventBody;
use claude_code::event::control::ControlRequestBody;
use claude_code::event::message::AssistantMessage;
use claude_code::event::result::ResultEvent;
use claude_code::event::stream::{Delta, StreamEvent, StreamPart};
use claude_code::event::system::{SystemEvent, TaskStarted};
use claude_code::{ClaudeStreamJsonEvent, ClaudeStreamJsonParser, SKIPPED_HEAD_BYTES};
use plexus_engine::driver::Step;
use plexus_engine::driver::step::Hidden;
use plexus_wire::ChatEvent;
use uuid::Uuid;

use self::said::passthrough;
use super::memory::{ClaudeMemory, PromptProgress, TurnResult};

/// The notice in a chat whose conversation cannot be resumed.
const NO_CONVERSATION: &str =
    "the agent gave its conversation a name that is not an id; the next chat begins a new one";

/// Subagents that are remembered; of more, some ask by their id.
const MAX_SUBAGENTS: usize = 64;

/// Turns that may begin without a prompt of ours, at most: more tasks have not ended at once.
const MAX_TURNS_WITHOUT_PROMPT: u32 = 64;

/// Characters that are remembered of what a subagent is called and does.
const MAX_SUBAGENT_CHARS: usize = 200;

/// A smaller difference between two sums is rounding.
const ROUNDING_USD: f64 = 1e-9;

/// Reads one line of a journal.
pub(super) fn line(memory: &mut ClaudeMemory, line: &LineContent) -> Vec<Step> {
    match line.parse(&mut ClaudeStreamJsonParser::new()) {
        Ok(Some(event)) => memory.line(&event),
        Ok(None) => Vec::new(),
        Err(error) => vec![Step::Unreadable { why: error.to_string(), hides: hidden_in(line) }],
    }
}

/// How the CLI begins a line that answers a request of ours, and one that asks.
const OWN_ANSWER: &str = r#"{"type":"control_response""#;
const QUESTION: &str = r#"{"type":"control_request","request_id":""#;

/// Says what a line that cannot be read may have been. Only its beginning is the CLI's word: what
/// follows may be the input of a call, in which the model says what it likes.
fn hidden_in(line: &LineContent) -> Hidden {
    let head = match line {
        LineContent::TooLong { head, .. } => String::from_utf8_lossy(head),
        LineContent::Whole(bytes) => {
            String::from_utf8_lossy(&bytes[..bytes.len().min(SKIPPED_HEAD_BYTES)])
        }
    };
    if head.starts_with(OWN_ANSWER) {
        return Hidden::OwnAnswer;
    }
    let id = head.strip_prefix(QUESTION).and_then(|rest| rest.split_once('"')).map(|(id, _)| id);
    let is_plain = |id: &&str| {
        !id.is_empty() && id.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
    };
    match id.filter(is_plain) {
        Some(id) => Hidden::Question(id.to_owned()),
        None => Hidden::Anything,
    }
}

impl ClaudeMemory {
    /// Translates one line.
    fn line(&mut self, line: &ClaudeStreamJsonEvent) -> Vec<Step> {
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
                        let ask = control::as_ask(request_id, ask, &self.subagents);
                        Step::Asked(Box::new(ask))
                    }
                    ControlRequestBody::Unnamed { request_id } => control::unnamed(request_id),
                    ControlRequestBody::Other { subtype, .. } => {
                        let subtype =
                            subtype.as_ref().map_or("unknown", |subtype| subtype.as_str());
                        control::unserved(request_id, subtype)
                    }
                    // A kind that a newer `claude_code` can read is not served until it is added
                    // here.
                    _ => control::unserved(request_id, "unknown"),
                }]
            }
            EventBody::ControlResponse(response) => {
                let prompt = self.turn.as_ref().and_then(|turn| turn.prompt);
                control::response(response, prompt, &self.subagents)
            }
            EventBody::ControlCancelRequest(cancel) => {
                vec![Step::Withdrawn { request_id: cancel.request_id.as_str().to_owned() }]
            }
            EventBody::CommandLifecycle(event) => {
                self.lifecycle(event.command_uuid.as_deref(), event.state.as_deref())
            }
            EventBody::KeepAlive => Vec::new(),
            // Lines that some readers use as they are: rate limits, progress of tools, summaries,
            // and every type without a name yet.
            _ => vec![passthrough(line, line.event_type())],
        }
    }

    fn system(&mut self, line: &ClaudeStreamJsonEvent, event: &SystemEvent) -> Vec<Step> {
        match event {
            SystemEvent::Init(init) => {
                if let Some(step) = self.turn_without_prompt(&init.user_message_uuids) {
                    return vec![step];
                }
                // It becomes an argument of a command and part of a path, so only a UUID is
                // accepted.
                let named = |id: &str| match Uuid::try_parse(id) {
                    Ok(_) => Step::Conversation(id.to_owned()),
                    Err(_) => Step::Event(ChatEvent::Error { message: NO_CONVERSATION.to_owned() }),
                };
                let own = self.turn.is_none().then_some(Step::TurnBegan);
                own.into_iter().chain(line.session_id().map(named)).collect()
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
            SystemEvent::TaskStarted(task) if task.subagent_type.is_some() => {
                self.note_subagent(task);
                vec![passthrough(line, "system/task_started")]
            }
            SystemEvent::TaskNotification(ended) => {
                let id = ended.task_id.as_ref().map_or("", |id| id.as_str());
                self.subagents.remove(id);
                self.turns_without_prompt =
                    self.turns_without_prompt.saturating_add(1).min(MAX_TURNS_WITHOUT_PROMPT);
                if let Some(turn) = &mut self.turn {
                    turn.task_ended = true;
                }
                vec![passthrough(line, "system/task_notification")]
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
            // Display state: it comes many times a turn and repeats what our events say.
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

    /// Remembers what a subagent does, so that its questions can say so.
    fn note_subagent(&mut self, task: &TaskStarted) {
        let text = |text: Option<&Text>| {
            let text = text.map_or("", |text| text.as_str());
            text.chars().take(MAX_SUBAGENT_CHARS).collect::<String>()
        };
        if self.subagents.len() >= MAX_SUBAGENTS {
            self.subagents.pop_first();
        }
        let (kind, about) = (text(task.subagent_type.as_ref()), text(task.description.as_ref()));
        self.subagents.insert(text(task.task_id.as_ref()), format!("{kind} \"{about}\""));
    }

    /// Judges whether the turn is over. Only this line decides, because a result is not the end.
    fn idle(&mut self) -> Vec<Step> {
        match &self.turn {
            Some(turn) if self.background_tasks == 0 && turn.outstanding.is_empty() => {
                match (turn.prompt, turn.progress) {
                    (None, _) | (Some(_), PromptProgress::Done) => vec![Step::TurnEnded],
                    (Some(_), PromptProgress::Unseen | PromptProgress::Taken) => Vec::new(),
                }
            }
            Some(_) | None => Vec::new(),
        }
    }

    /// Judges who begins a turn, before its first request to the model. The CLI names the prompts
    /// that a turn answers. A turn that another session, a timer or a monitor begins names none.
    fn turn_without_prompt(&mut self, prompts: &[Text]) -> Option<Step> {
        if prompts.iter().any(|uuid| self.is_ours(uuid.as_str())) {
            return None;
        }
        if self.turns_without_prompt == 0 {
            let what = match prompts {
                [] => {
                    "a turn began that no prompt of ours began (a Claude Code before 2.1.325 may \
                     not say which prompt it answers; update it)"
                }
                _ => "a turn began with a prompt that is not ours",
            };
            return Some(Step::UnpromptedTurn(what.to_owned()));
        }
        // Without a chat the line is read again when there is one.
        if self.turn.is_some() {
            self.turns_without_prompt -= 1;
        }
        None
    }

    /// Whether a prompt of the running turn has this uuid.
    fn is_ours(&self, uuid: &str) -> bool {
        let (Some(turn), Ok(uuid)) = (&self.turn, Uuid::parse_str(uuid)) else { return false };
        turn.prompt == Some(uuid) || turn.outstanding.contains(&uuid)
    }

    /// Follows a prompt. One that begins without being ours is another session's or a timer's,
    /// except in a woken process, which goes on under an id of its own.
    fn lifecycle(&mut self, uuid: Option<&str>, state: Option<&str>) -> Vec<Step> {
        let is_ours = uuid.is_some_and(|uuid| self.is_ours(uuid));
        let is_woken = self.turns_without_prompt > 0
            && self.turn.as_ref().is_some_and(|turn| turn.prompt.is_none());
        if state == Some("started") && !is_ours && !is_woken {
            let what = "the CLI began with a prompt that is not ours".to_owned();
            return vec![Step::UnpromptedTurn(what)];
        }
        let Some(turn) = &mut self.turn else { return Vec::new() };
        let Some(uuid) = uuid.and_then(|uuid| Uuid::parse_str(uuid).ok()) else {
            return Vec::new();
        };
        let is_prompt = turn.prompt == Some(uuid);
        turn.started |= is_prompt && state == Some("started");
        match state {
            Some("queued" | "started") if is_prompt && turn.progress == PromptProgress::Unseen => {
                turn.progress = PromptProgress::Taken;
            }
            Some("completed" | "cancelled") if is_prompt => turn.progress = PromptProgress::Done,
            Some("completed" | "cancelled") => {
                turn.outstanding.remove(&uuid);
            }
            _ => {}
        }
        Vec::new()
    }

    /// Remembers the turn's last message in the agent's own conversation. A subagent's message
    /// belongs to another. The id may become an argument of a command, so only a UUID is accepted.
    fn note_message(&mut self, line: &ClaudeStreamJsonEvent, message: &AssistantMessage) {
        if message.meta.parent_tool_use_id.is_none()
            && let Some(turn) = &mut self.turn
        {
            turn.last_message =
                line.uuid.as_ref().and_then(|uuid| Uuid::try_parse(uuid.as_str()).ok());
        }
    }

    fn result(&mut self, result: &ResultEvent) {
        if let Some(total) = result.total_cost_usd {
            if total < self.cost_total - ROUNDING_USD {
                // The earlier process was killed before it stored its total: this one counts from
                // an older total, at worst from zero.
                self.cost_before = 0.0;
            }
            self.cost_total = total;
        }
        let Some(turn) = &mut self.turn else { return };
        if let Some(usage) = &result.usage {
            turn.usage.input_tokens += usage.input_tokens.unwrap_or(0);
            turn.usage.output_tokens += usage.output_tokens.unwrap_or(0);
        }
        turn.usage.num_turns += result.num_turns.unwrap_or(0);
        turn.result = Some(TurnResult { failure: result.failed().then(|| failure_of(result)) });
    }
}

/// Returns what live readers get of a partial message. Subagents speak to the main agent, not to
/// the reader.
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
