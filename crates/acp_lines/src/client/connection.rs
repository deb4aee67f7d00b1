//! A live connection to an agent.

use std::process::ExitStatus;
use std::time::Duration;

use agent_lines::LineError;
use agent_lines::child::{LiveChild, RunError, StderrTail, TerminationHandle};
use agent_lines::rpc::{CallError, Connection, Outcome, RequestId, SendError};

use super::questions::SharedQuestions;
use super::sender::Sender;
use crate::PROTOCOL_VERSION;
use crate::event::AgentLine;
use crate::event::answer::{ConfigOption, Initialized};
use crate::send::{ClientLine, ClientRequest, Initialize, SetConfigOption};

/// How long an agent may run after its input was closed. Agents were seen to take two seconds;
/// Goose never ends by itself, and is ended after this.
pub const CLOSE_GRACE: Duration = Duration::from_secs(5);

/// Methods that change the agent's login, or what it may do without permission.
pub const UNSUPERVISED_METHODS: [&str; 4] =
    ["session/set_mode", "session/set_config_option", "authenticate", "logout"];

/// A running agent. Dropping it ends the child with everything it started.
#[derive(Debug)]
#[must_use = "dropping the connection ends the child"]
pub struct AcpConnection {
    connection: Connection<AgentLine>,
    questions: SharedQuestions,
}

/// Why an agent cannot be spoken to.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum HandshakeError {
    /// The agent did not answer.
    #[error(transparent)]
    Call(#[from] CallError),
    /// The agent speaks another version of the protocol.
    #[error("the agent does not speak version {PROTOCOL_VERSION} of the Agent Client Protocol")]
    Version {
        /// The version that the agent named, if any.
        found: Option<u64>,
    },
}

impl AcpConnection {
    pub(super) fn new(child: LiveChild<AgentLine>, questions: SharedQuestions) -> Self {
        Self { connection: Connection::new(child), questions }
    }

    /// Returns a sender; it may outlive this connection.
    pub fn sender(&self) -> Sender {
        Sender::new(self.connection.input(), self.questions.clone())
    }

    /// Returns a handle that can end the agent; it may outlive this connection.
    pub fn termination(&self) -> TerminationHandle {
        self.connection.termination()
    }

    /// Returns a view of the last lines that the agent wrote to its standard error.
    pub fn stderr_tail(&self) -> StderrTail {
        self.connection.stderr_tail()
    }

    /// Sends `initialize` and waits for the answer. An agent of another version is an error.
    pub async fn handshake(
        &mut self,
        initialize: Initialize,
    ) -> Result<Initialized, HandshakeError> {
        let outcome = self.call(ClientRequest::Initialize(initialize)).await?;
        let answer: Initialized = outcome.read().ok_or(CallError::Unreadable)?;
        match answer.protocol_version {
            Some(PROTOCOL_VERSION) => Ok(answer),
            found => Err(HandshakeError::Version { found }),
        }
    }

    /// Sends a request and returns its id; the answer comes as a line. Requests that change the
    /// agent's login, or what it may do without permission, are refused: both are settings of the
    /// user.
    pub fn request(&mut self, request: ClientRequest) -> Result<RequestId, SendError> {
        let method = request.method();
        // An untyped prompt would start a turn that we do not track, so nothing would close its
        // questions.
        let is_untyped_prompt =
            matches!(&request, ClientRequest::Other { method, .. } if method == "session/prompt");
        if UNSUPERVISED_METHODS.contains(&method) || is_untyped_prompt {
            return Err(SendError::Unsupervised { method: method.to_owned() });
        }
        self.send(request)
    }

    /// Sends a request and waits for its answer, up to [`CALL_TIMEOUT`](crate::CALL_TIMEOUT); a
    /// refusal is an error. Lines that arrive meanwhile are kept for [`AcpConnection::next_line`].
    /// Dropping the future loses no line. Send a prompt with [`AcpConnection::request`] instead,
    /// because its answer comes only when the turn is over.
    pub async fn call(&mut self, request: ClientRequest) -> Result<Outcome, CallError> {
        let id = self.request(request)?;
        self.connection.answer_to(&id).await
    }

    /// Changes an option of a session that the agent has offered, and waits for the answer. Options
    /// of the category `mode` and options without a category are refused.
    pub async fn set_option(
        &mut self,
        session_id: &str,
        option: &ConfigOption,
        value: &str,
    ) -> Result<Outcome, CallError> {
        let request = ClientRequest::SetConfigOption(SetConfigOption {
            session_id: session_id.to_owned(),
            config_id: option.id.to_string(),
            value: value.into(),
            ..SetConfigOption::default()
        });
        if option.category.as_deref().is_none_or(|category| category == "mode") {
            let method = request.method().to_owned();
            return Err(SendError::Unsupervised { method }.into());
        }
        let id = self.send(request)?;
        self.connection.answer_to(&id).await
    }

    fn send(&mut self, request: ClientRequest) -> Result<RequestId, SendError> {
        let id = self.connection.next_id();
        if let ClientRequest::Prompt(prompt) = &request {
            self.questions.lock().prompted(id.clone(), &prompt.session_id);
        }
        if let Err(error) = self.sender().send(&ClientLine::request(id.clone(), request)) {
            self.questions.lock().not_prompted(&id);
            return Err(error.into());
        }
        Ok(id)
    }

    /// Returns the next line; `None` when the agent's output has ended. Dropping the future loses
    /// nothing.
    pub async fn next_line(&mut self) -> Option<Result<AgentLine, LineError>> {
        self.connection.next_line().await
    }

    /// Returns the next line that came while a call waited for its answer, without waiting. After
    /// `session/load` these are the session's history.
    pub fn next_held(&mut self) -> Option<Result<AgentLine, LineError>> {
        self.connection.next_held()
    }

    /// Closes the agent's input, reads the rest of its output, and returns how it ended. An agent
    /// that takes longer than [`CLOSE_GRACE`] is ended, with everything it started.
    pub async fn close(self) -> Result<ExitStatus, RunError> {
        self.connection.close(CLOSE_GRACE).await
    }

    /// Ends the agent with everything it started, and returns how it ended.
    pub async fn end(self) -> Result<ExitStatus, RunError> {
        self.connection.end().await
    }

    /// Waits for the end of an agent whose output has ended.
    pub async fn ended(self) -> Result<ExitStatus, RunError> {
        self.connection.ended().await
    }
}
