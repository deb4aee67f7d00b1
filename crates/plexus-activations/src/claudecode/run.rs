//! One run: tails the journal of a child, stores what it says, carries answers to it, and ends it when asked.
//!
//! A [`Run`] is a task of its own, owned by the [`Supervisor`](super::supervisor::Supervisor). It alone moves the run's journal position and writes its
//! inbox. Everything it learns goes to the store before anyone hears of it; the child itself is held by its shim and survives this task.
//!
//! In reading order:
//! - this file: the loop, and how a run is picked up after a restart;
//! - [`handle`]: what others hold of a run; `commands`: what they ask of it, and what leaves for the child;
//! - `batch`: from lines to one transaction; `live`: text that is shown meanwhile; `permission`: what a line about a permission changes;
//! - `ladder`: cancelling and ending; `ending`: how a chat and a run end, judged and stored.

mod batch;
mod commands;
mod ending;
mod handle;
mod ladder;
mod live;
mod permission;

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use claude_code::ClaudeStreamJsonParser;
use claude_code::control;
use claude_code::journal::{JournalDir, JournalLine, LineContent, Position};
use plexus_core::ApprovalId;
use plexus_shim::layout::{InboxSeq, RunDir, SegmentNo};
use plexus_store::{
    ApprovalFilter, ApprovalRecord, ApprovalStatus, Change, JournalPosition, JsonText, PageRequest,
    Patch, Priority, Run as StoredRun, RunKey, Stage, StoreError, UpdateRun,
};
use tokio::sync::{mpsc, watch};
use tokio_util::sync::CancellationToken;

use self::batch::Known;
pub(crate) use self::ending::close_questions;
pub(crate) use self::handle::{COMMAND_QUEUE, Command, Facts, RunHandle, Taken};
use self::ladder::Ladder;
use super::hold::Hold;
use super::launch::Channel;
use super::translate::{PromptProgress, Translation};
use super::{Core, deltas::DeltaSender};

/// How much of a journal one look takes, so that one talkative child does not hold up its own commands.
const READ_BYTES: usize = 512 * 1024;

/// How long to wait before a store or disk that refuses is tried again. Nothing is lost meanwhile: it is in the journal.
const STORE_RETRY: Duration = Duration::from_millis(250);

/// How long a shim that lets go of its child may take after it was asked twice, which is asking it to kill.
const LET_GO_GRACE: Duration = Duration::from_millis(800);

/// How far apart the two are: signals that come together count as one.
const INSIST_AFTER: Duration = Duration::from_millis(50);

/// Whether the process is new, or was found when the server started.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Origin {
    Started,
    Found,
}

/// Whether chats of this run go on with the session's conversation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Keeping {
    /// They do.
    Kept,
    /// One chat on a copy of the conversation, which is thrown away.
    Ephemeral,
}

/// One run of a child, seen from the server.
pub(crate) struct Run {
    core: Arc<Core>,
    pub(crate) key: RunKey,
    pub(crate) facts: Arc<Facts>,
    channel: Channel,
    keeping: Keeping,
    origin: Origin,
    dir: RunDir,
    hold: Hold,
    /// When this server took it up.
    since: Instant,
    /// What must be known of earlier lines; the store has the same.
    translation: Translation,
    /// How far the journal is in the store.
    position: JournalPosition,
    /// The session as it was read last; `None` after something changed under us.
    known: Option<Arc<Known>>,
    deltas: DeltaSender,
    /// The last line whose live text was shown.
    shown_to: Option<JournalPosition>,
    journal: JournalDir,
    parser: ClaudeStreamJsonParser,
    /// Lines that were read and are not in the store.
    unwritten: VecDeque<JournalLine<Position>>,
    inbox: InboxSeq,
    /// Lines for the child that the disk has refused so far.
    unsent: VecDeque<control::ControlLine>,
    send_again_at: Option<Instant>,
    ladder: Option<Ladder>,
    /// Whether the session was deleted: nothing is stored any more, and the child only has to go.
    disowned: bool,
    /// Approvals whose decision is awaited from whichever server takes it.
    awaited: HashSet<ApprovalId>,
    /// Cancelled when the child must go because it is not ours any more.
    pub(crate) held: CancellationToken,
}

/// What one look at the journal brought.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Pumped {
    /// Lines, which were handed to the store. There may be more.
    Stored,
    /// No whole line: everything up to here was read.
    Nothing,
    /// The journal could not be read, for example because no descriptor was free.
    Unreadable,
}

