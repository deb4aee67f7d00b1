//! Rules and modes that came through another server: what waits here is judged by them within a
//! second.
//!
//! A call is judged on the machine of its agent alone: where a path leads is a question of that
//! machine's files. So the server through which a rule comes leaves the questions of other servers'
//! agents to those, and they look for themselves.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use plexus_core::ApprovalId;
use plexus_store::{
    ApprovalFilter, ApprovalRecord, PageRequest, RunKey, Stage, StoreError, limits,
};

use super::Approvals;

/// How often a server that shares its store looks for what came through another.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(1);

/// By what each waiting question was judged: the rules and the state of its session.
#[derive(Default)]
pub(super) struct Rejudge {
    judged: HashMap<ApprovalId, (u64, u64)>,
    looked_at: Option<Instant>,
}

impl Rejudge {
    /// Judges again what waits here and was judged by other rules than stand now.
    pub(super) async fn look(&mut self, approvals: &Approvals) -> Result<(), StoreError> {
        // Every question wakes whoever calls this; the others' rules are worth a look once a while
        // only.
        if self.looked_at.is_some_and(|at| at.elapsed() < LOOK_EVERY) {
            return Ok(());
        }
        self.looked_at = Some(Instant::now());
        let mut waiting = HashMap::new();
        let mut rules = None;
        let filter = ApprovalFilter { stage: Stage::Pending, ..ApprovalFilter::default() };
        let mut next = Some(PageRequest::first(limits::MAX_PAGE_ITEMS));
        while let Some(page) = next {
            let found = approvals.store.approvals(filter, page).await?;
            for record in &found.items {
                if !approvals.is_judged_here(record).await? {
                    continue;
                }
                let rules = match rules {
                    Some(rules) => rules,
                    None => *rules.insert(fingerprint(approvals).await?),
                };
                let session = match approvals.store.session(record.session).await {
                    Ok(session) => session,
                    Err(StoreError::NotFound { .. }) => continue,
                    Err(error) => return Err(error),
                };
                let now = (rules, session.revision);
                // Also one that is new to us: the rules may have changed since it was judged at its
                // opening.
                if self.judged.get(&record.id) != Some(&now) {
                    approvals.release_one(record).await?;
                }
                waiting.insert(record.id, now);
            }
            next = page.then(found.next);
        }
        self.judged = waiting;
        Ok(())
    }
}

/// Tells one set of stored rules from another: a rule never changes, it comes and goes.
async fn fingerprint(approvals: &Approvals) -> Result<u64, StoreError> {
    let mut hasher = DefaultHasher::new();
    let mut next = Some(PageRequest::first(limits::MAX_PAGE_ITEMS));
    while let Some(page) = next {
        let found = approvals.store.rules(page).await?;
        found.items.iter().for_each(|rule| rule.rule.id.hash(&mut hasher));
        next = page.then(found.next);
    }
    Ok(hasher.finish())
}

impl Approvals {
    /// Whether the agent that asks is this server's, or nobody's.
    pub(super) async fn is_judged_here(&self, record: &ApprovalRecord) -> Result<bool, StoreError> {
        let (Some(lease), Some(n)) = (self.store.lease(), record.run) else { return Ok(true) };
        match self.store.run(RunKey { session: record.session, n }).await {
            Ok(run) => Ok(run.server.is_none_or(|server| server == lease.server)),
            Err(StoreError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
