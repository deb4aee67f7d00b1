//! From lines to one transaction: what a stretch of the journal changes, together with the position behind it.

use std::collections::VecDeque;

use claude_code::control;
use claude_code::journal::{JournalLine, LineContent, Position};
use plexus_core::CallError;
use plexus_core::digest::input_digest;
use plexus_store::{
    AppendEvents, ApprovalRecord, ApprovalStatus, AuditLine, Change, DecidedBy, Fate, JournalPosition, JsonText,
    NewEvent, Origin as ChatOrigin, Outcome, Patch, Priority, Session, SetJournalPosition, SettleApproval, StartChat,
    StoreError, UnixMillis, UpdateRun, UpdateSession, Verdict,
};
use serde_json::json;

use super::{Keeping, Run, STORE_RETRY};
use crate::claudecode::config::{ProjectSettings, SessionConfig, SessionState};
use crate::claudecode::event::ChatEvent;
use crate::claudecode::launch::Channel;
use crate::claudecode::translate::{Answered, Ask, Echo, OpenChat, Step, Translation, as_json};
use crate::loopback::approvals::Question;

/// Lines that go into one transaction at most: more would make the first of them wait for the last.
const LINES_PER_COMMIT: usize = 512;

/// How often a stretch is tried again when somebody else changed what it was planned on.
const REPLANS: usize = 4;

/// What a stretch of lines changes, before it is committed.
struct Draft {
    translation: Translation,
    session: Session,
    config: SessionConfig,
    changes: Vec<Change>,
    /// Events of the open chat that are not yet among the changes.
    events: Vec<NewEvent>,
    after: Vec<After>,
    priority: Priority,
    ended_chat: bool,
}

/// What is done once a stretch is committed.
enum After {
    /// Send this line to the child.
    Put(control::ControlLine),
    /// Show this text to whoever watches live.
    Delta(String),
    /// Send the answers of these records again.
    Resend(Vec<ApprovalRecord>),
    /// Ask the CLI which requests are open: a line was lost to us.
    AskWhatIsOpen,
    /// Interrupt again: our prompt was still queued.
    InterruptAgain,
    /// The child did what nobody allowed: end it.
    Stop(String),
}

/// How a stretch went.
enum Tried {
    /// So many lines are stored.
    Stored(usize),
    /// A turn begins that needs a chat of its own first.
    NeedsChat,
}

impl Run {
    /// Stores everything in `unwritten`. Waits while the store cannot be written; nothing is lost meanwhile.
    pub(super) async fn store_lines(&mut self) {
        let mut stretch = LINES_PER_COMMIT;
        let mut replans = 0;
        while !self.unwritten.is_empty() {
            let count = stretch.min(self.unwritten.len());
            match self.try_store(count).await {
                Ok(Tried::Stored(stored)) => {
                    self.unwritten.drain(..stored);
                    stretch = LINES_PER_COMMIT;
                    replans = 0;
                }
                Ok(Tried::NeedsChat) => {
                    if let Err(error) = self.open_own_chat().await {
                        tracing::warn!(run = %self.key, %error, "could not open a chat for a turn that the child started");
                        tokio::time::sleep(STORE_RETRY).await;
                    }
                }
                Err(StoreError::Unavailable { .. } | StoreError::Busy { .. }) => tokio::time::sleep(STORE_RETRY).await,
                Err(StoreError::Closed | StoreError::Poisoned { .. }) => {
                    // The server is stopping; the journal keeps what is not stored.
                    self.unwritten.clear();
                    return std::future::pending().await;
                }
                Err(_) if replans < REPLANS => replans += 1,
                Err(_) if count > 1 => {
                    stretch = 1;
                    replans = 0;
                }
                Err(error) => self.refuse_line(error).await,
            }
        }
    }

    async fn try_store(&mut self, count: usize) -> Result<Tried, StoreError> {
        let session = self.core.store.session(self.key.session).await?;
        let mut draft = Draft {
            translation: self.translation.clone(),
            config: SessionConfig::of(&session)?,
            session,
            changes: Vec::new(),
            events: Vec::new(),
            after: Vec::new(),
            priority: Priority::Normal,
            ended_chat: false,
        };
        let lines: VecDeque<JournalLine<Position>> = self.unwritten.iter().take(count).cloned().collect();
        let mut stored = 0;
        let mut to = self.position;
        for line in &lines {
            let before = draft.translation.clone();
            let steps = self.steps_of(&mut draft.translation, &line.content, &mut draft.after);
            if steps.contains(&Step::SelfStarted) {
                draft.translation = before;
                if stored == 0 {
                    return Ok(Tried::NeedsChat);
                }
                break;
            }
            for step in steps {
                self.apply(&mut draft, step).await?;
            }
            stored += 1;
            to = JournalPosition {
                segment: u32::try_from(line.position_after.segment).unwrap_or(u32::MAX),
                offset: line.position_after.offset,
            };
        }
        self.commit(draft, to).await?;
        Ok(Tried::Stored(stored))
    }

