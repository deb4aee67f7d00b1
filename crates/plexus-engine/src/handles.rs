//! The handles of everything that the wire shows: the owner of each, and the parts by which the
//! owner finds it again.
//!
//! The owners are the activations of this server, at the top of the hub; their paths
//! are their namespaces. Sessions, chats and events belong to the owner of their agent. A handle
//! never changes its owner: that of a session follows from the name of its agent, which is fixed at
//! its creation, and that of a chat is stored with its stream.

use std::sync::LazyLock;

use plexus_core::{ApprovalId, Handle, NodeId, PluginId, RuleId, SessionId, TreeId};
use plexus_store::{FIRST_OWNER, HANDLE_VERSION, first_owner};
use plexus_wire::FIRST_AGENT;

/// The name of the agent Codex, and the path of the owner of its handles.
pub const CODEX: &str = "codex";

/// The name of the agent that is a model without tools, and the path of the owner of its handles.
pub const CONE: &str = "cone";

/// The path of the owner of every other agent's handles: those that speak the Agent Client
/// Protocol.
pub const ACP: &str = "acp";

/// Returns the path of the activation that owns what an agent's sessions show. The agent need not
/// be known any more: the handles of a session outlive the settings that named its agent.
#[must_use]
pub fn owner_path(agent: &str) -> &'static str {
    match agent {
        FIRST_AGENT => FIRST_OWNER.0,
        CODEX => CODEX,
        CONE => CONE,
        _ => ACP,
    }
}

/// Returns the id of that activation.
#[must_use]
pub fn owner(agent: &str) -> PluginId {
    if agent == FIRST_AGENT { first_owner() } else { PluginId::of(owner_path(agent), 1) }
}

/// The owner of approvals, rules and the audit.
static LOOPBACK: LazyLock<PluginId> = LazyLock::new(|| PluginId::of("loopback", 1));

/// The owner of trees and nodes.
static ARBOR: LazyLock<PluginId> = LazyLock::new(|| PluginId::of("arbor", 1));

fn handle(owner: &PluginId, method: &str, id: impl ToString) -> Handle {
    Handle::new(*owner, HANDLE_VERSION, method).with_meta([id.to_string()])
}

/// The handle of a session with that agent.
#[must_use]
pub fn session(agent: &str, id: SessionId) -> Handle {
    handle(&owner(agent), "session", id)
}

/// The handle of a chat.
#[must_use]
pub fn chat(owner: PluginId, session: SessionId, number: u32) -> Handle {
    Handle::new(owner, HANDLE_VERSION, "chat").with_meta([session.to_string(), number.to_string()])
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
