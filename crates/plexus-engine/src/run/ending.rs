//! How a chat and a run end: judged from what was heard, once, and stored in one transaction.

use std::path::PathBuf;
use std::time::Instant;

use plexus_core::{ApprovalId, EventId, NodeId};
use plexus_shim::layout::ExitFile;
use plexus_store::{
    AddSpend, Again, AppendEvents, ApprovalRecord, Change, DecidedBy, EndChat, EndRun, Ending,
    Fate, JsonText, NewEvent, Position, Priority, RemoveRules, RevokeTokens, RunKey, SessionRecord,
    SettleApproval, Spend, Stage, StoreError, UnixMillis, UpdateSession, Verdict,
};
use plexus_wire::{ChatEvent, Usage};
use serde::Serialize;

use super::pump::{Linger, Pumped};
use super::state::{Begun, OpenChat, RunState, StopReason};
use super::{Keeping, Lost, Over, Run, approvals_of, outside};
use crate::approvals::Approvals;
use crate::driver::{Channel, TurnReport};
use crate::event::ToNewEvent;
use crate::parking::transcript;
use crate::scrub;
use crate::session::{SessionConfig, SessionState};
use crate::wait::STORE_RETRY;

/// How much of what a shim said goes into the reason of a chat's end.
const MAX_SHIM_WORDS: usize = 2_048;

/// How often a journal that cannot be read is tried again after its child has ended: for a minute.
const READ_TRIES: u32 = 240;

/// Whether the journal of a child that has ended was read to its end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// It was.
    Read,
    /// It could not be read.
    Unread,
}

/// What a run's row says in place of how its process ended.
#[derive(Serialize)]
pub(crate) struct NoExit<'a> {
    pub(crate) reason: &'a str,
}

/// How a process ended, as far as anybody knows.
enum Exit<'a> {
    Known(&'a ExitFile),
    /// The shim did not come to say it; this is what is known of the shim.
    Unknown(String),
}

impl Run {
    /// Builds the changes that end the open chat of `state`, and closes it there.
    pub(super) fn ending_changes(
        &self,
        state: &mut RunState,
        session: &SessionRecord,
        exit: Option<&ExitFile>,
        outside: &[PathBuf],
    ) -> Result<Vec<Change>, StoreError> {
        let turn = state.turn();
        let usage = turn.usage;
        let unfinished = state.mind.unfinished().map(str::to_owned);
        let conversation = state.conversation.clone().or_else(|| session.claude_session_id.clone());
        let stderr = std::mem::take(&mut state.stderr_tail);
        let Some(chat) = state.close() else { return Ok(Vec::new()) };
        let gone = match (exit, self.hold.is_gone()) {
            (Some(exit), _) => Some(Exit::Known(exit)),
            (None, true) => Some(Exit::Unknown(self.last_of_the_shim())),
            (None, false) => None,
        };
        let ending = judge(&chat, &turn, gone, &stderr);
        let id = EventId::generate();
        let node_id = match self.keeping {
            Keeping::Kept => NodeId::from_uuid(*id.as_uuid()),
            Keeping::Ephemeral => session.head,
        };
        let event = match &ending {
            Ending::Complete => ChatEvent::Complete {
                new_head: Position { tree_id: session.tree, node_id },
                claude_session_id: conversation,
                // What an ephemeral chat says is in a copy of the conversation that nobody goes on
                // with.
                claude_message_id: turn.last_message.filter(|_| self.keeping == Keeping::Kept),
                usage,
            },
            Ending::Failed(message) => ChatEvent::Error { message: message.clone() },
            Ending::Cancelled(reason) => {
                ChatEvent::Error { message: format!("cancelled: {reason}") }
            }
        };
        let event = NewEvent { id, ..event.to_new_event()? };
        let amount = spend(&usage, chat.began_at);
        let usage = JsonText::of(&usage)?;
        let mut changes =
            self.approvals.hooks.chat_ended(session, chat.number, &ending, Some(&usage))?;
        let last = unfinished.map(|text| ChatEvent::Content { text });
        let last = last.into_iter().chain(outside::notice(outside));
        let events = last.map(|event| event.to_new_event()).collect::<Result<Vec<_>, _>>()?;
        if !events.is_empty() {
            let (session, chat) = (self.key.session, chat.number);
            changes.push(Change::AppendEvents(AppendEvents { session, chat, events }));
        }
        changes.push(Change::EndChat(EndChat {
            session: self.key.session,
            chat: chat.number,
            ending,
            usage: Some(usage),
            event,
        }));
        changes.push(Change::AddSpend(AddSpend { session: self.key.session, amount }));
        Ok(changes)
    }

