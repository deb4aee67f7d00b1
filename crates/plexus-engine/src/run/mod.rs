//! One run: tails the journal of a child, stores what it says, carries answers to it, and ends it
//! when asked.
//!
//! A [`Run`] is a task of its own, owned by the [`Supervisor`](crate::supervisor::Supervisor). It
//! alone moves the run's journal position and writes its inbox. Everything it learns goes to the
//! store before anyone hears of it; the child itself is held by its shim and survives this task.
//!
//! In reading order:
//! - this file: the loop, and how a run is picked up after a restart;
//! - `pump`: reading the journal, and which lines may wait for the next;
//! - [`state`]: what must be known of a run to go on with it;
//! - [`handle`]: what others hold of a run; `commands`: what they ask of it, and what leaves for
//!   the child;
//! - `batch`: from lines to one transaction; `draft`: what a stretch of lines changes; `steps`:
//!   what each step adds to it; `permission`: what a line about a permission changes; `live`: text
//!   that is shown meanwhile;
//! - `ladder`: cancelling and ending; `ending`: how a chat and a run end, judged and stored;
//!   `outside`: what an agent within a wall left for programs outside;
//! - `park`: ending a process that waits, so that `woken`, another one, asks again.

mod batch;
mod commands;
mod draft;
mod ending;
mod handle;
mod ladder;
mod live;
mod outside;
mod park;
mod permission;
mod pump;
pub(crate) mod state;
mod steps;
pub(crate) mod woken;

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use agent_lines::journal::{JournalDir, JournalLine, JournalWatcher, Position};
use plexus_shim::layout::{InboxSeq, RunDir, SegmentNo};
use plexus_store::{
    ApprovalFilter, ApprovalRecord, ApprovalStatus, Change, JournalPosition, PageRequest, Patch,
    Priority, RunKey, RunRecord, Stage, Store, StoreError, UpdateRun,
};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use self::draft::Known;
pub(crate) use self::ending::{NoExit, close_questions};
pub use self::handle::RunHandle;
pub(crate) use self::handle::{COMMAND_QUEUE, Command, Facts, Taken};
use self::ladder::Ladder;
use self::pump::{Linger, Pumped};
use self::state::{RunState, StopReason};
use crate::approvals::Approvals;
use crate::deltas::{DeltaSender, Deltas};
use crate::driver::{AnyDriver, Channel, OutLine, Say};
use crate::hold::Hold;
use crate::node::Trust;
use crate::prompt::prompt_of;
use crate::settings::Settings;
use crate::wait::Decisions;

/// How long a shim that lets go of its child may take after it was asked twice, which is asking it
/// to kill.
const LET_GO_GRACE: Duration = Duration::from_millis(800);

/// How far apart the two are: signals that come together count as one.
const INSIST_AFTER: Duration = Duration::from_millis(50);

/// Whether the process is new, or was found when the server started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    Started,
    Found,
}

/// Whether a process ended where no server saw it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lost {
    /// It is there, or this server saw its end.
    No,
    /// It belonged to an earlier boot of the machine.
    WithMachine,
    /// Its shim was gone when this server started, as after the restart of a container.
    WithServer,
}

/// Whether chats of this run go on with the session's conversation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Keeping {
    /// They do.
    Kept,
    /// One chat on a copy of the conversation, which is thrown away.
    Ephemeral,
}

impl Keeping {
    /// How a stored run was started.
    fn of(stored: &RunRecord) -> Self {
        if stored.launch.to_value()["ephemeral"] == serde_json::Value::Bool(true) {
            Self::Ephemeral
        } else {
            Self::Kept
        }
    }
}

/// What every run of a server works with.
#[derive(Clone)]
pub(crate) struct RunTools {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) approvals: Arc<Approvals>,
    pub(crate) settings: Arc<Settings>,
    pub(crate) watcher: Arc<JournalWatcher>,
    pub(crate) deltas: Deltas,
    pub(crate) trust: Arc<Trust>,
    pub(crate) shutdown: CancellationToken,
}

/// Who is told what becomes of a run. A weak reference, because the supervisor owns its runs.
pub(crate) trait RunKeeper: Send + Sync {
    /// The run is over, and everything of it is stored, except a chat that it never got to.
    fn run_ended(&self, key: RunKey, unserved: Option<u32>);

