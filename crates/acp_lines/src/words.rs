//! The words that both sides use. A word that is not one of these is left out when a line is read,
//! and stays in the line's raw JSON.

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
            /// Returns the word on the wire.
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
    /// What kind of thing a tool does. The agent's own word, and no evidence.
    pub enum ToolKind {
        /// Reads.
        Read = "read",
        /// Changes a file.
        Edit = "edit",
        /// Deletes.
        Delete = "delete",
        /// Moves or renames.
        Move = "move",
        /// Searches.
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

    /// How far a call of a tool has come.
    pub enum ToolStatus {
        /// It has not begun, or waits for leave.
        Pending = "pending",
        /// It runs.
        InProgress = "in_progress",
        /// It did what it was for.
        Completed = "completed",
        /// It did not.
        Failed = "failed",
    }

    /// What an option of a permission request means. Options are chosen by this, never by their
    /// place or name.
    pub enum OptionKind {
        /// It may happen, this once.
        AllowOnce = "allow_once",
        /// It may happen from now on. Agents keep this in files and apply it to other sessions.
        AllowAlways = "allow_always",
        /// It may not happen, this once.
        RejectOnce = "reject_once",
        /// It may never happen.
        RejectAlways = "reject_always",
    }

    /// Why a turn ended.
    pub enum StopReason {
        /// The model was done.
        EndTurn = "end_turn",
        /// The model reached its limit of tokens.
        MaxTokens = "max_tokens",
        /// The agent reached its limit of requests to the model.
        MaxTurnRequests = "max_turn_requests",
        /// The model refused.
        Refusal = "refusal",
        /// The client cancelled it.
        Cancelled = "cancelled",
    }
}
