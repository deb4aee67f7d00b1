//! Refusals that depend on the stored state, in the same words for every engine.
//!
//! The tables read the current record and hand it in. Most rules are decided here; where only a
//! statement can tell (an `UPDATE` that names the state it expects), the tables decide and take the
//! words from here. Bounds that need no look at the store are in [`check`](super::check).

use std::time::Duration;

use plexus_core::{NodeId, ServerId, SessionId, TreeId};
use serde_json::Value;

use super::approval::{Again, ApprovalRecord, ApprovalStatus, DecideApproval, OpenApproval};
use super::change::Outcome;
use super::chat::{Chat, Fresh};
use super::cursor::SetReadPosition;
use super::error::{StoreError, Thing};
use super::limits::{
    MAX_CONSUMERS_PER_SESSION, MAX_PATH_NODES, MAX_PENDING_PER_SESSION, MAX_SESSION_DEPTH,
    MAX_SESSIONS,
};
use super::rule::StoredRule;
use super::run::{CreateRun, JournalPosition, RunKey, RunRecord, SetJournalPosition};
use super::server::{Lease, Server, ServerState, TakeOver};
use super::session::{SessionRecord, UpdateSession};

/// Refuses or not.
type Judged = Result<(), StoreError>;

/// Returns the refusal of an id that is in use. It does not say by what: nobody has looked.
pub(crate) fn id_taken() -> StoreError {
    let message = "store it: something with this id is there already".to_owned();
    StoreError::Conflict { message, standing: Value::Null }
}

// Sessions.

/// Refuses one more session than a store holds.
pub(crate) fn one_more_session(total: u64) -> Judged {
    if total < MAX_SESSIONS as u64 {
        return Ok(());
    }
    Err(StoreError::invalid(format_args!(
        "create the session: there are {total}, the most a store holds; delete some"
    )))
}

/// Refuses a new session when its parent has too many ancestors.
pub(crate) fn one_level_more(ancestors: usize) -> Judged {
    // The parent itself, and the new one.
    if ancestors + 2 <= MAX_SESSION_DEPTH {
        return Ok(());
    }
    Err(StoreError::invalid(format_args!(
        "create the session: at most {MAX_SESSION_DEPTH} may be nested"
    )))
}

pub(crate) fn name_taken(name: &str, holder: SessionId) -> StoreError {
    StoreError::conflict(format_args!("create {name:?}: the name is taken"), &holder)
}

pub(crate) fn new_name_taken(name: &str, holder: SessionId) -> StoreError {
    StoreError::conflict(format_args!("rename it to {name:?}: the name is taken"), &holder)
}

/// Refuses an update of another revision than the current one.
pub(crate) fn update(update: &UpdateSession, standing: &SessionRecord) -> Judged {
    match update.expects_revision {
        Some(revision) if revision != standing.revision => {
            Err(StoreError::conflict("update the session: it changed meanwhile", standing))
        }
        _ => Ok(()),
    }
}

pub(crate) fn has_children(below: &[SessionId]) -> StoreError {
    StoreError::conflict("delete the session: it has child sessions", &below)
}

// Chats and their events.

/// Returns that there is no such chat, or none at all where the newest one was asked for.
pub(crate) fn no_chat(session: SessionId, number: Option<u32>) -> StoreError {
    match number {
        Some(number) => {
            StoreError::not_found(Thing::Chat, format_args!("{number} of session {session}"))
        }
        None => StoreError::not_found(
            Thing::Chat,
            format_args!("of session {session}: it has had none"),
        ),
    }
}

pub(crate) fn chat_ended(standing: &Chat) -> StoreError {
    StoreError::conflict("change the chat: it has ended", standing)
}

pub(crate) fn chat_running(standing: &Chat) -> StoreError {
    StoreError::conflict("start the chat: another one of this session is running", standing)
}

pub(crate) fn chat_full() -> StoreError {
    StoreError::invalid("append the event: the chat has the most events that it can have")
}

// Readers' positions.

/// Refuses a read position after the last of a chat's `total` events.
pub(crate) fn read_position(set: &SetReadPosition, total: u32) -> Judged {
    if set.next <= total {
        return Ok(());
    }
    Err(StoreError::invalid("move the read position past the last event"))
}

pub(crate) fn cursor_ahead() -> StoreError {
    StoreError::invalid("use this cursor: it lies past the last event of the session")
}

/// Refuses one more consumer than a session may have.
pub(crate) fn one_more_consumer(count: u64) -> Judged {
    if count < MAX_CONSUMERS_PER_SESSION as u64 {
        return Ok(());
    }
    Err(StoreError::invalid(format_args!(
        "add a consumer: the session has {MAX_CONSUMERS_PER_SESSION}, the most it may have; \
         delete some"
    )))
}

pub(crate) fn no_consumer(session: SessionId, name: &str) -> StoreError {
    StoreError::not_found(Thing::Consumer, format_args!("{name:?} of session {session}"))
}

// Runs.

/// Refuses a run that is to have another number than the next.
pub(crate) fn run_number(new: &CreateRun, next: RunKey) -> Judged {
    match new.expects_n {
        Some(n) if n != next.n => Err(StoreError::conflict(
            format_args!("create the run: the next one is {}", next.n),
            &next,
        )),
        _ => Ok(()),
    }
}

/// Refuses to change a run that has ended.
pub(crate) fn run_goes_on(run: &RunRecord) -> Judged {
    if run.ended_at.is_none() {
        Ok(())
    } else {
        Err(StoreError::conflict("change the run: it has ended", run))
    }
}

