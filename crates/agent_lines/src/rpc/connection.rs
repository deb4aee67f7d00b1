//! A live connection to a child that speaks in requests and answers.

use std::collections::VecDeque;
use std::pin::pin;
use std::process::ExitStatus;
use std::time::Duration;

use futures::StreamExt as _;

use super::{Answer, Outcome, RequestId, RpcError};
use crate::LineError;
use crate::child::{
    Completion, EventStream, InputError, InputWriter, LiveChild, RunError, StderrTail,
    TerminationHandle,
};

/// How long the child may take to answer a request that does not run a turn. The first request was
/// seen to take two seconds; a busy machine, or an MCP server that has to start first, may need
/// much more.
pub const CALL_TIMEOUT: Duration = Duration::from_secs(60);

/// How many lines are buffered while [`Connection::answer_to`] waits. A call takes milliseconds,
/// during which only a few notifications arrive.
pub const MAX_HELD_LINES: usize = 1024;

/// A line that may be an answer.
pub trait RpcLine: Send + 'static {
    /// Returns the answer, if the line is one.
    fn answer(&self) -> Option<&Answer>;
}

/// A running child. Dropping it ends the child with everything it started.
#[derive(Debug)]
#[must_use = "dropping the connection ends the child"]
pub struct Connection<L> {
    events: EventStream<L>,
    /// Lines that arrived while a call waited for its answer.
    held: VecDeque<Result<L, LineError>>,
    completion: Completion,
    input: LineInput,
    termination: TerminationHandle,
    stderr_tail: StderrTail,
    requests: i64,
}

/// Sends whole lines to a child. Cheap to clone; sending only queues a line and never waits.
#[derive(Debug, Clone)]
pub struct LineInput(Option<InputWriter>);

/// Why a line was not sent.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The child does not read its input, or is gone.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The method would run or change something without asking for permission.
    #[error("`{method}` is not sent: it acts without asking anybody")]
    Unsupervised {
        /// The method.
        method: String,
    },
}

/// Why a call has no answer. The text contains nothing that the child printed, except the text of a
/// refusal.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum CallError {
    /// The request was not sent.
    #[error(transparent)]
    Send(#[from] SendError),
    /// The child ended before it answered.
    #[error("the agent ended before it answered")]
    Ended,
    /// The child did not answer in time.
    #[error("the agent did not answer within {} s", CALL_TIMEOUT.as_secs())]
    Silent,
    /// The child sent too many other lines before its answer.
    #[error("more than {MAX_HELD_LINES} lines came before the answer")]
    TooManyLines,
    /// The child refused the request.
    #[error("the agent refused the request (code {})", .0.code)]
    Refused(RpcError),
    /// The answer lacks a field that every such answer has.
    #[error("the agent's answer does not have the expected shape")]
    Unreadable,
}

impl LineInput {
    /// Queues a line, which ends with its newline.
    pub fn send(&self, line: String) -> Result<(), InputError> {
        self.0.as_ref().ok_or(InputError::Closed)?.send(line)
    }

    /// Closes the child's input once everything queued is written.
    pub fn close(&self) {
        if let Some(input) = &self.0 {
            input.close();
        }
    }
}

impl<L: RpcLine> Connection<L> {
    /// Takes over a child that was started with [`Input::Open`](crate::child::Input::Open). Must be
    /// called inside a tokio runtime.
    pub fn new(child: LiveChild<L>) -> Self {
        Self {
            events: child.events,
            held: VecDeque::new(),
            completion: child.completion,
            input: LineInput(child.stdin.map(InputWriter::new)),
            termination: child.termination,
            stderr_tail: child.stderr_tail,
            requests: 0,
        }
    }

    /// Returns the child's input; it may outlive this connection.
    pub fn input(&self) -> LineInput {
        self.input.clone()
    }

    /// Returns a handle that can end the child; it may outlive this connection.
    pub fn termination(&self) -> TerminationHandle {
        self.termination.clone()
    }

    /// Returns a view of the last lines that the child wrote to its standard error.
    pub fn stderr_tail(&self) -> StderrTail {
        self.stderr_tail.clone()
    }

    /// Returns an id that no earlier request of this connection had.
    pub fn next_id(&mut self) -> RequestId {
        self.requests += 1;
        RequestId::Number(self.requests)
    }

    /// Waits for the answer to a request that was sent, up to [`CALL_TIMEOUT`]; a refusal is an
    /// error. Lines that arrive meanwhile are kept for [`Connection::next_line`]. Dropping the
    /// future loses no line.
    pub async fn answer_to(&mut self, id: &RequestId) -> Result<Outcome, CallError> {
        let answer = tokio::time::timeout(CALL_TIMEOUT, self.find_answer(id)).await;
        match answer.map_err(|_| CallError::Silent)?? {
            Outcome::Error(error) => Err(CallError::Refused(error)),
            result => Ok(result),
        }
    }

    async fn find_answer(&mut self, id: &RequestId) -> Result<Outcome, CallError> {
        loop {
            let line = self.events.next().await.ok_or(CallError::Ended)?;
            let answer = line.as_ref().ok().and_then(RpcLine::answer);
            match answer.filter(|answer| answer.id == *id) {
                Some(answer) => return Ok(answer.outcome.clone()),
                None if self.held.len() < MAX_HELD_LINES => self.held.push_back(line),
                None => return Err(CallError::TooManyLines),
            }
        }
    }

    /// Returns the next line; `None` when the child's output has ended. Dropping the future loses
    /// nothing.
    pub async fn next_line(&mut self) -> Option<Result<L, LineError>> {
        match self.held.pop_front() {
            Some(line) => Some(line),
            None => self.events.next().await,
        }
    }

    /// Returns the next line that came while a call waited for its answer, without waiting.
    pub fn next_held(&mut self) -> Option<Result<L, LineError>> {
        self.held.pop_front()
    }

    /// Closes the child's input, reads the rest of its output, and returns how it ended. A child
    /// that takes longer than `grace` is ended, with everything it started.
    pub async fn close(mut self, grace: Duration) -> Result<ExitStatus, RunError> {
        self.input.close();
        let mut grace = pin!(tokio::time::sleep(grace));
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

    /// Ends the child with everything it started, and returns how it ended.
    pub async fn end(self) -> Result<ExitStatus, RunError> {
        self.termination.terminate();
        // The events are dropped before the wait: nobody reads them any more, and a child that
        // waits for room in a pipe would not notice that it should end.
        drop(self.events);
        self.completion.await
    }

    /// Waits for the end of a child whose output has ended.
    pub async fn ended(self) -> Result<ExitStatus, RunError> {
        self.completion.await
    }
}
