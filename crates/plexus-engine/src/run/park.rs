//! Parking this run: judged, noted, its process ended in order, and what is left kept.
//!
//! That no answer is sent any more is stored before the process is asked to end. A server that dies
//! in between goes on with it, because the state of the run says so.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use plexus_store::{
    AppendEvents, ApprovalRecord, ApprovalStatus, Change, JsonText, KeepTranscript, ParkApproval,
    ParkStep, Parking, Stage, StoreError, UpdateRun,
};
use plexus_wire::ChatEvent;

use super::{Keeping, Run};
use crate::driver::{Channel, NotParkable, WaitingCall, WakeMark};
use crate::event::ToNewEvent;
use crate::parking::{ParkedFacts, child_env, contents, directories, inode, packed, transcript};
use crate::session::SessionConfig;

/// When a question is judged first, to count whether its agent could be parked. The agent writes
/// its transcript a moment after it asks.
const JUDGE_AFTER: Duration = Duration::from_secs(1);

/// What is known of a transcript that may be parked.
pub(super) struct Kept {
    path: PathBuf,
    text: String,
    mark: WakeMark,
    directories: Vec<PathBuf>,
}

/// What another server needs of a parked agent.
struct Shipped {
    /// Its transcript; `None` when it is too long.
    packed: Option<Vec<u8>>,
    /// What its directories hold; `None` when that is too much.
    contents: Option<String>,
}

/// When the open question was asked here, and whether it was counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waits {
    since: Instant,
    /// When it is judged next.
    pub(super) at: Instant,
    counted: bool,
}

impl Run {
    /// A question waits: it is judged after a while, and parked when it has waited long enough.
    pub(super) fn waits(&mut self) {
        let now = Instant::now();
        let after = self.settings.park_after.map_or(JUDGE_AFTER, |after| after.min(JUDGE_AFTER));
        self.waits = Some(Waits { since: now, at: now + after, counted: false });
    }

    /// Judges the question that waits, and parks the run if it has waited long enough.
    pub(super) async fn consider_parking(&mut self) {
        let Some(mut waits) = self.waits.take() else { return };
        let judged = match self.judge_parking().await {
            Ok(Some(judged)) => judged,
            // Nothing waits any more.
            Ok(None) => return,
            Err(error) => {
                let run = self.key;
                tracing::warn!(%run, %error, "could not look whether a run can be parked");
                Err(NotParkable::NoTranscript)
            }
        };
        if !waits.counted {
            let verdict = judged.as_ref().map(|_| ()).map_err(|why| *why);
            self.approvals.parkable.note(verdict);
            waits.counted = true;
        }
        let Some(after) = self.settings.park_after else { return };
        let due = waits.since + after;
        if Instant::now() < due {
            self.waits = Some(Waits { at: due, ..waits });
            return;
        }
        let parked = match judged {
            Ok((record, _)) => self.begin_parking(&record).await,
            Err(why) => {
                tracing::debug!(run = %self.key, %why, "not parkable");
                false
            }
        };
        if !parked {
            // Background work ends, siblings are answered: it is judged again.
            self.waits = Some(Waits { at: Instant::now() + after.max(JUDGE_AFTER), ..waits });
        }
    }

    /// Parks the run now, if that is safe. Says whether its process is being ended.
    pub(super) async fn park_now(&mut self) -> bool {
        match self.judge_parking().await {
            Ok(Some(Ok((record, _)))) => self.begin_parking(&record).await,
            Ok(Some(Err(why))) => {
                tracing::info!(run = %self.key, %why, "not parkable");
                false
            }
            Ok(None) => false,
            Err(error) => {
                let run = self.key;
                tracing::warn!(%run, %error, "could not look whether a run can be parked");
                false
            }
        }
    }