/// Refuses a journal position before the expected one.
pub(crate) fn journal_goes_on(set: &SetJournalPosition) -> Judged {
    if set.to >= set.expects {
        Ok(())
    } else {
        Err(StoreError::invalid("move the journal position back"))
    }
}

pub(crate) fn journal_elsewhere(standing: JournalPosition) -> StoreError {
    StoreError::conflict("move the journal position: it stands elsewhere", &standing)
}

// Approvals.

/// How long a child that asks too much waits before it may ask again.
const RETRY_TOO_MANY: Duration = Duration::from_secs(5);

/// Returns the approval that this request became before, or refuses another question under its key.
pub(crate) fn asked_before(
    open: &OpenApproval,
    standing: ApprovalRecord,
) -> Result<Outcome, StoreError> {
    if standing.input_digest == open.input_digest {
        return Ok(Outcome::Approval { record: standing, fresh: Fresh::Found });
    }
    Err(StoreError::conflict(
        "open the approval: this request asked for other input before",
        &standing,
    ))
}

/// Refuses one more question of a session than may be pending.
pub(crate) fn one_more_question(session: &SessionRecord) -> Judged {
    if (session.pending_approvals as usize) < MAX_PENDING_PER_SESSION {
        return Ok(());
    }
    let message = format!(
        "open the approval: {MAX_PENDING_PER_SESSION} of this session are pending, the most it \
         may have"
    );
    Err(StoreError::busy(message, RETRY_TOO_MANY))
}

/// Says whether the decision is still to be made or stands already. Refuses a decision for other
/// input, and a second, different one.
pub(crate) fn decision(
    decide: &DecideApproval,
    standing: &ApprovalRecord,
) -> Result<Fresh, StoreError> {
    if decide.expects_digest.as_ref().is_some_and(|digest| *digest != standing.input_digest) {
        return Err(StoreError::conflict(
            "decide: the approval is for other input than you saw",
            standing,
        ));
    }
    if standing.status == ApprovalStatus::Pending {
        return Ok(Fresh::Made);
    }
    let edit = standing.decision.as_ref().and_then(|decision| decision.updated_input.as_ref());
    let same = standing.status == decide.verdict.status() && edit == decide.verdict.updated_input();
    match decide.again {
        Again::Fine if same => Ok(Fresh::Found),
        Again::Fine | Again::Refused => {
            Err(StoreError::conflict("decide: another decision stands", standing))
        }
    }
}

pub(crate) fn passed_on(standing: &ApprovalRecord) -> StoreError {
    StoreError::conflict("escalate: it is decided, or was escalated already", standing)
}

pub(crate) fn not_to_settle(standing: &ApprovalRecord) -> StoreError {
    StoreError::conflict("settle: it is pending, or was settled in another way", standing)
}

pub(crate) fn parked_elsewhere(standing: &ApprovalRecord) -> StoreError {
    StoreError::conflict("park or wake: the approval is in another state", standing)
}

// Rules.

/// Refuses a rule that would end with a run that has ended already.
pub(crate) fn rule_ends_with(run: &RunRecord) -> Judged {
    if run.ended_at.is_none() {
        return Ok(());
    }
    Err(StoreError::conflict("add the rule: the run that it would end with has ended", &run.key))
}

pub(crate) fn rule_used_up(standing: &StoredRule) -> StoreError {
    StoreError::conflict("use the rule: it is used up or has expired", standing)
}

// Servers that share the store.

pub(crate) fn lease_over(lease: Lease) -> StoreError {
    StoreError::fenced(format_args!("write as server {}: its lease has ended", lease.server))
}

pub(crate) fn of_another(owner: ServerId) -> StoreError {
    StoreError::fenced(format_args!("write it: it belongs to server {owner}"))
}

pub(crate) fn runs_elsewhere(standing: &RunRecord) -> StoreError {
    StoreError::conflict("begin here: the session runs on another server", standing)
}

/// Refuses to retire a server that has come back, or has something open.
pub(crate) fn retirement(lease: Lease, standing: &Server) -> Judged {
    if standing.lease != lease {
        return Err(StoreError::fenced(format_args!(
            "retire server {}: it has registered again",
            lease.server
        )));
    }
    if standing.open_runs + standing.open_chats > 0 {
        return Err(StoreError::conflict("retire the server: it has runs or chats open", standing));
    }
    Ok(())
}

/// Refuses to take over from a server that lives, or is another by now.
pub(crate) fn takeover(over: &TakeOver, standing: &Server) -> Judged {
    if standing.lease == over.lease && standing.state == ServerState::Expired {
        return Ok(());
    }
    Err(StoreError::conflict("take over from the server: its lease has not run out", standing))
}

// Arbor.

pub(crate) fn tree_there(id: TreeId) -> StoreError {
    StoreError::conflict("create the tree: its id or its root's is there already", &id)
}

pub(crate) fn node_there(id: NodeId) -> StoreError {
    StoreError::conflict("append the node: its id is there already", &id)
}

pub(crate) fn other_tree(node: NodeId, tree: TreeId) -> StoreError {
    StoreError::invalid(format_args!("use node {node}: it belongs to another tree than {tree}"))
}

pub(crate) fn not_above(from: NodeId, to: NodeId) -> StoreError {
    StoreError::invalid(format_args!(
        "find a path from {from} to {to}: the first is not above the second"
    ))
}

/// Refuses a path of more nodes than one answer holds.
pub(crate) fn path_length(nodes: usize) -> Judged {
    if nodes <= MAX_PATH_NODES {
        return Ok(());
    }
    Err(StoreError::invalid(format_args!(
        "read a path of {nodes} nodes at once: at most {MAX_PATH_NODES}"
    )))
}
