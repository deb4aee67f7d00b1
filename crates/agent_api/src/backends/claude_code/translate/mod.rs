//! Turns the lines of one run of the CLI into events, and remembers what the end of the run needs.
//!
//! Pure: no clock, no process. Events contain the text of the model, names and ids of tools, the
//! session's id, and otherwise our own words: no other output of the CLI is in any event. A line of
//! an unknown type is an [`Unknown`](AgentWrapperEventKind::Unknown) event, and a line that cannot
//! be read is an error event; the run continues.

mod tool;

use claude_code::{
    ClaudeStreamJsonEvent, EventBody,
    event::{
        message::{AssistantMessage, ContentBlock, MessageContent, UserMessage},
        stream::{Delta, StreamEvent, StreamPart},
        system::SystemEvent,
    },
};

use self::tool::Tools;
use super::outcome::ResultVerdict;
use crate::{
    AgentWrapperEvent, AgentWrapperEventKind, AgentWrapperKind,
    backends::shared::{
        outcome::{Failure, Told},
        said::{Said, Unseen},
        session::Session,
        unreadable::Unreadable,
    },
};

/// The state of the translation of one run.
#[derive(Debug)]
pub(super) struct Translator {
    kind: AgentWrapperKind,
    said: Said,
    session: Session,
    tools: Tools,
    verdict: ResultVerdict,
    unreadable: Unreadable,
}

impl Translator {
    pub(super) fn new(kind: AgentWrapperKind) -> Self {
        Self {
            kind,
            said: Said::default(),
            session: Session::default(),
            tools: Tools::default(),
            verdict: ResultVerdict::default(),
            unreadable: Unreadable::default(),
        }
    }

    /// Translates one line into events, often none.
    pub(super) fn line(&mut self, line: &ClaudeStreamJsonEvent) -> Vec<AgentWrapperEvent> {
        let mut events: Vec<_> = self.unreadable.earlier(&self.kind).into_iter().collect();
        let before = events.len();
        match &line.body {
            EventBody::Result(result) => self.verdict.note_result(result),
            EventBody::Assistant(message) => self.assistant(message, &mut events),
            EventBody::User(message) => self.user(message, &mut events),
            EventBody::Stream(part) => self.part(part, &mut events),
            EventBody::System(system) => events.extend(self.system(system)),
            EventBody::RateLimit(_) => events.push(self.status("the service told its rate limit")),
            EventBody::ToolProgress(_) => events.push(self.status("a tool is still running")),
            EventBody::ConversationReset(_) => {
                events.push(self.status("the conversation was reset"))
            }
            EventBody::KeepAlive
            | EventBody::AuthStatus(_)
            | EventBody::CommandLifecycle(_)
            | EventBody::ToolUseSummary(_)
            | EventBody::PromptSuggestion(_) => {}
            // Print mode sends no questions on its output, so control lines count as unknown, like
            // a type without a name or one that only a later `claude_code` knows.
            _ => events.push(self.unknown()),
        }
        // A result about a session that does not exist also names it; such an id is not reported.
        if !self.verdict.is_session_not_found()
            && let Some(id) = line.session_id()
            && let Some(status) = self.session.note(id, &self.kind)
        {
            // The session comes before the other events of this line, so that a reader knows which
            // session a text belongs to.
            events.insert(before, status);
        }
        events
    }

    /// Records a line that could not be read; returns the error for the line before it, if that
    /// could not be read either.
    pub(super) fn unreadable(&mut self) -> Option<AgentWrapperEvent> {
        self.unreadable.note(&self.kind)
    }

    /// Returns the final verdict and the data for the completion.
    pub(super) fn told(mut self) -> (ResultVerdict, Told) {
        let told = Told {
            final_text: self.said.last_message(),
            session: self.session.facet(),
            unreadable: self.unreadable.earlier(&self.kind),
        };
        (self.verdict, told)
    }

    fn assistant(&mut self, line: &AssistantMessage, events: &mut Vec<AgentWrapperEvent>) {
        // The CLI reports a failure as a message of the model. The model did not write it, so it
        // becomes a reason in our own words.
        if line.meta.error.is_some() || line.meta.is_api_error_message == Some(true) {
            self.verdict.note_failure(Failure::of_message(&line.meta));
            return;
        }
        let message_id = line.message.id.as_deref();
        let parent = line.meta.parent_tool_use_id.as_deref();
        match &line.message.content {
            MessageContent::Text(text) => self.whole_text(message_id, parent, text, events),
            MessageContent::Blocks(blocks) => {
                for block in blocks {
                    self.block(message_id, parent, block, events);
                }
            }
            MessageContent::Other(_) => events.push(self.unknown()),
        }
    }

