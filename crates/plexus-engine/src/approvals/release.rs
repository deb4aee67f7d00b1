//! Answers waiting requests by rules and modes that came after them.

use plexus_core::{ApprovalId, SessionId};
use plexus_store::{
    Again, ApprovalFilter, ApprovalRecord, ApprovalStatus, Change, Fresh, PageRequest, Priority,
    Stage, StoreError, UnixMillis, UseRule, limits,
};
use serde_json::Value;

use super::Approvals;
use super::judge::Judgement;
use crate::authority::Deed;
use crate::replan::Replans;
use crate::session::SessionConfig;

impl Approvals {
    /// Answers every pending request that rules or modes now decide, and returns their ids. `under`
    /// and `asked_until` limit which requests are considered. Each is committed on its own, and one
    /// that cannot be judged keeps waiting and holds up no other.
    pub async fn release(
        &self,
        under: Option<SessionId>,
        asked_until: Option<UnixMillis>,
        mut wanted: impl FnMut(&ApprovalRecord) -> bool + Send,
    ) -> Result<Vec<ApprovalId>, StoreError> {
        let filter = ApprovalFilter {
            stage: Stage::Pending,
            under,
            asked_until,
            ..ApprovalFilter::default()
        };
        let mut released = Vec::new();
        let mut next = Some(PageRequest::first(limits::MAX_PAGE_ITEMS));
        while let Some(page) = next {
            let found = self.store.approvals(filter, page).await?;
            for record in &found.items {
                if !wanted(record) {
                    continue;
                }
                match self.release_one(record).await {
                    Ok(true) => released.push(record.id),
                    Ok(false) => {}
                    Err(error @ StoreError::Corrupt { .. }) => {
                        tracing::warn!(approval = %record.id, %error, "a request could not be \
                            judged; it waits for an answer");
                    }
                    Err(error) => return Err(error),
                }
            }
            next = page.then(found.next);
        }
        Ok(released)
    }

    /// Lists the pending requests, everywhere or below a session.
    pub async fn waiting(&self, under: Option<SessionId>) -> Result<Vec<ApprovalId>, StoreError> {
        let filter = ApprovalFilter { stage: Stage::Pending, under, ..ApprovalFilter::default() };
        let mut waiting = Vec::new();
        let mut next = Some(PageRequest::first(limits::MAX_PAGE_ITEMS));
        while let Some(page) = next {
            let found = self.store.approvals(filter, page).await?;
            waiting.extend(found.items.iter().map(|record| record.id));
            next = page.then(found.next);
        }
        Ok(waiting)
    }

    /// Decides one pending request by the rules and modes in force. Returns whether this call
    /// decided it.
    pub(super) async fn release_one(&self, record: &ApprovalRecord) -> Result<bool, StoreError> {
        if !self.is_judged_here(record).await? {
            return Ok(false);
        }
        let mut replans = Replans::default();
        while replans.once_more() {
            let session = match self.store.session(record.session).await {
                Ok(session) => session,
                Err(StoreError::NotFound { .. }) => return Ok(false),
                Err(error) => return Err(error),
            };
            let config = SessionConfig::of(&session)?;
            let input: Value = record.input.read()?;
            let tool = self.views.tools.read(&config, &record.tool_name, &input);
            let deed = Deed::of(record, &config, &tool);
            let judgement = self.judge(&session, &deed).await?;
            let Some((verdict, by)) = judgement.at_once() else { return Ok(false) };
            let why = self.told(&judgement, &deed).await?;
            let mut changes = self.uses(&judgement, UnixMillis::now());
            // Several tasks may judge one request. Only the one that decides counts the rule as
            // used.
            let again = Again::Refused;
            changes.push(self.decision_on(record, None, verdict, by, Some(why), again)?);
            match self.store.commit(changes, Priority::Urgent).await {
                Ok(committed) => {
                    let Some((record, fresh)) = committed.approval() else { return Ok(false) };
                    self.waited.note(record, fresh);
                    return Ok(fresh == Fresh::Made);
                }
                // Somebody else decided first, or a rule is gone and the remaining rules are asked
                // again.
                Err(StoreError::Conflict { .. } | StoreError::NotFound { .. }) => {
                    match self.store.approval(record.id).await {
                        Ok(record) if record.status == ApprovalStatus::Pending => {}
                        Ok(_) | Err(StoreError::NotFound { .. }) => return Ok(false),
                        Err(error) => return Err(error),
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }

    /// Builds the changes that count a judgement's rules as used. Rules from a file have no row and
    /// are counted immediately.
    pub(super) fn uses(&self, judgement: &Judgement, now: UnixMillis) -> Vec<Change> {
        let mut changes = Vec::new();
        for id in judgement.used.iter().copied() {
            if self.rulebook.is_from_file(id) {
                self.rulebook.use_file_rule(id);
            } else {
                changes.push(Change::UseRule(UseRule { id, now }));
            }
        }
        changes
    }
}