/// Why a run's task is over.
enum Over {
    /// The process is gone and everything of it is stored.
    Ended,
    /// It is not ours any more: somebody else moves its journal position or ended it, or this server's lease is over.
    Fenced,
    /// The supervisor is gone: so is the server.
    Left,
}

impl Run {
    /// Takes over a run whose row exists and whose shim was started or found.
    pub(crate) fn new(
        core: Arc<Core>,
        stored: &StoredRun,
        channel: Channel,
        keeping: Keeping,
        origin: Origin,
        hold: Hold,
    ) -> Result<Self, StoreError> {
        let dir = RunDir::new(core.settings.run_dir(stored.key));
        let translation: Translation = match &stored.translation {
            Some(json) => json.read()?,
            None => Translation::default(),
        };
        // Numbers that were used must not be used again: the shim would take a new message for one it has sent.
        let inbox = dir.inbox_state().map_err(|error| StoreError::Unavailable {
            message: error.to_string(),
            source: None,
        })?;
        let facts = Arc::new(Facts::default());
        if translation.chat.is_none() {
            facts.set_idle(Some(Instant::now()));
        }
        if inbox.close_waiting {
            facts.set_closing();
        }
        Ok(Self {
            key: stored.key,
            channel,
            keeping,
            origin,
            hold,
            since: Instant::now(),
            translation,
            position: stored.journal,
            known: None,
            facts,
            deltas: core.deltas.sender(stored.key.session),
            shown_to: None,
            journal: JournalDir::open(dir.journal(), journal_position(stored.journal)),
            parser: ClaudeStreamJsonParser::new(),
            unwritten: VecDeque::new(),
            inbox: inbox.next_seq(),
            unsent: VecDeque::new(),
            send_again_at: None,
            ladder: None,
            disowned: false,
            awaited: HashSet::new(),
            held: core.trust.held(),
            dir,
            core,
        })
    }

    /// Runs until the child is gone and everything of it is stored, or until the server stops. Stopping in the middle of anything is safe: what
    /// is not in the store is in the journal, and what is decided and not delivered is sent again.
    pub(crate) async fn run(
        mut self,
        mut commands: mpsc::Receiver<Command>,
        ended: watch::Sender<bool>,
    ) {
        let core = Arc::clone(&self.core);
        let held = self.held.clone();
        let over = tokio::select! {
            biased;
            () = core.shutdown.cancelled() => return,
            () = held.cancelled() => Over::Fenced,
            over = self.serve(&mut commands) => over,
        };
        let unserved = match over {
            Over::Left => return,
            Over::Fenced => {
                tracing::error!(run = %self.key, "a run is not this server's any more; its child is ended");
                self.let_go().await;
                None
            }
            Over::Ended => self.unserved(),
        };
        // Nobody is told before everything is stored; those who still ask learn that it is over.
        commands.close();
        ended.send_replace(true);
        core.run_ended(self.key, unserved);
    }

    /// Ends the child of a run that is not ours any more, with everything it started. Its directory stays for whoever looks after such.
    async fn let_go(&mut self) {
        self.hold.ask_to_end();
        tokio::time::sleep(INSIST_AFTER).await;
        self.hold.ask_to_end();
        if tokio::time::timeout(LET_GO_GRACE, self.hold.ended()).await.is_err() {
            self.kill_all().await;
            self.hold.ended().await;
        }
    }

    /// Ends shim and child without asking, and waits until nobody who carries the name of the run is left.
    async fn kill_all(&self) {
        if let Err(error) = self.hold.kill(&self.dir).await {
            tracing::warn!(run = %self.key, %error, "could not look for what a run left behind");
        }
    }