    /// Describes a shim that wrote nothing about its child: how it ended, and what it wrote before
    /// it had a child.
    fn last_of_the_shim(&self) -> String {
        let ended = self
            .hold
            .status()
            .map_or_else(String::new, |status| format!("; its shim ended with {status}"));
        let words = std::fs::read(self.dir.shim_log()).unwrap_or_default();
        let words = String::from_utf8_lossy(&words[..words.len().min(MAX_SHIM_WORDS)]);
        match words.trim() {
            "" => ended,
            words => format!("{ended}: {}", scrub::text(words)),
        }
    }

    /// Whether the process may wait for the next prompt. Never with work in the background, and not
    /// for ever.
    pub(super) fn may_stay_warm(&self, state: &RunState) -> bool {
        let settings = &self.settings;
        let report = state.mind.report();
        self.channel == Channel::Control
            && self.keeping == Keeping::Kept
            && !report.works_in_background
            && !report.spent
            // A woken process asks about more than it was started to ask about.
            && state.woken.is_none()
            && !self.facts.is_closing()
            && settings.max_warm > 0
            && self.since.elapsed() < settings.warm_max_age
            && self.facts.journal_bytes() < settings.warm_max_journal_bytes
    }

    /// After a chat has ended: wait for the next prompt, or leave.
    pub(super) fn chat_ended(&mut self, stays_warm: bool) {
        self.ladder = None;
        if !stays_warm {
            self.close();
            return;
        }
        if let Err(error) = self.dir.mark_idle() {
            tracing::warn!(run = %self.key, %error, "could not mark an idle child");
        }
        self.facts.set_idle(Some(Instant::now()));
        if let Some(keeper) = self.keeper.upgrade() {
            keeper.one_more_idle();
        }
    }

    /// The process is gone: store the rest of its journal, end what is open, and clean up.
    pub(super) async fn finish(&mut self) -> Result<(), Over> {
        plexus_fault::point!("exit.noticed");
        if self.state.prestarted.is_some() && !self.is_leaving() {
            tracing::warn!(run = %self.key, stderr = %self.state.stderr_tail, "an agent that was \
                started before its first chat has ended by itself; the chat starts another");
        }
        let exit = self.dir.read_exit().unwrap_or_else(|error| {
            tracing::warn!(run = %self.key, %error, "could not read how a child ended");
            None
        });
        if exit.is_none() {
            // The shim was killed: its processes are ended first, while their parents still show
            // whose they are.
            self.kill_all().await;
        }
        let rest = self.read_to_the_end().await?;
        while !self.unwritten.is_empty() {
            self.store_lines(Linger::Refused).await?;
        }
        loop {
            match self.store_end(exit.as_ref()).await {
                Ok(()) => break,
                Err(StoreError::Fenced { .. }) => return Err(Over::Fenced),
                Err(error) => {
                    tracing::warn!(run = %self.key, %error, "could not store the end of a run; \
                        trying again");
                    tokio::time::sleep(STORE_RETRY).await;
                }
            }
        }
        plexus_fault::point!("end.committed");
        // The store has everything of this run, so its directory is removed. It must not stay: the
        // MCP configuration in it holds a token.
        if rest == Rest::Read
            && let Err(error) = crate::files::remove_all(self.dir.path())
        {
            tracing::debug!(run = %self.key, %error, "could not remove a run directory");
        }
        Ok(())
    }

    /// Stores the journal up to its end. A journal that cannot be read is tried again for a while:
    /// whoever took all descriptors may give some back.
    async fn read_to_the_end(&mut self) -> Result<Rest, Over> {
        let mut tries = 0;
        loop {
            match self.pump(Linger::Refused).await? {
                Pumped::Stored => tries = 0,
                Pumped::Nothing => break,
                Pumped::Unreadable if tries < READ_TRIES => tries += 1,
                Pumped::Unreadable => {
                    tracing::error!(run = %self.key, dir = %self.dir.path().display(), "the last \
                        output of a child cannot be read; its run directory is kept");
                    return Ok(Rest::Unread);
                }
            }
        }
        // The shim writes whole lines; only one that was killed leaves half of one behind.
        self.unwritten.extend(self.journal.drain_tail());
        Ok(Rest::Read)
    }

