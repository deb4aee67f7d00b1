//! Approvals, from the question to the answer: the one place where a permission request becomes a
//! row, and a decision becomes an answer.
//!
//! Both channels open approvals here. A question and its `awaiting_approval` event are one
//! transaction; a decision and its `approval_resolved` event are another; an answer leaves only
//! after its decision is committed. Any error on the way is a denial with a reason.
//!
//! In reading order:
//! - this file: a question, an answer, and what everything here is built from;
//! - [`opening`]: a question becomes an approval;
//! - [`input`]: inputs that can be asked about; [`judge`]: what rules and modes say of a call;
//! - [`shown`]: approvals as the wire shows them;
//! - [`asked_by`]: which command the network asks for; [`asker`]: the process that opened it;
//! - [`deciding`]: a decision becomes a change; [`answer`]: the answer that the agent gets;
//! - [`questions`]: answers to a question of the agent;
//! - [`release`], [`rejudge`]: rules and modes that come later, here and through other servers;
//! - [`deadlines`]: expiry, reminders, escalation; [`waited`]: how long decisions took.

pub mod answer;
mod asked_by;
mod asker;
pub mod deadlines;
mod deciding;
pub mod input;
pub mod judge;
mod opening;
pub(crate) mod questions;
mod rejudge;
mod release;
pub mod shown;
mod waited;

use std::sync::Arc;
use std::time::Duration;

use plexus_core::{ApprovalId, CallError, Caller, LatencyReading};
use plexus_store::{ApprovalRecord, Fresh, JsonText, SessionRecord, Store, StoreError};
use plexus_wire::Answers;
use serde_json::Value;

use self::shown::ApprovalViews;
use self::waited::DecisionLatency;
use crate::agents::Agents;
use crate::authority::Authority;
use crate::hooks::Hooks;
use crate::parking::ParkCounts;
use crate::rulebook::Rulebook;

/// The interval of reminders about a question whose session has no deadline.
pub(crate) const REMIND_EVERY: Duration = Duration::from_secs(300);

/// A permission request, from whichever channel.
pub struct Question<'a> {
    /// Who asks.
    pub session: &'a SessionRecord,
    /// The chat in which it asks, if one is open.
    pub chat: Option<u32>,
    /// The run that asks, when the child is one of ours.
    pub run: Option<u32>,
    /// How it asks, by the name of the channel.
    pub channel: &'static str,
    /// The agent's id of the question.
    pub request_id: &'a str,
    /// The tool.
    pub tool_name: &'a str,
    /// The call.
    pub tool_use_id: &'a str,
    /// The input, byte for byte as it was asked.
    pub input: JsonText,
    /// What the agent says of it.
    pub description: Option<String>,
    /// Why only a person may allow it, as the agent says.
    pub person_only: Option<String>,
}

/// Opens and decides approvals. One for a server.
pub struct Approvals {
    pub(crate) store: Arc<dyn Store>,
    /// The standing rules in force.
    pub rulebook: Arc<Rulebook>,
    /// Who may decide what.
    pub authority: Authority,
    /// How requests are shown.
    pub views: ApprovalViews,
    /// Who is told outside.
    pub hooks: Hooks,
    /// What the agents that ask can do.
    pub agents: Agents,
    waited: DecisionLatency,
    /// Counts how often a waiting agent could be parked.
    pub(crate) parkable: ParkCounts,
}

/// A decision as a caller gives it.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Whether it is an allow.
    pub approve: bool,
    /// What the agent is told with it.
    pub message: Option<String>,
    /// The input to run instead of the one that was asked about.
    pub updated_input: Option<Value>,
    /// The answers to a question of the agent.
    pub answers: Option<Answers>,
    /// The digest of the input that the caller saw.
    pub input_digest: Option<String>,
}

impl Approvals {
    pub(crate) fn new(
        store: Arc<dyn Store>,
        rulebook: Arc<Rulebook>,
        hooks: Hooks,
        agents: Agents,
    ) -> Self {
        Self {
            authority: Authority::new(Arc::clone(&store)),
            views: hooks.views.clone(),
            store,
            rulebook,
            hooks,
            agents,
            waited: DecisionLatency::default(),
            parkable: ParkCounts::default(),
        }
    }

    /// Returns the approval if `caller` may know of it.
    pub async fn reach(
        &self,
        caller: &Caller,
        id: ApprovalId,
    ) -> Result<ApprovalRecord, CallError> {
        let hidden = || {
            CallError::not_found(format_args!("find the approval {id}"))
                .with_hint("loopback.pending lists those that wait for you")
        };
        let record = match self.store.approval(id).await {
            Ok(record) => record,
            Err(StoreError::NotFound { .. }) => return Err(hidden()),
            Err(error) => return Err(error.into()),
        };
        match self.authority.reach(caller, record.session).await {
            Ok(_) => Ok(record),
            Err(error) if error.kind == plexus_core::ErrorKind::NotFound => Err(hidden()),
            Err(error) => Err(error),
        }
    }

    /// Whether the agent of a session is parked, or being woken.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn is_parked(&self, session: plexus_core::SessionId) -> Result<bool, StoreError> {
        Ok(!crate::parking::waker::parked_of(self, session).await?.is_empty())
    }

    /// Lists the parked calls of a session, whose transcripts this server may have copies of.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn parked_calls(
        &self,
        session: plexus_core::SessionId,
    ) -> Result<Vec<plexus_core::ApprovalId>, StoreError> {
        let parked = crate::parking::waker::parked_of(self, session).await?;
        Ok(parked.into_iter().map(|record| record.id).collect())
    }

    /// Builds the changes that keep a session's parked agent from being woken, because its chat is
    /// ended without a process.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn close_parked(
        &self,
        session: plexus_core::SessionId,
        why: &str,
    ) -> Result<Vec<plexus_store::Change>, StoreError> {
        crate::parking::waker::close_parked(self, session, why).await
    }

    /// Says how long questions waited for their decisions.
    pub(crate) fn waited(&self) -> Vec<(&'static str, LatencyReading)> {
        self.waited.read()
    }

    /// Counts how long a question waited for its decision. The commit has already woken the run or
    /// the call that waits for the answer.
    pub(crate) fn decided(&self, record: &ApprovalRecord, fresh: Fresh) {
        self.waited.note(record, fresh);
        plexus_fault::point!("decision.committed");
    }
}
