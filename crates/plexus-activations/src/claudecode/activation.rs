//! The `claudecode` activation: its method table, and who may touch what. Each group of methods has a file of its own.

mod budgets;
mod chats;
mod create;
mod elsewhere;
mod reading;
mod rendering;
mod sessions;
mod streaming;

use std::sync::Arc;

use async_trait::async_trait;
use plexus_core::{
    Activation, ActivationInfo, CallError, Caller, Door, ErrorKind, Handle, MethodDescriptor,
    MethodTable, NodeId, Resolution, ResourceForm, SessionId, Shape,
};
use plexus_store::{EVENT_OWNER, Node, PageRequest, Session, SessionFilter, StoreError, Thing};
use serde_json::json;

use super::Core;
use super::feed::{Feed, FollowedEvent, PolledEvent};
use super::params::{
    BudgetSetParams, CursorDeleteParams, CursorSetParams, CursorsParams, SessionRef,
};
use super::results::{
    Cancelled, Created, Cursors, Deleted, Done, Forked, Got, Listed, Polled, Rendered, Sent,
    Started, Streams, TreeOf, Waited,
};
use super::supervisor::Supervisor;
use crate::authority::Authority;
use crate::handler::handler;

/// How long any call may wait.
pub(crate) const MAX_WAIT_MS: u64 = 60_000;

/// How many records a page has when nobody says.
pub(crate) const DEFAULT_PAGE: u32 = 100;

/// How many records a page has at most.
pub(crate) const MAX_PAGE: u32 = 1_000;

/// Sessions and chats.
pub struct ClaudeCode {
    core: Arc<Core>,
    supervisor: Arc<Supervisor>,
    authority: Authority,
    feed: Feed,
}

impl ClaudeCode {
    pub(crate) fn new(core: Arc<Core>, supervisor: Arc<Supervisor>) -> Arc<Self> {
        let (authority, feed) =
            (Authority::new(Arc::clone(&core.store)), Feed::new(Arc::clone(&core.store)));
        Arc::new(Self { core, supervisor, authority, feed })
    }

    /// Finds a session by id or exact name, within what the caller may touch.
    async fn find(
        &self,
        caller: &Caller,
        id: Option<SessionId>,
        name: Option<&str>,
    ) -> Result<Session, CallError> {
        match (id, name) {
            (Some(id), None) => self.authority.reach(caller, id).await,
            (None, Some(name)) => self.find_by_name(caller, name).await,
            (Some(_), Some(_)) => {
                Err(CallError::invalid("find the session: give session_id or name, not both"))
            }
            (None, None) => Err(CallError::invalid("find the session: give session_id or name")),
        }
    }

    /// Names are unique for each parent, so a caller's own come first; the operator may name any that is unique.
    async fn find_by_name(&self, caller: &Caller, name: &str) -> Result<Session, CallError> {
        let unknown = || {
            CallError::not_found(format_args!("find the session {name:?}"))
                .with_hint("names are exact; claudecode.list shows them")
        };
        match self.core.store.session_named(caller.session(), name).await {
            Ok(session) => return self.authority.reach(caller, session.id).await,
            Err(StoreError::NotFound { .. }) => {}
            Err(error) => return Err(error.into()),
        }
        let filter = SessionFilter {
            under: caller.session(),
            name: Some(name.to_owned()),
            ..SessionFilter::default()
        };
        let mut found = self.core.store.sessions(filter, PageRequest::first(2)).await?.items;
        match (found.pop(), found.is_empty()) {
            (Some(session), true) => self.authority.reach(caller, session.id).await,
            (Some(_), false) => Err(CallError::conflict(format_args!(
                "find the session {name:?}: several have this name"
            ))
            .with_hint("use its session_id")),
            (None, _) => Err(unknown()),
        }
    }
}

#[async_trait]
impl Activation for ClaudeCode {
    fn info(&self) -> ActivationInfo {
        ActivationInfo {
            namespace: EVENT_OWNER.0,
            version: (EVENT_OWNER.1, 0, 0),
            description: "Creates child Claude Code sessions, starts chats that return at once, and reads their events from durable streams.",
        }
    }

