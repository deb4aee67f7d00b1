//! The typed lines of stream-json.
//!
//! The outer `type` decides which module reads the rest: [`system`], [`message`] (assistant and
//! user), [`result`], [`stream`], [`control`], [`other`]. Reading is lenient by design, because new
//! types, subtypes, blocks and fields come with almost every release of the CLI: unknown parts stay
//! in [`ClaudeStreamJsonEvent::raw`] and in the `Unknown` and `Other` variants.

pub mod control;
pub mod message;
pub mod other;
pub mod result;
pub mod stream;
pub mod system;

pub use agent_lines::json::Repairs;
use agent_lines::json::{FromJson, RawJson, Text, Value};

use control::{ControlCancelRequest, ControlRequest, ControlResponse};
use message::{AssistantMessage, UserMessage};
use other::{
    AuthStatus, CommandLifecycle, ConversationReset, PromptSuggestion, RateLimitEvent,
    ToolProgress, ToolUseSummary,
};
use result::ResultEvent;
use stream::StreamEvent;
use system::SystemEvent;

/// One line of the CLI's output.
#[derive(Debug, Clone, PartialEq)]
pub struct ClaudeStreamJsonEvent {
    /// The CLI's session, if the line names one.
    pub session_id: Option<Text>,
    /// The line's own id, if it has one.
    pub uuid: Option<Text>,
    /// The typed contents of the line.
    pub body: EventBody,
    /// The repairs that made the line readable.
    pub repairs: Repairs,
    raw: RawJson,
}

/// The kinds of line, by their outer `type`.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum EventBody {
    /// `system`: the start of a turn, states, tasks, hooks and more, by `subtype`.
    System(SystemEvent),
    /// `assistant`: one content block of the model (the lines of one message share its
    /// `message.id`).
    Assistant(Box<AssistantMessage>),
    /// `user`: a tool's result, a prompt, or the echo of a prompt of ours.
    User(Box<UserMessage>),
    /// `result`: the end of a turn. The process may continue.
    Result(Box<ResultEvent>),
    /// `stream_event`: a part of a message while it is being written.
    Stream(Box<StreamEvent>),
    /// `control_request`: the CLI sends a request and waits for the answer.
    ControlRequest(Box<ControlRequest>),
    /// `control_response`: the answer to a request of ours, or the echo of an answer of ours.
    ControlResponse(Box<ControlResponse>),
    /// `control_cancel_request`: the CLI no longer needs an answer.
    ControlCancelRequest(ControlCancelRequest),
    /// `command_lifecycle`: the state of a prompt.
    CommandLifecycle(CommandLifecycle),
    /// `keep_alive`.
    KeepAlive,
    /// `rate_limit_event`.
    RateLimit(Box<RateLimitEvent>),
    /// `tool_progress`.
    ToolProgress(Box<ToolProgress>),
    /// `auth_status`.
    AuthStatus(Box<AuthStatus>),
    /// `tool_use_summary`.
    ToolUseSummary(ToolUseSummary),
    /// `prompt_suggestion`.
    PromptSuggestion(PromptSuggestion),
    /// `conversation_reset`.
    ConversationReset(ConversationReset),
    /// Any other type.
    Unknown {
        /// The outer `type`.
        event_type: Text,
    },
}

