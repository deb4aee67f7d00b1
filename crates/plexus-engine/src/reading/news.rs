//! Which sessions changed: all that did, or those that asked or ended, which is when a parent has
//! something to do.

use std::collections::HashMap;
use std::sync::Arc;

use plexus_core::{CallError, Caller, SessionId};
use plexus_store::{ChangedSessions, ReadLimit, SessionFilter, SessionRecord, Store, limits};

/// How much of the feed is read at a time to see who asked or ended.
const TAKE: ReadLimit = ReadLimit { events: 256, bytes: 256 * 1024 };

/// How many times that much is read. A caller whose position is further back is told of every
/// session that asks or has ended, whether that is new or not.
const MAX_TAKES: usize = 16;

/// What the feed says of a session.
#[derive(Clone, Copy, Default)]
struct Turn {
    asked: bool,
    ended: bool,
}

/// What is new in the sessions of a caller.
#[derive(Clone)]
pub struct SessionNews {
    pub(super) store: Arc<dyn Store>,
}

impl SessionNews {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    /// The sessions of a caller that changed after commit `after`.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn changed_after(
        &self,
        caller: &Caller,
        after: u64,
    ) -> Result<ChangedSessions, CallError> {
        let filter = SessionFilter { under: caller.session(), ..SessionFilter::default() };
        Ok(self.store.sessions_changed(after, filter, limits::MAX_PAGE_ITEMS).await?)
    }

    /// Those of them that asked for permission and still wait, or whose chat ended.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn asked_or_ended(
        &self,
        caller: &Caller,
        after: u64,
    ) -> Result<ChangedSessions, CallError> {
        // The feed is read before the sessions. An event that is committed between the two reads
        // is then after the position that is returned, so the next call finds it.
        let (turns, looked) = self.turns_after(after).await?;
        let mut found = self.changed_after(caller, after).await?;
        found.after = found.after.min(looked).max(after);
        found.sessions.retain(|session| has_turned(session, turns.as_ref()));
        Ok(found)
    }

    /// What the feed says after commit `after`, and up to where; nothing when that is too much.
    async fn turns_after(
        &self,
        mut after: u64,
    ) -> Result<(Option<HashMap<SessionId, Turn>>, u64), CallError> {
        if after == 0 {
            return Ok((None, u64::MAX));
        }
        let mut turns: HashMap<SessionId, Turn> = HashMap::new();
        for _ in 0..MAX_TAKES {
            let page = self.store.read_commits(after, TAKE).await?;
            after = page.after;
            for event in page.events.iter().map(|event| &event.event) {
                match event.event_type.as_str() {
                    "awaiting_approval" => turns.entry(event.session).or_default().asked = true,
                    // The last event of a chat is one of these; an error may also be in its middle.
                    "complete" | "error" => turns.entry(event.session).or_default().ended = true,
                    _ => {}
                }
            }
            if !page.has_more {
                return Ok((Some(turns), after));
            }
        }
        Ok((None, u64::MAX))
    }
}

fn has_turned(session: &SessionRecord, turns: Option<&HashMap<SessionId, Turn>>) -> bool {
    let asks = session.pending_approvals > 0;
    let ended = session.newest_chat.is_some() && session.open_chat().is_none();
    // A child that somebody else started has no chat whose events could tell that it asks.
    let without_chat = asks && session.open_chat().is_none();
    match turns {
        None => asks || ended,
        Some(turns) => {
            let turn = turns.get(&session.id).copied().unwrap_or_default();
            (asks && turn.asked) || (ended && turn.ended) || without_chat
        }
    }
}
