//! Applies rules and modes that came through another server to the questions that wait here, within
//! a second.
//!
//! A call is judged only on the machine of its agent, because where a path leads depends on that
//! machine's files. So a server that receives a rule leaves the questions of other servers' agents
//! alone, and those servers poll for new rules.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::{Duration, Instant};

use plexus_core::ApprovalId;
use plexus_store::{
    ApprovalFilter, ApprovalRecord, PageRequest, RunKey, Stage, StoreError, limits,
};

use super::Approvals;

/// How often a server that shares its store polls for rules and modes that came through another.
pub(super) const LOOK_EVERY: Duration = Duration::from_secs(1);

/// What each waiting question was last judged by: the rules and the revision of its session.
#[derive(Default)]
pub(super) struct Rejudge {
    judged: HashMap<ApprovalId, (u64, u64)>,
    looked_at: Option<Instant>,
}

impl Rejudge {
    /// Judges again each question that waits here and was judged by rules that have changed.
    pub(super) async fn look(&mut self, approvals: &Approvals) -> Result<(), StoreError> {
        // Every question wakes the caller of this function, but other servers' rules need only be
        // polled now and then.
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
                // This includes a question that is new to us: the rules may have changed after its
                // opening judged it.
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

/// Hashes the ids of the stored rules. A stored rule never changes, so the ids identify the set.
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
    /// Returns whether the agent that asks belongs to this server, or to none.
    pub(super) async fn is_judged_here(&self, record: &ApprovalRecord) -> Result<bool, StoreError> {
        let (Some(lease), Some(n)) = (self.store.lease(), record.run) else { return Ok(true) };
        match self.store.run(RunKey { session: record.session, n }).await {
            Ok(run) => Ok(run.server.is_none_or(|server| server == lease.server)),
            Err(StoreError::NotFound { .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}
