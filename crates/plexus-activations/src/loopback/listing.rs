//! What waits, what was decided and what was refused: `pending`, `wait_for_approval`, `history` and
//! `audit`.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use plexus_core::{Call, CallError, Caller, DeviceId, Reader};
use plexus_engine::approvals::shown::as_decision;
use plexus_engine::reading::long_poll::LongPoll;
use plexus_store::{
    ApprovalFilter, ApprovalRecord, DecidedBy, SessionRecord, Stage, StoreError, Topic,
};
use plexus_wire::{
    Approval, ApprovalPageParams, AuditList, DecidedApproval, DecisionList, PendingApprovals,
    SessionId, SessionRef, WaitForApprovalParams,
};

use super::{Loopback, handles};
use crate::claudecode::page;

impl Loopback {
    /// What a caller sees of approvals: the operator all, a session those of its strict
    /// descendants.
    pub(super) async fn filter(
        &self,
        caller: &Caller,
        only: SessionRef,
        stage: Stage,
    ) -> Result<ApprovalFilter, CallError> {
        let found = self
            .approvals
            .authority
            .find_any(caller, only.session_id, only.name.as_deref())
            .await?;
        let session = found.map(|session| session.id);
        Ok(ApprovalFilter { stage, session, under: caller.session(), ..ApprovalFilter::default() })
    }

    pub(super) async fn pending(
        &self,
        call: Call,
        params: ApprovalPageParams,
    ) -> Result<PendingApprovals, CallError> {
        let filter = self.filter(&call.caller, params.session(), Stage::Pending).await?;
        let found =
            self.store.approvals(filter, page(params.limit, params.cursor.as_deref())?).await?;
        Ok(PendingApprovals::Ok {
            approvals: self.shown(&found.items).await?,
            cursor: found.next.map(|next| next.to_string()),
            ended: Vec::new(),
            after: None,
        })
    }

    async fn shown(&self, records: &[ApprovalRecord]) -> Result<Vec<Approval>, CallError> {
        let mut shown = Vec::with_capacity(records.len());
        for record in records {
            let session = match self.store.session(record.session).await {
                Ok(session) => session,
                Err(StoreError::NotFound { .. }) => continue,
                Err(error) => return Err(error.into()),
            };
            shown.push(self.approvals.views.pending(record, &session)?);
        }
        Ok(shown)
    }

    async fn decisions(
        &self,
        records: &[ApprovalRecord],
        reader: Reader,
    ) -> Result<Vec<DecidedApproval>, CallError> {
        let mut sessions: HashMap<SessionId, Option<SessionRecord>> = HashMap::new();
        let mut devices: HashMap<DeviceId, Option<String>> = HashMap::new();
        let mut shown = Vec::with_capacity(records.len());
        for record in records {
            let session = match sessions.entry(record.session) {
                Entry::Occupied(known) => known.into_mut(),
                Entry::Vacant(unknown) => match self.store.session(record.session).await {
                    Ok(session) => unknown.insert(Some(session)),
                    Err(StoreError::NotFound { .. }) => unknown.insert(None),
                    Err(error) => return Err(error.into()),
                },
            };
            let decided = match session {
                Some(session) => self.approvals.views.decision(record, session, reader)?,
                None => as_decision(record),
            };
            let device = match record.decision.as_ref().map(|decision| decision.by) {
                Some(DecidedBy::Device(id)) => match devices.entry(id) {
                    Entry::Occupied(known) => known.into_mut().clone(),
                    Entry::Vacant(unknown) => unknown.insert(self.device_name(id).await?).clone(),
                },
                _ => None,
            };
            shown.push(DecidedApproval { device, ..decided });
        }
        Ok(shown)
    }

    /// Returns the name of a device, until it is pruned long after it was revoked.
    async fn device_name(&self, id: DeviceId) -> Result<Option<String>, CallError> {
        match self.store.device(id).await {
            Ok(device) => Ok(Some(device.name)),
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    pub(super) async fn wait_for_approval(
        &self,
        call: Call,
        params: WaitForApprovalParams,
    ) -> Result<PendingApprovals, CallError> {
        let wait = params.wait_ms.unwrap_or_default().duration();
        let filter = self.filter(&call.caller, params.session(), Stage::Pending).await?;
        let topic = match filter.session {
            Some(id) => Topic::PendingIn(id),
            None => Topic::Pending,
        };
        // Only a caller that passes `after` hears of chats that end.
        let ends = params.after.map(|_| self.scopes.watch(call.caller.session()));
        let mut poll = LongPoll::new(&self.turns, call.caller, wait)
            .on([self.store.watch(topic)])
            .on_scope(ends);
        let mut after = params.after;
        loop {
            let turn = poll.turn().await;
            let found = self.store.approvals(filter, page(None, None)?).await?;
            let mut ended = Vec::new();
            if let Some(known) = after {
                let news = self.news.asked_or_ended(&call.caller, known).await?;
                after = Some(news.after);
                let wanted = |session: &&SessionRecord| {
                    session.open_chat().is_none()
                        && filter.session.is_none_or(|only| only == session.id)
                };
                for session in news.sessions.iter().filter(wanted) {
                    ended.push(self.news.changed(session).await?);
                }
            }
            if !found.items.is_empty() || !ended.is_empty() {
                return Ok(PendingApprovals::Ok {
                    approvals: self.shown(&found.items).await?,
                    cursor: found.next.map(|next| next.to_string()),
                    ended,
                    after,
                });
            }
            if poll.is_over() {
                return Ok(PendingApprovals::Timeout { after });
            }
            poll.wait(turn, after.unwrap_or_default()).await;
        }
    }

    pub(super) async fn history(
        &self,
        call: Call,
        params: ApprovalPageParams,
    ) -> Result<DecisionList, CallError> {
        let filter = self.filter(&call.caller, params.session(), Stage::Decided).await?;
        let found =
            self.store.approvals(filter, page(params.limit, params.cursor.as_deref())?).await?;
        Ok(DecisionList {
            decisions: self.decisions(&found.items, call.reader).await?,
            cursor: found.next.map(|next| next.to_string()),
        })
    }

    pub(super) async fn audit(
        &self,
        call: Call,
        params: ApprovalPageParams,
    ) -> Result<AuditList, CallError> {
        let session = match (params.session_id, &params.name) {
            // Lines outlive the session that they tell of.
            (id, None) => id,
            (id, name) => {
                let authority = &self.approvals.authority;
                Some(authority.find(&call.caller, id, name.as_deref()).await?.id)
            }
        };
        let found =
            self.store.audit(session, page(params.limit, params.cursor.as_deref())?).await?;
        Ok(AuditList {
            lines: found.items.into_iter().map(handles::shown_line).collect(),
            cursor: found.next.map(|next| next.to_string()),
        })
    }
}
