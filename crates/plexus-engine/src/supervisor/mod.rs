//! The supervisor: which sessions have a child right now, and who starts, wakes and ends them.
//!
//! One process of the agent at most serves a session: two that resume one conversation at the same
//! time would both write to it, and nothing in the agent prevents it. A lock for each session keeps
//! starts in line; the runs themselves are tasks of their own.
//!
//! - this file: serving chats, keeping children and ending them;
//! - [`prestart`]: agents that are started before their first chat;
//! - [`reattach`]: runs that an earlier server left;
//! - [`waking`]: agents that were parked.

mod prestart;
mod reattach;
mod waking;

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use plexus_core::{ApprovalId, CallError, SessionId};
use plexus_shim::layout::RunDir;
use plexus_store::{
    Change, Chat, ChatStatus, EndChat, Ending, Priority, RunKey, Store, StoreError, Trace,
};
use plexus_wire::{ChatEvent, SessionsHealth};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use crate::approvals::Approvals;
use crate::event::ToNewEvent;
use crate::parking::memory_is_short;
use crate::prompt::{Prompt, prompt_of};
use crate::run::{COMMAND_QUEUE, Command, Keeping, Run, RunHandle, RunKeeper, Taken};
use crate::settings::Settings;
use crate::start::{StartError, Starter};
use crate::wait::STORE_RETRY;
pub use prestart::{PRESTART_MEMORY_BYTES, memory_allows};
use waking::Refused;

/// How often leases are touched and idle children looked at. The shim gives an idle child minutes,
/// not seconds.
const UPKEEP: Duration = Duration::from_secs(5);

/// How often something is looked at that is about to change.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// How often it is looked whether a child that has just finished makes room, before a chat is
/// refused.
const LOOKS_FOR_ROOM: u32 = 10;

/// How often another idle child is asked to leave while a chat waits for a place.
const EVICT_AGAIN: Duration = Duration::from_secs(1);

/// How much longer than a child's own grace the end of a run may take before its caller is told to
/// come back: killing takes a second or two, and storing the last words waits for a disk that is
/// full.
const END_PATIENCE: Duration = Duration::from_secs(10);

/// A run was asked to end and has not ended yet.
#[derive(Debug)]
pub struct StillEnding;

impl From<StillEnding> for CallError {
    fn from(_: StillEnding) -> Self {
        Self::unavailable("end the agent: its last words could not be stored yet")
            .with_hint("it is being ended; try again, and look whether the disk is full")
    }
}

/// Holds every live run.
pub struct Supervisor {
    store: Arc<dyn Store>,
    /// Knows who is told outside that a chat has ended.
    approvals: Arc<Approvals>,
    settings: Arc<Settings>,
    starter: Starter,
    shutdown: CancellationToken,
    live: Mutex<HashMap<SessionId, RunHandle>>,
    starts: Mutex<HashMap<SessionId, Arc<tokio::sync::Mutex<()>>>>,
    places: Arc<Semaphore>,
    /// Sessions whose agents are being started before their first chat.
    prestarting: Mutex<HashSet<SessionId>>,
    /// Parked agents that are being woken.
    waking: Mutex<HashSet<ApprovalId>>,
    /// Agents of other servers that could not be woken here.
    refused: Mutex<HashMap<ApprovalId, Refused>>,
    tasks: TaskTracker,
    /// Set when the server stops or ends its children: nothing is started from then on.
    draining: CancellationToken,
    this: Weak<Supervisor>,
}

impl Supervisor {
    pub(crate) fn new(starter: Starter) -> Arc<Self> {
        let tools = starter.tools.clone();
        let places = Arc::new(Semaphore::new(tools.settings.max_running));
        let draining = tools.shutdown.child_token();
        Arc::new_cyclic(|this| Self {
            store: tools.store,
            approvals: tools.approvals,
            settings: tools.settings,
            shutdown: tools.shutdown,
            starter,
            live: Mutex::default(),
            starts: Mutex::default(),
            places,
            prestarting: Mutex::default(),
            waking: Mutex::default(),
            refused: Mutex::default(),
            tasks: TaskTracker::new(),
            draining,
            this: this.clone(),
        })
    }

