//! One run: tails the journal of a child, stores what it says, carries answers to it, and ends it when asked.
//!
//! A [`Run`] is a task of its own, owned by the [`Supervisor`](super::supervisor::Supervisor). It alone moves the run's journal position and writes its
//! inbox. Everything it learns goes to the store before anyone hears of it; the child itself is held by its shim and survives this task.

mod batch;
mod ending;

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use claude_code::ClaudeStreamJsonParser;
use claude_code::control;
use claude_code::journal::{JournalDir, JournalLine, Position};
use plexus_core::{ApprovalId, CallError};
use plexus_shim::layout::{InboxSeq, RunDir, SegmentNo};
use plexus_store::{
    ApprovalFilter, ApprovalRecord, ApprovalStatus, Change, JournalPosition, PageRequest, Patch, Priority,
    Run as StoredRun, RunKey, Stage, StoreError, UpdateRun,
};
use tokio::sync::{mpsc, oneshot, watch};
use uuid::Uuid;

use super::hold::Hold;
use super::launch::Channel;
use super::translate::{OUR_REQUEST, OpenChat, PromptProgress, Translation};
use super::{Core, deltas::DeltaSender};
use crate::loopback::answer::{PermitBehavior, PermitResponse};

/// How much of a journal one look takes, so that one talkative child does not hold up its own commands.
const READ_BYTES: usize = 512 * 1024;

/// How long to wait before the store is tried again when it cannot be written. Nothing is lost meanwhile: it is in the journal.
const STORE_RETRY: Duration = Duration::from_millis(250);

/// Commands that may wait for a run.
pub(crate) const COMMAND_QUEUE: usize = 256;

/// What others ask of a run.
#[derive(Debug)]
pub(crate) enum Command {
    /// Serve this chat next.
    Chat { chat: u32, prompt_uuid: Uuid, prompt: String, taken: oneshot::Sender<Taken> },
    /// Put a message into the running chat.
    Send { text: String, done: oneshot::Sender<Result<(), CallError>> },
    /// An approval was decided: send its answer.
    Answer(ApprovalId),
    /// End the running chat; answered once that wish is durable.
    Cancel { reason: String, done: oneshot::Sender<Result<(), CallError>> },
    /// Leave when idle: close stdin.
    Close,
    /// End the child now, whatever it does.
    Kill { reason: String },
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
pub(crate) struct RunHandle {
    pub(crate) key: RunKey,
    pub(crate) commands: mpsc::Sender<Command>,
    pub(crate) facts: Arc<Facts>,
    pub(crate) ended: watch::Receiver<bool>,
}

impl RunHandle {
    /// Waits until the run is over and everything of it is stored.
    pub(crate) async fn wait_for_end(&self) {
        let mut ended = self.ended.clone();
        // An error means that the task is gone, which is an end too.
        let _gone = ended.wait_for(|ended| *ended).await;
    }
}

/// What others may know of a run without asking it.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    idle_since: Mutex<Option<Instant>>,
    closing: AtomicBool,
    journal_bytes: AtomicU64,
}

impl Facts {
    pub(crate) fn idle_since(&self) -> Option<Instant> {
        *self.idle_since.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn set_idle(&self, since: Option<Instant>) {
        *self.idle_since.lock().unwrap_or_else(PoisonError::into_inner) = since;
    }

    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Acquire)
    }

    fn set_closing(&self) {
        self.closing.store(true, Ordering::Release);
    }
}

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
    pub(crate) core: Arc<Core>,
    pub(crate) key: RunKey,
    pub(crate) channel: Channel,
    pub(crate) keeping: Keeping,
    pub(crate) origin: Origin,
    pub(crate) dir: RunDir,
    pub(crate) hold: Hold,
    pub(crate) translation: Translation,
    /// What the store knows of the translation's memory; written when it differs.
    pub(crate) position: JournalPosition,
    pub(crate) facts: Arc<Facts>,
    pub(crate) deltas: DeltaSender,
    /// Prompts that were never heard of are sent again: the first for a started run is already in the inbox.
    pub(crate) started_at: Instant,
    inbox: InboxSeq,
    journal: JournalDir,
    parser: ClaudeStreamJsonParser,
    unwritten: VecDeque<JournalLine<Position>>,
    requests: u64,
    ladder: Option<Ladder>,
}

