//! The supervisor: which sessions have a child right now, and who starts, wakes and ends them.
//!
//! One process of the CLI at most serves a session: two that resume one conversation at the same time would both write to it, and nothing
//! in the CLI prevents it. A lock for each session keeps starts in line; the runs themselves are tasks of their own.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use plexus_core::{ApprovalId, CallError, SessionId};
use plexus_shim::layout::{LayoutError, PidFile, RunDir};
use plexus_store::{
    ApprovalRecord, ApprovalStatus, Chat, ChatStatus, EndChat, Ending, PageRequest, Priority,
    Run as StoredRun, RunKey, Session, SessionFilter, SessionStatus, StoreError, Topic, Trace,
};
use plexus_store::{Change, limits};
use plexus_wire::{ChatEvent, SessionsHealth};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::Instrument as _;

use super::Core;
use super::event::ToNewEvent;
use super::hold::Hold;
use super::launch::Channel;
use super::orphans;
use super::run::{COMMAND_QUEUE, Command, Keeping, Origin, Run, RunHandle, Taken};
use super::start::{self, StartError};
use crate::loopback::approvals::Courier;

/// How often leases are touched and idle children looked at. The shim gives an idle child minutes, not seconds.
const UPKEEP: Duration = Duration::from_secs(5);

/// How long a shim that was started by an earlier server may take until it has written its `pid.json`.
const LATE_SHIM: Duration = Duration::from_secs(5);

/// How often that is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// How often it is looked whether a child that has just finished makes room, before a chat is refused.
const LOOKS_FOR_ROOM: u32 = 10;

/// How often another idle child is asked to leave while a chat waits for a place.
const EVICT_AGAIN: Duration = Duration::from_secs(1);

/// How long a waiting question goes without looking at its row: one that is deleted with its session wakes nobody.
const DECISION_LOOK: Duration = Duration::from_secs(5);

/// How long to wait before a row that could not be read is looked at again.
const DECISION_RETRY: Duration = Duration::from_millis(250);

/// How much longer than a child's own grace the end of a run may take before its caller is told to
/// come back: killing takes a second or two, and storing the last words waits for a disk that is
/// full.
const END_PATIENCE: Duration = Duration::from_secs(10);

/// A run was asked to end and has not ended yet.
#[derive(Debug)]
pub(crate) struct StillEnding;

impl From<StillEnding> for CallError {
    fn from(_: StillEnding) -> Self {
        Self::unavailable("end the agent: its last words could not be stored yet")
            .with_hint("it is being ended; try again, and look whether the disk is full")
    }
}

/// Holds every live run.
pub(crate) struct Supervisor {
    core: Arc<Core>,
    live: Mutex<HashMap<SessionId, RunHandle>>,
    starts: Mutex<HashMap<SessionId, Arc<tokio::sync::Mutex<()>>>>,
    places: Arc<Semaphore>,
    tasks: TaskTracker,
    /// Set when the server stops or ends its children: nothing is started from then on.
    draining: CancellationToken,
    this: Weak<Supervisor>,
}

impl Supervisor {
    pub(crate) fn new(core: Arc<Core>) -> Arc<Self> {
        let places = Arc::new(Semaphore::new(core.settings.max_running));
        let draining = core.shutdown.child_token();
        Arc::new_cyclic(|this| Self {
            core,
            live: Mutex::default(),
            starts: Mutex::default(),
            places,
            tasks: TaskTracker::new(),
            draining,
            this: this.clone(),
        })
    }

