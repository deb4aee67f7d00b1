//! Who owns which MCP session, how many there may be, and when an idle one ends.
//!
//! A session belongs to the caller whose token began it: to every other caller it does not exist. A
//! session is idle while none of its requests and streams is open. An idle session ends after a
//! timeout, or soon after its token is revoked, because a child that exits does not end its
//! session. A caller that has used up its share replaces its own sessions, never those of another.
//! When there is no room at all, the caller with the most sessions loses one.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use plexus_core::{Authenticator, CallError, Caller};
use rmcp::transport::streamable_http_server::session::SessionManager;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;

use crate::identity::Presented;
use crate::limits::{Limits, OPERATOR_PART, RETRY_AFTER_MS};

/// The longest interval between two scans for idle sessions.
const REAP_EVERY: Duration = Duration::from_secs(60);

/// The sessions of this process.
pub(crate) struct Sessions {
    manager: Arc<LocalSessionManager>,
    table: Mutex<Table>,
    limit: usize,
    per_caller: usize,
    idle: Duration,
    auth: Arc<dyn Authenticator>,
    look_every: Duration,
}

/// Where a further session finds its place.
enum Room {
    Free,
    /// In place of this session, which is idle.
    InsteadOf(Arc<str>),
    No(CallError),
}

#[derive(Default)]
struct Table {
    by_id: HashMap<Arc<str>, Session>,
    /// Places reserved for sessions that are about to begin.
    reserved: HashMap<Caller, usize>,
    /// Whether a task scans for idle sessions. It runs only while there are sessions.
    reaping: bool,
}

impl Table {
    /// Counts the sessions of each caller, including those about to begin.
    fn counts(&self) -> HashMap<Caller, usize> {
        let mut counts = self.reserved.clone();
        for session in self.by_id.values() {
            *counts.entry(session.owner.caller()).or_default() += 1;
        }
        counts
    }

    /// Finds the session of `owner` that has been idle longest.
    fn oldest_idle(&self, owner: Caller) -> Option<Arc<str>> {
        self.by_id
            .iter()
            .filter(|(_, session)| session.open == 0 && session.owner.caller() == owner)
            .min_by_key(|(_, session)| session.idle_since)
            .map(|(id, _)| Arc::clone(id))
    }
}

struct Session {
    owner: Presented,
    open: usize,
    idle_since: Instant,
}

impl Sessions {
    pub(super) fn new(
        manager: Arc<LocalSessionManager>,
        limits: &Limits,
        auth: Arc<dyn Authenticator>,
    ) -> Self {
        let (limit, idle) = (limits.mcp_sessions, limits.mcp_idle);
        let look_every = idle.min(REAP_EVERY).min(limits.token_check);
        let per_caller = limits.mcp_sessions_per_caller;
        Self { manager, table: Mutex::default(), limit, per_caller, idle, auth, look_every }
    }

    pub(super) fn manager(&self) -> &Arc<LocalSessionManager> {
        &self.manager
    }

    /// Returns how many sessions are kept.
    pub(crate) fn len(&self) -> usize {
        self.table().by_id.len()
    }

    /// Marks a session of `caller` as in use for as long as the returned value lives.
    pub(super) fn enter(self: &Arc<Self>, id: &str, caller: Caller) -> Option<InUse> {
        let mut table = self.table();
        let (id, _) = table.by_id.get_key_value(id)?;
        let id = Arc::clone(id);
        let session =
            table.by_id.get_mut(&id).filter(|session| session.owner.caller() == caller)?;
        session.open += 1;
        Some(InUse { sessions: Arc::clone(self), id })
    }

    /// Says whether this process knows the session and it belongs to another caller.
    pub(super) fn belongs_to_another(&self, id: &str, caller: Caller) -> bool {
        self.table().by_id.get(id).is_some_and(|session| session.owner.caller() != caller)
    }

    /// Reserves a place for a session that `caller` is about to begin, and makes room for it.
    ///
    /// # Errors
    /// `busy` when the caller has used up its share and none of its sessions is idle, or when all
    /// places are taken and no session may be evicted for the caller.
    pub(super) async fn reserve(self: &Arc<Self>, caller: Caller) -> Result<Place, CallError> {
        let (place, pushed_out) = {
            let mut table = self.table();
            let pushed_out = match self.room_for(&table, caller) {
                Room::Free => None,
                Room::InsteadOf(id) => Some(id),
                Room::No(error) => return Err(error),
            };
            if let Some(id) = &pushed_out {
                table.by_id.remove(id);
            }
            *table.reserved.entry(caller).or_default() += 1;
            (Place { sessions: Arc::clone(self), caller }, pushed_out)
        };
        if let Some(id) = pushed_out {
            self.close(&id).await;
        }
        Ok(place)
    }