/// The steps of ending a child that does not end by itself.
#[derive(Clone, Copy, Debug)]
struct Ladder {
    step: LadderStep,
    at: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum LadderStep {
    /// Ask the shim to end it; the shim has a ladder of its own.
    Ask,
    /// Ask it again: it goes faster then.
    Insist,
    /// The shim itself does not answer.
    Kill,
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
        deltas: DeltaSender,
    ) -> Result<Self, StoreError> {
        let dir = RunDir::new(core.settings.run_dir(stored.key));
        let translation = match &stored.translation {
            Some(json) => json.read()?,
            None => Translation::default(),
        };
        let inbox = dir.inbox_state().map(|state| state.next_seq()).unwrap_or(InboxSeq::FIRST);
        let journal = JournalDir::open(dir.journal(), as_position(stored.journal));
        Ok(Self {
            key: stored.key,
            channel,
            keeping,
            origin,
            hold,
            translation,
            position: stored.journal,
            facts: Arc::default(),
            deltas,
            started_at: Instant::now(),
            inbox,
            journal,
            parser: ClaudeStreamJsonParser::new(),
            unwritten: VecDeque::new(),
            requests: 0,
            ladder: None,
            dir,
            core,
        })
    }

    /// Runs until the child is gone and everything of it is stored, or until the server stops.
    pub(crate) async fn run(mut self, mut commands: mpsc::Receiver<Command>, ended: watch::Sender<bool>) {
        let mut growth = self.core.watcher.subscribe(&self.dir.journal());
        let shutdown = self.core.shutdown.clone();
        if self.origin == Origin::Found {
            self.pick_up().await;
        }
        loop {
            // Subscribed above, read here, waited for below: growth between the two is not missed.
            let progressed = self.pump().await;
            if let Ok(command) = commands.try_recv() {
                self.command(command).await;
                continue;
            }
            if progressed {
                continue;
            }
            let next_step = self.ladder.map(|ladder| ladder.at);
            tokio::select! {
                () = growth.wait() => {}
                command = commands.recv() => match command {
                    Some(command) => self.command(command).await,
                    // The supervisor is gone: so is the server.
                    None => return,
                },
                () = self.hold.ended() => {
                    self.finish().await;
                    break;
                }
                () = sleep_until(next_step) => self.climb(),
                () = shutdown.cancelled() => return,
            }
        }
        // Nobody is told before everything is stored; those who still ask learn that it is over.
        commands.close();
        ended.send_replace(true);
        self.core.run_ended(self.key);
    }

    /// After a restart: ask the CLI what is open, and send again what it may not have had.
    async fn pick_up(&mut self) {
        while self.pump().await {}
        if self.channel != Channel::Control || self.hold.is_gone() {
            return;
        }
        if let Some(chat) = self.translation.chat.clone()
            && chat.progress == PromptProgress::Unseen
            && let Some(uuid) = chat.prompt
        {
            // The same uuid runs once, however often it is sent.
            match self.core.prompt_text(self.key.session, chat.number).await {
                Ok(prompt) => self.put(&control::user_prompt(Some(&uuid.to_string()), &prompt)),
                Err(error) => tracing::error!(run = %self.key, %error, "could not read a prompt again"),
            }
        }
        self.ask_what_is_open();
        if self.translation.chat.as_ref().is_some_and(|chat| chat.cancel.is_some()) {
            self.begin_cancel();
        }
    }

    /// Sends `initialize`, whose answer names the open permission requests.
    fn ask_what_is_open(&mut self) {
        let id = self.request_id("init");
        self.put(&control::initialize(&id));
    }

    /// Ids of our own requests carry the time, so that a new server never repeats an old one's.
    fn request_id(&mut self, what: &str) -> String {
        self.requests += 1;
        format!("{OUR_REQUEST}{what}-{}-{}", Uuid::now_v7().simple(), self.requests)
    }

    /// Puts one line into the child's stdin. The file appears whole or not at all.
    fn put(&mut self, line: &control::ControlLine) {
        match self.dir.put_inbox(self.inbox, line.as_str().as_bytes()) {
            Ok(()) => self.inbox = self.inbox.next(),
            // The answer stays undelivered in the store, and is sent again when the run is picked up.
            Err(error) => tracing::error!(run = %self.key, %error, "could not write to a child"),
        }
    }

