//! A woken run: its process asks again about the call that was parked, and gets the answer that was
//! decided. At most one allow ever leaves for a call.

use plexus_core::ApprovalId;
use plexus_core::digest::input_digest;
use plexus_store::{
    AppendEvents, Change, Fate, JsonText, ParkApproval, ParkStep, Parking, SettleApproval,
    StoreError, UnixMillis,
};
use plexus_wire::ChatEvent;
use serde::{Deserialize, Serialize};

use super::Run;
use super::draft::Draft;
use crate::approvals::input::acceptable;
use crate::driver::Ask;
use crate::event::ToNewEvent;
use crate::parking::ParkedFacts;

/// How often an agent is woken for one decision. A process that dies each time is not started for
/// ever.
const MAX_WAKES: u32 = 3;

/// What the agent reads when its call may have run before its process was killed.
const MAY_HAVE_RUN: &str = "run it again: it was allowed once, and its process was killed before \
                            its result was seen, so it may have run; look before you repeat it";

/// The call for which a run was woken.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(crate) struct Woken {
    /// What was decided.
    pub(crate) approval: ApprovalId,
    /// The agent's id of the call.
    pub(crate) tool_use_id: String,
    /// Whether the process has asked about it.
    pub(crate) asked: bool,
    /// Whether the call has its result.
    pub(crate) finished: bool,
}

impl Run {
    /// Whether this question is the one that the run was woken for.
    pub(super) fn is_asked_again(draft: &Draft, ask: &Ask) -> bool {
        let woken = draft.state.woken.as_ref();
        woken.is_some_and(|woken| woken.tool_use_id == ask.tool_use_id && !woken.finished)
    }

    /// The process asks about the call that was parked. The approval becomes that of this question,
    /// and its decision is the answer, if the call is the one that was approved and no allow was
    /// ever sent for it.
    pub(super) async fn asked_again(&self, draft: &mut Draft, ask: &Ask) -> Result<(), StoreError> {
        let Some(woken) = &mut draft.state.woken else { return Ok(()) };
        woken.asked = true;
        let record = self.store.approval(woken.approval).await?;
        if record.run == Some(self.key.n) && record.request_id == ask.request_id {
            // The agent says again what is open; the answer is on its way.
            return Ok(());
        }
        let input = JsonText::parse(ask.input.get()).and_then(|input| acceptable(&input));
        let is_same = match &input {
            Ok(input) => {
                input_digest(input) == record.input_digest && ask.tool_name == record.tool_name
            }
            Err(_) => false,
        };
        let why = if !is_same {
            "run it: the agent now asks about another input than the one that was decided"
        } else if ask.person_only.is_some() && record.person_only.is_none() {
            "run it: the agent now says that only a person may allow it, and did not when it was \
             decided"
        } else if record.allow_sent_at.is_some() {
            MAY_HAVE_RUN
        } else if record.parking != Some(Parking::Waking) {
            "run it: the decision about it does not wait for this process"
        } else {
            plexus_fault::point!("wake.asked.before");
            draft.changes.push(Change::ParkApproval(ParkApproval {
                id: record.id,
                step: ParkStep::Asked {
                    run: self.key.n,
                    request_id: ask.request_id.clone(),
                    at: UnixMillis::now(),
                },
            }));
            return Ok(());
        };
        if record.delivered_at.is_none() && record.void_at.is_none() {
            draft.settle(&record, Fate::Void);
        }
        self.refuse(draft, ask, why)
    }

    /// The process is gone before the call had its result: builds the changes after which it is
    /// woken again. `None` when that is not to be.
    pub(super) async fn parked_again(&self) -> Result<Option<Vec<Change>>, StoreError> {
        let Some(woken) = self.state.woken.as_ref().filter(|woken| !woken.finished) else {
            return Ok(None);
        };
        let Some(chat) = self.state.chat.as_ref().filter(|chat| chat.stop.is_none()) else {
            return Ok(None);
        };
        let record = self.store.approval(woken.approval).await?;
        let Some(facts) = &record.parked else { return Ok(None) };
        let mut facts: ParkedFacts = facts.read()?;
        facts.tries += 1;
        if facts.tries >= MAX_WAKES || record.void_at.is_some() {
            return Ok(None);
        }
        let again = ParkStep::Again(JsonText::of(&facts)?);
        let words = if record.allow_sent_at.is_some() {
            "the woken agent was ended after its call was allowed; it is told that the call may \
             have run"
        } else {
            "the woken agent was ended before it had its answer; it is woken again"
        };
        Ok(Some(vec![
            Change::ParkApproval(ParkApproval { id: record.id, step: again }),
            Change::AppendEvents(AppendEvents {
                session: self.key.session,
                chat: chat.number,
                events: vec![ChatEvent::notice(words).to_new_event()?],
            }),
        ]))
    }

    /// The decision of a woken run that ends for good reaches nobody any more.
    pub(super) async fn void_woken(&self) -> Result<Option<Change>, StoreError> {
        let Some(woken) = &self.state.woken else { return Ok(None) };
        let record = self.store.approval(woken.approval).await?;
        let is_open = record.delivered_at.is_none() && record.void_at.is_none();
        // One that this run has asked about is closed with its other questions.
        let is_elsewhere = record.run != Some(self.key.n);
        Ok((is_open && is_elsewhere).then(|| {
            let (id, fate, at) = (record.id, Fate::Void, UnixMillis::now());
            Change::SettleApproval(SettleApproval { id, fate, at })
        }))
    }

    /// Ends a woken process that has not asked again in time. Nothing ran.
    pub(super) async fn end_unasked(&mut self) {
        self.ask_by = None;
        if self.state.woken.as_ref().is_some_and(|woken| !woken.asked && !woken.finished) {
            self.approvals.parkable.did_not_ask();
            let secs = self.settings.handshake.as_secs();
            let words = format!("the woken agent did not ask again within {secs} s; nothing ran");
            self.stop(super::state::StopReason::TimedOut, words).await;
        }
    }
}
