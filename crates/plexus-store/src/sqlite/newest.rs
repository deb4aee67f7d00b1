//! The newest record of each approval and session that was just written.
//!
//! A commit about an approval wakes several tasks at once (the run that waits for the decision, the
//! parent that waits for the question), and each of them reads the same two rows. The writer has
//! both in its cache, while every reader would first have to fetch its pages again. So the writer
//! keeps the records here.
//!
//! What is here is what a read of the file would return. The writer takes out what a transaction
//! changes before it commits, and puts the new records in after the commit; in between, a reader
//! goes to the file. Nobody but the writer puts anything in.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use plexus_core::{ApprovalId, SessionId};
use rusqlite::Connection;

use crate::contract::{
    ApprovalFilter, ApprovalRecord, ApprovalStatus, Page, PageRequest, SessionRecord, Stage,
    StoreError, Topic,
};
use crate::tables::sql::ready;
use crate::tables::{approvals, sessions};

/// How many records of each kind are kept. Those that are woken read at once; later readers go to
/// the file.
const MAX_RECORDS: usize = 64;

/// The largest texts that a record may have to be kept, so that all of them take a few MiB at most.
const MAX_RECORD_BYTES: usize = 32 * 1024;

/// The records. Shared by the writer and the readers.
#[derive(Debug, Default)]
pub(crate) struct Newest(Mutex<Records>);

#[derive(Debug, Default)]
struct Records {
    /// The oldest first.
    approvals: VecDeque<ApprovalRecord>,
    sessions: VecDeque<SessionRecord>,
}

/// What a group of lists changes, and the records that it leaves.
#[derive(Debug, Default)]
pub(super) struct Fresh {
    approvals: Vec<ApprovalRecord>,
    sessions: Vec<SessionRecord>,
}

impl Fresh {
    /// Reads what a transaction leaves of the approvals that it changed, before its commit.
    pub(super) fn read(conn: &Connection, topics: &[Topic]) -> Result<Self, StoreError> {
        let mut fresh = Self::default();
        for topic in topics {
            let Topic::Approval(id) = topic else { continue };
            if fresh.approvals.iter().any(|known| known.id == *id) {
                continue;
            }
            let approval = match ready(approvals::get(conn, *id)) {
                Ok(approval) => approval,
                // Deleted by the same group, with its session.
                Err(StoreError::NotFound { .. }) => continue,
                Err(error) => return Err(error),
            };
            if !fresh.sessions.iter().any(|known| known.id == approval.session) {
                fresh.sessions.push(ready(sessions::get(conn, approval.session))?);
            }
            fresh.approvals.push(approval);
        }
        fresh.approvals.retain(|it| it.input.as_str().len() <= MAX_RECORD_BYTES);
        fresh.sessions.retain(|it| {
            [&it.config, &it.state, &it.metadata]
                .iter()
                .map(|text| text.as_str().len())
                .sum::<usize>()
                <= MAX_RECORD_BYTES
        });
        Ok(fresh)
    }
}

impl Newest {
    /// Returns a session, if it was just written.
    pub(crate) fn session(&self, id: SessionId) -> Option<SessionRecord> {
        self.records().sessions.iter().rfind(|it| it.id == id).cloned()
    }

    /// Returns an approval, if it was just written.
    pub(crate) fn approval(&self, id: ApprovalId) -> Option<ApprovalRecord> {
        self.records().approvals.iter().rfind(|it| it.id == id).cloned()
    }

    /// Returns the approval of an agent's request, if it was just written.
    pub(crate) fn approval_by_request(
        &self,
        session: SessionId,
        run: Option<u32>,
        request_id: &str,
    ) -> Option<ApprovalRecord> {
        let asked = |it: &&ApprovalRecord| {
            it.session == session && it.run == run && it.request_id == request_id && !it.retired
        };
        self.records().approvals.iter().rfind(asked).cloned()
    }

    /// Returns the page that a list of approvals would have, if the list is of what waits in one
    /// session, all of that was just written, and it is at most one.
    ///
    /// That is what a parent asks who waits for the next question of its child. The count in the
    /// session's record says whether all of it is here; where more than one waits, only the file
    /// knows their order.
    pub(crate) fn pending(
        &self,
        filter: &ApprovalFilter,
        page: PageRequest,
    ) -> Option<Page<ApprovalRecord>> {
        let ApprovalFilter {
            stage: Stage::Pending,
            session: Some(id),
            under,
            owner: None,
            run: None,
            asked_until: None,
        } = *filter
        else {
            return None;
        };
        if page.after.is_some() {
            return None;
        }
        let records = self.records();
        let session = records.sessions.iter().rfind(|it| it.id == id)?;
        // A child is a strict descendant; whether a grandchild is one, the file says.
        if session.pending_approvals > 1 || under.is_some_and(|it| session.parent != Some(it)) {
            return None;
        }
        let waits = |it: &&ApprovalRecord| it.session == id && it.status == ApprovalStatus::Pending;
        let items: Vec<_> = records.approvals.iter().filter(waits).cloned().collect();
        let is_all = u64::from(session.pending_approvals) == items.len() as u64;
        is_all.then_some(Page { items, next: None })
    }

    /// Takes out what the transaction changes that is about to be committed.
    pub(super) fn forget(&self, topics: &[Topic]) {
        let mut records = self.records();
        for topic in topics {
            match topic {
                // It may be deleted, and its approvals with it.
                Topic::Session(id) => {
                    records.sessions.retain(|it| it.id != *id);
                    records.approvals.retain(|it| it.session != *id);
                }
                Topic::Approval(id) => records.approvals.retain(|it| it.id != *id),
                _ => {}
            }
        }
    }

    /// Takes out everything: for work of the store itself, which names no topics.
    pub(super) fn forget_all(&self) {
        *self.records() = Records::default();
    }

    /// Puts in what a transaction left, after its commit.
    pub(super) fn keep(&self, fresh: Fresh) {
        let mut records = self.records();
        records.approvals.extend(fresh.approvals);
        records.sessions.extend(fresh.sessions);
        let surplus = records.approvals.len().saturating_sub(MAX_RECORDS);
        records.approvals.drain(..surplus);
        let surplus = records.sessions.len().saturating_sub(MAX_RECORDS);
        records.sessions.drain(..surplus);
    }

    fn records(&self) -> MutexGuard<'_, Records> {
        // A panic between two of its steps can only leave a record out.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