    /// The chat that was handed to this process in the moment it left, and that it never heard of:
    /// another process has to serve it.
    pub(super) fn unserved(&self) -> Option<u32> {
        let chat = self.state.chat.as_ref()?;
        let never_heard = chat.begun == Begun::OnWarm
            && chat.prompt.is_some()
            && !self.state.turn().heard_of_prompt;
        (never_heard && chat.stop.is_none()).then_some(chat.number)
    }

    /// Builds the change that remembers what the conversation has cost: a CLI notes it when it
    /// leaves, and one that goes on with the conversation counts from there. A CLI that is killed
    /// notes nothing.
    fn noted_cost(
        &self,
        session: &SessionRecord,
        exit: Option<&ExitFile>,
    ) -> Result<Option<Change>, StoreError> {
        let left = exit.is_some_and(|exit| exit.code.is_some());
        let mut state = SessionState::of(session)?;
        let cost = self.state.mind.report().conversation_cost_usd;
        if !left || self.keeping == Keeping::Ephemeral || state.conversation_cost == cost {
            return Ok(None);
        }
        state.conversation_cost = cost;
        Ok(Some(Change::UpdateSession(UpdateSession {
            expects_revision: Some(session.revision),
            state: Some(state.to_json()?),
            ..UpdateSession::of(session.id)
        })))
    }

