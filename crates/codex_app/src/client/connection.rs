//! A live conversation with a server.

use std::collections::VecDeque;
use std::pin::pin;
use std::process::ExitStatus;
use std::time::Duration;

use agent_lines::LineError;
use agent_lines::child::{
    Completion, EventStream, InputError, InputWriter, LiveChild, RunError, StderrTail,
    TerminationHandle,
};
use futures::StreamExt as _;

use crate::RequestId;
use crate::event::answer::Initialized;
use crate::event::{Outcome, RpcError, ServerBody, ServerLine};
use crate::send::{ClientLine, ClientRequest, Initialize};

/// How long the server may take to answer a request. Half a second was seen, for `initialize`; a
/// busy machine, or an MCP server that has to start first, may need much more.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// How long a server may stay after its input was closed: a tenth of a second was seen.
pub const CLOSE_GRACE: Duration = Duration::from_secs(10);

/// How many lines are kept for later while [`CodexConnection::call`] waits for its answer. A call
/// takes milliseconds, in which a few notifications come.
pub const MAX_HELD_LINES: usize = 1024;

/// A running server. Dropping it ends the child with everything it started.
#[derive(Debug)]
#[must_use = "dropping the connection ends the child"]
pub struct CodexConnection {
    events: EventStream<ServerLine>,
    /// What came while a call waited for its answer.
    held: VecDeque<Result<ServerLine, LineError>>,
    completion: Completion,
    sender: Sender,
    termination: TerminationHandle,
    stderr_tail: StderrTail,
    requests: i64,
}

/// Sends lines to a server. Cheap to clone; sending only queues, and never waits.
#[derive(Debug, Clone)]
pub struct Sender(Option<InputWriter>);

/// Why a line was not sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The server does not read, or is gone.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The method would run or change something that nobody was asked about.
    #[error("`{method}` is not sent: it acts without a question to anybody")]
    Unsupervised {
        /// The method.
        method: String,
    },
}

/// Why a call has no answer. Nothing that the server printed is in the text, but for a refusal's.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CallError {
    /// The request was not sent.
    #[error(transparent)]
    Send(#[from] SendError),
    /// The server ended before it answered.
    #[error("the Codex server ended before it answered")]
    Ended,
    /// The server did not answer in time.
    #[error("the Codex server did not answer within {} s", CALL_TIMEOUT.as_secs())]
    Silent,
    /// The server talked and talked.
    #[error("more than {MAX_HELD_LINES} lines came before the answer")]
    TooManyLines,
    /// The server refused the request.
    #[error("the Codex server refused the request (code {})", .0.code)]
    Refused(RpcError),
    /// The answer lacks what every such answer has.
    #[error("the Codex server's answer has another form")]
    Unreadable,
}

impl Sender {
    /// Queues a line.
    pub fn send(&self, line: &ClientLine) -> Result<(), SendError> {
        if let Some(method) = line.unsupervised_method() {
            return Err(SendError::Unsupervised { method: method.to_owned() });
        }
        let input = self.0.as_ref().ok_or(InputError::Closed)?;
        Ok(input.send(line.to_line())?)
    }

    /// Closes the server's input once everything queued is written: it ends its commands and exits.
    pub fn close(&self) {
        if let Some(input) = &self.0 {
            input.close();
        }
    }
}

impl CodexConnection {
    pub(super) fn new(child: LiveChild<ServerLine>) -> Self {
        Self {
            events: child.events,
            held: VecDeque::new(),
            completion: child.completion,
            sender: Sender(child.stdin.map(InputWriter::new)),
            termination: child.termination,
            stderr_tail: child.stderr_tail,
            requests: 0,
        }
    }

    /// Returns a sender; it may outlive this connection.
    pub fn sender(&self) -> Sender {
        self.sender.clone()
    }

    /// Returns a handle that can end the server; it may outlive this connection.
    pub fn termination(&self) -> TerminationHandle {
        self.termination.clone()
    }

    /// Returns a view of the last lines that the server wrote to its standard error. They repeat
    /// what the model wrote.
    pub fn stderr_tail(&self) -> StderrTail {
        self.stderr_tail.clone()
    }

    /// Introduces us, and waits for the answer.
    pub async fn handshake(&mut self, initialize: Initialize) -> Result<Initialized, CallError> {
        let outcome = self.call(ClientRequest::Initialize(initialize)).await?;
        let answer = outcome.read().ok_or(CallError::Unreadable)?;
        self.sender.send(&ClientLine::initialized())?;
        Ok(answer)
    }

    /// Sends a request and returns its id; the answer comes as a line.
    pub fn request(&mut self, request: ClientRequest) -> Result<RequestId, SendError> {
        self.requests += 1;
        let id = RequestId::Number(self.requests);
        self.sender.send(&ClientLine::request(id.clone(), request))?;
        Ok(id)
    }

    /// Sends a request and waits for its answer, up to [`CALL_TIMEOUT`]; a refusal is an error.
    /// What comes meanwhile is kept for [`CodexConnection::next_line`]. A future that is dropped
    /// loses no line.
    pub async fn call(&mut self, request: ClientRequest) -> Result<Outcome, CallError> {
        let id = self.request(request)?;
        let answer = tokio::time::timeout(CALL_TIMEOUT, self.answer_to(&id)).await;
        match answer.map_err(|_| CallError::Silent)?? {
            Outcome::Error(error) => Err(CallError::Refused(error)),
            result => Ok(result),
        }
    }

    async fn answer_to(&mut self, id: &RequestId) -> Result<Outcome, CallError> {
        loop {
            match self.events.next().await.ok_or(CallError::Ended)? {
                Ok(ServerLine { body: ServerBody::Answer(answer), .. }) if answer.id == *id => {
                    return Ok(answer.outcome);
                }
                other if self.held.len() < MAX_HELD_LINES => self.held.push_back(other),
                _ => return Err(CallError::TooManyLines),
            }
        }
    }

    /// Returns the next line; `None` when the server's output has ended. Dropping the future loses
    /// nothing.
    pub async fn next_line(&mut self) -> Option<Result<ServerLine, LineError>> {
        match self.held.pop_front() {
            Some(line) => Some(line),
            None => self.events.next().await,
        }
    }

    /// Closes the server's input, reads what it still says, and returns how it ended. Commands that
    /// still run are ended with it, and a server that stays longer than [`CLOSE_GRACE`] is ended.
    pub async fn close(mut self) -> Result<ExitStatus, RunError> {
        self.sender.close();
        let mut grace = pin!(tokio::time::sleep(CLOSE_GRACE));
        let mut is_asked = false;
        loop {
            tokio::select! {
                line = self.events.next() => if line.is_none() { break },
                () = &mut grace, if !is_asked => {
                    is_asked = true;
                    self.termination.terminate();
                }
            }
        }
        self.completion.await
    }

    /// Ends the server with everything it started, and returns how it ended.
    pub async fn end(self) -> Result<ExitStatus, RunError> {
        self.termination.terminate();
        // Nobody reads on, and a server that waits for room in a pipe would not hear that it should
        // end.
        drop(self.events);
        self.completion.await
    }

    /// Waits for the end of a server whose output has ended.
    pub async fn ended(self) -> Result<ExitStatus, RunError> {
        self.completion.await
    }
}