    fn block(
        &mut self,
        message_id: Option<&str>,
        parent: Option<&str>,
        block: &ContentBlock,
        events: &mut Vec<AgentWrapperEvent>,
    ) {
        match block {
            ContentBlock::Text(text) => self.whole_text(message_id, parent, text, events),
            ContentBlock::Thinking(_) | ContentBlock::RedactedThinking(_) => {
                // If the thinking is streamed, its beginning was already reported.
                if parent.is_none() && !self.said.is_streamed(message_id) {
                    events.push(self.status("thinking"));
                }
            }
            ContentBlock::ToolUse(tool) | ContentBlock::ServerToolUse(tool) => {
                events.push(self.tools.call(&self.kind, tool, message_id, parent));
            }
            ContentBlock::ToolResult(result) => {
                events.push(self.tools.result(&self.kind, result, parent))
            }
            ContentBlock::ServerToolResult(result) => {
                events.push(self.tools.server_result(&self.kind, result, parent));
            }
            // Images, documents, and blocks without a name.
            _ => events.push(self.unknown()),
        }
    }

    /// Forwards the part of a whole text that its deltas have not.
    fn whole_text(
        &mut self,
        message_id: Option<&str>,
        parent: Option<&str>,
        text: &str,
        events: &mut Vec<AgentWrapperEvent>,
    ) {
        // The text of a subagent goes to the agent, as the output of a tool, and not to the reader.
        if parent.is_none() {
            let unseen = self.said.whole(message_id, text);
            self.say(unseen, events);
        }
    }

    fn say(&self, unseen: Unseen<'_>, events: &mut Vec<AgentWrapperEvent>) {
        if unseen.begins_again {
            events.push(self.status("an answer broke off and begins again"));
        }
        if !unseen.text.is_empty() {
            events.push(AgentWrapperEvent::text(&self.kind, unseen.text));
        }
    }

    fn user(&mut self, line: &UserMessage, events: &mut Vec<AgentWrapperEvent>) {
        self.said.goes_on();
        let parent = line.meta.parent_tool_use_id.as_deref();
        for block in line.message.content.blocks() {
            match block {
                ContentBlock::ToolResult(result) => {
                    events.push(self.tools.result(&self.kind, result, parent))
                }
                ContentBlock::ServerToolResult(result) => {
                    events.push(self.tools.server_result(&self.kind, result, parent));
                }
                // This is a prompt, which the reader wrote, or an addition of the CLI, which a
                // reader does not need.
                _ => {}
            }
        }
    }

    fn part(&mut self, line: &StreamEvent, events: &mut Vec<AgentWrapperEvent>) {
        if line.parent_tool_use_id.is_some() {
            return;
        }
        match &line.event {
            StreamPart::MessageStart(message) => self.said.message_starts(message.id.as_deref()),
            StreamPart::ContentBlockStart { index, content_block: ContentBlock::Text(text) } => {
                self.said.block_starts(*index);
                let unseen = self.said.delta(*index, text);
                self.say(unseen, events);
            }
            StreamPart::ContentBlockStart { content_block: ContentBlock::Thinking(_), .. } => {
                events.push(self.status("thinking"));
            }
            StreamPart::ContentBlockDelta { index, delta: Delta::Text(text) } => {
                let unseen = self.said.delta(*index, text);
                self.say(unseen, events);
            }
            StreamPart::MessageStop => self.said.message_stops(),
            // The rest comes whole later, or is not needed by a reader.
            _ => {}
        }
    }

    fn system(&mut self, system: &SystemEvent) -> Option<AgentWrapperEvent> {
        let words = match system {
            SystemEvent::Init(_) => "a turn begins",
            SystemEvent::Status(status) => match status.status.as_deref() {
                Some("requesting") => "waiting for the model",
                Some("compacting") => "summarising the conversation",
                _ => return None,
            },
            SystemEvent::ApiRetry(retry) => {
                let attempt = match (retry.attempt, retry.max_retries) {
                    (Some(attempt), Some(most)) => format!(" (attempt {attempt} of {most})"),
                    _ => String::new(),
                };
                return Some(self.status(&format!("a request failed and is tried again{attempt}")));
            }
            SystemEvent::PermissionDenied(_) => "a tool was refused",
            SystemEvent::TaskStarted(_) => "a background task began",
            SystemEvent::TaskNotification(_) => "a background task ended",
            SystemEvent::CompactBoundary(_) => "the conversation was summarised",
            SystemEvent::TaskProgress(_)
            | SystemEvent::TaskUpdated(_)
            | SystemEvent::BackgroundTasksChanged(_)
            | SystemEvent::HookStarted(_)
            | SystemEvent::HookProgress(_)
            | SystemEvent::HookResponse(_)
            | SystemEvent::SessionStateChanged(_)
            | SystemEvent::ThinkingTokens(_)
            | SystemEvent::Informational(_)
            | SystemEvent::SessionTitleChanged(_)
            | SystemEvent::UiInvalidate(_)
            | SystemEvent::LocalCommandOutput(_)
            | SystemEvent::PluginInstall(_)
            | SystemEvent::FilesPersisted(_)
            | SystemEvent::MemoryRecall(_)
            | SystemEvent::ElicitationComplete(_)
            | SystemEvent::MirrorError(_)
            | SystemEvent::Notification(_) => return None,
            _ => return Some(self.unknown()),
        };
        Some(self.status(words))
    }

    fn status(&self, message: &str) -> AgentWrapperEvent {
        AgentWrapperEvent::status(&self.kind, message)
    }

    fn unknown(&self) -> AgentWrapperEvent {
        AgentWrapperEvent::bare(&self.kind, AgentWrapperEventKind::Unknown)
    }
}

#[cfg(test)]
mod tests;
