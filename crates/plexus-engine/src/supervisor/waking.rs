//! Agents that were parked: each gets a process again when its question is decided.

use std::sync::{Arc, PoisonError};
use std::time::{Duration, Instant};

use plexus_core::{ServerId, SessionId};
use plexus_store::{
    AppendEvents, ApprovalRecord, ApprovalStatus, Change, Chat, ChatStatus, Parking, Priority,
    Store, StoreError,
};
use plexus_wire::ChatEvent;
use tokio::sync::oneshot;
use tracing::Instrument as _;

use super::{END_PATIENCE, Supervisor};
use crate::event::ToNewEvent;
use crate::parking::ParkedFacts;
use crate::parking::waker::void;
use crate::replan::Replans;
use crate::run::Command;
use crate::settings::Settings;
use crate::start::StartError;

/// How long an agent that this server could not wake is left alone. Its directory may become what
/// it was, and comparing one takes a while.
const REFUSED_FOR: Duration = Duration::from_secs(30);

/// When and why this server did not wake an agent that another one parked.
pub(super) struct Refused {
    at: Instant,
    words: String,
}

impl Supervisor {
    pub(crate) fn store(&self) -> &Arc<dyn Store> {
        &self.store
    }

    pub(crate) fn settings(&self) -> &Settings {
        &self.settings
    }

    fn ours(&self) -> Option<ServerId> {
        self.store.lease().map(|lease| lease.server)
    }

    /// Whether this server may wake the agent of a chat: the chat is this server's, or belongs to
    /// no server because the one that had it was taken over.
    fn may_wake(&self, chat: &Chat) -> bool {
        let ours = self.ours();
        chat.server == ours || (ours.is_some() && chat.server.is_none())
    }

    /// Wakes the agent of a decided approval. Returns at once; whatever goes wrong ends the chat
    /// with the reason.
    pub(crate) fn wake(&self, record: &ApprovalRecord) {
        let Some(this) = self.this.upgrade() else { return };
        let refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        if refused.get(&record.id).is_some_and(|it| it.at.elapsed() < REFUSED_FOR) {
            return;
        }
        drop(refused);
        let mut waking = self.waking.lock().unwrap_or_else(PoisonError::into_inner);
        if !waking.insert(record.id) {
            return;
        }
        drop(waking);
        let (record, session) = (record.clone(), record.session);
        let span = tracing::info_span!("wake", %session, approval = %record.id);
        let work = async move {
            match this.wake_parked(&record).await {
                Ok(()) => {}
                // It is still parked, and the waker comes again.
                Err(StartError::Store(error)) => {
                    tracing::warn!(%error, "a parked agent could not be woken yet");
                }
                Err(error) => {
                    tracing::warn!(%error, "a parked agent could not be woken");
                    match this.is_for_others(&record).await {
                        Ok(true) => this.refuse_here(&record, &error).await,
                        Ok(false) => this.fail_parked(&record, &error).await,
                        Err(error) => tracing::warn!(%error, "its chat could not be read"),
                    }
                }
            }
            this.waking.lock().unwrap_or_else(PoisonError::into_inner).remove(&record.id);
        };
        self.tasks.spawn(work.instrument(span));
    }

    async fn wake_parked(&self, of: &ApprovalRecord) -> Result<(), StartError> {
        let Some(number) = of.chat else { return Ok(()) };
        let lock = self.start_lock(of.session);
        let _in_line = lock.lock().await;
        // The process that was parked may still be storing its end.
        while let Some(handle) = self.handle(of.session) {
            if !handle.wait_for_end().await {
                return Ok(());
            }
            self.forget(handle.key);
        }
        let Some(place) = self.place().await else { return Ok(()) };
        let mut replans = Replans::default();
        loop {
            let record = self.store.approval(of.id).await?;
            let is_due = record.parking == Some(Parking::Parked)
                && record.status != ApprovalStatus::Pending
                && record.void_at.is_none();
            let chat = self.store.chat(of.session, Some(number)).await?;
            if !is_due || !self.may_wake(&chat) {
                return Ok(());
            }
            if chat.status != ChatStatus::Running {
                self.store.commit(vec![void(&record)], Priority::Normal).await?;
                return Ok(());
            }
            let session = self.store.session(of.session).await?;
            match self.starter.wake(self.keeper(), &session, &chat, &record).await {
                Ok(run) => {
                    self.adopt(run, Some(place));
                    break;
                }
                // Another server was first.
                Err(StartError::Store(StoreError::Fenced { .. })) => return Ok(()),
                // The session was changed in this moment.
                Err(StartError::Store(error)) => replans.after(error)?,
                Err(error) => return Err(error),
            }
        }
        self.end_if_unwanted(of.session, number).await;
        Ok(())
    }

