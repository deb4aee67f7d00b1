//! The handles of what the wire shows: who owns each, and what it needs to find it again.
//!
//! The owners are the activations of this server, which stand at the top of the hub; their paths are
//! their namespaces.

use std::sync::LazyLock;

use plexus_core::{ApprovalId, Handle, NodeId, PluginId, RuleId, SessionId, TreeId};
use plexus_store::{EVENT_OWNER, HANDLE_VERSION};

/// The owner of sessions, chats and events.
static SESSIONS: LazyLock<PluginId> = LazyLock::new(|| PluginId::of(EVENT_OWNER.0, EVENT_OWNER.1));

/// The owner of approvals, rules and the audit.
static LOOPBACK: LazyLock<PluginId> = LazyLock::new(|| PluginId::of("loopback", 1));

/// The owner of trees and nodes.
static ARBOR: LazyLock<PluginId> = LazyLock::new(|| PluginId::of("arbor", 1));

fn handle(owner: &PluginId, method: &str, id: impl ToString) -> Handle {
    Handle::new(*owner, HANDLE_VERSION, method).with_meta([id.to_string()])
}

/// The handle of a session.
#[must_use]
pub fn session(id: SessionId) -> Handle {
    handle(&SESSIONS, "session", id)
}

/// The handle of a chat.
#[must_use]
pub fn chat(session: SessionId, number: u32) -> Handle {
    Handle::new(*SESSIONS, HANDLE_VERSION, "chat")
        .with_meta([session.to_string(), number.to_string()])
}

/// The handle of a permission request.
#[must_use]
pub fn approval(id: ApprovalId) -> Handle {
    handle(&LOOPBACK, "approval", id)
}

/// The handle of a standing rule.
#[must_use]
pub fn rule(id: RuleId) -> Handle {
    handle(&LOOPBACK, "rule", id)
}

/// The handle of a line of the audit.
#[must_use]
pub fn audit_line(number: u64) -> Handle {
    handle(&LOOPBACK, "audit_line", number)
}

/// The handle of a tree.
#[must_use]
pub fn tree(id: TreeId) -> Handle {
    handle(&ARBOR, "tree", id)
}

/// The handle of a node.
#[must_use]
pub fn node(id: NodeId) -> Handle {
    handle(&ARBOR, "node", id)
}
