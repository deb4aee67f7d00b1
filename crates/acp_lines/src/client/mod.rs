//! Starts an agent and speaks with it while it runs.
//!
//! An [`AcpClient`] says how the program is started. The caller holds an [`AcpConnection`], and
//! dropping that ends the child with everything it started. The questions of the agent are answered
//! through a [`Sender`], which knows which are open ([`questions`]).

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

/// Why an agent could not be started. Nothing that it printed is in here.
#[derive(Debug, thiserror::Error)]
#[error("could not start the agent: {0}; install it or give the path of an installed one")]
pub struct AcpError(#[from] StartError);

impl AcpClient {
    /// Makes a client that starts the program as `child` says.
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