    /// Says whether another chat could start now: the session's own warm child, a free place, or a warm child that can make room.
    ///
    /// A chat's end is in the store a moment before its child is known to be idle here, and whoever saw that end may ask at once.
    pub(crate) async fn has_room_for(&self, session: SessionId) -> bool {
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

    /// Has a chat served that is in the store. Returns at once; whatever goes wrong ends the chat with the reason.
    pub(crate) fn serve(&self, session: SessionId, chat: u32) {
        let Some(this) = self.this.upgrade() else { return };
        let span = tracing::info_span!("serve_chat", %session, chat);
        let serving = async move {
            if let Err(error) = this.serve_chat(session, chat).await {
                tracing::warn!(%session, chat, %error, "a chat could not be started");
                this.fail_chat(session, chat, &error).await;
            }
        };
        self.tasks.spawn(serving.instrument(span));
    }

    async fn serve_chat(&self, id: SessionId, number: u32) -> Result<(), StartError> {
        let lock = self.start_lock(id);
        let _in_line = lock.lock().await;
        let chat = self.core.store.chat(id, Some(number)).await?;
        if chat.status != ChatStatus::Running {
            return Ok(());
        }
        let prompt = self.core.prompt_text(id, number).await?;
        let keeping = match chat.trace {
            Trace::Kept => Keeping::Kept,
            Trace::Ephemeral => Keeping::Ephemeral,
        };
        while let Some(handle) = self.handle(id) {
            if keeping == Keeping::Kept && self.offer(&handle, &chat, &prompt).await == Taken::Yes {
                return Ok(());
            }
            // It leaves, or is about to: two processes must not share a conversation.
            let _leaving = handle.commands.send(Command::Close).await;
            if !handle.wait_for_end().await {
                // The server stops; the chat is served by the next one.
                return Ok(());
            }
            self.forget(handle.key);
        }
        let session = self.core.store.session(id).await?;
        let Some(place) = self.place().await else { return Ok(()) };
        // Waiting for a place may take long, and the chat may have been cancelled meanwhile.
        if self.core.store.chat(id, Some(number)).await?.status != ChatStatus::Running {
            return Ok(());
        }
        let run = start::start(&self.core, &session, &chat, &prompt, keeping).await?;
        self.adopt(run, Some(place));
        // Looked at once more, now that whoever cancels finds the run: one of the two sees the other.
        let wanted = match self.core.store.chat(id, Some(number)).await {
            Ok(chat) => chat.status == ChatStatus::Running,
            Err(StoreError::NotFound { .. }) => false,
            // The child is there and serves the chat, whatever is wrong with the store for now.
            Err(_) => true,
        };
        if !wanted {
            // Nobody waits here: a run that takes longer ends all the same.
            let _later = self.end(&[id], "the chat was cancelled while its process started").await;
        }
        Ok(())
    }

    /// Offers a chat to the session's warm child.
    async fn offer(&self, handle: &RunHandle, chat: &Chat, prompt: &str) -> Taken {
        let (taken, answer) = oneshot::channel();
        let command = Command::Chat {
            chat: chat.number,
            prompt_uuid: chat.prompt_uuid,
            prompt: prompt.to_owned(),
            taken,
        };
        match handle.commands.send(command).await {
            Ok(()) => answer.await.unwrap_or(Taken::No),
            Err(_) => Taken::No,
        }
    }

    /// Takes a place among the running children, asking idle ones to leave while there is none. `None` when the server stops.
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
        let running = async move {
            let _place = place;
            run.run(queue, ended).await;
        };
        self.tasks.spawn(running.instrument(span));
    }

    /// Ends a chat that never got a child.
    async fn fail_chat(&self, session: SessionId, chat: u32, error: &StartError) {
        let message = error.to_string();
        loop {
            let ended = async {
                let event = ChatEvent::Error { message: message.clone() }.to_new_event()?;
                let ending = Ending::Failed(message.clone());
                let of = self.core.store.session(session).await?;
                let mut changes = self.core.approvals.hooks.chat_ended(&of, chat, &ending, None)?;
                changes.push(Change::EndChat(EndChat {
                    session,
                    chat,
                    ending,
                    usage: None,
                    event,
                }));
                self.core.store.commit(changes, Priority::Urgent).await
            };
            match ended.await {
                Err(StoreError::Unavailable { .. } | StoreError::Busy { .. }) => {
                    tokio::time::sleep(Duration::from_secs(1)).await
                }
                Ok(_) => return,
                Err(error) => {
                    tracing::warn!(%session, chat, %error, "a chat that could not start could not be ended either");
                    return;
                }
            }
        }
    }

    /// Returns the live run of a session.
    pub(crate) fn handle(&self, session: SessionId) -> Option<RunHandle> {
        self.live().get(&session).cloned()
    }

