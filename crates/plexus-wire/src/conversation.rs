//! `render_context`: a conversation as the model's API would take it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::handle::Handle;
use crate::ids::{NodeId, SessionId};
use crate::json::{Json, Object};
use crate::said::Said;
use crate::schema::tagged;
use crate::session::SessionRef;

/// Parameters of `render_context`.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct RenderParams {
    /// The session's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// Its exact name.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::text::maybe::<crate::text::Text, _>"
    )]
    pub name: Option<String>,
    /// The first node; the root without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub start: Option<NodeId>,
    /// The last node; the head without it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end: Option<NodeId>,
}

impl RenderParams {
    /// The whole conversation of a session.
    #[must_use]
    pub fn new(session: SessionRef) -> Self {
        Self { session_id: session.session_id, name: session.name, start: None, end: None }
    }
}

/// A result of `render_context`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "ok")]
#[schemars(rename = "Rendered", transform = tagged("ok"))]
pub struct Rendered {
    /// The conversation as the model's API would take it.
    pub messages: Vec<Message>,
    /// The session that created this one, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<SessionId>,
    /// For a fork: the session whose conversation it goes on from, as long as that exists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forked_from: Option<ForkedFrom>,
}

/// What a fork goes on from.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct ForkedFrom {
    /// The session.
    pub session_id: SessionId,
    /// Its name.
    pub name: String,
    /// Its handle.
    pub handle: Handle,
}

/// One message of a conversation.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Message {
    /// Who says it.
    pub role: Said<Role>,
    /// What is said, in order.
    pub content: Vec<Said<Block>>,
    /// The handle of each block, in the same order: of the event, or of the node that holds a
    /// prompt. Always there from this version on.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub handles: Vec<Handle>,
}

/// Who says a message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The user, or a tool that answers.
    User,
    /// The model.
    Assistant,
}

/// One block of a message.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum Block {
    /// A text.
    Text {
        /// The text.
        text: String,
    },
    /// What the model thinks.
    Thinking {
        /// The text.
        thinking: String,
    },
    /// The model uses a tool.
    ToolUse {
        /// The call.
        id: String,
        /// The tool.
        name: String,
        /// Its input.
        #[schemars(with = "Object")]
        input: Json,
    },
    /// A tool has run, or was refused.
    ToolResult {
        /// The call.
        tool_use_id: String,
        /// What it gave.
        #[schemars(with = "ToolOutput")]
        content: Json,
        /// Whether it failed.
        is_error: bool,
    },
    /// Something of long ago, whose content was removed.
    Pruned {
        /// What it was: `prompt`, or the type of its event.
        was: String,
    },
}

/// What a tool gave: text, or content blocks as the agent wrote them. Only its schema is used; the
/// JSON itself is kept as it was.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub enum ToolOutput {
    /// Text.
    Text(String),
    /// Blocks of text, images and references.
    Blocks(Vec<Object>),
    /// Anything else that an agent gave.
    Other(Option<Object>),
}
