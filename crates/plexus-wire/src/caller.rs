//! Who is calling. A [`Caller`] comes from a token and from nothing else: never from an argument, a
//! header or a path.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ids::{DeviceId, SessionId};

/// The identity behind one call.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(not(feature = "server"), non_exhaustive)]
pub enum Caller {
    /// The person who runs the server. May do everything.
    Operator,
    /// A session acting as a parent: sees and answers for its own strict descendants only.
    Session(SessionId),
    /// The CLI process of a session, asking for permission: may call `permit` for that session and
    /// nothing else.
    Child(SessionId),
    /// A device of the operator, such as a phone: may read and decide, and nothing else.
    Device(DeviceId),
}

impl Caller {
    /// Names the kind of caller, for logs and traces.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Operator => "operator",
            Self::Session(_) => "session",
            Self::Child(_) => "child",
            Self::Device(_) => "device",
        }
    }

    /// Returns the session this caller acts as, if it is neither the operator nor a device of the
    /// operator.
    #[must_use]
    pub fn session(&self) -> Option<SessionId> {
        match self {
            Self::Operator | Self::Device(_) => None,
            Self::Session(id) | Self::Child(id) => Some(*id),
        }
    }
}