    fn methods(self: Arc<Self>) -> MethodTable {
        // One line for each method: its name, what it is for, what is special about it, and who does it.
        macro_rules! with {
            ($method:ident) => {
                handler!(self, $method)
            };
        }
        let reads: fn(&mut MethodDescriptor) = |d| d.hints.read_only = true;
        let waits: fn(&mut MethodDescriptor) = |d| {
            d.hints.read_only = true;
            d.hints.waits = true;
        };
        let ends: fn(&mut MethodDescriptor) = |d| d.hints.destructive = true;
        let follows: fn(&mut MethodDescriptor) = |d| {
            d.hints.read_only = true;
            d.door = Door::Events;
        };
        // These change when an event comes, and reading them moves nobody's position.
        let session: fn(&mut MethodDescriptor) = |d| {
            d.hints.read_only = true;
            d.resource =
                Some(ResourceForm { uri: "plexus://sessions/{session_id}", changes: "follow" });
        };
        let conversation: fn(&mut MethodDescriptor) = |d| {
            d.hints.read_only = true;
            d.resource = Some(ResourceForm {
                uri: "plexus://sessions/{session_id}/conversation",
                changes: "follow",
            });
        };
        let recent: fn(&mut MethodDescriptor) = |d| {
            d.hints.read_only = true;
            d.door = Door::Internal;
            d.resource = Some(ResourceForm {
                uri: "plexus://sessions/{session_id}/events",
                changes: "follow",
            });
        };
        MethodTable::new(EVENT_OWNER.0)
            .unary::<_, Created, _, _>("create", "Creates a session: a supervised Claude Code agent with a name and a working directory. It does nothing until chat_async gives it a prompt.", |_| {}, with!(create))
            .unary::<_, Started, _, _>("chat_async", "Gives a session a prompt and returns at once. Read what happens with poll or wait. One chat at a time: a second one is busy.", |_| {}, with!(chat_async))
            .streaming::<_, Polled, _, _>("chat", "Gives a session a prompt and waits until the chat ends, a permission request is pending, or wait_ms is over; returns what poll returns. It cannot deadlock: answer the pending request, then poll on.", |d| { d.shape = Shape::Either; d.hints.waits = true; }, with!(chat))
            .unary::<_, Polled, _, _>("poll", "Reads the next events of a session's newest chat, and the permission requests that wait. With wait_ms it waits for the first event.", waits, with!(poll))
            .unary::<CursorsParams, Polled, _, _>("recent", "Shows the last events of a session's newest chat, and the permission requests that wait.", recent, with!(recent))
            .streaming::<_, FollowedEvent, _, _>("follow", "Streams a session's events as they happen, from a cursor on (WebSocket and SSE).", follows, with!(follow))
            .unary::<_, Waited, _, _>("wait", "Tells which sessions changed after a number, without transcripts: the cheap way to watch many children. With wait_ms it waits for a change.", waits, with!(wait))
            .unary::<_, Sent, _, _>("send", "Puts a message into the running chat, to steer it.", |_| {}, with!(send))
            .unary::<_, Cancelled, _, _>("cancel", "Ends the running chat; what happened stays on record.", ends, with!(cancel))
            .unary::<SessionRef, Got, _, _>("get", "Shows one session: status, chat, head, budget and what it has spent.", session, with!(get))
            .unary::<BudgetSetParams, Done, _, _>("budget_set", "Gives a session below you other limits. Below what is spent already is refused.", |d| d.hints.idempotent = true, with!(budget_set))
            .unary::<_, Listed, _, _>("list", "Lists your sessions, oldest first.", reads, with!(list))
            .unary::<SessionRef, Deleted, _, _>("delete", "Ends a session and everything below it, and removes their records.", ends, with!(delete))
            .unary::<_, Forked, _, _>("fork", "Makes a new session that shares the conversation up to a node and then goes its own way.", |_| {}, with!(fork))
            .unary::<_, Streams, _, _>("streams", "Lists event streams: one for each chat, with its status and how many events it has.", reads, with!(streams))
            .unary::<SessionRef, TreeOf, _, _>("get_tree", "Says which Arbor tree holds a session, and where its head is.", reads, with!(get_tree))
            .unary::<_, Rendered, _, _>("render_context", "Shows the conversation as messages: text, tool uses, tool results and thinking.", conversation, with!(render_context))
            .unary::<CursorsParams, Cursors, _, _>("cursors", "Lists the named readers of a session and where they stand.", reads, with!(cursors))
            .unary::<CursorSetParams, Done, _, _>("cursor_set", "Moves a named reader to a position, making it if it is new.", |d| d.hints.idempotent = true, with!(cursor_set))
            .unary::<CursorDeleteParams, Done, _, _>("cursor_delete", "Forgets a named reader.", ends, with!(cursor_delete))
    }

