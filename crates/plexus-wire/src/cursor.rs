//! Named readers of a session, whose positions the server keeps.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::SessionId;
use crate::schema::tagged;
use crate::time::Millis;

/// Parameters of `cursors`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct CursorsParams {
    /// The session.
    pub session_id: SessionId,
}

impl CursorsParams {
    /// The readers of a session.
    #[must_use]
    pub fn new(session_id: SessionId) -> Self {
        Self { session_id }
    }
}

/// A named reader of a session, and where it stands.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub struct Consumer {
    /// Its name.
    pub consumer: String,
    /// The chat it stands in.
    pub chat: u32,
    /// The number of the next event it will get.
    pub seq: u32,
    /// Its position.
    pub cursor: String,
    /// When it moved last.
    pub updated_at: Millis,
}

/// A result of `cursors`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(tag = "type", rename = "ok")]
#[schemars(rename = "ConsumerList", transform = tagged("ok"))]
pub struct ConsumerList {
    /// The named readers of the session.
    pub cursors: Vec<Consumer>,
}

/// Parameters of `cursor_set`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct CursorSetParams {
    /// The session.
    pub session_id: SessionId,
    /// The reader's name.
    #[serde(deserialize_with = "crate::text::one::<crate::text::Name, _>")]
    #[schemars(length(min = 1, max = 256))]
    pub consumer: String,
    /// Where it stands from now on.
    #[serde(deserialize_with = "crate::text::one::<crate::text::Text, _>")]
    pub cursor: String,
}

impl CursorSetParams {
    /// Moves a reader of a session to a position.
    pub fn new(
        session_id: SessionId,
        consumer: impl Into<String>,
        cursor: impl Into<String>,
    ) -> Self {
        Self { session_id, consumer: consumer.into(), cursor: cursor.into() }
    }
}

/// Parameters of `cursor_delete`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct CursorDeleteParams {
    /// The session.
    pub session_id: SessionId,
    /// The reader's name.
    #[serde(deserialize_with = "crate::text::one::<crate::text::Name, _>")]
    #[schemars(length(min = 1, max = 256))]
    pub consumer: String,
}

impl CursorDeleteParams {
    /// Forgets a reader of a session.
    pub fn new(session_id: SessionId, consumer: impl Into<String>) -> Self {
        Self { session_id, consumer: consumer.into() }
    }
}
