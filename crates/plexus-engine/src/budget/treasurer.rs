//! Looks at what is spent: tells the running chats at 80 % of a budget, and stops every chat below
//! it at 100 %.
//!
//! What was spent is stored in the transaction that ends a chat, so a server that dies in between
//! finds it, and looks as soon as it starts.

use std::collections::HashMap;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use plexus_core::SessionId;
use plexus_store::{
    AppendEvents, AuditLine, Change, JsonText, PageRequest, Priority, SessionFilter, SessionStatus,
    Store, StoreError, Topic, UnixMillis, limits,
};
use plexus_wire::{Budget, BudgetUsed, ChatEvent, HookBody, HookEvent, NamedSession};
use tokio_util::sync::CancellationToken;

use super::{Holder, Worst, holders, worst_of};
use crate::approvals::Approvals;
use crate::event::ToNewEvent;
use crate::run::Command;
use crate::run::state::StopReason;
use crate::supervisor::Supervisor;

/// When the holder of a budget is told that it will soon be used up.
const WARN_AT: f64 = 0.8;

/// The shortest time between two looks: a burst of commits is looked at once.
const BREATH: Duration = Duration::from_millis(250);

/// How often running chats are looked at although nothing was stored, for limits of time.
const TICK: Duration = Duration::from_secs(1);

/// How long the budgets above a session are remembered: one that is changed holds within this time.
const LINES_FOR: Duration = Duration::from_secs(2);

/// Ends the running chat of a session as failed.
pub(crate) trait Stopper: Send + Sync {
    /// Stops it, if it runs here, and says why. Returns at once.
    fn stop(&self, session: SessionId, reason: StopReason, words: String);
}

impl Stopper for Supervisor {
    fn stop(&self, session: SessionId, reason: StopReason, words: String) {
        // A child that is still starting has no handle yet; it is found at the next look.
        let Some(handle) = self.handle(session) else { return };
        if handle.commands.try_send(Box::new(Command::Stop { reason, words })).is_err() {
            tracing::debug!(%session, "a chat that is to stop is busy or gone; it is looked at \
                again");
        }
    }
}

/// Looks at what is spent until the server stops.
pub(crate) async fn keep(
    approvals: Arc<Approvals>,
    stopper: Weak<dyn Stopper>,
    shutdown: CancellationToken,
) {
    let store = Arc::clone(&approvals.store);
    let mut wake = store.watch(Topic::Commits);
    let mut treasurer = Treasurer {
        store: Arc::clone(&store),
        approvals,
        stopper,
        lines: HashMap::new(),
        read_at: Instant::now(),
        warned: HashMap::new(),
        stopped: HashMap::new(),
    };
    loop {
        wake.seen();
        let looked = treasurer.look().await;
        if let Err(error) = &looked {
            tracing::warn!(%error, "budgets could not be looked at; trying again");
        }
        // With nothing running nothing is spent: then only a commit is worth waking for. A look
        // that failed does not say what runs.
        let idle = looked.is_ok() && treasurer.lines.values().all(Vec::is_empty);
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
    /// Knows who is told outside.
    approvals: Arc<Approvals>,
    stopper: Weak<dyn Stopper>,
    /// The budgets that hold for each session that was seen running.
    lines: HashMap<SessionId, Vec<Arc<Holder>>>,
    /// Since when those are remembered.
    read_at: Instant,
    /// The budgets that were said to be nearly used up.
    warned: HashMap<SessionId, Budget>,
    /// The budgets that were said to be used up.
    stopped: HashMap<SessionId, Budget>,
}

impl Treasurer {
    /// Looks at every budget above a running chat.
    async fn look(&mut self) -> Result<(), StoreError> {
        if self.read_at.elapsed() > LINES_FOR {
            self.lines.clear();
            self.read_at = Instant::now();
        }
        let mut running: HashMap<SessionId, (Arc<Holder>, Vec<SessionId>)> = HashMap::new();
        for status in [SessionStatus::Running, SessionStatus::AwaitingPermission] {
            let mut next = Some(PageRequest::first(limits::MAX_PAGE_ITEMS));
            while let Some(page) = next {
                let filter = SessionFilter { status: Some(status), ..SessionFilter::default() };
                let found = self.store.sessions(filter, page).await?;
                for session in &found.items {
                    for holder in self.line(session.id).await? {
                        running
                            .entry(holder.id)
                            .or_insert_with(|| (holder, Vec::new()))
                            .1
                            .push(session.id);
                    }
                }
                next = page.then(found.next);
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
        let worst = match holder.worst(&*self.store, running).await {
            Ok(worst) => worst,
            Err(StoreError::NotFound { .. }) => return Ok(()),
            Err(error) => return Err(error),
        };
        if let Some(what) = worst.used_up() {
            if self.stopped.get(&holder.id) != Some(&holder.budget) {
                self.record(HookEvent::BudgetStopped, holder, &worst).await?;
                self.stopped.insert(holder.id, holder.budget);
            }
            let reason =
                if what == super::WALL_TIME { StopReason::TimedOut } else { StopReason::Budget };
            let Some(stopper) = self.stopper.upgrade() else { return Ok(()) };
            for session in running {
                let words = format!("the budget of {} for {what} is used up", holder.name);
                stopper.stop(*session, reason, words);
            }
        } else if worst.share >= WARN_AT && self.warned.get(&holder.id) != Some(&holder.budget) {
            self.record(HookEvent::BudgetWarned, holder, &worst).await?;
            self.warned.insert(holder.id, holder.budget);
            let words = format!(
                "{:.0} % of the budget of {} for {} is used up; at 100 % everything below it is \
                 stopped",
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

    /// Writes into the audit how far a budget is used, and tells the webhooks that want to hear it.
    /// If a restarted server notices the same again, the message has the same id.
    async fn record(
        &self,
        event: HookEvent,
        holder: &Holder,
        worst: &Worst,
    ) -> Result<(), StoreError> {
        let used = BudgetUsed {
            session: NamedSession { id: holder.id, name: holder.name.clone() },
            budget: holder.budget,
            of: worst.what.to_owned(),
            used: worst.share,
        };
        let body = JsonText::of(&used)?;
        // The id of the message is made of this text, so its keys stay sorted as they were in every
        // version.
        let what = format!("{} {}", holder.id, JsonText::of(&holder.budget)?.to_value());
        let told = self.approvals.hooks.tell_once(event, &what, || HookBody::Budget(used))?;
        let line = AuditLine {
            at: UnixMillis::now(),
            kind: event.to_string(),
            session: Some(holder.id),
            body,
        };
        let mut changes = vec![Change::AppendAudit(line)];
        changes.extend(told.into_iter().map(Change::Enqueue));
        self.store.commit(changes, Priority::Normal).await.map(|_| ())
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
            // The chat has just ended, so there is nobody to tell; or another server runs it, and
            // that server tells it.
            Ok(_)
            | Err(
                StoreError::Conflict { .. }
                | StoreError::NotFound { .. }
                | StoreError::Fenced { .. },
            ) => Ok(()),
            Err(error) => Err(error),
        }
    }
}

impl Holder {
    /// Returns which limit of the budget is used up furthest. Time counts for the chats of
    /// `running`, up to now.
    async fn worst(&self, store: &dyn Store, running: &[SessionId]) -> Result<Worst, StoreError> {
        let mut spent = store.spend(self.id).await?.subtree;
        if self.budget.wall_secs.is_some() {
            let now = UnixMillis::now();
            for session in running {
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
