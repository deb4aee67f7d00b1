//! What others hold of a run: a queue for commands, a few facts, and a way to wait for its end.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use plexus_core::{CallError, Caller};
use plexus_store::RunKey;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::state::StopReason;
use crate::prompt::Prompt;
use crate::wait::while_awake;

/// Commands that may wait for a run.
pub(crate) const COMMAND_QUEUE: usize = 256;

/// How long a run may take to answer. One that cannot store anything takes no commands meanwhile.
const ASK_PATIENCE: Duration = Duration::from_secs(15);

/// What others ask of a run.
#[derive(Debug)]
pub(crate) enum Command {
    /// Serve this chat next.
    Chat {
        chat: u32,
        prompt_uuid: Uuid,
        prompt: Prompt,
        /// What a process for it would be started with now, as a digest. A run that has served a
        /// chat is not asked about it.
        start: Option<String>,
        taken: oneshot::Sender<Taken>,
    },
    /// Put a message into the running chat.
    Send { by: Caller, text: String, done: oneshot::Sender<Result<(), CallError>> },
    /// End the running chat; answered once that wish is durable.
    Cancel { reason: String, done: oneshot::Sender<Result<(), CallError>> },
    /// Leave, unless a chat is running: close stdin.
    Close,
    /// End the child now, whatever it does.
    Kill { reason: String },
    /// Park the run now, if that is safe; answered with whether its process is being ended.
    Park { done: oneshot::Sender<bool> },
    /// End the child now; its chat has failed, for this reason.
    Stop { reason: StopReason, words: String },
}

/// Whether a run takes another chat.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Taken {
    Yes,
    /// It is about to leave; start another one.
    No,
}

/// What others hold of a run.
#[derive(Clone, Debug)]
pub struct RunHandle {
    pub(crate) key: RunKey,
    /// Boxed: a channel keeps room for 32 of them from the start, and every waiting run has one.
    pub(crate) commands: mpsc::Sender<Box<Command>>,
    pub(crate) facts: Arc<Facts>,
    pub(crate) ended: watch::Receiver<bool>,
    /// Cancelled when the run is not this server's any more: its child is ended, and nothing more
    /// is stored.
    pub(crate) held: CancellationToken,
}

impl RunHandle {
    /// Its number within its session.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.key.n
    }

    /// Waits until the run is over and everything of it is stored. `false`: its task is gone
    /// because the server stops, and the child may live.
    pub(crate) async fn wait_for_end(&self) -> bool {
        let mut ended = self.ended.clone();
        ended.wait_for(|ended| *ended).await.is_ok()
    }

    /// Asks an idle run to leave. It takes no more work from this moment on, so nobody asks it
    /// twice.
    pub(crate) fn ask_to_leave(&self) {
        match self.commands.try_send(Box::new(Command::Close)) {
            Ok(()) => self.facts.set_closing(),
            Err(_) => tracing::debug!(run = %self.key, "an idle child is busy; it is asked again"),
        }
    }

    /// Puts a message into the running chat.
    pub async fn send(&self, by: Caller, text: String) -> Result<(), CallError> {
        self.ask("send", |done| Command::Send { by, text, done }).await
    }

    /// Asks the running chat to end; returns once that wish is durable.
    pub async fn cancel(&self, reason: String) -> Result<(), CallError> {
        self.ask("cancel", |done| Command::Cancel { reason, done }).await
    }

    async fn ask(
        &self,
        what: &str,
        command: impl FnOnce(oneshot::Sender<Result<(), CallError>>) -> Command,
    ) -> Result<(), CallError> {
        let (done, answer) = oneshot::channel();
        let gone = || CallError::conflict(format_args!("{what}: the chat has just ended"));
        let asking = async {
            self.commands.send(Box::new(command(done))).await.map_err(|_| gone())?;
            answer.await.map_err(|_| gone())?
        };
        while_awake(ASK_PATIENCE, asking).await.unwrap_or_else(|_| {
            Err(CallError::unavailable(format_args!("{what}: the run does not answer"))
                .with_hint("try again, and look whether the disk is full"))
        })
    }
}

/// What others may know of a run without asking it.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    idle_since: Mutex<Option<Instant>>,
    prestarted: AtomicBool,
    stopping: AtomicBool,
    closing: AtomicBool,
    journal_bytes: AtomicU64,
}

impl Facts {
    /// Since when it waits for work.
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        *self.idle_since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_idle(&self, since: Option<Instant>) {
        *self.idle_since.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }

    /// Whether it was started before its first chat, and has had none yet.
    pub(crate) fn is_prestarted(&self) -> bool {
        self.prestarted.load(Ordering::Acquire)
    }

    pub(super) fn set_prestarted(&self, is_prestarted: bool) {
        self.prestarted.store(is_prestarted, Ordering::Release);
    }

    /// Whether its chat or the whole run is being ended.
    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    pub(super) fn set_stopping(&self, is_stopping: bool) {
        self.stopping.store(is_stopping, Ordering::Release);
    }

    /// Whether it takes no more work.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    pub(super) fn set_closing(&self) {
        self.closing.store(true, Ordering::Release);
    }

    /// How much of its journal this server has read.
    pub(super) fn journal_bytes(&self) -> u64 {
        self.journal_bytes.load(Ordering::Relaxed)
    }

    pub(super) fn add_journal_bytes(&self, bytes: usize) {
        self.journal_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
    }
}
