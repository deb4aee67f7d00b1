//! Chats in the wire's shape: the only place that decides a chat's status and which of its fields
//! callers see.

use plexus_core::CallError;
use plexus_engine::handles;
use plexus_store::{Chat, ChatStatus, Origin, SessionRecord, SessionStatus, StoreError};
use plexus_wire::Stream;

use super::ClaudeCode;

impl ClaudeCode {
    /// A chat as `streams` shows it.
    pub(super) async fn shown(&self, chat: Chat) -> Result<Stream, CallError> {
        Ok(Stream {
            session_id: chat.session,
            chat: chat.number,
            tree_id: chat.tree,
            root_node: chat.root_node,
            head_node: chat.head_node,
            status: self.status_of(&chat).await?.into(),
            self_started: chat.origin == Origin::SelfStarted,
            started_at: chat.started_at.into(),
            ended_at: chat.ended_at.map(Into::into),
            error: chat.error,
            total_events: chat.total_events,
            read_position: chat.read_position,
            handle: Some(handles::chat(chat.owner, chat.session, chat.number)),
        })
    }

    /// The status of a chat. Whether an open one waits for a decision is a fact of its session.
    pub(super) async fn status_of(&self, chat: &Chat) -> Result<SessionStatus, CallError> {
        if chat.status != ChatStatus::Running {
            return Ok(as_session_status(chat.status));
        }
        match self.store.session(chat.session).await {
            Ok(session) => Ok(status_within(chat, &session)),
            // It was deleted meanwhile; the chat is told as it was read.
            Err(StoreError::NotFound { .. }) => Ok(as_session_status(chat.status)),
            Err(error) => Err(error.into()),
        }
    }
}

/// The status of a chat, given its session.
fn status_within(chat: &Chat, session: &SessionRecord) -> SessionStatus {
    let open = chat.status == ChatStatus::Running && session.open_chat() == Some(chat.number);
    if open { session.status() } else { as_session_status(chat.status) }
}

pub(super) fn as_session_status(status: ChatStatus) -> SessionStatus {
    match status {
        ChatStatus::Running => SessionStatus::Running,
        ChatStatus::Complete => SessionStatus::Complete,
        ChatStatus::Failed => SessionStatus::Failed,
        ChatStatus::Cancelled => SessionStatus::Cancelled,
    }
}
