//! Wakes parked agents whose question is decided, until the server stops.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use plexus_core::{ApprovalId, SessionId};
use plexus_store::{
    Again, ApprovalFilter, ApprovalRecord, ApprovalStatus, Change, DecidedBy, Fate, JsonText,
    PageRequest, ParkApproval, ParkStep, Parking, Priority, SettleApproval, Stage, StoreError,
    Topic, UnixMillis, Verdict, limits,
};
use tokio_util::sync::CancellationToken;

use super::{ParkedFacts, transcript};
use crate::approvals::Approvals;
use crate::supervisor::Supervisor;
use crate::wait::STORE_RETRY;

/// The longest time between two looks at the store, in case a wake is missed.
const LOOK_AGAIN: Duration = Duration::from_secs(30);

/// Whose agents are looked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Whose {
    /// This server's.
    Ours,
    /// Those of servers that were taken over.
    Nobodys,
}

/// Wakes every parked agent whose question is decided.
pub(crate) async fn keep(supervisor: Arc<Supervisor>, shutdown: CancellationToken) {
    let store = Arc::clone(supervisor.store());
    let mut wake = store.watch(Topic::Parked);
    loop {
        wake.seen();
        let pause = match look(&supervisor).await {
            Ok(()) => LOOK_AGAIN,
            Err(error) => {
                tracing::warn!(%error, "could not look for agents to wake; trying again");
                STORE_RETRY
            }
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            _ = wake.changed() => {}
            () = shutdown.cancelled() => return,
        }
    }
}

async fn look(supervisor: &Supervisor) -> Result<(), StoreError> {
    supervisor.put_back_waking(Whose::Nobodys).await?;
    let filter = ApprovalFilter { stage: Stage::ToWake, ..ApprovalFilter::default() };
    let mut next = Some(PageRequest::first(limits::MAX_PAGE_ITEMS));
    while let Some(page) = next {
        let found = supervisor.store().approvals(filter, page).await?;
        for record in &found.items {
            supervisor.wake(record);
        }
        next = page.then(found.next);
    }
    Ok(())
}

/// Lists what a session has on the way to having no process, or back.
pub(crate) async fn parked_of(
    approvals: &Approvals,
    session: SessionId,
) -> Result<Vec<ApprovalRecord>, StoreError> {
    let filter = ApprovalFilter {
        stage: Stage::Parked,
        session: Some(session),
        ..ApprovalFilter::default()
    };
    let page = PageRequest::first(limits::MAX_PAGE_ITEMS);
    Ok(approvals.store.approvals(filter, page).await?.items)
}

/// Builds the changes after which nothing wakes the agent of a session: its chat is ended without a
/// process.
///
/// # Errors
/// When the store cannot be read.
pub(crate) async fn close_parked(
    approvals: &Approvals,
    session: SessionId,
    why: &str,
) -> Result<Vec<Change>, StoreError> {
    let mut changes = Vec::new();
    for record in parked_of(approvals, session).await? {
        if record.parking != Some(Parking::Parked) {
            continue;
        }
        changes.push(match record.status {
            ApprovalStatus::Pending => approvals.decision_on(
                &record,
                None,
                Verdict::Cancel,
                DecidedBy::AgentEnded,
                Some(why.to_owned()),
                Again::Fine,
            )?,
            _ => void(&record),
        });
    }
    Ok(changes)
}

/// The decision reaches nobody any more.
pub(crate) fn void(record: &ApprovalRecord) -> Change {
    let (id, fate, at) = (record.id, Fate::Void, UnixMillis::now());
    Change::SettleApproval(SettleApproval { id, fate, at })
}

impl Supervisor {
    /// Parks agents again that were being woken and have no process: those of this server after it
    /// died, or those of a server that was taken over.
    pub(crate) async fn put_back_waking(&self, whose: Whose) -> Result<(), StoreError> {
        let Some(lease) = self.store().lease().map(Some).or((whose == Whose::Ours).then_some(None))
        else {
            return Ok(());
        };
        let owner = match whose {
            Whose::Ours => lease.map(|lease| lease.server),
            Whose::Nobodys => None,
        };
        let filter = ApprovalFilter { stage: Stage::Waking, ..ApprovalFilter::default() };
        let mut next = Some(PageRequest::first(limits::MAX_PAGE_ITEMS));
        while let Some(page) = next {
            let found = self.store().approvals(filter, page).await?;
            for record in &found.items {
                let chat = self.store().chat(record.session, record.chat).await?;
                let is_stuck = chat.server == owner && self.handle(record.session).is_none();
                if is_stuck && let Some(facts) = &record.parked {
                    let mut facts: ParkedFacts = facts.read()?;
                    facts.tries += 1;
                    let step = ParkStep::Again(JsonText::of(&facts)?);
                    let again = Change::ParkApproval(ParkApproval { id: record.id, step });
                    match self.store().commit(vec![again], Priority::Normal).await {
                        Ok(_) => {}
                        // Another server has done it, and perhaps has woken it since.
                        Err(StoreError::Conflict { .. } | StoreError::Fenced { .. })
                            if whose == Whose::Nobodys => {}
                        Err(error) => return Err(error),
                    }
                }
            }
            next = page.then(found.next);
        }
        Ok(())
    }

    /// Removes the copies of transcripts from which nobody is woken any more.
    pub fn drop_copies(&self, calls: &[ApprovalId]) {
        for call in calls {
            transcript::drop_copy(&self.settings().data_dir, *call);
        }
    }

    /// Removes copies of transcripts that nobody needs. It is called before a start picks up any
    /// run: a run that is being parked writes its copy before the approval says so, and would lose
    /// it to a later call.
    pub(crate) async fn drop_needless_copies(&self) -> Result<(), StoreError> {
        let filter = ApprovalFilter { stage: Stage::Parked, ..ApprovalFilter::default() };
        let mut needed = HashSet::new();
        let mut next = Some(PageRequest::first(limits::MAX_PAGE_ITEMS));
        while let Some(page) = next {
            let found = self.store().approvals(filter, page).await?;
            for record in &found.items {
                needed.insert(transcript::copy_path(&self.settings().data_dir, record.id));
            }
            next = page.then(found.next);
        }
        let folder = self.settings().data_dir.join("parked");
        for copy in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            if !needed.contains(&copy.path())
                && let Err(error) = std::fs::remove_file(copy.path())
            {
                tracing::debug!(%error, "could not remove the copy of a transcript");
            }
        }
        Ok(())
    }
}
