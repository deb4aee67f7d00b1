//! Sessions: one supervised conversation each, with its tree, its parent and its configuration.

use std::time::Duration;

use plexus_core::{NodeId, SessionId, TreeId};
pub use plexus_wire::SessionStatus;
use serde::Serialize;

use super::arbor::Position;
use super::chat::ChatStatus;
use super::error::StoreError;
use super::json::JsonText;
use super::time::UnixMillis;

/// One session, with the facts that its status is computed from.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct SessionRecord {
    /// Its only identifier on the wire.
    pub id: SessionId,
    /// Its name, unique among the sessions of the same parent.
    pub name: String,
    /// The session that created it; `None` when the operator did.
    pub parent: Option<SessionId>,
    /// The session it was forked from, whose tree it shares.
    pub forked_from: Option<SessionId>,
    /// Its tree.
    pub tree: TreeId,
    /// The node after which the next chat starts.
    pub head: NodeId,
    /// Its configuration from its creation; an object that only the activation reads.
    pub config: JsonText,
    /// The activation's own state of it (a mode, a notice given); an object.
    pub state: JsonText,
    /// Data of its creator; an object.
    pub metadata: JsonText,
    /// The CLI's own id, for `--resume`.
    pub claude_session_id: Option<String>,
    /// Counts updates of the fields above, for a precondition.
    pub revision: u64,
    /// Its newest chat, if there is one.
    pub newest_chat: Option<ChatFacts>,
    /// How many of its approvals are pending.
    pub pending_approvals: u32,
    /// Whether its agent is parked.
    pub parked: bool,
    /// The number its next run will have.
    pub next_run: u32,
    /// The commit that changed anything of it last: an event, an approval, an update.
    pub changed: u64,
    /// When it was created.
    pub created_at: UnixMillis,
    /// When its own fields changed last.
    pub updated_at: UnixMillis,
}

/// The facts of the newest chat that a session's status depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct ChatFacts {
    /// Its number.
    pub number: u32,
    /// Its status.
    pub status: ChatStatus,
    /// How many events it has.
    pub total_events: u32,
}

impl SessionRecord {
    /// Computes the status from the facts: ended before awaiting before running.
    #[must_use]
    pub fn status(&self) -> SessionStatus {
        match (self.newest_chat.map(|chat| chat.status), self.pending_approvals) {
            (Some(ChatStatus::Complete), _) => SessionStatus::Complete,
            (Some(ChatStatus::Failed), _) => SessionStatus::Failed,
            (Some(ChatStatus::Cancelled), _) => SessionStatus::Cancelled,
            // Without a chat of ours there may still be a child that somebody else started, and it
            // may ask.
            (Some(ChatStatus::Running) | None, 1..) => SessionStatus::AwaitingPermission,
            (Some(ChatStatus::Running), 0) => SessionStatus::Running,
            (None, 0) => SessionStatus::Idle,
        }
    }

    /// Returns the number of its open chat, if one is open.
    #[must_use]
    pub fn open_chat(&self) -> Option<u32> {
        self.newest_chat.filter(|chat| chat.status == ChatStatus::Running).map(|chat| chat.number)
    }

    /// Returns its head as a position.
    #[must_use]
    pub fn position(&self) -> Position {
        Position { tree_id: self.tree, node_id: self.head }
    }
}

/// Creates a session, with a tree of its own or sharing one. A name taken under the same parent is
/// a conflict that names the holder.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CreateSession {
    /// Its id, made by the caller.
    pub id: SessionId,
    /// Its name.
    pub name: String,
    /// Its parent.
    pub parent: Option<SessionId>,
    /// Shares the tree of this session instead of making one.
    pub fork: Option<Fork>,
    /// Its configuration; an object.
    pub config: JsonText,
    /// An object.
    pub metadata: JsonText,
    /// The CLI's own id, when it is known beforehand (a fork).
    pub claude_session_id: Option<String>,
    /// How many descendants sessions above it may have; without room for one more it is `busy`.
    pub room: Vec<Room>,
}

/// How many descendants a session may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Room {
    /// The session.
    pub above: SessionId,
    /// The most it may have, on all levels.
    pub descendants: u64,
}