    fn steps_of(&mut self, translation: &mut Translation, line: &LineContent, after: &mut Vec<After>) -> Vec<Step> {
        match line.parse(&mut self.parser) {
            Ok(Some(event)) => translation.line(&event),
            Ok(None) => Vec::new(),
            Err(error) => {
                // A permission request may hide in it: one too long names its id at its head, one unreadable is found by asking.
                if self.channel == Channel::Control {
                    match request_at_head(line) {
                        Some(id) => after.push(After::Put(control::answer_permission(
                            &id,
                            &super::deny("the request could not be read, so nobody was asked"),
                        ))),
                        None => after.push(After::AskWhatIsOpen),
                    }
                }
                translation.unreadable(&error.to_string())
            }
        }
    }

    async fn commit(&mut self, mut draft: Draft, to: JournalPosition) -> Result<(), StoreError> {
        draft.flush();
        draft.changes.push(Change::SetJournalPosition(SetJournalPosition {
            run: self.key,
            expects: self.position,
            to,
        }));
        let mut update = UpdateRun::of(self.key);
        if draft.translation != self.translation {
            update.translation = Patch::Set(JsonText::of(&draft.translation)?);
        }
        let stays_warm = draft.ended_chat && self.may_stay_warm(&draft.translation);
        if stays_warm {
            update.idle_since = Patch::Set(UnixMillis::now());
        }
        if update != UpdateRun::of(self.key) {
            draft.changes.push(Change::UpdateRun(update));
        }
        let committed = self.core.store.commit(draft.changes, draft.priority).await?;
        let before = std::mem::replace(&mut self.position, to);
        self.translation = draft.translation;
        self.drop_stored_segments(before.segment);
        // A rule may have decided in the same transaction: that answer leaves now.
        for outcome in committed.outcomes {
            if let Outcome::Approval { record, .. } = outcome {
                self.send_answer(&record);
            }
        }
        for after in draft.after {
            self.act(after).await;
        }
        if draft.ended_chat {
            self.chat_ended(stays_warm);
        }
        Ok(())
    }

    async fn act(&mut self, after: After) {
        match after {
            After::Put(line) => self.put(&line),
            After::Delta(text) => self.deltas.send(&text),
            After::Resend(records) => records.iter().for_each(|record| self.send_answer(record)),
            After::AskWhatIsOpen => self.ask_what_is_open(),
            After::InterruptAgain => self.begin_cancel(),
            After::Stop(reason) => self.kill(reason).await,
        }
    }

    async fn apply(&self, draft: &mut Draft, step: Step) -> Result<(), StoreError> {
        match step {
            Step::Event(event) => draft.event(&event)?,
            Step::SelfStarted => {}
            Step::ClaudeSession(id) => self.note_conversation(draft, id)?,
            Step::Asked(ask) => self.open(draft, &ask).await?,
            Step::Withdrawn { request_id } => {
                self.withdraw(draft, &request_id, "the agent withdrew its question").await?
            }
            Step::Echoed { request_id, decision } => self.echo(draft, &request_id, decision).await?,
            Step::Answered { request_id, outcome } => self.own_answer(draft, &request_id, *outcome).await?,
            Step::Unserved { request_id, subtype } => {
                draft.translation.refused.insert(request_id.clone());
                let words = format!("this supervisor does not serve {subtype}");
                draft.event(&ChatEvent::notice(format!("the agent asked for {subtype}, which is not served here")))?;
                draft.after.push(After::Put(control::answer_error(&request_id, &words)));
            }
            Step::Accepted { tool_use_id, source } => self.check_accepted(draft, &tool_use_id, &source).await?,
            Step::Finished { tool_use_id } => self.tool_finished(draft, &tool_use_id).await?,
            Step::Delta(text) => draft.after.push(After::Delta(text)),
            Step::ChatOver => self.end_chat(draft)?,
        }
        Ok(())
    }