    async fn resolve(&self, caller: &Caller, handle: &Handle) -> Resolution {
        let found = match (handle.method.as_str(), handle.meta.as_slice()) {
            ("chat_event", [id, ..]) => self.resolve_event(caller, id).await,
            ("chat_stream", [session, chat]) => self.resolve_stream(caller, session, chat).await,
            _ => return Resolution::NotMine,
        };
        match found {
            Ok(value) => Resolution::Found(value),
            Err(error) => Resolution::Failed(error),
        }
    }
}

impl ClaudeCode {
    /// What `poll` shows of an event, and where it belongs.
    async fn resolve_event(
        &self,
        caller: &Caller,
        id: &str,
    ) -> Result<serde_json::Value, CallError> {
        let id = id
            .parse()
            .map_err(|_| CallError::invalid("resolve the event: its id is not a UUID"))?;
        let event = self.core.store.event(id).await?;
        // An event out of reach does not exist for this caller, and neither does its session.
        let hidden = || StoreError::not_found(Thing::Event, id);
        self.authority.reach(caller, event.session).await.map_err(|error| match error.kind {
            ErrorKind::NotFound => hidden().into(),
            _ => error,
        })?;
        let mut value = serde_json::to_value(PolledEvent::of(&event))
            .map_err(|_| CallError::internal("show the event"))?;
        value["type"] = json!("event");
        value["session_id"] = json!(event.session);
        value["chat"] = json!(event.chat);
        Ok(value)
    }

    async fn resolve_stream(
        &self,
        caller: &Caller,
        session: &str,
        chat: &str,
    ) -> Result<serde_json::Value, CallError> {
        let session = session
            .parse()
            .map_err(|_| CallError::invalid("resolve the stream: its session is not a UUID"))?;
        let chat = chat
            .parse()
            .map_err(|_| CallError::invalid("resolve the stream: its chat is not a number"))?;
        self.authority.reach(caller, session).await?;
        let chat = self.core.store.chat(session, Some(chat)).await?;
        let prompt = self.core.prompt_text(session, chat.number).await?;
        Ok(
            json!({"type": "message", "role": "user", "session_id": session, "chat": chat.number, "content": prompt, "status": chat.status, "total_events": chat.total_events}),
        )
    }
}

impl ClaudeCode {
    /// Returns a node of this session's tree. One of another tree is as unknown as one that does
    /// not exist.
    pub(super) async fn node_of(&self, session: &Session, id: NodeId) -> Result<Node, CallError> {
        match self.core.store.node(id).await {
            Ok(node) if node.tree_id == session.tree => Ok(node),
            Ok(_) | Err(StoreError::NotFound { .. }) => Err(CallError::not_found(format_args!(
                "find the node {id} in the tree of {}",
                session.name
            ))),
            Err(error) => Err(error.into()),
        }
    }
}

/// Reads a page's parameters.
pub(crate) fn page(limit: Option<u32>, cursor: Option<&str>) -> Result<PageRequest, CallError> {
    let limit = checked_limit(limit)?;
    let after = cursor.map(str::parse).transpose()?;
    Ok(PageRequest { after, limit })
}

/// A limit of 0 or over the bound is refused rather than guessed at.
pub(crate) fn checked_limit(limit: Option<u32>) -> Result<usize, CallError> {
    match limit.unwrap_or(DEFAULT_PAGE) {
        limit @ 1..=MAX_PAGE => Ok(limit as usize),
        other => Err(CallError::invalid(format_args!("take a limit of {other}"))
            .with_hint(format_args!("ask for 1 to {MAX_PAGE}"))),
    }
}

/// A wait over the bound is refused: a caller that counts on it would be surprised.
pub(crate) fn checked_wait(wait_ms: Option<u64>) -> Result<std::time::Duration, CallError> {
    match wait_ms.unwrap_or(0) {
        ms @ 0..=MAX_WAIT_MS => Ok(std::time::Duration::from_millis(ms)),
        other => Err(CallError::invalid(format_args!("wait {other} ms"))
            .with_hint(format_args!("wait at most {MAX_WAIT_MS} ms, then call again"))),
    }
}