    /// One more child waits for work.
    fn one_more_idle(&self);
}

/// One run of a child, seen from the server.
pub(crate) struct Run {
    store: Arc<dyn Store>,
    approvals: Arc<Approvals>,
    settings: Arc<Settings>,
    watcher: Arc<JournalWatcher>,
    shutdown: CancellationToken,
    keeper: Weak<dyn RunKeeper>,
    pub(crate) key: RunKey,
    pub(crate) facts: Arc<Facts>,
    channel: Channel,
    keeping: Keeping,
    origin: Origin,
    dir: RunDir,
    hold: Hold,
    /// When this server took it up.
    since: Instant,
    /// What must be known of it; the store has the same.
    state: RunState,
    /// How far the journal is in the store.
    position: JournalPosition,
    /// The session as it was read last; `None` after something changed under us.
    known: Option<Arc<Known>>,
    /// Files for programs outside its wall that a chat has told of.
    outside_told: outside::Told,
    deltas: DeltaSender,
    /// The last line whose live text was shown.
    shown_to: Option<JournalPosition>,
    journal: JournalDir,
    /// Lines that were read and are not in the store.
    unwritten: VecDeque<JournalLine<Position>>,
    /// Until when they may wait for the next lines.
    linger_until: Option<Instant>,
    inbox: InboxSeq,
    /// Lines for the child that the disk has refused so far.
    unsent: VecDeque<OutLine>,
    send_again_at: Option<Instant>,
    /// When an agent that begins with a handshake must be ready.
    ready_by: Option<Instant>,
    /// When an agent that asks about a call must have told its whole input.
    whole_by: Option<Instant>,
    /// The question that waits, for when it is judged whether this run can be parked.
    waits: Option<park::Waits>,
    /// When a woken process must have asked again.
    ask_by: Option<Instant>,
    /// Whether its process ended where no server saw it.
    lost: Lost,
    ladder: Option<Ladder>,
    /// Whether the session was deleted: nothing is stored any more, and the child only has to go.
    disowned: bool,
    /// Approvals whose decision is awaited, from whichever server takes it.
    awaited: Decisions,
    /// Cancelled when the child must go because it is not ours any more.
    pub(crate) held: CancellationToken,
}

/// Where a run's task takes what others ask of it.
type Commands = mpsc::Receiver<Box<Command>>;

/// Why a run's task is over.
enum Over {
    /// The process is gone and everything of it is stored.
    Ended,
    /// It is not ours any more: somebody else moves its journal position or ended it, or this
    /// server's lease is over.
    Fenced,
    /// The supervisor is gone: so is the server.
    Left,
}

impl Run {
    /// Takes over a run whose row exists and whose shim was started or found.
    pub(crate) fn new(
        tools: RunTools,
        keeper: Weak<dyn RunKeeper>,
        driver: &Arc<dyn AnyDriver>,
        stored: &RunRecord,
        origin: Origin,
        hold: Hold,
    ) -> Result<Self, StoreError> {
        let dir = RunDir::new(tools.settings.run_dir(stored.key));
        let state = RunState::recall(driver, stored.translation.as_ref())?;
        // Numbers that were used must not be used again: the shim would take a new message for one
        // it has sent.
        let inbox = dir.inbox_state().map_err(|error| StoreError::Unavailable {
            message: error.to_string(),
            source: None,
        })?;
        let facts = Arc::new(Facts::default());
        let state_begins = state.mind.report().is_beginning;
        let lost = match (is_of_earlier_boot(&tools.settings, stored), origin) {
            (true, _) => Lost::WithMachine,
            (false, Origin::Found) if hold.is_gone() => Lost::WithServer,
            (false, Origin::Found | Origin::Started) => Lost::No,
        };
        let has_to_ask = state.woken.as_ref().is_some_and(|woken| !woken.asked);
        if state.chat.is_none() {
            facts.set_idle(Some(Instant::now()));
        }
        facts.set_prestarted(state.prestarted.is_some());
        facts.set_stopping(state.is_stopping());
        if inbox.close_waiting {
            facts.set_closing();
        }
        Ok(Self {
            key: stored.key,
            channel: Channel::from_name(&stored.channel).unwrap_or(Channel::Control),
            keeping: Keeping::of(stored),
            origin,
            hold,
            since: Instant::now(),
            state,
            position: stored.journal,
            known: None,
            outside_told: outside::Told::new(),
            facts,
            deltas: tools.deltas.sender(stored.key.session),
            shown_to: None,
            journal: JournalDir::open(dir.journal(), journal_position(stored.journal)),
            unwritten: VecDeque::new(),
            linger_until: None,
            inbox: inbox.next_seq(),
            unsent: VecDeque::new(),
            send_again_at: None,
            ready_by: state_begins.then(|| Instant::now() + tools.settings.handshake),
            whole_by: None,
            waits: None,
            ask_by: has_to_ask.then(|| Instant::now() + tools.settings.handshake),
            lost,
            ladder: None,
            disowned: false,
            awaited: Decisions::new(Arc::clone(&tools.store)),
            held: tools.trust.held(),
            dir,
            store: tools.store,
            approvals: tools.approvals,
            settings: tools.settings,
            watcher: tools.watcher,
            shutdown: tools.shutdown,
            keeper,
        })
    }