    fn note_conversation(&self, draft: &mut Draft, id: String) -> Result<(), StoreError> {
        draft.translation.conversation = Some(id.clone());
        if self.keeping == Keeping::Ephemeral || draft.session.claude_session_id.as_ref() == Some(&id) {
            return Ok(());
        }
        let mut state = SessionState::of(&draft.session)?;
        let forked = state.fork_from.take().is_some();
        let update = UpdateSession {
            claude_session_id: Patch::Set(id.clone()),
            state: forked.then(|| state.to_json()).transpose()?,
            ..UpdateSession::of(self.key.session)
        };
        draft.changes.push(Change::UpdateSession(update));
        draft.session.claude_session_id = Some(id);
        Ok(())
    }

    async fn open(&self, draft: &mut Draft, ask: &Ask) -> Result<(), StoreError> {
        draft.flush();
        draft.priority = Priority::Urgent;
        let question = Question {
            session: &draft.session,
            chat: draft.translation.chat.as_ref().map(|chat| chat.number),
            run: Some(self.key.n),
            channel: Channel::Control.name(),
            request_id: &ask.request_id,
            tool_name: &ask.tool_name,
            tool_use_id: &ask.tool_use_id,
            input: as_json(&ask.input),
            description: ask.description.clone(),
        };
        draft.changes.extend(self.core.approvals.plan(&question).await?);
        Ok(())
    }

    async fn withdraw(&self, draft: &mut Draft, request_id: &str, why: &str) -> Result<(), StoreError> {
        let Some(record) = self.by_request(request_id).await? else { return Ok(()) };
        draft.flush();
        if record.status == ApprovalStatus::Pending {
            let change = self.core.approvals.decision(
                record.id,
                record.chat,
                None,
                Verdict::Cancel,
                DecidedBy::AgentEnded,
                Some(why.to_owned()),
            )?;
            draft.changes.push(change);
        } else if record.delivered_at.is_none() && record.void_at.is_none() {
            draft.settle(&record, Fate::Void);
        }
        Ok(())
    }

    async fn by_request(&self, request_id: &str) -> Result<Option<ApprovalRecord>, StoreError> {
        self.core.store.approval_by_request(self.key.session, Some(self.key.n), request_id).await
    }

    /// The CLI has taken an answer. It must be one that we sent: code of the same user can write into the inbox, and that is how it shows.
    async fn echo(&self, draft: &mut Draft, request_id: &str, decision: Option<Echo>) -> Result<(), StoreError> {
        if draft.translation.refused.contains(request_id) {
            return Ok(());
        }
        let Some(record) = self.by_request(request_id).await? else {
            return self.breach(
                draft,
                None,
                format!("an answer reached the agent for a request that was never asked ({request_id})"),
            );
        };
        let as_decided = match (record.status, &decision) {
            (ApprovalStatus::Allowed, Some(Echo::Allow { updated_input })) => {
                same_input(&record, updated_input.as_ref())?
            }
            (ApprovalStatus::Denied | ApprovalStatus::Expired, Some(Echo::Deny)) => true,
            _ => false,
        };
        if !as_decided {
            return self.breach(
                draft,
                Some(&record),
                "an answer reached the agent that is not the one that was decided".to_owned(),
            );
        }
        if record.status == ApprovalStatus::Allowed {
            draft.translation.allowed.insert(record.tool_use_id.clone());
        }
        if record.delivered_at.is_none() && record.void_at.is_none() {
            draft.flush();
            draft.settle(&record, Fate::Delivered);
        }
        Ok(())
    }

    /// What the CLI says it let run must be what its own configuration allows, or what we allowed and it echoed.
    async fn check_accepted(&self, draft: &mut Draft, tool_use_id: &str, source: &str) -> Result<(), StoreError> {
        let trusted_hook = source == "hook" && draft.config.project_settings == ProjectSettings::Trust;
        if source == "config" || trusted_hook || draft.translation.allowed.contains(tool_use_id) {
            return Ok(());
        }
        if self.channel == Channel::Mcp {
            let record = self.by_request(tool_use_id).await?;
            if record.is_some_and(|record| record.status == ApprovalStatus::Allowed) {
                return Ok(());
            }
        }
        self.breach(
            draft,
            None,
            format!("the agent ran a tool that nobody here allowed (call {tool_use_id}, accepted by {source})"),
        )
    }