impl Room {
    /// Says whether one more fits where `there` are.
    pub(crate) fn has_place(&self, there: usize) -> bool {
        (there as u64) < self.descendants
    }

    /// Refuses one more; `name` is that of the session above.
    pub(crate) fn full(&self, name: &str) -> StoreError {
        let most = self.descendants;
        let message = format!(
            "create the session: {name} may have {most} {} below it and has no room for another; \
             delete one of them first",
            if most == 1 { "session" } else { "sessions" }
        );
        StoreError::busy(message, RETRY_NO_ROOM)
    }
}

/// When to ask again where no session has room: one has to be deleted first.
const RETRY_NO_ROOM: Duration = Duration::from_secs(10);

impl CreateSession {
    /// Makes a session of its own tree, with no configuration.
    pub fn new(name: impl Into<String>, parent: Option<SessionId>) -> Self {
        Self {
            id: SessionId::generate(),
            name: name.into(),
            parent,
            fork: None,
            config: JsonText::empty_object(),
            metadata: JsonText::empty_object(),
            claude_session_id: None,
            room: Vec::new(),
        }
    }
}

/// Where a forked session starts.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fork {
    /// The session whose tree is shared.
    pub of: SessionId,
    /// The node it starts after; `None` for that session's head.
    pub at: Option<NodeId>,
}

/// Changes fields of a session; those with `None` or `Keep` stay.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UpdateSession {
    /// The session.
    pub id: SessionId,
    /// The revision it must have; `None` does not care.
    pub expects_revision: Option<u64>,
    /// A new name. If another session under the same parent has it, that is a conflict that names
    /// the holder.
    pub name: Option<String>,
    /// A new head, a node of the session's tree.
    pub head: Option<NodeId>,
    /// A new configuration.
    pub config: Option<JsonText>,
    /// A new activation's state.
    pub state: Option<JsonText>,
    /// New metadata.
    pub metadata: Option<JsonText>,
    /// The CLI's own id.
    pub claude_session_id: Patch<String>,
}

impl UpdateSession {
    /// Starts an update that changes nothing yet.
    #[must_use]
    pub fn of(id: SessionId) -> Self {
        Self {
            id,
            expects_revision: None,
            name: None,
            head: None,
            config: None,
            state: None,
            metadata: None,
            claude_session_id: Patch::Keep,
        }
    }
}

/// A change of a field that may be empty.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Patch<T> {
    /// It stays.
    #[default]
    Keep,
    /// It becomes empty.
    Clear,
    /// It becomes this.
    Set(T),
}

impl<T> Patch<T> {
    /// Returns the new value of a field, given the old one.
    pub(crate) fn apply(self, now: Option<T>) -> Option<T> {
        match self {
            Self::Keep => now,
            Self::Clear => None,
            Self::Set(value) => Some(value),
        }
    }
}

/// Removes a session with its chats, events, approvals, cursors, rules, tokens and runs. A tree
/// that a fork shares stays for the fork. Its spending counts as its parent's from then on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DeleteSession {
    /// The session.
    pub id: SessionId,
    /// Whether its child sessions are deleted too.
    pub children: Children,
}

/// Whether a deletion takes child sessions along.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Children {
    /// A session that has children is not deleted: a conflict.
    Refuse,
    /// They are deleted too, deepest first.
    Delete,
}

/// Which sessions a list shows. Everything that is set must hold.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SessionFilter {
    /// Children of this session; `Some(None)` for sessions without a parent.
    pub parent: Option<Option<SessionId>>,
    /// Strict descendants of this session.
    pub under: Option<SessionId>,
    /// Exactly this name.
    pub name: Option<String>,
    /// This status.
    pub status: Option<SessionStatus>,
    /// Those that share this tree: a session and its forks.
    pub tree: Option<TreeId>,
}

/// Sessions that changed, for a reader that waits for any of many.
#[derive(Clone, PartialEq, Debug)]
pub struct ChangedSessions {
    /// Hand this back to hear only of later changes.
    pub after: u64,
    /// Those that changed, oldest change first. When the limit cut the list, `after` is the last
    /// one's change.
    pub sessions: Vec<SessionRecord>,
}