    /// Asks every run to park itself if that is safe, without waiting for it. A run that is too busy
    /// to take the request is asked at the next call.
    pub(super) fn park_what_waits(&self) {
        for handle in self.handles() {
            let (done, _nobody) = oneshot::channel();
            if handle.commands.try_send(Box::new(Command::Park { done })).is_err() {
                tracing::debug!(run = %handle.key, "a run is too busy to be parked");
            }
        }
    }

    /// Parks every run for which that is safe, and waits until their processes are gone. Returns
    /// how many there were.
    pub(crate) async fn park_all(&self) -> usize {
        let mut parking = Vec::new();
        for handle in self.handles() {
            let (done, answer) = oneshot::channel();
            if handle.commands.send(Box::new(Command::Park { done })).await.is_ok()
                && answer.await.unwrap_or(false)
            {
                parking.push(handle);
            }
        }
        let count = parking.len();
        let ended = async {
            for handle in parking {
                handle.wait_for_end().await;
            }
        };
        if tokio::time::timeout(self.settings.grace + END_PATIENCE, ended).await.is_err() {
            tracing::warn!(
                "some children that are being parked have not ended; the next server goes on"
            );
        }
        count
    }

    /// Whether a parked agent that could not be woken here may be woken by another server: nobody
    /// owns its chat, and another server parked it.
    async fn is_for_others(&self, record: &ApprovalRecord) -> Result<bool, StoreError> {
        let ours = self.ours();
        let chat = self.store.chat(record.session, record.chat).await?;
        let Some(facts) = &record.parked else { return Ok(false) };
        let facts: ParkedFacts = facts.read()?;
        let is_free = ours.is_some() && chat.server.is_none();
        Ok(is_free && facts.server.is_some() && facts.server != ours)
    }

    /// Says in its chat why this server cannot wake an agent, and leaves it to the others.
    async fn refuse_here(&self, record: &ApprovalRecord, error: &StartError) {
        let Some(chat) = record.chat else { return };
        let name = self.settings.node.as_ref().map_or("", |node| node.name.as_str());
        let words = format!(
            "the server {name} does not wake it: {error}; it stays parked for the server that \
             parked it, or until that has changed here"
        );
        let refused = Refused { at: Instant::now(), words: words.clone() };
        let before =
            self.refused.lock().unwrap_or_else(PoisonError::into_inner).insert(record.id, refused);
        if before.is_some_and(|before| before.words == words) {
            return;
        }
        let told = async {
            let events = vec![ChatEvent::notice(words).to_new_event()?];
            let append = AppendEvents { session: record.session, chat, events };
            self.store.commit(vec![Change::AppendEvents(append)], Priority::Normal).await
        };
        if let Err(error) = told.await {
            tracing::warn!(%error, "could not say why a parked agent is not woken here");
        }
    }

    /// Ends a chat whose parked agent cannot be woken. The decision reaches nobody.
    async fn fail_parked(&self, record: &ApprovalRecord, error: &StartError) {
        let Some(chat) = record.chat else { return };
        self.fail_chat(record.session, chat, error, vec![void(record)]).await;
        self.drop_copies(&[record.id]);
    }

    /// Looks once more, now that a cancel finds the run: one of the two sees the other.
    pub(super) async fn end_if_unwanted(&self, id: SessionId, number: u32) {
        let wanted = match self.store.chat(id, Some(number)).await {
            Ok(chat) => chat.status == ChatStatus::Running,
            Err(StoreError::NotFound { .. }) => false,
            // The child is there and serves the chat, whatever is wrong with the store for now.
            Err(_) => true,
        };
        if !wanted {
            // The result is not needed: a run that takes longer to end still ends by itself.
            let _later = self.end(&[id], "the chat was cancelled while its process started").await;
        }
    }
}