impl ClaudeStreamJsonEvent {
    /// Reads the outer object. The error says, in our own words, what is missing.
    pub(crate) fn read(object: Value<'_>, repairs: Repairs) -> Result<Self, &'static str> {
        let mut outer = Outer::default();
        object.each_field(|key, value| outer.note(key, value));
        let Some(event_type) = outer.event_type else { return Err("no string `type`") };
        let body = match event_type.as_str().as_deref().unwrap_or_default() {
            "stream_event" => {
                boxed(object, "stream_event without an object `event`").map(EventBody::Stream)
            }
            "assistant" => {
                boxed(object, "assistant without an object `message`").map(EventBody::Assistant)
            }
            "user" => boxed(object, "user without an object `message`").map(EventBody::User),
            "system" => Ok(EventBody::System(SystemEvent::read(object, outer.subtype))),
            "result" => boxed(object, "result is not an object").map(EventBody::Result),
            "control_request" => boxed(object, "control_request without `request_id` or `request`")
                .map(EventBody::ControlRequest),
            "control_response" => boxed(object, "control_response without `response.request_id`")
                .map(EventBody::ControlResponse),
            "control_cancel_request" => ControlCancelRequest::from_json(object)
                .map(EventBody::ControlCancelRequest)
                .ok_or("control_cancel_request without `request_id`"),
            "command_lifecycle" => lenient(object).map(EventBody::CommandLifecycle),
            "keep_alive" => Ok(EventBody::KeepAlive),
            "rate_limit_event" => lenient(object).map(EventBody::RateLimit),
            "tool_progress" => lenient(object).map(EventBody::ToolProgress),
            "auth_status" => lenient(object).map(EventBody::AuthStatus),
            "tool_use_summary" => lenient(object).map(EventBody::ToolUseSummary),
            "prompt_suggestion" => lenient(object).map(EventBody::PromptSuggestion),
            "conversation_reset" => lenient(object).map(EventBody::ConversationReset),
            _ => Ok(EventBody::Unknown { event_type: event_type.text().unwrap_or_default() }),
        }?;
        Ok(Self {
            session_id: outer.session_id.or(outer.session_id_camel).and_then(Value::text),
            uuid: outer.uuid.and_then(Value::text),
            body,
            repairs,
            raw: object.raw(),
        })
    }

    /// Returns the line's JSON as it was written.
    pub fn raw(&self) -> &str {
        self.raw.get()
    }

    /// Returns the line's JSON as a value that can be kept beside the event without a copy.
    pub fn raw_json(&self) -> &RawJson {
        &self.raw
    }

    /// Returns the session id as a plain string.
    pub fn session_id(&self) -> Option<&str> {
        self.session_id.as_deref()
    }

    /// Returns the outer `type`.
    pub fn event_type(&self) -> &str {
        match &self.body {
            EventBody::System(_) => "system",
            EventBody::Assistant(_) => "assistant",
            EventBody::User(_) => "user",
            EventBody::Result(_) => "result",
            EventBody::Stream(_) => "stream_event",
            EventBody::ControlRequest(_) => "control_request",
            EventBody::ControlResponse(_) => "control_response",
            EventBody::ControlCancelRequest(_) => "control_cancel_request",
            EventBody::CommandLifecycle(_) => "command_lifecycle",
            EventBody::KeepAlive => "keep_alive",
            EventBody::RateLimit(_) => "rate_limit_event",
            EventBody::ToolProgress(_) => "tool_progress",
            EventBody::AuthStatus(_) => "auth_status",
            EventBody::ToolUseSummary(_) => "tool_use_summary",
            EventBody::PromptSuggestion(_) => "prompt_suggestion",
            EventBody::ConversationReset(_) => "conversation_reset",
            EventBody::Unknown { event_type } => event_type,
        }
    }

    /// Returns whether this crate does not know the line's `type`, or its `subtype` for `system`.
    pub fn is_unknown(&self) -> bool {
        matches!(
            &self.body,
            EventBody::Unknown { .. } | EventBody::System(SystemEvent::Other { .. })
        )
    }
}

impl serde::Serialize for ClaudeStreamJsonEvent {
    /// Writes the raw JSON, so that nothing the CLI wrote is lost.
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.raw.serialize(serializer)
    }
}

/// The fields that decide how the rest is read.
#[derive(Default)]
struct Outer<'a> {
    event_type: Option<Value<'a>>,
    subtype: Option<Value<'a>>,
    session_id: Option<Value<'a>>,
    session_id_camel: Option<Value<'a>>,
    uuid: Option<Value<'a>>,
}

impl<'a> Outer<'a> {
    #[inline]
    fn note(&mut self, key: &str, value: Value<'a>) {
        let slot = match key {
            "type" => &mut self.event_type,
            "subtype" => &mut self.subtype,
            "session_id" => &mut self.session_id,
            "sessionId" => &mut self.session_id_camel,
            "uuid" => &mut self.uuid,
            _ => return,
        };
        *slot = value.is_string().then_some(value);
    }
}

fn boxed<T: FromJson>(object: Value<'_>, missing: &'static str) -> Result<Box<T>, &'static str> {
    T::from_json(object).map(Box::new).ok_or(missing)
}

/// Reads a type whose fields are all optional, which cannot fail for an object.
fn lenient<T: FromJson + Default>(object: Value<'_>) -> Result<T, &'static str> {
    Ok(T::from_json(object).unwrap_or_default())
}