    /// Runs until the child is gone and everything of it is stored, or until the server stops.
    /// Stopping in the middle of anything is safe: what is not in the store is in the journal, and
    /// what is decided and not delivered is sent again.
    pub(crate) async fn run(
        mut self: Box<Self>,
        mut commands: Commands,
        ended: watch::Sender<bool>,
    ) {
        let (shutdown, held) = (self.shutdown.clone(), self.held.clone());
        let over = tokio::select! {
            biased;
            () = shutdown.cancelled() => return,
            () = held.cancelled() => Over::Fenced,
            over = self.serve(&mut commands) => over,
        };
        let unserved = match over {
            Over::Left => return,
            Over::Fenced => {
                tracing::error!(run = %self.key, "a run is not this server's any more; its child \
                    is ended");
                self.let_go().await;
                None
            }
            Over::Ended => self.unserved(),
        };
        // Nobody hears of the end before everything is stored; callers that still ask learn that it
        // is over.
        commands.close();
        ended.send_replace(true);
        if let Some(keeper) = self.keeper.upgrade() {
            keeper.run_ended(self.key, unserved);
        }
    }

    /// Ends the child of a run that is not ours any more, with everything it started. Its directory
    /// stays for the janitor of such runs.
    async fn let_go(&mut self) {
        self.hold.ask_to_end();
        tokio::time::sleep(INSIST_AFTER).await;
        self.hold.ask_to_end();
        if tokio::time::timeout(LET_GO_GRACE, self.hold.ended()).await.is_err() {
            self.kill_all().await;
            self.hold.ended().await;
        }
    }

    /// Ends shim and child without asking, and waits until nobody who carries the name of the run
    /// is left.
    async fn kill_all(&self) {
        if let Err(error) = self.hold.kill(&self.dir).await {
            tracing::warn!(run = %self.key, %error, "could not look for what a run left behind");
        }
    }