    /// Ends the runs of these sessions and waits until nothing of them lives.
    ///
    /// # Errors
    /// [`StillEnding`] when that takes too long, for example because the disk is full and their
    /// last words cannot be stored.
    pub(crate) async fn end(
        &self,
        sessions: &[SessionId],
        reason: &str,
    ) -> Result<(), StillEnding> {
        let handles: Vec<RunHandle> = sessions.iter().filter_map(|id| self.handle(*id)).collect();
        let ending = async {
            for handle in &handles {
                let _gone = handle.commands.send(Command::Kill { reason: reason.to_owned() }).await;
            }
            for handle in &handles {
                handle.wait_for_end().await;
            }
        };
        let patience = self.core.settings.grace + END_PATIENCE;
        tokio::time::timeout(patience, ending).await.map_err(|_| StillEnding)
    }

    /// Ends every child, for `stop --children`.
    pub(crate) async fn end_all(&self, reason: &str) {
        self.draining.cancel();
        // A start that was under way may still add one.
        loop {
            let sessions: Vec<SessionId> = self.live().keys().copied().collect();
            if sessions.is_empty() || self.core.shutdown.is_cancelled() {
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

    /// Tells a run when one of its approvals is decided. One approval wakes one waiter.
    pub(crate) fn await_decision(&self, key: RunKey, id: ApprovalId) {
        let Some(handle) = self.handle(key.session).filter(|handle| handle.key == key) else {
            return;
        };
        let (core, shutdown) = (Arc::clone(&self.core), self.core.shutdown.clone());
        self.tasks.spawn(async move {
            tokio::select! {
                () = decided(&core, id) => {
                    // A run that is over needs no answer.
                    let _gone = handle.commands.send(Command::Answer(id)).await;
                }
                _over = handle.wait_for_end() => {}
                () = shutdown.cancelled() => {}
            }
        });
    }

    /// How many children live.
    pub(crate) fn count(&self) -> usize {
        self.live().len()
    }

    /// How many children live, how many of them wait for work, and how many more could start.
    pub(crate) fn health(&self) -> SessionsHealth {
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
    pub(crate) fn trim_warm(&self) {
        let idle = self
            .live()
            .values()
            .filter(|run| run.facts.idle_since().is_some() && !run.facts.is_closing())
            .count();
        if idle > self.core.settings.max_warm {
            self.evict_longest_idle();
        }
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
                () = self.core.shutdown.cancelled() => return,
            }
            for run in self.handles() {
                // With a leash, only the renewal of our own lease lengthens it.
                if self.core.settings.leash.is_none()
                    && let Err(error) =
                        RunDir::new(self.core.settings.run_dir(run.key)).touch_lease()
                {
                    tracing::debug!(run = %run.key, %error, "could not touch a lease");
                }
                if run
                    .facts
                    .idle_since()
                    .is_some_and(|since| since.elapsed() > self.core.settings.warm_idle)
                {
                    run.ask_to_leave();
                }
            }
            let mut starts = self.starts.lock().unwrap_or_else(PoisonError::into_inner);
            starts.retain(|_, lock| Arc::strong_count(lock) > 1);
        }
    }

    /// At start: picks up every run that has not ended, and starts every chat that has none.
    pub(crate) async fn reattach(&self) -> Result<usize, StoreError> {
        let mut runs = self.core.store.open_runs().await?;
        let ours = self.core.store.lease().map(|lease| lease.server);
        runs.retain(|run| run.server == ours);
        let count = runs.len();
        let mut unreachable = HashSet::new();
        for run in runs {
            if let Err(error) = self.pick_up(&run).await {
                // Its child may live: a second process on the same conversation would be worse than a chat that waits.
                tracing::error!(run = %run.key, %error, "a run could not be picked up; restart the server once the cause is gone");
                unreachable.insert(run.key.session);
            }
        }
        let mut next = Some(PageRequest::first(limits::MAX_PAGE_ITEMS));
        while let Some(page) = next {
            let filter =
                SessionFilter { status: Some(SessionStatus::Running), ..SessionFilter::default() };
            let sessions = self.core.store.sessions(filter, page).await?;
            for session in
                sessions.items.iter().filter(|session| !unreachable.contains(&session.id))
            {
                self.start_if_nobody_serves(session).await?;
            }
            next = page.then(sessions.next);
        }
        Ok(count)
    }

    async fn start_if_nobody_serves(&self, session: &Session) -> Result<(), StoreError> {
        let Some(number) = session.open_chat() else { return Ok(()) };
        let chat = self.core.store.chat(session.id, Some(number)).await?;
        if chat.server != self.core.store.lease().map(|lease| lease.server) {
            return Ok(());
        }
        let served = match chat.run {
            Some(n) => self.handle(session.id).is_some_and(|handle| handle.key.n == n),
            None => false,
        };
        if !served {
            self.serve(session.id, number);
        }
        Ok(())
    }

    async fn pick_up(&self, stored: &StoredRun) -> Result<(), StartError> {
        let dir = RunDir::new(self.core.settings.run_dir(stored.key));
        plexus_fault::point!("reattach.look");
        let pid_file = wait_for_pid_file(&dir).await?;
        if pid_file.is_none() && dir.read_exit()?.is_none() {
            // The server ended between the row and the process. Removing the directory makes a late shim leave; the chat is served anew.
            return self.abandon(stored, &dir).await;
        }
        let channel = Channel::from_name(&stored.channel).unwrap_or(Channel::Control);
        let keeping = start::keeping_of(stored);
        let hold = Hold::found(pid_file.as_ref()).map_err(StartError::Watch)?;
        let run = Run::new(Arc::clone(&self.core), stored, channel, keeping, Origin::Found, hold)?;
        // A run that lives goes on, also when there are more than places: the bound is for those that are yet to start.
        self.adopt(run, Arc::clone(&self.places).try_acquire_owned().ok());
        Ok(())
    }

    async fn abandon(&self, stored: &StoredRun, dir: &RunDir) -> Result<(), StartError> {
        // A shim that was killed before it could write anything has left a child that nobody else will find.
        orphans::end_members(dir);
        let why = "the server stopped before the process was started";
        Ok(start::end_unstarted(&self.core, stored.key, dir, why).await?)
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

/// Waits until an approval is decided or gone.
async fn decided(core: &Core, id: ApprovalId) {
    // The subscription is taken before the first read: a decision between the two would otherwise wake nobody.
    let mut wake = core.store.watch(Topic::Approval(id));
    loop {
        wake.seen();
        match core.store.approval(id).await {
            Ok(record) if record.status == ApprovalStatus::Pending => {
                let _either = tokio::time::timeout(DECISION_LOOK, wake.changed()).await;
            }
            Ok(_) | Err(StoreError::NotFound { .. }) => return,
            Err(_) => tokio::time::sleep(DECISION_RETRY).await,
        }
    }
}

impl Courier for Supervisor {
    fn deliver(&self, record: &ApprovalRecord) {
        if self.core.store.lease().is_some() {
            // Whoever decided, the run hears of it through the store: one way, so that an answer is sent once.
            return;
        }
        let Some(handle) =
            self.handle(record.session).filter(|handle| record.run == Some(handle.key.n))
        else {
            return;
        };
        if let Err(mpsc::error::TrySendError::Full(command)) =
            handle.commands.try_send(Command::Answer(record.id))
        {
            // The run is busy; a task of its own waits in its queue, so that whoever decided does not.
            self.tasks.spawn(async move {
                let _gone = handle.commands.send(command).await;
            });
        }
    }
}

/// Waits a little for a shim that an earlier server has just started. A file that cannot be read is an error, not an absence.
async fn wait_for_pid_file(dir: &RunDir) -> Result<Option<PidFile>, LayoutError> {
    let deadline = Instant::now() + LATE_SHIM;
    loop {
        match dir.read_pid() {
            Ok(Some(pid)) => return Ok(Some(pid)),
            Ok(None)
                if !dir.path().exists()
                    || dir.read_exit()?.is_some()
                    || Instant::now() >= deadline =>
            {
                return Ok(None);
            }
            Ok(None) => tokio::time::sleep(LOOK_AGAIN).await,
            // Too many open files, a slow disk: worth another look before a living child is given up.
            Err(error) if Instant::now() >= deadline => return Err(error),
            Err(_) => tokio::time::sleep(LOOK_AGAIN).await,
        }
    }
}