    /// Says whether another chat could start now: the session's own warm child, a free place, or a
    /// warm child that can make room.
    ///
    /// A chat's end is in the store a moment before its child is known to be idle here, and whoever
    /// saw that end may ask at once.
    pub async fn has_room_for(&self, session: SessionId) -> bool {
        for _ in 0..LOOKS_FOR_ROOM {
            if self.has_room_now(session) {
                return true;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
        self.has_room_now(session)
    }

    fn has_room_now(&self, session: SessionId) -> bool {
        let live = self.live();
        live.contains_key(&session)
            || self.places.available_permits() > 0
            || live.values().any(|run| run.facts.idle_since().is_some())
    }

    /// Has a chat served that is in the store. Returns at once; whatever goes wrong ends the chat
    /// with the reason.
    pub fn serve(&self, session: SessionId, chat: u32) {
        let Some(this) = self.this.upgrade() else { return };
        let span = tracing::info_span!("serve_chat", %session, chat);
        let serving = async move {
            if let Err(error) = this.serve_chat(session, chat).await {
                tracing::warn!(%session, chat, %error, "a chat could not be started");
                this.fail_chat(session, chat, &error, Vec::new()).await;
            }
        };
        self.tasks.spawn(serving.instrument(span));
    }

    async fn serve_chat(&self, id: SessionId, number: u32) -> Result<(), StartError> {
        let lock = self.start_lock(id);
        let _in_line = lock.lock().await;
        let chat = self.store.chat(id, Some(number)).await?;
        if chat.status != ChatStatus::Running {
            return Ok(());
        }
        let prompt = prompt_of(&*self.store, id, number).await?;
        let keeping = match chat.trace {
            Trace::Kept => Keeping::Kept,
            Trace::Ephemeral => Keeping::Ephemeral,
        };
        while let Some(handle) = self.handle(id) {
            if keeping == Keeping::Kept && self.offer(&handle, &chat, &prompt).await == Taken::Yes {
                return Ok(());
            }
            // It leaves, or is about to: two processes must not share a conversation.
            let _leaving = handle.commands.send(Box::new(Command::Close)).await;
            if !handle.wait_for_end().await {
                // The server stops; the chat is served by the next one.
                return Ok(());
            }
            self.forget(handle.key);
        }
        let session = self.store.session(id).await?;
        let Some(place) = self.place().await else { return Ok(()) };
        // Waiting for a place may take long, and the chat may have been cancelled meanwhile.
        if self.store.chat(id, Some(number)).await?.status != ChatStatus::Running {
            return Ok(());
        }
        let run = self.starter.start(self.keeper(), &session, &chat, &prompt, keeping).await?;
        self.adopt(run, Some(place));
        self.end_if_unwanted(id, number).await;
        Ok(())
    }

    /// Offers a chat to the session's warm child.
    async fn offer(&self, handle: &RunHandle, chat: &Chat, prompt: &Prompt) -> Taken {
        let start = match handle.facts.is_prestarted() {
            true => self.start_digest(handle.key.session).await,
            false => None,
        };
        let (taken, answer) = oneshot::channel();
        let command = Box::new(Command::Chat {
            chat: chat.number,
            prompt_uuid: chat.prompt_uuid,
            prompt: prompt.clone(),
            start,
            taken,
        });
        match handle.commands.send(command).await {
            Ok(()) => answer.await.unwrap_or(Taken::No),
            Err(_) => Taken::No,
        }
    }

    /// Takes a place among the running children, asking idle ones to leave while there is none.
    /// `None` when the server stops.
    async fn place(&self) -> Option<OwnedSemaphorePermit> {
        loop {
            if self.draining.is_cancelled() {
                return None;
            }
            if self.places.available_permits() == 0 {
                self.evict_longest_idle();
            }
            tokio::select! {
                place = Arc::clone(&self.places).acquire_owned() => return place.ok(),
                // Another child may have gone idle meanwhile.
                () = tokio::time::sleep(EVICT_AGAIN) => {}
                () = self.draining.cancelled() => return None,
            }
        }
    }

    /// Gives a run its task.
    fn adopt(&self, run: Run, place: Option<OwnedSemaphorePermit>) {
        let (commands, queue) = mpsc::channel(COMMAND_QUEUE);
        let (ended, ended_seen) = watch::channel(false);
        let (facts, held) = (Arc::clone(&run.facts), run.held.clone());
        let handle = RunHandle { key: run.key, commands, facts, ended: ended_seen, held };
        self.live().insert(run.key.session, handle);
        let span = tracing::info_span!("run", session = %run.key.session, run = run.key.n);
        // Boxed: the task would keep room for every stage through which the run is moved.
        let run = Box::new(run);
        let running = async move {
            let _place = place;
            run.run(queue, ended).await;
        };
        self.tasks.spawn(running.instrument(span));
    }

    /// Ends a chat that never got a child.
    async fn fail_chat(
        &self,
        session: SessionId,
        chat: u32,
        error: &StartError,
        also: Vec<Change>,
    ) {
        let message = error.to_string();
        loop {
            let ended = async {
                let event = ChatEvent::Error { message: message.clone() }.to_new_event()?;
                let ending = Ending::Failed(message.clone());
                let of = self.store.session(session).await?;
                let mut changes = also.clone();
                changes.extend(self.approvals.hooks.chat_ended(&of, chat, &ending, None)?);
                changes.push(Change::EndChat(EndChat {
                    session,
                    chat,
                    ending,
                    usage: None,
                    event,
                }));
                self.store.commit(changes, Priority::Urgent).await
            };
            match ended.await {
                Err(StoreError::Unavailable { .. } | StoreError::Busy { .. }) => {
                    tokio::time::sleep(STORE_RETRY).await
                }
                Ok(_) => return,
                Err(error) => {
                    tracing::warn!(%session, chat, %error, "a chat that could not start could not \
                        be ended either");
                    return;
                }
            }
        }
    }

    /// Whether the chat of a session is being ended, or its process: it may ask nothing more, and
    /// gets no allow. A process may live on for a while after its chat has ended.
    #[must_use]
    pub fn is_stopping(&self, session: SessionId) -> bool {
        let ends = |run: &RunHandle| run.facts.is_stopping() || run.facts.is_closing();
        self.live().get(&session).is_some_and(ends)
    }

    /// Returns the live run of a session.
    pub fn handle(&self, session: SessionId) -> Option<RunHandle> {
        self.live().get(&session).cloned()
    }

    /// Ends the runs of these sessions and waits until nothing of them lives.
    ///
    /// # Errors
    /// [`StillEnding`] when that takes too long, for example because the disk is full and their
    /// last words cannot be stored.
    pub async fn end(&self, sessions: &[SessionId], reason: &str) -> Result<(), StillEnding> {
        let handles: Vec<RunHandle> = sessions.iter().filter_map(|id| self.handle(*id)).collect();
        let ending = async {
            for handle in &handles {
                let kill = Command::Kill { reason: reason.to_owned() };
                let _gone = handle.commands.send(Box::new(kill)).await;
            }
            for handle in &handles {
                handle.wait_for_end().await;
            }
        };
        let patience = self.settings.grace + END_PATIENCE;
        tokio::time::timeout(patience, ending).await.map_err(|_| StillEnding)
    }

    /// Ends every child, for `stop --children`.
    pub(crate) async fn end_all(&self, reason: &str) {
        self.draining.cancel();
        // A start that was under way may still add one.
        loop {
            let sessions: Vec<SessionId> = self.live().keys().copied().collect();
            if sessions.is_empty() || self.shutdown.is_cancelled() {
                return;
            }
            if self.end(&sessions, reason).await.is_err() {
                tracing::warn!(
                    children = self.count(),
                    "some children have not ended; they are left to the next server"
                );
                return;
            }
        }
    }

    /// Returns every live run.
    pub(crate) fn handles(&self) -> Vec<RunHandle> {
        self.live().values().cloned().collect()
    }

    /// Returns the name of every live run.
    pub(crate) fn live_keys(&self) -> Vec<RunKey> {
        self.live().values().map(|handle| handle.key).collect()
    }

    /// Waits until every run that lives now is over.
    pub(crate) async fn none_live(&self) {
        for handle in self.handles() {
            handle.wait_for_end().await;
        }
    }

    /// How many children live.
    pub fn count(&self) -> usize {
        self.live().len()
    }

    /// How many children live, how many of them wait for work, and how many more could start.
    pub fn health(&self) -> SessionsHealth {
        let live = self.live();
        let warm = live.values().filter(|run| run.facts.idle_since().is_some()).count();
        let room = self.places.available_permits() + warm;
        SessionsHealth { children: live.len() as u64, warm: warm as u64, room: room as u64 }
    }

    /// Forgets a run that has ended, unless another has taken its place.
    pub(crate) fn forget(&self, key: RunKey) {
        let mut live = self.live();
        if live.get(&key.session).is_some_and(|handle| handle.key == key) {
            live.remove(&key.session);
        }
    }

    /// Keeps the number of idle children within its bound.
    fn trim_warm(&self) {
        if self.count_idle() > self.settings.max_warm {
            self.evict_longest_idle();
        }
    }

    /// How many children wait for work and may go on waiting.
    fn count_idle(&self) -> usize {
        let live = self.live();
        let idle = |run: &&RunHandle| run.facts.idle_since().is_some() && !run.facts.is_closing();
        live.values().filter(idle).count()
    }

    fn evict_longest_idle(&self) {
        let live = self.live();
        let idle = live
            .values()
            .filter(|run| !run.facts.is_closing())
            .filter_map(|run| run.facts.idle_since().map(|since| (since, run)));
        if let Some((_, run)) = idle.min_by_key(|(since, _)| *since) {
            run.ask_to_leave();
        }
    }

    /// Touches leases and sends idle children home, until the server stops.
    pub(crate) async fn upkeep(self: Arc<Self>) {
        let mut tick = tokio::time::interval(UPKEEP);
        loop {
            tokio::select! {
                _ = tick.tick() => {}
                () = self.shutdown.cancelled() => return,
            }
            if self.settings.park_after.is_some() && memory_is_short() {
                self.park_what_waits();
            }
            for run in self.handles() {
                // With a leash, only the renewal of our own lease lengthens it.
                if self.settings.leash.is_none()
                    && let Err(error) = RunDir::new(self.settings.run_dir(run.key)).touch_lease()
                {
                    tracing::debug!(run = %run.key, %error, "could not touch a lease");
                }
                if run
                    .facts
                    .idle_since()
                    .is_some_and(|since| since.elapsed() > self.settings.warm_idle)
                {
                    run.ask_to_leave();
                }
            }
            let mut starts = self.starts.lock().unwrap_or_else(PoisonError::into_inner);
            starts.retain(|_, lock| Arc::strong_count(lock) > 1);
        }
    }

    /// What runs know of this supervisor.
    fn keeper(&self) -> Weak<dyn RunKeeper> {
        self.this.clone()
    }

    fn start_lock(&self, session: SessionId) -> Arc<tokio::sync::Mutex<()>> {
        let mut starts = self.starts.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(starts.entry(session).or_default())
    }

    fn live(&self) -> std::sync::MutexGuard<'_, HashMap<SessionId, RunHandle>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the tasks to notice that the server stops. Children go on.
    pub(crate) async fn stopped(&self) {
        self.tasks.close();
        self.tasks.wait().await;
    }
}

impl RunKeeper for Supervisor {
    fn run_ended(&self, key: RunKey, unserved: Option<u32>) {
        self.forget(key);
        if let Some(chat) = unserved {
            self.serve(key.session, chat);
        }
    }

    fn one_more_idle(&self) {
        self.trim_warm();
    }
}
