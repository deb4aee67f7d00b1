//! Starts an agent and talks to it while it runs.
//!
//! An [`AcpClient`] says how the program is started. The caller holds an [`AcpConnection`], and
//! dropping that ends the child with everything it started. A [`Sender`] answers the questions of
//! the agent, and knows which are open ([`questions`]).

mod connection;
mod questions;
mod sender;

use std::ffi::OsStr;

use agent_lines::child::{ChildOptions, Input, StartError};

pub use agent_lines::rpc::{CALL_TIMEOUT, CallError, MAX_HELD_LINES, SendError};
pub use connection::{AcpConnection, CLOSE_GRACE, HandshakeError, UNSUPERVISED_METHODS};
pub use questions::MAX_OPEN_QUESTIONS;
pub use sender::{Answered, DecideError, Decision, Sender};

use questions::{NotingParser, SharedQuestions};

/// Starts an agent. Cheap to clone.
#[derive(Debug, Clone)]
pub struct AcpClient {
    child: ChildOptions,
}

/// Why an agent could not be started. The error contains nothing that the agent printed.
#[derive(Debug, thiserror::Error)]
#[error("could not start the agent: {0}; install it or give the path of an installed one")]
pub struct AcpError(#[from] StartError);

impl AcpClient {
    /// Creates a client that starts the program as `child` says.
    pub fn new(child: ChildOptions) -> Self {
        Self { child }
    }

    /// Starts the agent with these arguments and returns at once, before the handshake. Must be
    /// called inside a tokio runtime.
    pub fn start(
        &self,
        arguments: impl IntoIterator<Item = impl AsRef<OsStr>>,
    ) -> Result<AcpConnection, AcpError> {
        let questions = SharedQuestions::default();
        let parser = NotingParser::new(questions.clone());
        let started = self.child.clone().start(arguments, Input::Open, parser)?;
        Ok(AcpConnection::new(started, questions))
    }
}
