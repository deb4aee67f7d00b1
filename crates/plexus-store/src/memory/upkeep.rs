//! Upkeep over maps: counting and pruning.

use super::state::State;
use crate::contract::{
    ApprovalStatus, ChatStatus, Counts, JsonText, NodeData, Pruned, ServerState, UnixMillis,
};
use serde_json::json;

pub(super) fn counts(state: &State) -> Counts {
    let chats =
        |status| state.chats.values().filter(|record| record.chat.status == status).count() as u64;
    let approvals =
        |status| state.approvals.values().filter(|it| it.status == status).count() as u64;
    Counts {
        sessions: state.sessions.values().filter(|record| !record.deleted).count() as u64,
        chats_running: chats(ChatStatus::Running),
        chats_complete: chats(ChatStatus::Complete),
        chats_failed: chats(ChatStatus::Failed),
        chats_cancelled: chats(ChatStatus::Cancelled),
        events: state.events_ever,
        approvals_pending: approvals(ApprovalStatus::Pending),
        approvals_allowed: approvals(ApprovalStatus::Allowed),
        approvals_denied: approvals(ApprovalStatus::Denied),
        approvals_expired: approvals(ApprovalStatus::Expired),
        approvals_cancelled: approvals(ApprovalStatus::Cancelled),
        runs_open: state.runs.values().filter(|run| run.ended_at.is_none()).count() as u64,
        commits: state.commits,
        queue_entries: 0,
        bytes_on_disk: 0,
    }
}

pub(super) fn prune(state: &mut State, before: UnixMillis) -> Pruned {
    let mut pruned = Pruned::default();
    let old = |at: Option<UnixMillis>| at.is_some_and(|at| at < before);
    state.approvals.retain(|_, it| {
        let settled = it.delivered_at.is_some() || it.void_at.is_some();
        let goes = settled && old(it.decision.as_ref().map(|decision| decision.at));
        pruned.approvals += u64::from(goes);
        !goes
    });
    state.audit.retain(|_, line| {
        pruned.audit += u64::from(line.at < before);
        line.at >= before
    });
    for record in
        state.chats.values_mut().filter(|record| !record.chat.pruned && old(record.chat.ended_at))
    {
        for event in &mut record.events {
            event.body = JsonText::from(json!({ "type": event.event_type, "pruned": true }));
        }
        if let Some(prompt) = state.nodes.get_mut(&record.chat.user_node) {
            prompt.node.data = NodeData::Text { content: String::new() };
        }
        record.chat.pruned = true;
        pruned.chats += 1;
        pruned.events += record.events.len() as u64;
    }
    let gone = |state| matches!(state, ServerState::Retired | ServerState::TakenOver);
    state.servers.retain(|_, it| !gone(it.state) || it.heartbeat_at >= before);
    state.batches.retain(|batch| state.chats.contains_key(&batch.chat));
    pruned
}