    async fn command(&mut self, command: Command) {
        match command {
            Command::Chat { chat, prompt_uuid, prompt, taken } => {
                let answer = self.take_chat(chat, prompt_uuid, &prompt).await;
                // A caller that has gone away loses nothing: the chat is stored, and its prompt sent.
                let _gone = taken.send(answer);
            }
            Command::Send { text, done } => {
                let _gone = done.send(self.send(&text));
            }
            Command::Answer(id) => self.answer(id).await,
            Command::Cancel { reason, done } => {
                let _gone = done.send(self.cancel(reason).await);
            }
            Command::Close => self.close(),
            Command::Kill { reason } => self.kill(reason).await,
        }
    }

    async fn take_chat(&mut self, chat: u32, prompt_uuid: Uuid, prompt: &str) -> Taken {
        let serves_more = self.channel == Channel::Control && self.keeping == Keeping::Kept;
        if !serves_more || self.facts.is_closing() || self.translation.chat.is_some() || self.hold.is_gone() {
            return Taken::No;
        }
        if let Err(error) = self.dir.clear_idle() {
            tracing::warn!(run = %self.key, %error, "could not wake an idle child");
            return Taken::No;
        }
        let mut translation = self.translation.clone();
        translation.chat = Some(OpenChat::new(chat, Some(prompt_uuid)));
        let update = UpdateRun { idle_since: Patch::Clear, ..UpdateRun::of(self.key) };
        let assign = Change::AssignRun(plexus_store::AssignRun { session: self.key.session, chat, run: self.key.n });
        if let Err(error) = self.remember(translation, update, vec![assign]).await {
            tracing::warn!(run = %self.key, %error, "could not hand a chat to a warm child");
            return Taken::No;
        }
        self.facts.set_idle(None);
        self.put(&control::user_prompt(Some(&prompt_uuid.to_string()), prompt));
        Taken::Yes
    }

    fn send(&mut self, text: &str) -> Result<(), CallError> {
        if self.channel != Channel::Control {
            return Err(CallError::invalid("send into this chat: its channel takes no messages")
                .with_hint("wait for the chat to end, then start another"));
        }
        if self.translation.chat.is_none() || self.facts.is_closing() {
            return Err(CallError::conflict("send: no chat is running").with_hint("claudecode.chat_async starts one"));
        }
        self.put(&control::user_prompt(Some(&Uuid::now_v7().to_string()), text));
        Ok(())
    }

    /// Sends the answer of a decided approval. Only what the store says is sent, and only while it is neither delivered nor void.
    async fn answer(&mut self, id: ApprovalId) {
        match self.core.store.approval(id).await {
            Ok(record) => self.send_answer(&record),
            Err(error) => {
                tracing::error!(approval = %id, %error, "could not read a decision to send it; it is sent when the run is picked up")
            }
        }
    }

    fn send_answer(&mut self, record: &ApprovalRecord) {
        let ours = record.session == self.key.session
            && record.run == Some(self.key.n)
            && record.channel == Channel::Control.name();
        let open =
            record.delivered_at.is_none() && record.void_at.is_none() && record.status != ApprovalStatus::Cancelled;
        if !ours || !open {
            return;
        }
        let Some(response) = PermitResponse::of(record) else { return };
        let answer = match response.behavior {
            PermitBehavior::Allow { updated_input } => {
                match claude_code::RawJson::from_text(updated_input.as_str().to_owned()) {
                    Ok(updated_input) => control::PermissionAnswer::Allow { updated_input, updated_permissions: None },
                    Err(_) => deny("the approved input could not be read"),
                }
            }
            PermitBehavior::Deny { message } => deny(&message),
        };
        self.put(&control::answer_permission(&record.request_id, &answer));
    }

    async fn cancel(&mut self, reason: String) -> Result<(), CallError> {
        let mut translation = self.translation.clone();
        let Some(chat) = &mut translation.chat else {
            return Err(CallError::conflict("cancel: no chat is running"));
        };
        if chat.cancel.is_none() {
            chat.cancel = Some(reason);
            self.remember(translation, UpdateRun::of(self.key), Vec::new()).await?;
        }
        self.begin_cancel();
        Ok(())
    }

    /// Control channel: interrupt, so that the child stays warm. Neither an interrupt nor closing stdin ends background tasks: then it must go.
    fn begin_cancel(&mut self) {
        let grace = self.core.settings.grace;
        match self.channel {
            Channel::Control if self.translation.background_tasks == 0 => {
                let id = self.request_id("interrupt");
                self.put(&control::interrupt(&id));
                self.ladder.get_or_insert(Ladder { step: LadderStep::Ask, at: Instant::now() + grace });
            }
            Channel::Control | Channel::Mcp => {
                self.ladder.get_or_insert(Ladder { step: LadderStep::Ask, at: Instant::now() });
            }
        }
    }

