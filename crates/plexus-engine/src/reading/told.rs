//! What is told of a session without its transcript: its status, one line, and its last answer.

use plexus_core::CallError;
use plexus_store::{ReadLimit, SessionRecord};
use plexus_wire::{BudgetUse, ChangedSession, ChatEvent, LastAnswer};

use super::news::SessionNews;
use crate::budget;
use crate::session::SessionConfig;

/// How long a line of `wait` may be.
const LINE_CHARS: usize = 160;

/// How much of a last answer `wait` tells, which may tell of a thousand sessions.
const WAIT_ANSWER_BYTES: usize = 4 * 1024;

/// How much of a last answer `get` tells. Longer ones are for `poll`.
pub const GET_ANSWER_BYTES: usize = 64 * 1024;

/// How many events before the end of a chat are looked at for its last answer: few first, because
/// an answer usually is the last but one.
const LOOK_BACK: [u32; 2] = [4, 64];

impl SessionNews {
    /// A session as `wait` tells of it.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn changed(&self, session: &SessionRecord) -> Result<ChangedSession, CallError> {
        let (chat, total_events) =
            session.newest_chat.map_or((None, 0), |chat| (Some(chat.number), chat.total_events));
        let line = match (chat, total_events.checked_sub(1)) {
            (Some(chat), Some(last)) => {
                let page =
                    self.store.read_events(session.id, chat, last, ReadLimit::events(1)).await?;
                match page.events.first() {
                    Some(event) => line_of(&event.body.read()?),
                    None => String::new(),
                }
            }
            _ => String::new(),
        };
        let budget = match SessionConfig::of(session)?.budget {
            Some(budget) => {
                let worst = budget::worst_of(&budget, &self.store.spend(session.id).await?.subtree);
                Some(BudgetUse { of: worst.what.to_owned(), used: worst.share })
            }
            None => None,
        };
        Ok(ChangedSession {
            session_id: session.id,
            name: session.name.clone(),
            status: session.status().into(),
            chat,
            total_events,
            pending: session.pending_approvals,
            line,
            budget,
            answer: self.last_answer(session, WAIT_ANSWER_BYTES).await?,
        })
    }

    /// The last text of a session's newest chat, once that has ended.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn last_answer(
        &self,
        session: &SessionRecord,
        most_bytes: usize,
    ) -> Result<Option<LastAnswer>, CallError> {
        let Some(chat) = session.newest_chat.filter(|_| session.open_chat().is_none()) else {
            return Ok(None);
        };
        for back in LOOK_BACK {
            let mut last = None;
            let mut from = chat.total_events.saturating_sub(back);
            while from < chat.total_events {
                let limit = ReadLimit::events(back as usize);
                let page = self.store.read_events(session.id, chat.number, from, limit).await?;
                let Some(end) = page.events.last() else { break };
                from = end.seq + 1;
                for event in page.events.iter().filter(|event| event.event_type == "content") {
                    if let ChatEvent::Content { text } = event.body.read()? {
                        last = Some((event.seq, text));
                    }
                }
            }
            if let Some((seq, mut text)) = last {
                let cut = text.len() > most_bytes;
                if cut {
                    text.truncate(text.floor_char_boundary(most_bytes));
                }
                return Ok(Some(LastAnswer { chat: chat.number, seq, text, cut }));
            }
        }
        Ok(None)
    }
}

/// The gist of an event, on one line.
fn line_of(event: &ChatEvent) -> String {
    let line = match event {
        ChatEvent::Content { text } => text.clone(),
        ChatEvent::Thinking { .. } => "thinking".to_owned(),
        ChatEvent::ToolUse { tool_name, .. } => format!("uses {tool_name}"),
        ChatEvent::AwaitingApproval { tool_name, .. } => format!("asks to use {tool_name}"),
        ChatEvent::ToolRequest { session_name, tool_name, .. } => {
            format!("{session_name} asks to use {tool_name}")
        }
        ChatEvent::ApprovalResolved { approved: true, .. } => "was allowed".to_owned(),
        ChatEvent::ApprovalResolved { approved: false, .. } => "was denied".to_owned(),
        ChatEvent::ToolResult { .. } => "has a tool's result".to_owned(),
        ChatEvent::Notice { message } | ChatEvent::Error { message } => message.clone(),
        ChatEvent::Steered { text, .. } => format!("was told: {text}"),
        ChatEvent::Pruned { was } => format!("({was}, pruned)"),
        ChatEvent::Start { .. }
        | ChatEvent::Passthrough { .. }
        | ChatEvent::Complete { .. }
        | ChatEvent::Other(_) => event.type_name().to_owned(),
    };
    let line = line.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() > LINE_CHARS {
        line.chars().take(LINE_CHARS - 1).chain(['…']).collect()
    } else {
        line
    }
}
