//! The requests that a supervisor sends, by their method.

use serde_json::Value;

use super::params::{
    AccountRead, Initialize, ThreadFork, ThreadList, ThreadRef, ThreadResume, ThreadStart,
    TurnInterrupt, TurnStart, TurnSteer,
};

/// Declares the requests, their methods and their parameters in one table.
macro_rules! requests {
    ($( $(#[$meta:meta])* $name:ident($params:ty) = $method:literal, )*) => {
        /// A request.
        #[derive(Debug, Clone, PartialEq)]
        pub enum ClientRequest {
            $( $(#[$meta])* $name($params), )*
            /// Any other method.
            Other {
                /// The method.
                method: String,
                /// Its parameters.
                params: Option<Value>,
            },
        }

        impl ClientRequest {
            /// Returns the method.
            pub fn method(&self) -> &str {
                match self {
                    $( Self::$name(_) => $method, )*
                    Self::Other { method, .. } => method,
                }
            }

            /// Returns the parameters as JSON.
            pub(super) fn params(&self) -> Option<Value> {
                match self {
                    // Plain data with string keys: writing it cannot fail.
                    $( Self::$name(params) => serde_json::to_value(params).ok(), )*
                    Self::Other { params, .. } => params.clone(),
                }
            }

            /// Reads a request; none when the parameters of a known method have another form.
            pub(super) fn read(method: String, params: Option<Value>) -> Option<Self> {
                match method.as_str() {
                    $( $method => serde_json::from_value(params?).ok().map(Self::$name), )*
                    _ => Some(Self::Other { method, params }),
                }
            }
        }
    };
}

requests! {
    /// Begins the conversation with the server, once.
    Initialize(Initialize) = "initialize",
    /// Begins a thread.
    ThreadStart(ThreadStart) = "thread/start",
    /// Goes on with a thread.
    ThreadResume(ThreadResume) = "thread/resume",
    /// Copies a thread, up to a turn.
    ThreadFork(ThreadFork) = "thread/fork",
    /// Lists the threads that are kept.
    ThreadList(ThreadList) = "thread/list",
    /// Summarises a thread, in a turn of its own.
    ThreadCompact(ThreadRef) = "thread/compact/start",
    /// Lists the commands that run on.
    BackgroundTerminalsList(ThreadRef) = "thread/backgroundTerminals/list",
    /// Ends the commands that run on, but for what left their session.
    BackgroundTerminalsClean(ThreadRef) = "thread/backgroundTerminals/clean",
    /// Sends a prompt; while a turn runs it is folded into that turn.
    TurnStart(TurnStart) = "turn/start",
    /// Sends a prompt into a running turn.
    TurnSteer(TurnSteer) = "turn/steer",
    /// Ends a turn; a command that runs is not ended.
    TurnInterrupt(TurnInterrupt) = "turn/interrupt",
    /// Tells who is logged in.
    AccountRead(AccountRead) = "account/read",
}
