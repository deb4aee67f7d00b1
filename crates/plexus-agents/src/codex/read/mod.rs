//! From lines of the app-server to steps of the engine.
//!
//! Pure: the line and the memory are the only inputs.
//!
//! - this file: the kinds of line, and the settings that must not change;
//! - [`answers`]: answers to requests of ours;
//! - [`asks`]: questions, each bound to the call that it is about;
//! - [`items`]: items of a turn, and calls that ran unasked;
//! - [`turns`]: how turns begin and end, and what they use.

mod answers;
mod asks;
mod items;
#[cfg(test)]
mod tests;
mod turns;

use agent_lines::SKIPPED_HEAD_BYTES;
use agent_lines::journal::LineContent;
use agent_lines::json::{RawJson, Text};
use codex_app::event::notification::HookRun;
use codex_app::event::thread::ThreadSettings;
use codex_app::{CodexParser, Notification, ServerBody, ServerLine};
use plexus_engine::driver::step::Hidden;
use plexus_engine::driver::{Begin, Conversation, Step};
use plexus_store::JsonText;
use plexus_wire::ChatEvent;
use serde_json::Value;

use super::launch::mode;
use super::memory::{CodexMemory, Mode, Tokens};
use super::price::Prices;

/// Notifications that nobody needs and that may be longer than a line can be.
const NEVER_NEEDED: [&str; 4] = [
    "turn/diff/updated",
    "item/commandExecution/outputDelta",
    "item/fileChange/outputDelta",
    "rawResponse",
];

/// The memory of a run that has said nothing yet.
pub(super) fn begin(begin: &Begin<'_>) -> CodexMemory {
    CodexMemory {
        mode: mode(begin.config),
        // A resumed thread reports its earlier usage first.
        tokens: (*begin.conversation == Conversation::New).then(Tokens::default),
        cost_usd: begin.cost_usd,
        ..CodexMemory::default()
    }
}

/// Reads one line of a journal.
pub(super) fn line(memory: &mut CodexMemory, prices: &Prices, line: &LineContent) -> Vec<Step> {
    match line.parse(&mut CodexParser::new()) {
        Ok(Some(line)) => memory.line(prices, &line),
        Ok(None) => Vec::new(),
        Err(error) => match hidden_in(line) {
            Some(hides) => vec![Step::Unreadable { why: error.to_string(), hides }],
            None => Vec::new(),
        },
    }
}

/// Says what a line that cannot be read may have been; `None` when nobody needs it. The agent
/// writes the method and the id at the start of a line.
fn hidden_in(line: &LineContent) -> Option<Hidden> {
    let head = match line {
        LineContent::TooLong { head, .. } => String::from_utf8_lossy(head),
        LineContent::Whole(bytes) => {
            String::from_utf8_lossy(&bytes[..bytes.len().min(SKIPPED_HEAD_BYTES)])
        }
    };
    if head.starts_with("{\"id\":\"plexus-") {
        return Some(Hidden::OwnAnswer);
    }
    let Some((method, rest)) =
        head.strip_prefix("{\"method\":\"").and_then(|rest| rest.split_once('"'))
    else {
        return Some(Hidden::Anything);
    };
    let id: Option<String> = rest
        .strip_prefix(",\"id\":")
        .map(|rest| rest.chars().take_while(char::is_ascii_digit).collect());
    match id {
        Some(id) if !id.is_empty() => Some(Hidden::Question(id)),
        Some(_) => Some(Hidden::Anything),
        None if NEVER_NEEDED.iter().any(|known| method.starts_with(known)) => None,
        None => Some(Hidden::Anything),
    }
}

impl CodexMemory {
    /// Translates one line.
    fn line(&mut self, prices: &Prices, line: &ServerLine) -> Vec<Step> {
        match &line.body {
            ServerBody::Request { id, request } => self.question(id, request),
            ServerBody::Answer(answer) => self.answer(answer),
            ServerBody::Notification(told) => self.notification(prices, told, line),
        }
    }