    /// The loop. Its calls are boxed: a run may wait for hours, and must not keep memory for what
    /// it does rarely.
    async fn serve(&mut self, commands: &mut Commands) -> Over {
        let mut growth = self.watcher.subscribe(&self.dir.journal());
        if self.origin == Origin::Found
            && let Err(over) = Box::pin(self.pick_up()).await
        {
            return over;
        }
        loop {
            // What is due is done first: a child that floods us must not put off its own end.
            let now = Instant::now();
            if self.ladder.is_some_and(|ladder| ladder.at <= now) {
                self.climb();
            }
            if self.send_again_at.is_some_and(|at| at <= now) {
                self.send_unsent();
            }
            if self.ready_by.is_some_and(|by| by <= now) {
                self.end_unready().await;
            }
            if self.ask_by.is_some_and(|by| by <= now) {
                self.end_unasked().await;
            }
            if self.waits.is_some_and(|waits| waits.at <= now) {
                Box::pin(self.consider_parking()).await;
            }
            // Subscribed above, read here, waited for below: growth between the two is not missed.
            let pumped = match Box::pin(self.pump(Linger::Allowed)).await {
                Ok(pumped) => pumped,
                Err(over) => return over,
            };
            let limit = self.settings.whole_question;
            let begun = self.whole_by.unwrap_or_else(|| Instant::now() + limit);
            self.whole_by = self.state.mind.holds_back().then_some(begun);
            if self.whole_by.is_some_and(|by| by <= now) {
                self.end_vague().await;
            }
            // A child that writes without a pause still gets its answers.
            while let Some(heard) = self.awaited.ready() {
                self.decided(heard);
            }
            if let Ok(command) = commands.try_recv() {
                if let Err(over) = Box::pin(self.obey(*command)).await {
                    return over;
                }
                continue;
            }
            if pumped == Pumped::Stored {
                continue;
            }
            self.rest();
            tokio::select! {
                () = growth.wait() => {}
                command = commands.recv() => {
                    let Some(command) = command else { return Over::Left };
                    if let Err(over) = Box::pin(self.obey(*command)).await {
                        return over;
                    }
                }
                decided = self.awaited.next() => self.decided(decided),
                () = self.hold.ended() => {
                    return Box::pin(self.finish()).await.err().unwrap_or(Over::Ended);
                }
                () = sleep_until(self.ladder.map(|ladder| ladder.at)) => self.climb(),
                () = sleep_until(self.send_again_at) => self.send_unsent(),
                () = sleep_until(self.ready_by) => self.end_unready().await,
                // What is due is done above.
                () = sleep_until(self.whole_by) => {}
                () = sleep_until(self.linger_until) => {}
                () = sleep_until(self.ask_by) => self.end_unasked().await,
                () = sleep_until(self.waits.map(|waits| waits.at)) => {
                    Box::pin(self.consider_parking()).await;
                }
            }
        }
    }

    /// Does what others ask of the run, once everything that was read is stored. A store that
    /// cannot be written holds up no command: the lines stay in the journal.
    async fn obey(&mut self, command: Command) -> Result<(), Over> {
        if self.linger_until.is_some() {
            self.pump(Linger::Refused).await?;
        }
        self.command(command).await;
        Ok(())
    }

    /// After a restart: ask the agent what is open, and send again what it may not have had.
    async fn pick_up(&mut self) -> Result<(), Over> {
        plexus_fault::point!("reattach.run.before");
        self.pay_what_is_owed();
        while self.pump(Linger::Refused).await? == Pumped::Stored {}
        if let Err(error) = self.known().await {
            tracing::warn!(run = %self.key, %error, "could not look whether a run is still wanted");
        }
        if self.hold.is_gone() {
            return Ok(());
        }
        let chat = self.state.chat.clone();
        if self.channel == Channel::Control {
            match self.approvals(Stage::Pending).await {
                Ok(pending) => pending.iter().for_each(|record| self.await_decision(record)),
                Err(error) => {
                    tracing::warn!(run = %self.key, %error, "could not look for open questions")
                }
            }
        }
        if self.channel == Channel::Control && !self.facts.is_closing() {
            if let Some(chat) = &chat
                && self.state.mind.prompts_repeat()
                && !self.state.turn().heard_of_prompt
                && let Some(id) = chat.prompt
            {
                // The same id is done once, however often it is sent.
                match prompt_of(&*self.store, self.key.session, chat.number).await {
                    Ok(prompt) => {
                        let (text, images) = (&prompt.text, &prompt.images);
                        self.say(&Say::Prompt { id, text, images });
                    }
                    Err(error) => {
                        tracing::error!(run = %self.key, %error, "could not read a prompt again")
                    }
                }
            }
            if !self.ask_what_is_open() {
                // It cannot be asked. A second answer to one question does nothing.
                match self.approvals(Stage::Undelivered).await {
                    Ok(decided) => decided.iter().for_each(|record| self.send_answer(record)),
                    Err(error) => {
                        tracing::error!(run = %self.key, %error, "could not look for answers that \
                            a child may not have had")
                    }
                }
            }
        }
        plexus_fault::point!("reattach.run.after");
        match chat {
            _ if self.state.stop.is_some() || self.state.parking.is_some() => self.end_now(),
            Some(chat) if chat.has_failed() => self.end_now(),
            Some(chat) if chat.is_cancelled() => self.begin_cancel(),
            None if self.facts.is_closing() => self.climb_after(self.settings.grace),
            Some(_) | None => {}
        }
        Ok(())
    }

