//! Budgets: whether a session, and every session above it, has something left to spend; and what happens when it has not.
//!
//! A budget is for a session and everything below it. It is looked at before a chat starts ([`check`]) and whenever a result was added to what was spent
//! ([`keep`]): at 80 % the holder's chat is told, at 100 % every running chat below it is stopped. What was spent is stored in the transaction that
//! ends a chat, so a server that dies in between finds it, and looks again when it starts.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Weak};
use std::time::Duration;

use plexus_core::{CallError, ErrorKind, SessionId};
use plexus_store::{
    AppendEvents, Change, PageRequest, Priority, Session, SessionFilter, SessionStatus, Spend, Store, StoreError,
    Topic, UnixMillis, limits,
};
use tokio_util::sync::CancellationToken;

use crate::claudecode::config::{Budget, SessionConfig};
use crate::claudecode::event::ChatEvent;
use crate::claudecode::run::Command;
use crate::claudecode::supervisor::Supervisor;

/// When the holder of a budget is told that it will soon be used up.
const WARN_AT: f64 = 0.8;

/// The shortest time between two looks: a burst of commits is looked at once.
const BREATH: Duration = Duration::from_millis(250);

/// How often running chats are looked at although nothing was stored, for limits of time.
const TICK: Duration = Duration::from_secs(1);

/// How many sessions are remembered with the budgets above them; beyond it all are read again.
const MAX_LINES: usize = 10_000;

/// Ends the running chat of a session as failed.
pub(crate) trait Stopper: Send + Sync {
    /// Stops it for `reason`, if it runs here. Returns at once.
    fn stop(&self, session: SessionId, reason: String);
}

impl Stopper for Supervisor {
    fn stop(&self, session: SessionId, reason: String) {
        // A child that is still starting has no handle yet; it is found at the next look.
        let Some(handle) = self.handle(session) else { return };
        if handle.commands.try_send(Command::Stop { reason }).is_err() {
            tracing::debug!(%session, "a chat that is to stop is busy or gone; it is looked at again");
        }
    }
}

/// Refuses a chat that some budget above has no room for.
pub(crate) async fn check(store: &dyn Store, session: &Session) -> Result<(), CallError> {
    for holder in holders(store, session.id).await? {
        if let Some(what) = holder.worst(store, Reckoning::Settled).await?.used_up() {
            return Err(CallError::new(
                ErrorKind::Forbidden,
                format_args!("start a chat: the budget of {} for {what} is used up", holder.name),
            )
            .with_hint("its creator can give a larger one"));
        }
    }
    Ok(())
}

/// Looks at what is spent until the server stops.
pub(crate) async fn keep(store: Arc<dyn Store>, stopper: Weak<dyn Stopper>, shutdown: CancellationToken) {
    let mut wake = store.watch(Topic::Commits);
    let mut treasurer = Treasurer { store: Arc::clone(&store), stopper, lines: HashMap::new(), warned: HashSet::new() };
    loop {
        wake.seen();
        if let Err(error) = treasurer.look().await {
            tracing::warn!(%error, "budgets could not be looked at; trying again");
        }
        // With nothing running nothing is spent: then only a commit is worth waking for.
        let idle = treasurer.lines.values().all(Vec::is_empty);
        tokio::select! {
            () = tokio::time::sleep(TICK), if !idle => {}
            _ = wake.changed() => {}
            () = shutdown.cancelled() => return,
        }
        tokio::select! {
            () = tokio::time::sleep(BREATH) => {}
            () = shutdown.cancelled() => return,
        }
    }
}

struct Treasurer {
    store: Arc<dyn Store>,
    stopper: Weak<dyn Stopper>,
    /// The budgets that hold for each session that was seen running. Neither budgets nor parents change.
    lines: HashMap<SessionId, Vec<Arc<Holder>>>,
    warned: HashSet<SessionId>,
}

impl Treasurer {
    /// Looks at every budget above a running chat.
    async fn look(&mut self) -> Result<(), StoreError> {
        if self.lines.len() > MAX_LINES {
            self.lines.clear();
        }
        let mut running: HashMap<SessionId, (Arc<Holder>, Vec<SessionId>)> = HashMap::new();
        for status in [SessionStatus::Running, SessionStatus::AwaitingPermission] {
            let mut page = PageRequest::first(limits::MAX_PAGE_ITEMS);
            loop {
                let filter = SessionFilter { status: Some(status), ..SessionFilter::default() };
                let found = self.store.sessions(filter, page).await?;
                for session in &found.items {
                    for holder in self.line(session.id).await? {
                        running.entry(holder.id).or_insert_with(|| (holder, Vec::new())).1.push(session.id);
                    }
                }
                match found.next {
                    Some(next) => page = PageRequest { after: Some(next), limit: limits::MAX_PAGE_ITEMS },
                    None => break,
                }
            }
        }
        for (holder, sessions) in running.into_values() {
            self.judge(&holder, &sessions).await?;
        }
        Ok(())
    }

    async fn line(&mut self, session: SessionId) -> Result<Vec<Arc<Holder>>, StoreError> {
        if let Some(line) = self.lines.get(&session) {
            return Ok(line.clone());
        }
        let line: Vec<Arc<Holder>> = match holders(&*self.store, session).await {
            Ok(line) => line.into_iter().map(Arc::new).collect(),
            Err(StoreError::NotFound { .. }) => return Ok(Vec::new()),
            Err(error) => return Err(error),
        };
        self.lines.insert(session, line.clone());
        Ok(line)
    }