    fn breach(&self, draft: &mut Draft, record: Option<&ApprovalRecord>, what: String) -> Result<(), StoreError> {
        draft.flush();
        if let Some(record) = record {
            draft.changes.push(Change::MarkBreach { id: record.id, what: what.clone() });
        }
        let body =
            JsonText::from(json!({"run": self.key.n, "what": what, "approval_id": record.map(|record| record.id)}));
        draft.changes.push(Change::AppendAudit(AuditLine {
            at: UnixMillis::now(),
            kind: "breach".into(),
            session: Some(self.key.session),
            body,
        }));
        draft.event(&ChatEvent::Error { message: format!("stopped: {what}") })?;
        if let Some(chat) = &mut draft.translation.chat {
            chat.breach.get_or_insert_with(|| what.clone());
        }
        tracing::error!(run = %self.key, what, "breach: the run is stopped");
        draft.after.push(After::Stop(what));
        Ok(())
    }

    async fn tool_finished(&self, draft: &mut Draft, tool_use_id: &str) -> Result<(), StoreError> {
        draft.translation.allowed.remove(tool_use_id);
        if self.channel == Channel::Mcp
            && let Some(record) = self.by_request(tool_use_id).await?
        {
            // The call went on without our answer (its connection was lost for too long): nobody needs to answer it now.
            if record.status == ApprovalStatus::Pending {
                self.withdraw(draft, tool_use_id, "the agent went on without an answer").await?;
            }
            draft.flush();
            draft.changes.push(Change::RetireApproval(record.id));
        }
        Ok(())
    }

    async fn own_answer(&self, draft: &mut Draft, request_id: &str, answered: Answered) -> Result<(), StoreError> {
        if let Some(error) = answered.error {
            tracing::warn!(run = %self.key, request_id, error, "the CLI refused a request of ours");
        }
        let ours = draft.translation.chat.as_ref().and_then(|chat| chat.prompt).map(|uuid| uuid.to_string());
        if ours.is_some_and(|ours| answered.still_queued.contains(&ours)) {
            draft.after.push(After::InterruptAgain);
        }
        if let Some(open) = answered.open_requests {
            self.reconcile(draft, open).await?;
        }
        Ok(())
    }

    /// What the CLI says is open against what we hold open: new ones become approvals, decided ones are answered again, others are void.
    async fn reconcile(&self, draft: &mut Draft, open: Vec<Ask>) -> Result<(), StoreError> {
        let mut resend = Vec::new();
        for ask in &open {
            match self.by_request(&ask.request_id).await? {
                Some(record) if record.status != ApprovalStatus::Pending => resend.push(record),
                Some(_) => {}
                None if draft.translation.refused.contains(&ask.request_id) => {}
                None => self.open(draft, ask).await?,
            }
        }
        let stands = |record: &ApprovalRecord| open.iter().any(|ask| ask.request_id == record.request_id);
        let mut held = self.approvals(plexus_store::Stage::Pending).await?;
        held.extend(self.approvals(plexus_store::Stage::Undelivered).await?);
        for record in held.iter().filter(|record| !stands(record)) {
            self.withdraw(draft, &record.request_id, "the agent no longer waits for it").await?;
        }
        draft.after.push(After::Resend(resend));
        Ok(())
    }

    /// A line that cannot be stored as it is: its place is taken by a notice, and a request in it is denied.
    async fn refuse_line(&mut self, error: StoreError) {
        let Some(line) = self.unwritten.pop_front() else { return };
        let error = CallError::from(error);
        tracing::error!(run = %self.key, %error, "a line of the agent could not be stored");
        let mut translation = self.translation.clone();
        let steps = self.steps_of(&mut translation, &line.content, &mut Vec::new());
        for step in &steps {
            if let Step::Asked(ask) = step {
                translation.refused.insert(ask.request_id.clone());
                let words = format!("denied: the request could not be taken: {}", error.message);
                self.put(&control::answer_permission(&ask.request_id, &super::deny(&words)));
            }
        }
        let to = JournalPosition {
            segment: u32::try_from(line.position_after.segment).unwrap_or(u32::MAX),
            offset: line.position_after.offset,
        };
        loop {
            let notice =
                ChatEvent::Error { message: format!("a line of the agent could not be stored: {}", error.message) };
            match self.store_refusal(&translation, &notice, to).await {
                Ok(()) => break,
                Err(StoreError::Unavailable { .. } | StoreError::Busy { .. }) => tokio::time::sleep(STORE_RETRY).await,
                Err(error) => {
                    // Somebody else moved the position or ended the chat: this task no longer owns the run.
                    tracing::error!(run = %self.key, %error, "a run was taken over; it is left alone from here");
                    return std::future::pending().await;
                }
            }
        }
        self.translation = translation;
        self.position = to;
    }

