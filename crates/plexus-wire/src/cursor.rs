//! Named readers of a session, whose positions the server keeps.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::SessionId;
use crate::schema::tagged;
use crate::session::SessionRef;
use crate::time::Millis;

/// A named reader of a session, and its position.
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
    /// The session's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// Its exact name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The reader's name.
    #[serde(deserialize_with = "crate::text::one::<crate::text::Name, _>")]
    #[schemars(length(min = 1, max = 256))]
    pub consumer: String,
    /// Its new position.
    #[serde(deserialize_with = "crate::text::one::<crate::text::Text, _>")]
    pub cursor: String,
}

impl CursorSetParams {
    /// Moves a reader of a session to a position.
    pub fn new(
        session: impl Into<SessionRef>,
        consumer: impl Into<String>,
        cursor: impl Into<String>,
    ) -> Self {
        let SessionRef { session_id, name } = session.into();
        Self { session_id, name, consumer: consumer.into(), cursor: cursor.into() }
    }
}

/// Parameters of `cursor_delete`.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
#[serde(deny_unknown_fields)]
pub struct CursorDeleteParams {
    /// The session's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub session_id: Option<SessionId>,
    /// Its exact name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The reader's name.
    #[serde(deserialize_with = "crate::text::one::<crate::text::Name, _>")]
    #[schemars(length(min = 1, max = 256))]
    pub consumer: String,
}

impl CursorDeleteParams {
    /// Forgets a reader of a session.
    pub fn new(session: impl Into<SessionRef>, consumer: impl Into<String>) -> Self {
        let SessionRef { session_id, name } = session.into();
        Self { session_id, name, consumer: consumer.into() }
    }
}
