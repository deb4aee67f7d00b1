//! Handles of sessions and chats: which kinds there are, and what each stands for.

use plexus_core::{CallError, Caller, ErrorKind, EventId, Handle, HandleKind, SessionId};
use plexus_engine::prompt::prompt_text;
use plexus_engine::reading::feed::followed;
use plexus_store::{Event, NodeData, StoreError, Thing};
use plexus_wire::{KnownThing, PromptMessage, Role};
use serde_json::Value;

use super::{ClaudeCode, as_value};

/// The kinds of handles that this activation owns.
pub(super) const KINDS: &[HandleKind] = &[
    HandleKind {
        method: "chat_event",
        meta: &["event_id"],
        description: "An event of a chat, as poll shows it.",
    },
    HandleKind {
        method: "chat_stream",
        meta: &["session_id", "chat"],
        description: "The prompt of a chat.",
    },
];

impl ClaudeCode {
    /// Says what a handle of one of [`KINDS`] stands for.
    pub(super) async fn resolved(
        &self,
        caller: &Caller,
        handle: &Handle,
    ) -> Result<Value, CallError> {
        match handle.method.as_str() {
            "chat_event" => {
                let event = self.event_for(caller, handle.part(0, "event_id")?).await?;
                as_value(&KnownThing::Event(followed(&event)))
            }
            _ => {
                let (session, chat) = (handle.part(0, "session_id")?, handle.part(1, "chat")?);
                as_value(&KnownThing::Message(self.prompt_for(caller, session, chat).await?))
            }
        }
    }

    /// Returns an event. One out of reach does not exist for this caller, and neither does its
    /// session.
    async fn event_for(&self, caller: &Caller, id: EventId) -> Result<Event, CallError> {
        let event = self.store.event(id).await?;
        let hidden = || StoreError::not_found(Thing::Event, id);
        self.authority.reach(caller, event.session).await.map_err(|error| match error.kind() {
            ErrorKind::NotFound => hidden().into(),
            _ => error,
        })?;
        Ok(event)
    }

    async fn prompt_for(
        &self,
        caller: &Caller,
        session: SessionId,
        chat: u32,
    ) -> Result<PromptMessage, CallError> {
        self.authority.reach(caller, session).await?;
        let chat = self.store.chat(session, Some(chat)).await?;
        let (content, pruned) = match self.store.node(chat.user_node).await?.data {
            NodeData::Pruned {} => (String::new(), true),
            NodeData::Text { .. } | NodeData::External { .. } => {
                (prompt_text(&*self.store, session, chat.number).await?, false)
            }
        };
        Ok(PromptMessage {
            role: Role::User.into(),
            session_id: session,
            chat: chat.number,
            content,
            pruned,
            status: self.status_of(&chat).await?.into(),
            total_events: chat.total_events,
        })
    }
}
