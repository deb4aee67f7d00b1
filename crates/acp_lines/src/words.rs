//! The enumerated words of the protocol, used by both sides. When a line is read, an unknown word
//! is left out and stays in the line's raw JSON.

use agent_lines::json::{FromJson, Value};
use serde::{Deserialize, Serialize};

/// Declares enums and how each variant is spelled on the wire.
macro_rules! words {
    ($(
        $(#[$meta:meta])*
        pub enum $name:ident {
            $( $(#[$variant_meta:meta])* $variant:ident = $word:literal, )*
        }
    )*) => {$(
        $(#[$meta])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum $name {
            $( $(#[$variant_meta])* #[serde(rename = $word)] $variant, )*
        }

        impl $name {
            /// Returns the word as it is on the wire.
            pub fn as_str(self) -> &'static str {
                match self {
                    $( Self::$variant => $word, )*
                }
            }
        }

        impl FromJson for $name {
            fn from_json(value: Value<'_>) -> Option<Self> {
                match &*value.as_str()? {
                    $( $word => Some(Self::$variant), )*
                    _ => None,
                }
            }
        }
    )*};
}

words! {
    /// What kind of tool it is. The agent claims this, so it is no evidence.
    pub enum ToolKind {
        /// Reads data.
        Read = "read",
        /// Changes a file.
        Edit = "edit",
        /// Deletes data.
        Delete = "delete",
        /// Moves or renames files.
        Move = "move",
        /// Searches for something.
        Search = "search",
        /// Runs a command.
        Execute = "execute",
        /// Thinks or plans.
        Think = "think",
        /// Fetches from a network.
        Fetch = "fetch",
        /// Changes the session's mode.
        SwitchMode = "switch_mode",
        /// Anything else.
        Other = "other",
    }

    /// The status of a tool call.
    pub enum ToolStatus {
        /// The call has not begun, or waits for permission.
        Pending = "pending",
        /// The call runs.
        InProgress = "in_progress",
        /// The call succeeded.
        Completed = "completed",
        /// The call failed.
        Failed = "failed",
    }

    /// The meaning of an option of a permission request. We choose options by this, never by
    /// position or name.
    pub enum OptionKind {
        /// The call may run, this once.
        AllowOnce = "allow_once",
        /// Such calls may run from now on. Agents store this in files and apply it to other
        /// sessions.
        AllowAlways = "allow_always",
        /// The call may not run, this once.
        RejectOnce = "reject_once",
        /// Such calls may never run.
        RejectAlways = "reject_always",
    }

    /// Why a turn ended.
    pub enum StopReason {
        /// The model finished.
        EndTurn = "end_turn",
        /// The model reached its limit of tokens.
        MaxTokens = "max_tokens",
        /// The agent reached its limit of requests to the model.
        MaxTurnRequests = "max_turn_requests",
        /// The model refused.
        Refusal = "refusal",
        /// The client cancelled the turn.
        Cancelled = "cancelled",
    }
}
