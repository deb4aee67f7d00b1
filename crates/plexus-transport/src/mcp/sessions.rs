//! Who owns which MCP session, how many there may be, and when an idle one goes.
//!
//! A session belongs to the caller whose token began it: to every other caller it does not exist. A session is idle while none of its
//! requests and streams is open.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use plexus_core::{CallError, Caller};
use rmcp::transport::streamable_http_server::session::SessionManager;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;

use crate::limits::RETRY_AFTER_MS;

/// Longest rest between two looks for idle sessions.
const REAP_EVERY: Duration = Duration::from_secs(60);

/// The sessions of this process.
pub(crate) struct Sessions {
    manager: Arc<LocalSessionManager>,
    table: Mutex<Table>,
    limit: usize,
    idle: Duration,
}

#[derive(Default)]
struct Table {
    by_id: HashMap<Arc<str>, Session>,
    /// Places promised to sessions that are about to begin.
    reserved: usize,
    /// Whether a task looks for idle sessions. It runs only while there are sessions.
    reaping: bool,
}

struct Session {
    owner: Caller,
    open: usize,
    idle_since: Instant,
}

impl Sessions {
    pub(super) fn new(manager: Arc<LocalSessionManager>, limit: usize, idle: Duration) -> Self {
        Self { manager, table: Mutex::default(), limit, idle }
    }

    pub(super) fn manager(&self) -> &Arc<LocalSessionManager> {
        &self.manager
    }

    /// Says how many sessions are kept.
    pub(crate) fn len(&self) -> usize {
        self.table().by_id.len()
    }

    /// Marks a session of `caller` as used for as long as the returned value lives.
    pub(super) fn enter(self: &Arc<Self>, id: &str, caller: Caller) -> Option<InUse> {
        let mut table = self.table();
        let (id, _) = table.by_id.get_key_value(id)?;
        let id = Arc::clone(id);
        let session = table.by_id.get_mut(&id).filter(|session| session.owner == caller)?;
        session.open += 1;
        Some(InUse { sessions: Arc::clone(self), id })
    }

    /// Says whether this process knows the session, and it is not `caller`'s.
    pub(super) fn belongs_to_another(&self, id: &str, caller: Caller) -> bool {
        self.table().by_id.get(id).is_some_and(|session| session.owner != caller)
    }

    /// Promises a place to a session that is about to begin, and makes room for it.
    ///
    /// # Errors
    /// `busy` when every session is in use.
    pub(super) async fn reserve(self: &Arc<Self>) -> Result<Place, CallError> {
        let (place, pushed_out) = {
            let mut table = self.table();
            let mut pushed_out = None;
            if table.by_id.len() + table.reserved >= self.limit {
                let idle = table.by_id.iter().filter(|(_, session)| session.open == 0);
                let oldest = idle.min_by_key(|(_, session)| session.idle_since).map(|(id, _)| Arc::clone(id));
                let Some(oldest) = oldest else {
                    return Err(CallError::busy("begin another MCP session: all are in use", RETRY_AFTER_MS));
                };
                table.by_id.remove(&oldest);
                pushed_out = Some(oldest);
            }
            table.reserved += 1;
            (Place { sessions: Arc::clone(self) }, pushed_out)
        };
        if let Some(id) = pushed_out {
            self.close(&id).await;
        }
        Ok(place)
    }

    /// Ends a session of `caller`; `false` when it has no such session.
    pub(super) async fn end(&self, id: &str, caller: Caller) -> bool {
        let ended = {
            let mut table = self.table();
            let own = table.by_id.get(id).is_some_and(|session| session.owner == caller);
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

    /// Ends what was idle for too long. Returns when to look again, or nothing when no session is left.
    async fn reap(&self) -> Option<Duration> {
        let (gone, left) = {
            let mut table = self.table();
            let now = Instant::now();
            let is_gone = |session: &Session| session.open == 0 && now.duration_since(session.idle_since) >= self.idle;
            let gone: Vec<_> =
                table.by_id.iter().filter(|(_, session)| is_gone(session)).map(|(id, _)| Arc::clone(id)).collect();
            for id in &gone {
                table.by_id.remove(id);
            }
            table.reaping = !table.by_id.is_empty();
            (gone, table.reaping)
        };
        for id in &gone {
            self.close(id).await;
        }
        left.then(|| self.idle.min(REAP_EVERY))
    }

    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Looks for idle sessions until there are none, or nobody else holds the table.
async fn reap_while_needed(sessions: Weak<Sessions>, first: Duration) {
    let mut rest = first;
    loop {
        tokio::time::sleep(rest).await;
        let Some(sessions) = sessions.upgrade() else { return };
        match sessions.reap().await {
            Some(next) => rest = next,
            None => return,
        }
    }
}

/// A place for one session that is about to begin.
pub(super) struct Place {
    sessions: Arc<Sessions>,
}

impl Place {
    /// Puts the new session into its place, in use until the returned value is dropped.
    pub(super) fn fill(self, id: &str, owner: Caller) -> InUse {
        let id: Arc<str> = Arc::from(id);
        let mut table = self.sessions.table();
        table.by_id.insert(Arc::clone(&id), Session { owner, open: 1, idle_since: Instant::now() });
        if !std::mem::replace(&mut table.reaping, true) {
            let first = self.sessions.idle.min(REAP_EVERY);
            tokio::spawn(reap_while_needed(Arc::downgrade(&self.sessions), first));
        }
        drop(table);
        InUse { sessions: Arc::clone(&self.sessions), id }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.sessions.table().reserved -= 1;
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