    /// Takes the next step towards the end of a child that has not ended by itself.
    fn climb(&mut self) {
        let Some(ladder) = self.ladder else { return };
        let grace = self.core.settings.grace;
        let next = match ladder.step {
            LadderStep::Ask => {
                self.facts.set_closing();
                self.hold.ask_to_end();
                Ladder { step: LadderStep::Insist, at: Instant::now() + grace + SHIM_SLACK }
            }
            LadderStep::Insist => {
                self.hold.ask_to_end();
                Ladder { step: LadderStep::Kill, at: Instant::now() + SHIM_SLACK }
            }
            LadderStep::Kill => {
                self.hold.kill(&self.dir);
                Ladder { step: LadderStep::Kill, at: Instant::now() + SHIM_SLACK }
            }
        };
        self.ladder = Some(next);
    }

    fn close(&mut self) {
        self.facts.set_closing();
        if self.channel == Channel::Control
            && let Err(error) = self.dir.put_close()
        {
            tracing::warn!(run = %self.key, %error, "could not close a child's stdin");
        }
        let grace = self.core.settings.grace;
        if self.translation.chat.is_none() {
            self.ladder.get_or_insert(Ladder { step: LadderStep::Ask, at: Instant::now() + grace });
        }
    }

    async fn kill(&mut self, reason: String) {
        let mut translation = self.translation.clone();
        if let Some(chat) = &mut translation.chat {
            chat.cancel.get_or_insert(reason);
        }
        if let Err(error) = self.remember(translation, UpdateRun::of(self.key), Vec::new()).await {
            tracing::warn!(run = %self.key, %error, "could not note why a run is ended");
        }
        self.ladder = Some(Ladder { step: LadderStep::Ask, at: Instant::now() });
        self.climb();
    }

    /// Stores a new memory of the translation together with other changes, then makes it ours.
    async fn remember(
        &mut self,
        translation: Translation,
        update: UpdateRun,
        mut changes: Vec<Change>,
    ) -> Result<(), StoreError> {
        let update = UpdateRun { translation: Patch::Set(plexus_store::JsonText::of(&translation)?), ..update };
        changes.push(Change::UpdateRun(update));
        self.core.store.commit(changes, Priority::Normal).await?;
        self.translation = translation;
        Ok(())
    }

    /// Reads a bounded amount of the journal and stores it. Says whether there was anything.
    async fn pump(&mut self) -> bool {
        if self.unwritten.is_empty() {
            match self.journal.read_lines(READ_BYTES) {
                Ok(lines) => {
                    let bytes: usize = lines.iter().map(|line| line_bytes(&line.content)).sum();
                    self.facts.journal_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
                    self.unwritten.extend(lines);
                }
                Err(error) => {
                    tracing::error!(run = %self.key, %error, "could not read a journal");
                    tokio::time::sleep(STORE_RETRY).await;
                }
            }
        }
        if self.unwritten.is_empty() {
            return false;
        }
        self.store_lines().await;
        true
    }

    /// Removes segments that are wholly in the store.
    fn drop_stored_segments(&mut self, before: u32) {
        for segment in before.max(1)..self.position.segment {
            if let Err(error) = self.dir.remove_segment(SegmentNo(u64::from(segment))) {
                tracing::debug!(run = %self.key, %error, "could not remove a stored segment");
            }
        }
    }

    /// The approvals of this run in one stage, all pages of them.
    async fn approvals(&self, stage: Stage) -> Result<Vec<ApprovalRecord>, StoreError> {
        let filter = ApprovalFilter { stage, run: Some(self.key), ..ApprovalFilter::default() };
        let page = PageRequest::first(plexus_store::limits::MAX_PAGE_ITEMS);
        Ok(self.core.store.approvals(filter, page).await?.items)
    }
}

/// How much longer than its own grace a shim may take to end its child and itself.
const SHIM_SLACK: Duration = Duration::from_millis(500);

fn line_bytes(content: &claude_code::journal::LineContent) -> usize {
    match content {
        claude_code::journal::LineContent::Whole(bytes) => bytes.len(),
        claude_code::journal::LineContent::TooLong { size, .. } => usize::try_from(*size).unwrap_or(usize::MAX),
    }
}

fn deny(message: &str) -> control::PermissionAnswer {
    control::PermissionAnswer::Deny { message: message.to_owned(), then: control::AfterDeny::GoOn }
}

fn as_position(stored: JournalPosition) -> Position {
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
