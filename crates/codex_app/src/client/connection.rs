//! A live connection to a server.

use std::process::ExitStatus;
use std::time::Duration;

use agent_lines::LineError;
use agent_lines::child::{LiveChild, RunError, StderrTail, TerminationHandle};
use agent_lines::rpc::{CallError, Connection, LineInput, Outcome, RequestId, SendError};

use crate::event::ServerLine;
use crate::event::answer::Initialized;
use crate::send::{ClientLine, ClientRequest, Initialize};

/// How long a server may run after its input was closed. It was seen to take a tenth of a second.
pub const CLOSE_GRACE: Duration = Duration::from_secs(10);

/// A running server. Dropping it ends the child with everything it started.
#[derive(Debug)]
#[must_use = "dropping the connection ends the child"]
pub struct CodexConnection(Connection<ServerLine>);

/// Sends lines to a server. Cheap to clone; sending only queues a line and never waits.
#[derive(Debug, Clone)]
pub struct Sender(LineInput);

impl Sender {
    /// Queues a line.
    pub fn send(&self, line: &ClientLine) -> Result<(), SendError> {
        if let Some(method) = line.unsupervised_method() {
            return Err(SendError::Unsupervised { method: method.to_owned() });
        }
        Ok(self.0.send(line.to_line())?)
    }

    /// Closes the server's input once everything queued is written: it ends its commands and exits.
    pub fn close(&self) {
        self.0.close();
    }
}

impl CodexConnection {
    pub(super) fn new(child: LiveChild<ServerLine>) -> Self {
        Self(Connection::new(child))
    }

    /// Returns a sender; it may outlive this connection.
    pub fn sender(&self) -> Sender {
        Sender(self.0.input())
    }

    /// Returns a handle that can end the server; it may outlive this connection.
    pub fn termination(&self) -> TerminationHandle {
        self.0.termination()
    }

    /// Returns a view of the last lines that the server wrote to its standard error. They repeat
    /// text of the model.
    pub fn stderr_tail(&self) -> StderrTail {
        self.0.stderr_tail()
    }

    /// Sends `initialize` and waits for the answer.
    pub async fn handshake(&mut self, initialize: Initialize) -> Result<Initialized, CallError> {
        let outcome = self.call(ClientRequest::Initialize(initialize)).await?;
        let answer = outcome.read().ok_or(CallError::Unreadable)?;
        self.sender().send(&ClientLine::initialized())?;
        Ok(answer)
    }

    /// Sends a request and returns its id; the answer comes as a line.
    pub fn request(&mut self, request: ClientRequest) -> Result<RequestId, SendError> {
        let id = self.0.next_id();
        self.sender().send(&ClientLine::request(id.clone(), request))?;
        Ok(id)
    }

    /// Sends a request and waits for its answer, up to
    /// [`CALL_TIMEOUT`](agent_lines::rpc::CALL_TIMEOUT); a refusal is an error. Lines that arrive
    /// meanwhile are kept for [`CodexConnection::next_line`]. Dropping the future loses no line.
    pub async fn call(&mut self, request: ClientRequest) -> Result<Outcome, CallError> {
        let id = self.request(request)?;
        self.0.answer_to(&id).await
    }

    /// Returns the next line; `None` when the server's output has ended. Dropping the future loses
    /// nothing.
    pub async fn next_line(&mut self) -> Option<Result<ServerLine, LineError>> {
        self.0.next_line().await
    }

    /// Closes the server's input, reads the rest of its output, and returns how it ended. Commands
    /// that still run end with it, and a server that takes longer than [`CLOSE_GRACE`] is ended.
    pub async fn close(self) -> Result<ExitStatus, RunError> {
        self.0.close(CLOSE_GRACE).await
    }

    /// Ends the server with everything it started, and returns how it ended.
    pub async fn end(self) -> Result<ExitStatus, RunError> {
        self.0.end().await
    }

    /// Waits for the end of a server whose output has ended.
    pub async fn ended(self) -> Result<ExitStatus, RunError> {
        self.0.ended().await
    }
}
