//! Agents that are started before their first chat, so that its first event comes as soon as that
//! of a later one.
//!
//! Such a child is idle like a child that has served a chat: it takes a place, counts as idle and
//! leaves when the place is needed. It is worth less than a child that has worked, so no such child
//! is ended to make room for it.

use std::sync::{Arc, PoisonError};

use plexus_core::SessionId;
use plexus_store::StoreError;
use tracing::Instrument as _;

use super::Supervisor;
use crate::parking::available_memory;
use crate::settings::Prestart;
use crate::start::StartError;

/// The memory that must be available for an agent to be started on the chance that it gets a
/// prompt. The largest of them takes about 200 MB, and four of them may wait.
pub const PRESTART_MEMORY_BYTES: u64 = 2 * 1024 * 1024 * 1024;

impl Supervisor {
    /// Has the agent of a new session started before its first chat, where the session or else the
    /// server wants that and another child may be idle. Returns at once; whatever goes wrong is
    /// logged, and the first chat starts a process of its own.
    pub fn prestart(&self, session: SessionId, wanted: Option<bool>) {
        let wanted = wanted.unwrap_or_else(|| match self.settings.prestart {
            Prestart::On => true,
            Prestart::Off => false,
            Prestart::Auto => memory_allows(),
        });
        let Some(this) = self.this.upgrade() else { return };
        if !wanted || !self.has_room_to_prestart(session) {
            return;
        }
        let span = tracing::info_span!("prestart", %session);
        let work = async move {
            match this.prestart_now(session).await {
                Ok(()) => {}
                // It was deleted, or another server was first.
                Err(StartError::Store(
                    error @ (StoreError::NotFound { .. }
                    | StoreError::Conflict { .. }
                    | StoreError::Fenced { .. }),
                )) => {
                    tracing::debug!(%error, "an agent was not started before its first chat");
                }
                Err(error) => {
                    tracing::warn!(%error, "an agent could not be started before its first chat");
                }
            }
            this.prestarting.lock().unwrap_or_else(PoisonError::into_inner).remove(&session);
        };
        self.tasks.spawn(work.instrument(span));
    }

    /// Whether the agent of a session was started before its first chat, and has none yet.
    #[must_use]
    pub fn waits_for_first_chat(&self, session: SessionId) -> bool {
        self.live().get(&session).is_some_and(|run| run.facts.is_prestarted())
    }

    /// Notes that an agent is being started, unless there are as many idle children as may be.
    fn has_room_to_prestart(&self, session: SessionId) -> bool {
        let mut prestarting = self.prestarting.lock().unwrap_or_else(PoisonError::into_inner);
        let has_room = self.count_idle() + prestarting.len() < self.settings.max_warm;
        has_room && prestarting.insert(session)
    }

    async fn prestart_now(&self, id: SessionId) -> Result<(), StartError> {
        let lock = self.start_lock(id);
        let _in_line = lock.lock().await;
        if self.draining.is_cancelled() || self.handle(id).is_some() {
            return Ok(());
        }
        let session = self.store.session(id).await?;
        // A chat that was faster is being served.
        if session.newest_chat.is_some() {
            return Ok(());
        }
        let Ok(place) = Arc::clone(&self.places).try_acquire_owned() else { return Ok(()) };
        let Some(run) = self.starter.prestart(self.keeper(), &session).await? else {
            return Ok(());
        };
        self.adopt(run, Some(place));
        plexus_fault::point!("prestart.adopted");
        self.trim_warm();
        if let Err(StoreError::NotFound { .. }) = self.store.session(id).await {
            // The result is not needed: a run that takes longer to end still ends by itself.
            let _later = self.end(&[id], "the session was deleted while its agent started").await;
        }
        Ok(())
    }

    /// Returns the digest of what the first process of a session would be started with now; `None`
    /// when none could be started. The reason is reported by the attempt to start one.
    pub(super) async fn start_digest(&self, id: SessionId) -> Option<String> {
        let digest = async {
            let session = self.store.session(id).await?;
            self.starter.start_digest(&session).await
        };
        let told = |error: &StartError| tracing::debug!(%error, "nothing could be started");
        digest.await.inspect_err(told).ok()
    }
}

/// Whether the machine has enough memory available; `true` when it does not report its memory.
#[must_use]
pub fn memory_allows() -> bool {
    available_memory().is_none_or(|bytes| bytes >= PRESTART_MEMORY_BYTES)
}