    /// Finds a place for one more session of `caller`.
    fn room_for(&self, table: &Table, caller: Caller) -> Room {
        let counts = table.counts();
        let of = |owner: Caller| counts.get(&owner).copied().unwrap_or_default();
        let is_operator = caller == Caller::Operator;
        let own = of(caller);
        if !is_operator && own >= self.per_caller {
            return table.oldest_idle(caller).map_or_else(
                || Room::No(busy(self.per_caller, "limits.mcp_sessions_per_caller")),
                Room::InsteadOf,
            );
        }
        let all: usize = counts.values().sum();
        let others_fit =
            is_operator || all - of(Caller::Operator) < self.limit - self.limit / OPERATOR_PART;
        if all < self.limit && others_fit {
            return Room::Free;
        }
        // The caller with the most sessions loses one, but only to a caller that has fewer. The
        // operator's own are evicted only for the operator.
        let may_give_way = |owner: Caller| {
            owner == caller || is_operator || (owner != Caller::Operator && of(owner) > own)
        };
        let most = counts
            .iter()
            .filter(|(owner, _)| may_give_way(**owner))
            .filter_map(|(owner, count)| Some((*count, table.oldest_idle(*owner)?)))
            .max_by_key(|(count, _)| *count);
        match most {
            Some((_, id)) => Room::InsteadOf(id),
            None => Room::No(busy(self.limit, "limits.mcp_sessions")),
        }
    }

    /// Ends a session of `caller`; `false` when it has no such session.
    pub(super) async fn end(&self, id: &str, caller: Caller) -> bool {
        let ended = {
            let mut table = self.table();
            let own = table.by_id.get(id).is_some_and(|session| session.owner.caller() == caller);
            own.then(|| table.by_id.remove_entry(id)).flatten()
        };
        match ended {
            Some((id, _)) => {
                self.close(&id).await;
                true
            }
            None => false,
        }
    }

    async fn close(&self, id: &Arc<str>) {
        if let Err(error) = self.manager.close_session(id).await {
            tracing::debug!(%error, "an MCP session did not end cleanly");
        }
    }

    /// Ends sessions that were idle for too long, or whose token was revoked. Returns whether any
    /// session is left.
    async fn reap(&self) -> bool {
        let idle = |table: &Table| -> Vec<(Arc<str>, Duration, Presented)> {
            let now = Instant::now();
            let idle = table.by_id.iter().filter(|(_, session)| session.open == 0);
            idle.map(|(id, it)| {
                (Arc::clone(id), now.duration_since(it.idle_since), it.owner.clone())
            })
            .collect()
        };
        let candidates = idle(&self.table());
        for (id, since, owner) in candidates {
            if since < self.idle && !owner.is_revoked(&*self.auth).await {
                continue;
            }
            // The session may have been used meanwhile.
            let gone = {
                let mut table = self.table();
                let is_idle = table.by_id.get(&id).is_some_and(|session| session.open == 0);
                is_idle.then(|| table.by_id.remove(&id)).flatten().is_some()
            };
            if gone {
                self.close(&id).await;
            }
        }
        let mut table = self.table();
        table.reaping = !table.by_id.is_empty();
        table.reaping
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn busy(limit: usize, setting: &str) -> CallError {
    CallError::busy(
        format_args!("begin another MCP session: all {limit} are in use ({setting})"),
        RETRY_AFTER_MS,
    )
    .with_hint("end one of yours with DELETE /mcp")
}

/// Scans for idle sessions until there are no sessions, or the table is dropped.
async fn reap_while_needed(sessions: Weak<Sessions>, every: Duration) {
    loop {
        tokio::time::sleep(every).await;
        let Some(sessions) = sessions.upgrade() else { return };
        if !sessions.reap().await {
            return;
        }
    }
}

/// A place for one session that is about to begin.
pub(super) struct Place {
    sessions: Arc<Sessions>,
    caller: Caller,
}

impl Place {
    /// Puts the new session into its place, in use until the returned value is dropped.
    pub(super) fn fill(self, id: &str, owner: Presented) -> InUse {
        let id: Arc<str> = Arc::from(id);
        let mut table = self.sessions.table();
        table.by_id.insert(Arc::clone(&id), Session { owner, open: 1, idle_since: Instant::now() });
        if !std::mem::replace(&mut table.reaping, true) {
            tokio::spawn(reap_while_needed(
                Arc::downgrade(&self.sessions),
                self.sessions.look_every,
            ));
        }
        drop(table);
        InUse { sessions: Arc::clone(&self.sessions), id }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut table = self.sessions.table();
        if let Some(reserved) = table.reserved.get_mut(&self.caller) {
            *reserved -= 1;
            if *reserved == 0 {
                table.reserved.remove(&self.caller);
            }
        }
    }
}

/// One open request or stream of a session.
pub(super) struct InUse {
    sessions: Arc<Sessions>,
    id: Arc<str>,
}

impl Drop for InUse {
    fn drop(&mut self) {
        if let Some(session) = self.sessions.table().by_id.get_mut(&self.id) {
            session.open -= 1;
            session.idle_since = Instant::now();
        }
    }
}