    /// The loop. What it calls is boxed: a run that waits, for hours perhaps, then holds no room for what it does now and then.
    async fn serve(&mut self, commands: &mut mpsc::Receiver<Command>) -> Over {
        let mut growth = self.core.watcher.subscribe(&self.dir.journal());
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
            // Subscribed above, read here, waited for below: growth between the two is not missed.
            let pumped = match Box::pin(self.pump()).await {
                Ok(pumped) => pumped,
                Err(over) => return over,
            };
            if let Ok(command) = commands.try_recv() {
                Box::pin(self.command(command)).await;
                continue;
            }
            if pumped == Pumped::Stored {
                continue;
            }
            self.rest();
            tokio::select! {
                () = growth.wait() => {}
                command = commands.recv() => match command {
                    Some(command) => Box::pin(self.command(command)).await,
                    None => return Over::Left,
                },
                () = self.hold.ended() => {
                    return Box::pin(self.finish()).await.err().unwrap_or(Over::Ended);
                }
                () = sleep_until(self.ladder.map(|ladder| ladder.at)) => self.climb(),
                () = sleep_until(self.send_again_at) => self.send_unsent(),
            }
        }
    }

    /// After a restart: ask the CLI what is open, and send again what it may not have had.
    async fn pick_up(&mut self) -> Result<(), Over> {
        plexus_fault::point!("reattach.run.before");
        while self.pump().await? == Pumped::Stored {}
        if let Err(error) = self.known().await {
            tracing::warn!(run = %self.key, %error, "could not look whether a run is still wanted");
        }
        if self.hold.is_gone() {
            return Ok(());
        }
        let chat = self.translation.chat.clone();
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
                && chat.progress == PromptProgress::Unseen
                && let Some(uuid) = chat.prompt
            {
                // The same uuid runs once, however often it is sent.
                match self.core.prompt_text(self.key.session, chat.number).await {
                    Ok(prompt) => self.put(control::user_prompt(Some(&uuid.to_string()), &prompt)),
                    Err(error) => {
                        tracing::error!(run = %self.key, %error, "could not read a prompt again")
                    }
                }
            }
            self.ask_what_is_open();
        }
        plexus_fault::point!("reattach.run.after");
        match chat {
            _ if self.translation.breach.is_some() => self.end_now(),
            Some(chat) if chat.breach.is_some() => self.end_now(),
            Some(chat) if chat.cancel.is_some() => self.begin_cancel(),
            None if self.facts.is_closing() => self.climb_after(self.core.settings.grace),
            Some(_) | None => {}
        }
        Ok(())
    }

    /// Where servers share a store, a decision may come from any of them.
    fn await_decision(&mut self, record: &ApprovalRecord) {
        let open =
            record.status == ApprovalStatus::Pending && record.channel == Channel::Control.name();
        if open && self.core.store.lease().is_some() && self.awaited.insert(record.id) {
            self.core.await_decision(self.key, record.id);
        }
    }

    /// Gives back what only reading needs: a child that waits for an answer writes nothing meanwhile.
    fn rest(&mut self) {
        self.parser.reset();
        self.unwritten.shrink_to_fit();
    }

    /// Whether the child is about to go, or is being ended.
    fn is_leaving(&self) -> bool {
        self.facts.is_closing() || self.ladder.is_some()
    }

    /// Reads a bounded amount of the journal, at least one whole line, and stores it.
    async fn pump(&mut self) -> Result<Pumped, Over> {
        if self.unwritten.is_empty() {
            plexus_fault::point!("journal.read.before");
            match self.journal.read_lines(READ_BYTES) {
                Ok(lines) => {
                    plexus_fault::point!("journal.read.after", when !lines.is_empty());
                    self.facts.add_journal_bytes(
                        lines.iter().map(|line| line_bytes(&line.content)).sum(),
                    );
                    self.unwritten.extend(lines);
                }
                Err(error) => {
                    tracing::error!(run = %self.key, %error, "could not read a journal");
                    tokio::time::sleep(STORE_RETRY).await;
                    return Ok(Pumped::Unreadable);
                }
            }
        }
        if self.unwritten.is_empty() {
            return Ok(Pumped::Nothing);
        }
        self.store_lines().await?;
        Ok(Pumped::Stored)
    }

    /// Stores a new memory of the translation together with other changes, then makes it ours.
    async fn remember(
        &mut self,
        translation: Translation,
        update: UpdateRun,
        mut changes: Vec<Change>,
    ) -> Result<(), StoreError> {
        let update = UpdateRun { translation: Patch::Set(JsonText::of(&translation)?), ..update };
        changes.push(Change::UpdateRun(update));
        self.core.store.commit(changes, Priority::Normal).await?;
        self.translation = translation;
        self.known = None;
        Ok(())
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
        approvals_of(&self.core, self.key, stage).await
    }
}

async fn approvals_of(
    core: &Core,
    run: RunKey,
    stage: Stage,
) -> Result<Vec<ApprovalRecord>, StoreError> {
    let filter = ApprovalFilter { stage, run: Some(run), ..ApprovalFilter::default() };
    let page = PageRequest::first(plexus_store::limits::MAX_PAGE_ITEMS);
    Ok(core.store.approvals(filter, page).await?.items)
}

fn line_bytes(content: &LineContent) -> usize {
    match content {
        LineContent::Whole(bytes) => bytes.len(),
        LineContent::TooLong { size, .. } => usize::try_from(*size).unwrap_or(usize::MAX),
    }
}

fn deny(message: &str) -> control::PermissionAnswer {
    control::PermissionAnswer::deny(message)
}

/// The place in a journal behind what is stored of it.
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