    async fn store_end(&mut self, exit: Option<&ExitFile>) -> Result<(), StoreError> {
        let session = match self.store.session(self.key.session).await {
            Ok(session) => session,
            // Deleted meanwhile: its rows are gone, and nobody can be told.
            Err(StoreError::NotFound { .. }) => {
                self.drop_copy_of_woken();
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        let mut state = self.state.clone();
        let parked = match self.state.chat.as_ref().map(|chat| chat.number) {
            Some(chat) if session.open_chat() == Some(chat) => {
                self.parked(&mut state, exit).await?
            }
            Some(_) | None => None,
        };
        let stays = parked.is_some();
        let mut changes = parked.unwrap_or_default();
        let kept = changes.iter().find_map(|change| match change {
            Change::ParkApproval(step) => Some(step.id),
            _ => None,
        });
        changes.extend(close_questions(&self.approvals, self.key, kept).await?);
        changes.extend(self.noted_cost(&session, exit)?);
        if stays {
            // What follows is counted by the process that goes on.
            let began_at = state.chat.take().map_or_else(UnixMillis::now, |chat| chat.began_at);
            let amount = spend(&Usage::default(), began_at);
            changes.push(Change::AddSpend(AddSpend { session: self.key.session, amount }));
        } else {
            changes.extend(self.void_woken().await?);
        }
        if state.chat.as_ref().is_some_and(|chat| session.open_chat() != Some(chat.number)) {
            // Somebody ended it before its child was there.
            state.close();
        }
        if !stays && self.unserved().is_none() {
            let outside = self.changed_outside(&SessionConfig::of(&session)?).await;
            changes.extend(self.ending_changes(&mut state, &session, exit, &outside)?);
        }
        let exit = match exit {
            Some(exit) => JsonText::of(exit)?,
            None => JsonText::of(&NoExit { reason: "nobody saw how it ended" })?,
        };
        changes.push(Change::EndRun(EndRun { run: self.key, exit }));
        changes.push(Change::RevokeTokens(RevokeTokens::Run(self.key)));
        changes.push(Change::RemoveRules(RemoveRules::EndingWith(self.key)));
        plexus_fault::point!("park.end.before", when stays);
        self.store.commit(changes, Priority::Urgent).await?;
        plexus_fault::point!("park.end.committed", when stays);
        // A process that parks with a later question is done with the one it was woken for.
        if !stays || self.state.woken.as_ref().is_some_and(|woken| woken.finished) {
            self.drop_copy_of_woken();
        }
        self.go_on_with(state);
        Ok(())
    }

    /// Removes the copy of the transcript from which this run was woken.
    fn drop_copy_of_woken(&self) {
        if let Some(woken) = &self.state.woken {
            transcript::drop_copy(&self.settings.data_dir, woken.approval);
        }
    }

    /// Builds the changes that leave the open chat without a process, for another one to go on with
    /// it; `None` when it ends with this one. Why it could not be parked is noted in `state`.
    async fn parked(
        &self,
        state: &mut RunState,
        exit: Option<&ExitFile>,
    ) -> Result<Option<Vec<Change>>, StoreError> {
        if let Some(again) = self.parked_again().await? {
            return Ok(Some(again));
        }
        if state.chat.as_ref().is_some_and(|chat| chat.stop.is_some()) {
            return Ok(None);
        }
        let is_parking = self.state.parking.is_some();
        let is_lost = match self.lost {
            Lost::No => false,
            Lost::WithMachine => true,
            // A shim that is gone in order has said how its child ended.
            Lost::WithServer => exit.is_none(),
        };
        let may_be_parked = is_parking || is_lost && self.settings.park_after.is_some();
        if !may_be_parked {
            return Ok(None);
        }
        match self.parked_changes().await? {
            Ok(changes) => Ok(Some(changes)),
            Err(why) => {
                let words = match (is_parking, self.lost) {
                    (true, _) => "it was to be parked while it waited, and could not be",
                    (false, Lost::WithMachine) => {
                        "it ended with its machine, and could not be parked"
                    }
                    (false, Lost::WithServer | Lost::No) => {
                        tracing::info!(run = %self.key, why, "an agent that ended without a \
                            server could not be parked");
                        return Ok(None);
                    }
                };
                let words = format!("{words}: {why}");
                if let Some(chat) = &mut state.chat {
                    chat.stop(StopReason::TimedOut, words);
                }
                Ok(None)
            }
        }
    }
}

/// Builds the changes that leave no question of a run open whose process is gone: nobody needs to
/// answer it, and no answer can arrive. `kept` is the one that is parked: another process asks it.
pub(crate) async fn close_questions(
    approvals: &Approvals,
    run: RunKey,
    kept: Option<ApprovalId>,
) -> Result<Vec<Change>, StoreError> {
    let mut changes = Vec::new();
    let goes = |record: &ApprovalRecord| Some(record.id) != kept;
    let pending = approvals_of(&*approvals.store, run, Stage::Pending).await?;
    for record in pending.into_iter().filter(goes) {
        let why = Some("the agent ended before anybody answered".to_owned());
        let by = DecidedBy::AgentEnded;
        changes.push(approvals.decision_on(
            &record,
            None,
            Verdict::Cancel,
            by,
            why,
            Again::Fine,
        )?);
    }
    let undelivered = approvals_of(&*approvals.store, run, Stage::Undelivered).await?;
    for record in undelivered.into_iter().filter(goes) {
        let (id, at) = (record.id, UnixMillis::now());
        changes.push(Change::SettleApproval(SettleApproval { id, fate: Fate::Void, at }));
    }
    Ok(changes)
}

/// Says how a chat ended. A request of a caller comes first, then what the agent said, then how the
/// process ended.
fn judge(chat: &OpenChat, turn: &TurnReport, exit: Option<Exit<'_>>, stderr: &str) -> Ending {
    if let Some(stop) = &chat.stop {
        return match stop.reason {
            StopReason::Cancelled => Ending::Cancelled(stop.words.clone()),
            StopReason::TimedOut | StopReason::Failed | StopReason::Budget | StopReason::Breach => {
                Ending::Failed(format!("stopped: {}", stop.words))
            }
        };
    }
    match (&turn.outcome, exit) {
        (Some(Err(failure)), _) => Ending::Failed(failure.clone()),
        (Some(Ok(())), _) => Ending::Complete,
        (None, None) => Ending::Failed("the agent ended its turn without a result".into()),
        (None, Some(exit)) => {
            let how = match exit {
                Exit::Known(ExitFile {
                    reason: Some(reason), code: None, signal: None, ..
                }) => reason.clone(),
                Exit::Known(ExitFile { signal: Some(signal), .. }) => format!("signal {signal}"),
                Exit::Known(ExitFile { code: Some(code), .. }) => format!("exit code {code}"),
                Exit::Known(_) => "nobody saw how".to_owned(),
                Exit::Unknown(shim) => format!("nobody saw how{shim}"),
            };
            let stderr = stderr.trim();
            let words = if stderr.is_empty() {
                String::new()
            } else {
                format!("; its last words: {}", scrub::text(stderr))
            };
            Ending::Failed(format!("the agent ended without a result ({how}){words}"))
        }
    }
}

fn spend(usage: &Usage, began_at: UnixMillis) -> Spend {
    Spend {
        cost_micros: (usage.cost_usd * 1e6).round().max(0.0) as u64,
        turns: usage.num_turns,
        input_tokens: usage.input_tokens,
        output_tokens: usage.output_tokens,
        wall_ms: u64::try_from(UnixMillis::now().0.saturating_sub(began_at.0)).unwrap_or(0),
    }
}