    async fn judge(&mut self, holder: &Holder, running: &[SessionId]) -> Result<(), StoreError> {
        let worst = match holder.worst(&*self.store, Reckoning::WithRunning(running)).await {
            Ok(worst) => worst,
            Err(StoreError::NotFound { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        if let Some(what) = worst.used_up() {
            let Some(stopper) = self.stopper.upgrade() else { return Ok(()) };
            for session in running {
                stopper.stop(*session, format!("the budget of {} for {what} is used up", holder.name));
            }
        } else if worst.share >= WARN_AT && self.warned.insert(holder.id) {
            let words = format!(
                "{:.0} % of the budget of {} for {} is used up; at 100 % everything below it is stopped",
                worst.share * 100.0,
                holder.name,
                worst.what
            );
            for session in running {
                self.tell(*session, &words).await?;
            }
        }
        Ok(())
    }

    async fn tell(&self, session: SessionId, words: &str) -> Result<(), StoreError> {
        let session = match self.store.session(session).await {
            Ok(session) => session,
            Err(StoreError::NotFound { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        let Some(chat) = session.open_chat() else { return Ok(()) };
        let events = vec![ChatEvent::notice(words).to_new_event()?];
        let change = Change::AppendEvents(AppendEvents { session: session.id, chat, events });
        match self.store.commit(vec![change], Priority::Normal).await {
            // It ended in this moment, so there is nobody to tell.
            // Where another server runs it, that one tells it.
            Ok(_) | Err(StoreError::Conflict { .. } | StoreError::NotFound { .. } | StoreError::Fenced { .. }) => {
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

/// A session that carries a budget.
struct Holder {
    id: SessionId,
    name: String,
    budget: Budget,
}

/// What counts as spent.
#[derive(Clone, Copy)]
enum Reckoning<'a> {
    /// What was settled at the end of chats.
    Settled,
    /// Also the time that the chats of these sessions have been running.
    WithRunning(&'a [SessionId]),
}

/// The limit that is nearest to its end.
struct Worst {
    what: &'static str,
    share: f64,
}

impl Worst {
    fn used_up(&self) -> Option<&'static str> {
        (self.share >= 1.0).then_some(self.what)
    }
}

impl Holder {
    async fn worst(&self, store: &dyn Store, reckoning: Reckoning<'_>) -> Result<Worst, StoreError> {
        let mut spent = store.spend(self.id).await?.subtree;
        if let (Reckoning::WithRunning(sessions), Some(_)) = (reckoning, self.budget.wall_secs) {
            let now = UnixMillis::now();
            for session in sessions {
                let chat = store.chat(*session, None).await?;
                spent.wall_ms = spent.wall_ms.saturating_add(millis(now.after(chat.started_at)));
            }
        }
        Ok(worst_of(&self.budget, &spent))
    }
}

fn millis(time: Duration) -> u64 {
    u64::try_from(time.as_millis()).unwrap_or(u64::MAX)
}

fn worst_of(budget: &Budget, spent: &Spend) -> Worst {
    // A limit of nothing is used up from the start.
    let share = |spent: f64, most: f64| if most > 0.0 { spent / most } else { f64::INFINITY };
    let shares = [
        ("cost", budget.cost_usd.map(|most| share(spent.cost_micros as f64 / 1e6, most))),
        ("turns", budget.turns.map(|most| share(spent.turns as f64, most as f64))),
        ("wall time", budget.wall_secs.map(|most| share(spent.wall_ms as f64 / 1e3, most as f64))),
    ];
    let worst = shares.into_iter().filter_map(|(what, share)| share.map(|share| Worst { what, share }));
    worst.max_by(|a, b| a.share.total_cmp(&b.share)).unwrap_or(Worst { what: "nothing", share: 0.0 })
}

/// The sessions with a budget that hold for `session`: itself and its ancestors.
async fn holders(store: &dyn Store, session: SessionId) -> Result<Vec<Holder>, StoreError> {
    let mut line = vec![session];
    line.extend(store.ancestors(session).await?);
    let mut holders = Vec::new();
    for id in line {
        let holder = store.session(id).await?;
        if let Some(budget) = SessionConfig::of(&holder)?.budget {
            holders.push(Holder { id, name: holder.name, budget });
        }
    }
    Ok(holders)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_limit_that_is_nearest_to_its_end_counts() {
        let spent = Spend { cost_micros: 850_000, turns: 3, wall_ms: 500, ..Spend::default() };
        let budget = Budget { cost_usd: Some(1.0), turns: Some(10), wall_secs: Some(1), ..Budget::default() };
        let worst = worst_of(&budget, &spent);
        assert_eq!((worst.what, worst.share, worst.used_up()), ("cost", 0.85, None));
        let tight = Budget { turns: Some(3), ..budget };
        assert_eq!(worst_of(&tight, &spent).used_up(), Some("turns"));
        assert_eq!(worst_of(&Budget::default(), &spent).used_up(), None);
        let nothing = Budget { cost_usd: Some(0.0), ..Budget::default() };
        assert_eq!(worst_of(&nothing, &Spend::default()).used_up(), Some("cost"));
    }
}