    async fn store_refusal(
        &self,
        translation: &Translation,
        notice: &ChatEvent,
        to: JournalPosition,
    ) -> Result<(), StoreError> {
        let mut changes = Vec::new();
        if let Some(chat) = &translation.chat {
            let events = vec![notice.to_new_event()?];
            changes.push(Change::AppendEvents(AppendEvents { session: self.key.session, chat: chat.number, events }));
        }
        changes.push(Change::SetJournalPosition(SetJournalPosition { run: self.key, expects: self.position, to }));
        changes.push(Change::UpdateRun(UpdateRun {
            translation: Patch::Set(JsonText::of(translation)?),
            ..UpdateRun::of(self.key)
        }));
        self.core.store.commit(changes, Priority::Normal).await.map(|_| ())
    }

    /// Opens a chat for a turn that nobody here asked for.
    async fn open_own_chat(&mut self) -> Result<(), StoreError> {
        let session = self.core.store.session(self.key.session).await?;
        let number = match session.newest_chat {
            Some(chat) if session.open_chat().is_some() => chat.number,
            Some(chat) => chat.number + 1,
            None => 0,
        };
        let mut translation = self.translation.clone();
        translation.chat = Some(OpenChat::new(number, None));
        let mut changes = Vec::new();
        if session.open_chat().is_none() {
            let start = StartChat {
                origin: ChatOrigin::SelfStarted,
                run: Some(self.key.n),
                ..StartChat::new(self.key.session, "(the agent went on by itself)")
            };
            changes.push(Change::StartChat(start));
        }
        self.remember(translation, UpdateRun { idle_since: Patch::Clear, ..UpdateRun::of(self.key) }, changes).await?;
        self.facts.set_idle(None);
        Ok(())
    }
}

impl Run {
    fn end_chat(&self, draft: &mut Draft) -> Result<(), StoreError> {
        draft.flush();
        draft.changes.extend(self.ending_changes(&mut draft.translation, &draft.session, None)?);
        draft.ended_chat = true;
        Ok(())
    }
}

impl Draft {
    fn event(&mut self, event: &ChatEvent) -> Result<(), StoreError> {
        if self.translation.chat.is_some() {
            self.events.push(event.to_new_event()?);
        } else {
            tracing::debug!(session = %self.session.id, kind = event.type_name(), "nothing is open that this could be said in");
        }
        Ok(())
    }

    /// Events keep their place among the other changes: what was said before a question is stored before it.
    fn flush(&mut self) {
        if let (Some(chat), false) = (&self.translation.chat, self.events.is_empty()) {
            let events = std::mem::take(&mut self.events);
            self.changes.push(Change::AppendEvents(AppendEvents {
                session: self.session.id,
                chat: chat.number,
                events,
            }));
        }
    }

    fn settle(&mut self, record: &ApprovalRecord, fate: Fate) {
        self.changes.push(Change::SettleApproval(SettleApproval { id: record.id, fate, at: UnixMillis::now() }));
    }
}

/// An allow must carry the input that was approved: as edited, or as asked.
fn same_input(record: &ApprovalRecord, echoed: Option<&claude_code::RawJson>) -> Result<bool, StoreError> {
    let edited = record.decision.as_ref().and_then(|decision| decision.updated_input.as_ref());
    let approved: serde_json::Value = edited.unwrap_or(&record.input).read()?;
    let echoed = echoed.and_then(|raw| raw.to_value().ok());
    Ok(echoed.is_some_and(|echoed| input_digest(&echoed) == input_digest(&approved)))
}

/// Finds the `request_id` of a control request in the first bytes of a line that is too long to read.
fn request_at_head(line: &LineContent) -> Option<String> {
    let head = match line {
        LineContent::TooLong { head, .. } => head,
        LineContent::Whole(_) => return None,
    };
    let head = String::from_utf8_lossy(head);
    if !head.contains(r#""type":"control_request""#) {
        return None;
    }
    let (_, rest) = head.split_once(r#""request_id":""#)?;
    let (id, _) = rest.split_once('"')?;
    let plain = !id.is_empty() && id.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    plain.then(|| id.to_owned())
}