    /// Ends an agent whose time for getting ready is over, unless it is ready.
    async fn end_unready(&mut self) {
        self.ready_by = None;
        if self.state.mind.report().is_beginning && self.state.chat.is_none() {
            tracing::warn!(run = %self.key, "an agent that was started before its first chat is \
                not ready for a prompt; it is ended");
            self.end_now();
        } else if self.state.mind.report().is_beginning {
            let limit = self.settings.handshake.as_secs();
            let words = format!("the agent was not ready for a prompt within {limit} s");
            self.stop(StopReason::TimedOut, words).await;
        }
    }

    /// Ends an agent that asks about a call and does not tell what it would do.
    async fn end_vague(&mut self) {
        let limit = self.settings.whole_question.as_secs();
        let words = format!(
            "the agent asked to use a tool and did not tell the whole input within {limit} s"
        );
        self.whole_by = None;
        self.stop(StopReason::TimedOut, words).await;
    }

    /// Has this run hear of the decision on one of its questions, whoever takes it and on whichever
    /// server.
    fn await_decision(&mut self, record: &ApprovalRecord) {
        let open =
            record.status == ApprovalStatus::Pending && record.channel == Channel::Control.name();
        if open {
            self.awaited.add(record.id);
            self.waits();
        }
    }

    /// Whether the child is about to go, or is being ended.
    fn is_leaving(&self) -> bool {
        self.facts.is_closing() || self.ladder.is_some()
    }

    /// Stores a new state together with other changes, then makes it ours.
    async fn remember(
        &mut self,
        state: RunState,
        update: UpdateRun,
        mut changes: Vec<Change>,
    ) -> Result<(), StoreError> {
        let update = UpdateRun { translation: Patch::Set(state.to_json()?), ..update };
        changes.push(Change::UpdateRun(update));
        self.store.commit(changes, Priority::Normal).await?;
        self.go_on_with(state);
        self.known = None;
        Ok(())
    }

    /// Goes on with a state that is stored, and tells others what they may know of it.
    fn go_on_with(&mut self, state: RunState) {
        self.facts.set_stopping(state.is_stopping());
        self.state = state;
    }

    /// Removes segments that are wholly in the store.
    fn drop_stored_segments(&mut self, before: u32) {
        for segment in before.max(1)..self.position.segment {
            if let Err(error) = self.dir.remove_segment(SegmentNo(u64::from(segment))) {
                tracing::debug!(run = %self.key, %error, "could not remove a stored segment");
            }
        }
    }

    /// The approvals of this run in one stage. A session has fewer open ones than a page holds.
    async fn approvals(&self, stage: Stage) -> Result<Vec<ApprovalRecord>, StoreError> {
        approvals_of(&*self.store, self.key, stage).await
    }
}

/// Whether the process of a stored run ended with the machine it ran on.
pub(crate) fn is_of_earlier_boot(settings: &Settings, stored: &RunRecord) -> bool {
    let boot = stored.launch.to_value()["boot"].as_str().map(str::to_owned);
    boot.is_some() && boot != settings.boot
}

async fn approvals_of(
    store: &dyn Store,
    run: RunKey,
    stage: Stage,
) -> Result<Vec<ApprovalRecord>, StoreError> {
    let filter = ApprovalFilter { stage, run: Some(run), ..ApprovalFilter::default() };
    let page = PageRequest::first(plexus_store::limits::MAX_PAGE_ITEMS);
    Ok(store.approvals(filter, page).await?.items)
}

/// The place in a journal after what is stored of it.
pub(crate) fn journal_position(stored: JournalPosition) -> Position {
    if stored.segment == 0 {
        Position::START
    } else {
        Position { segment: u64::from(stored.segment), offset: stored.offset }
    }
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a run's task takes while it waits. Every waiting agent has one.
    const MOST_BYTES: usize = 4 * 1024 + 512;

    fn size_of_task<F>(_: fn(Box<Run>, Commands, watch::Sender<bool>) -> F) -> usize {
        size_of::<F>()
    }

    #[test]
    fn a_run_that_waits_takes_little_memory() {
        let (task, run) = (size_of_task(Run::run), size_of::<Run>());
        assert!(task + run <= MOST_BYTES, "{task} bytes of the task and {run} of the run");
    }
}