    /// Judges whether this run can be parked with the one question that it has; `None` when it has
    /// none.
    async fn judge_parking(
        &mut self,
    ) -> Result<Option<Result<(ApprovalRecord, Kept), NotParkable>>, StoreError> {
        let mut pending = self.approvals(Stage::Pending).await?;
        let Some(record) = pending.pop() else { return Ok(None) };
        if let Err(why) = self.is_parkable_kind() {
            return Ok(Some(Err(why)));
        }
        if !pending.is_empty() || !self.unsent.is_empty() || self.owes_answers().await? {
            return Ok(Some(Err(NotParkable::OtherQuestions)));
        }
        if self.state.chat.is_none() || self.state.is_stopping() || self.is_leaving() {
            return Ok(Some(Err(NotParkable::Ending)));
        }
        let kept = self.judge_transcript(&record).await?;
        Ok(Some(kept.map(|kept| (record, kept))))
    }

    /// Says whether runs like this one can be parked at all, whatever they wait for.
    fn is_parkable_kind(&self) -> Result<(), NotParkable> {
        if !self.state.mind.powers().park {
            return Err(NotParkable::NoPower);
        }
        if self.approvals.parkable.has_not_asked() {
            return Err(NotParkable::Version);
        }
        if self.channel != Channel::Control || self.keeping != Keeping::Kept {
            return Err(NotParkable::Channel);
        }
        Ok(())
    }

    /// Judges what the agent has said and written.
    async fn judge_transcript(
        &self,
        record: &ApprovalRecord,
    ) -> Result<Result<Kept, NotParkable>, StoreError> {
        let session = self.store.session(self.key.session).await?;
        let config = SessionConfig::of(&session)?;
        let Some(conversation) = &self.state.conversation else {
            return Ok(Err(NotParkable::NoTranscript));
        };
        let wall = self.state.mind.wall();
        let of = (self.key.session, &config);
        let env = |name: &str| child_env(&self.settings, of, wall.as_ref(), name);
        let Some(place) = self.state.mind.transcript(conversation, &env) else {
            return Ok(Err(NotParkable::NoTranscript));
        };
        let (mind, record) = (self.state.mind.copy(), record.clone());
        let judged = tokio::task::spawn_blocking(move || {
            let path = transcript::find(&place).ok_or(NotParkable::NoTranscript)?;
            let text = transcript::read(&path).map_err(|_| NotParkable::NoTranscript)?;
            let call = WaitingCall {
                tool_use_id: &record.tool_use_id,
                tool_name: &record.tool_name,
                input: record.input.as_str(),
                working_dir: &config.working_dir,
            };
            let mark = mind.parkable(&call, &text)?;
            Ok(Kept { path, text, mark, directories: directories(&config) })
        });
        Ok(judged.await.unwrap_or(Err(NotParkable::NoTranscript)))
    }

    /// Notes that this run is being parked, then asks its process to end. Says whether it was
    /// noted.
    async fn begin_parking(&mut self, record: &ApprovalRecord) -> bool {
        let mut state = self.state.clone();
        state.parking = Some(record.id);
        let begin = ParkApproval { id: record.id, step: ParkStep::Begin };
        let changes = vec![Change::ParkApproval(begin)];
        plexus_fault::point!("park.begin.before");
        match self.remember(state, UpdateRun::of(self.key), changes).await {
            Ok(()) => {
                plexus_fault::point!("park.begin.committed");
                tracing::info!(run = %self.key, "the run is being parked");
                self.end_now();
                true
            }
            // Somebody decided in this moment, and the answer goes to the process that waits.
            Err(StoreError::Conflict { .. }) => false,
            Err(error) => {
                let run = self.key;
                tracing::warn!(%run, %error, "could not note that a run is being parked");
                false
            }
        }
    }

