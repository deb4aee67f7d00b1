//! Handles of sessions and chats: which kinds there are, and what each stands for.

use plexus_core::{CallError, Caller, ErrorKind, EventId, Handle, HandleKind};
use plexus_engine::handles::owner;
use plexus_engine::prompt::prompt_text;
use plexus_engine::reading::feed::EventView;
use plexus_engine::session::SessionConfig;
use plexus_store::{Chat, Event, NodeData, SessionRecord, StoreError, Thing};
use plexus_wire::{KnownThing, PromptMessage, Role, Said};
use serde_json::Value;

use super::summaries::in_words;
use super::{ClaudeCode, as_value};

/// The kinds of handles that this activation owns.
pub(super) const KINDS: &[HandleKind] = &[
    HandleKind {
        method: "session",
        meta: &["session_id"],
        description: "A session, as get shows it.",
    },
    HandleKind {
        method: "chat",
        meta: &["session_id", "chat"],
        description: "A chat, as streams shows it.",
    },
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
        as_value(&match handle.method.as_str() {
            "chat_event" => {
                let event = self.event_for(caller, handle.part(0, "event_id")?).await?;
                let session = self.store.session(event.session).await?;
                let view = EventView::new(Some(&self.approvals.views.tools), &session);
                KnownThing::Event(view.followed(&event))
            }
            "session" => {
                let session = self.session_for(caller, handle).await?;
                KnownThing::Session(Box::new(self.view(&session).await?))
            }
            "chat" => {
                let (_, chat) = self.chat_for(caller, handle).await?;
                KnownThing::Chat(self.shown(chat).await?)
            }
            _ => KnownThing::Message(self.prompt_for(caller, handle).await?),
        })
    }

    /// Writes the same in a few words.
    pub(super) async fn summarized(
        &self,
        caller: &Caller,
        handle: &Handle,
    ) -> Result<Option<String>, CallError> {
        match handle.method.as_str() {
            "chat_event" => {
                let event = self.event_for(caller, handle.part(0, "event_id")?).await?;
                Ok(in_words(&event.body.read()?))
            }
            "session" => {
                let session = self.session_for(caller, handle).await?;
                let status = Said::from(session.status());
                Ok(Some(format!("session {} · {status}", session.name)))
            }
            _ => {
                let (session, chat) = self.chat_for(caller, handle).await?;
                let status = Said::from(self.status_of(&chat).await?);
                Ok(Some(format!("chat {} of {} · {status}", chat.number, session.name)))
            }
        }
    }

    /// Returns the session that a handle names. One of another owner does not exist here.
    async fn session_for(
        &self,
        caller: &Caller,
        handle: &Handle,
    ) -> Result<SessionRecord, CallError> {
        let session = self.authority.reach(caller, handle.part(0, "session_id")?).await?;
        if self.namespace.resolves(owner(&SessionConfig::of(&session)?.agent)) {
            return Ok(session);
        }
        Err(StoreError::not_found(Thing::Session, session.id).into())
    }

    /// Returns an event. An event of a session that is out of reach does not exist for this caller.
    async fn event_for(&self, caller: &Caller, id: EventId) -> Result<Event, CallError> {
        let event = self.store.event(id).await?;
        let hidden = || StoreError::not_found(Thing::Event, id);
        if !self.namespace.resolves(event.owner) {
            return Err(hidden().into());
        }
        self.authority.reach(caller, event.session).await.map_err(|error| match error.kind() {
            ErrorKind::NotFound => hidden().into(),
            _ => error,
        })?;
        Ok(event)
    }

    /// Returns the chat that a handle names, and its session.
    async fn chat_for(
        &self,
        caller: &Caller,
        handle: &Handle,
    ) -> Result<(SessionRecord, Chat), CallError> {
        let (session, chat) = (handle.part(0, "session_id")?, handle.part(1, "chat")?);
        let session = self.authority.reach(caller, session).await?;
        let chat = self.store.chat(session.id, Some(chat)).await?;
        if !self.namespace.resolves(chat.owner) {
            return Err(StoreError::not_found(Thing::Session, session.id).into());
        }
        Ok((session, chat))
    }

    async fn prompt_for(
        &self,
        caller: &Caller,
        handle: &Handle,
    ) -> Result<PromptMessage, CallError> {
        let (session, chat) = self.chat_for(caller, handle).await?;
        let (content, pruned) = match self.store.node(chat.user_node).await?.data {
            NodeData::Pruned {} => (String::new(), true),
            NodeData::Text { .. } | NodeData::External { .. } => {
                (prompt_text(&*self.store, session.id, chat.number).await?, false)
            }
        };
        Ok(PromptMessage {
            role: Role::User.into(),
            session_id: session.id,
            chat: chat.number,
            content,
            pruned,
            status: self.status_of(&chat).await?.into(),
            total_events: chat.total_events,
        })
    }
}