    fn notification(
        &mut self,
        prices: &Prices,
        told: &Notification,
        line: &ServerLine,
    ) -> Vec<Step> {
        let ours = self.is_ours(line);
        match told {
            Notification::TurnStarted(note) if ours => self.turn_started(note.turn.id.as_str()),
            Notification::TurnCompleted(note) if ours => self.turn_completed(&note.turn),
            Notification::ItemStarted(note) => self.item_started(&note.item, line, ours),
            Notification::ItemCompleted(note) => self.item_completed(&note.item, line, ours),
            Notification::AgentMessageDelta(delta) if ours => {
                vec![Step::Delta(delta.delta.as_str().to_owned())]
            }
            Notification::TokenUsageUpdated(note) if ours => {
                self.used(prices, &note.token_usage, line.turn_id.as_deref());
                Vec::new()
            }
            Notification::RequestResolved(note) => match &note.request_id {
                Some(id) => self.resolved(&id.to_string()),
                None => Vec::new(),
            },
            Notification::ThreadSettingsUpdated(note) if ours => self.settings(&note.settings),
            Notification::TerminalInteraction(note) => {
                let key = self.key(line.thread_id.as_deref(), &note.item_id);
                self.typed(&key, &note.stdin)
            }
            Notification::ApprovalReview { method, .. } => vec![Step::Breach(format!(
                "somebody else than this server reviews what the agent asks ({method})"
            ))],
            Notification::Hook { method, run } => hook(method, run),
            Notification::Error(note) if note.will_retry => {
                let words = note.error.message.as_str();
                vec![notice(format!("the model's service failed and is asked again: {words}"))]
            }
            Notification::Notice(note) => {
                let words = note.message.as_ref().or(note.summary.as_ref());
                words.map(|words| notice(words.as_str())).into_iter().collect()
            }
            Notification::McpServerStatus(server) if server.status.as_str() == "failed" => {
                let why = server.error.as_ref().map_or("", |error| error.as_str());
                vec![notice(format!("the MCP server {} did not start: {why}", server.name))]
            }
            // Turns of subagents belong to threads of their own, not to the session.
            Notification::TurnStarted(_) | Notification::TurnCompleted(_) => {
                vec![passthrough(line.raw_json(), "subagent")]
            }
            Notification::Unknown { method, .. } => vec![passthrough(line.raw_json(), method)],
            // Notifications that come whole later, that repeat other steps, or that no reader
            // needs.
            Notification::AgentMessageDelta(_)
            | Notification::TokenUsageUpdated(_)
            | Notification::ThreadSettingsUpdated(_)
            | Notification::Error(_)
            | Notification::McpServerStatus(_)
            | Notification::ThreadStarted(_)
            | Notification::ThreadStatusChanged(_)
            | Notification::ReasoningDelta(_)
            | Notification::PlanDelta(_)
            | Notification::OutputDelta(_)
            | Notification::Untyped { .. } => Vec::new(),
        }
    }

    /// Whether a line is about the session's own thread, or about none.
    fn is_ours(&self, line: &ServerLine) -> bool {
        match (&line.thread_id, &self.thread) {
            (Some(of), Some(own)) => of.as_str() == own,
            (None, _) | (_, None) => true,
        }
    }

    /// Checks that the settings which decide what is asked are still those that were requested.
    fn settings(&mut self, now: &ThreadSettings) -> Vec<Step> {
        if let Some(model) = &now.model {
            self.model = Some(model.as_str().to_owned());
        }
        let moved = self.mode.moved(
            now.approval_policy.as_ref(),
            now.sandbox_policy.as_ref(),
            now.approvals_reviewer.as_ref(),
        );
        moved.map(Step::Breach).into_iter().collect()
    }
}

impl Mode {
    /// Names a setting that differs from the requested one, if there is one.
    fn moved(
        self,
        policy: Option<&RawJson>,
        sandbox: Option<&RawJson>,
        reviewer: Option<&Text>,
    ) -> Option<String> {
        let (wanted_policy, _, wanted_sandbox) = self.settings();
        let value = |raw: Option<&RawJson>| {
            raw.and_then(|raw| serde_json::from_str::<Value>(raw.get()).ok()).unwrap_or_default()
        };
        let (policy, sandbox) = (value(policy), value(sandbox));
        let reviewer = reviewer.map_or("nobody", |reviewer| reviewer.as_str());
        let differs = |what: &str, has: &Value, wanted: &str| {
            (has != wanted).then(|| format!("its {what} is {has} and not \"{wanted}\""))
        };
        differs("approval policy", &policy, wanted_policy)
            .or_else(|| differs("sandbox", &sandbox["type"], wanted_sandbox))
            .or_else(|| differs("reviewer", &Value::from(reviewer), "user"))
            .map(|what| format!("the agent does not have the settings that it was given: {what}"))
    }
}

/// Reports a hook. A hook that answers permission requests decides in our place, which is a breach.
fn hook(method: &Text, run: &HookRun) -> Vec<Step> {
    let event = run.run.event_name.as_ref().map_or("", |name| name.as_str());
    if event == "permissionRequest" {
        return vec![Step::Breach("a hook answered a question of the agent".to_owned())];
    }
    vec![notice(format!("a hook of the machine's settings runs ({method}, {event})"))]
}

fn notice(words: impl Into<String>) -> Step {
    Step::Event(ChatEvent::notice(words.into()))
}

/// Keeps a line that has no translation, unchanged.
fn passthrough(line: &RawJson, event_type: &str) -> Step {
    Step::Event(ChatEvent::Passthrough {
        event_type: event_type.to_owned(),
        data: as_json(line).into(),
    })
}

/// Keeps JSON of the agent as it was written. Text that our parser refuses is kept as a string.
fn as_json(raw: &RawJson) -> JsonText {
    JsonText::parse(raw.get()).unwrap_or_else(|_| JsonText::from(Value::from(raw.get())))
}