    /// The process is gone: builds the changes that leave its question parked. `Err` says why that
    /// cannot be.
    pub(super) async fn parked_changes(&self) -> Result<Result<Vec<Change>, String>, StoreError> {
        let Some(chat) = self.state.chat.as_ref().filter(|chat| chat.stop.is_none()) else {
            return Ok(Err("its chat is being ended".to_owned()));
        };
        let (record, begins) = match self.question_to_park().await? {
            Ok(found) => found,
            Err(why) => return Ok(Err(why.to_string())),
        };
        let kept = match self.judge_transcript(&record).await? {
            Ok(kept) => kept,
            Err(why) => return Ok(Err(why.to_string())),
        };
        let server = self.store.lease().map(|lease| lease.server);
        let mut facts = ParkedFacts {
            conversation: self.state.conversation.clone().unwrap_or_default(),
            mark: kept.mark,
            bytes: kept.text.len() as u64,
            digest: transcript::digest(kept.text.as_bytes()),
            transcript: kept.path,
            directory: kept.directories.first().and_then(|dir| inode(dir)),
            server,
            contents: None,
            tries: 0,
        };
        let (path, data_dir) = (facts.transcript.clone(), self.settings.data_dir.clone());
        let id = record.id;
        let keep = move || {
            transcript::keep(&path, &kept.text, &data_dir, id)?;
            // Only servers that share a store can wake each other's agents.
            server.map(|_| shipped(&kept.text, &kept.directories)).transpose()
        };
        let shipped = match tokio::task::spawn_blocking(keep).await {
            Ok(Ok(shipped)) => shipped,
            Ok(Err(error)) => return Ok(Err(format!("its transcript could not be kept: {error}"))),
            Err(error) => return Ok(Err(format!("its transcript could not be kept: {error}"))),
        };
        plexus_fault::point!("park.copied");
        let (session, number) = (self.key.session, chat.number);
        let mut changes = Vec::new();
        if let Some(Shipped { packed, contents }) = shipped {
            facts.contents = contents;
            changes.extend(packed.map(|data| {
                Change::KeepTranscript(KeepTranscript { session, chat: number, data })
            }));
        }
        let step = |step| Change::ParkApproval(ParkApproval { id, step });
        if begins {
            changes.push(step(ParkStep::Begin));
        }
        changes.push(step(ParkStep::Done(JsonText::of(&facts)?)));
        let words = "parked: the agent has no process while it waits for a decision about";
        let notice = ChatEvent::notice(format!("{words} {}", record.tool_name));
        changes.push(Change::AppendEvents(AppendEvents {
            session,
            chat: number,
            events: vec![notice.to_new_event()?],
        }));
        Ok(Ok(changes))
    }

    /// The question of a process that is gone, and whether it has yet to be noted that it is being
    /// parked. Only a process that we ended for that, or that ended where no server saw it, is
    /// parked.
    async fn question_to_park(
        &self,
    ) -> Result<Result<(ApprovalRecord, bool), NotParkable>, StoreError> {
        if let Some(id) = self.state.parking {
            let record = self.store.approval(id).await?;
            // The agent may have withdrawn it meanwhile.
            let is_parking = record.parking == Some(Parking::Parking);
            return Ok(is_parking.then_some((record, false)).ok_or(NotParkable::Ending));
        }
        if let Err(why) = self.is_parkable_kind() {
            return Ok(Err(why));
        }
        let pending = self.approvals(Stage::Pending).await?;
        Ok(match (<[_; 1]>::try_from(pending), self.owes_answers().await?) {
            (Ok([record]), false) => Ok((record, true)),
            _ => Err(NotParkable::OtherQuestions),
        })
    }

    /// Whether the agent may not have an answer yet. It waits for none to a question that was
    /// cancelled.
    async fn owes_answers(&self) -> Result<bool, StoreError> {
        let undelivered = self.approvals(Stage::Undelivered).await?;
        Ok(undelivered.iter().any(|record| record.status != ApprovalStatus::Cancelled))
    }
}

/// Makes what another server needs. What it cannot have is told in the log: this server alone wakes
/// the agent then.
fn shipped(text: &str, directories: &[PathBuf]) -> io::Result<Shipped> {
    let packed = packed::pack(text)?;
    if packed.is_none() {
        tracing::info!("the transcript is too long for the store; no other server can wake it");
    }
    let contents = contents::digest(directories)
        .inspect_err(|error| tracing::info!(%error, "no other server can wake this agent"))
        .ok();
    Ok(Shipped { packed, contents })
}
