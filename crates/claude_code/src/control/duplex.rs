//! The control channel over any pair of byte streams: yields typed requests, and sends prompts and
//! answers.
//!
//! Sending only queues a line. [`Duplex::next`] writes and reads at the same time, so neither side
//! can block the other, and a future that is dropped half way never leaves half a line on the wire.

use std::collections::HashSet;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use agent_lines::json::{RawJson, Text};
use agent_lines::{DEFAULT_MAX_LINE_BYTES, LineSplitter, SplitLine};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use uuid::Uuid;

use super::lines::{self, ControlLine, PermissionAnswer};
use crate::event::control::{
    CanUseTool, ControlOutcome, ControlRequestBody, ControlResponse, EchoedDecision,
};
use crate::event::{ClaudeStreamJsonEvent, EventBody};
use crate::parser::{ClaudeStreamJsonParseError, ClaudeStreamJsonParser};

/// How many bytes may wait to be written. The CLI accepts a prompt of 10 MiB; several of them may
/// wait.
pub const MAX_QUEUED_BYTES: usize = 64 * 1024 * 1024;

/// How many bytes are read at once.
const CHUNK_BYTES: usize = 64 * 1024;

/// A control channel.
#[derive(Debug)]
pub struct Duplex<R, W> {
    reader: R,
    writer: Option<W>,
    /// Whole lines to write, of which the first `written` bytes are written.
    queued: Vec<u8>,
    written: usize,
    closing: bool,
    chunk: Box<[u8]>,
    /// The part of `chunk` that is not split into lines yet.
    unread: std::ops::Range<usize>,
    at_end: bool,
    splitter: LineSplitter,
    parser: ClaudeStreamJsonParser,
    /// Our requests that are not answered yet.
    asked: HashSet<String>,
    /// Our prompts that are not echoed yet.
    prompted: HashSet<String>,
    /// Permission requests of the CLI that we have answered and whose answers are not echoed yet.
    answered: HashSet<String>,
}

/// An event of the channel.
#[derive(Debug)]
#[non_exhaustive]
pub enum DuplexEvent {
    /// The CLI asks whether a tool may run, and waits.
    Permission(Box<PermissionRequest>),
    /// The CLI no longer needs the answer to one of its requests.
    PermissionCancelled {
        /// The request.
        request_id: Text,
    },
    /// The CLI has received a prompt of ours.
    PromptDelivered {
        /// The prompt.
        uuid: Text,
    },
    /// The CLI has received an answer of ours.
    AnswerDelivered {
        /// The request.
        request_id: Text,
        /// The decision that it received; `None` for an answer that is an error.
        decision: Option<EchoedDecision>,
    },
    /// The CLI has answered a request of ours.
    Answered(Box<ControlResponse>),
    /// Any other line.
    Event(Box<ClaudeStreamJsonEvent>),
    /// A line that could not be read.
    Unreadable(ClaudeStreamJsonParseError),
}

/// A permission request that waits. Answering consumes it; for a request that the CLI has
/// cancelled, call [`PermissionRequest::forget`].
#[derive(Debug, Clone, PartialEq)]
#[must_use = "the child stands still until this is answered"]
#[non_exhaustive]
pub struct PermissionRequest {
    /// The id of the request.
    pub request_id: Text,
    /// The tool call in question.
    pub tool: CanUseTool,
}

/// Why a line was not queued or the channel broke.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DuplexError {
    /// A stream failed.
    #[error("the control channel broke")]
    Io(#[from] io::Error),
    /// The queue is full because the CLI does not read its input.
    #[error("more than {MAX_QUEUED_BYTES} bytes wait for the CLI to read them")]
    Full,
    /// The channel was closed with [`Duplex::close`].
    #[error("the control channel is closed for sending")]
    Closed,
}

impl PermissionRequest {
    /// Allows the tool with the input it asked for.
    pub fn allow(&self) -> PermissionAnswer {
        PermissionAnswer::Allow {
            updated_input: self.tool.input.clone(),
            updated_permissions: None,
        }
    }

    /// Allows the tool with other input.
    pub fn allow_with(&self, updated_input: RawJson) -> PermissionAnswer {
        PermissionAnswer::Allow { updated_input, updated_permissions: None }
    }

    /// Drops the request without an answer, because the CLI cancelled it.
    pub fn forget(self) {}
}

impl<R: AsyncRead + Unpin, W: AsyncWrite + Unpin> Duplex<R, W> {
    /// Creates a channel over `reader` (the CLI's standard output) and `writer` (its standard
    /// input).
    pub fn new(reader: R, writer: W) -> Self {
        Self::with_max_line_bytes(reader, writer, DEFAULT_MAX_LINE_BYTES)
    }

    /// Creates a channel with another limit on the length of a line.
    pub fn with_max_line_bytes(reader: R, writer: W, max_line_bytes: usize) -> Self {
        Self {
            reader,
            writer: Some(writer),
            queued: Vec::new(),
            written: 0,
            closing: false,
            chunk: vec![0; CHUNK_BYTES].into_boxed_slice(),
            unread: 0..0,
            at_end: false,
            splitter: LineSplitter::new(max_line_bytes),
            parser: ClaudeStreamJsonParser::new(),
            asked: HashSet::new(),
            prompted: HashSet::new(),
            answered: HashSet::new(),
        }
    }

    /// Queues a prompt and returns its uuid. While a turn runs, the prompt becomes part of that
    /// turn.
    pub fn prompt(&mut self, text: &str) -> Result<Uuid, DuplexError> {
        let uuid = Uuid::new_v4();
        self.prompt_as(&uuid.to_string(), text)?;
        Ok(uuid)
    }

    /// Queues a prompt with a uuid of the caller's. This makes it idempotent: sent twice with the
    /// same uuid, it runs once.
    pub fn prompt_as(&mut self, uuid: &str, text: &str) -> Result<(), DuplexError> {
        self.send(lines::user_prompt(Some(uuid), text))?;
        self.prompted.insert(uuid.to_owned());
        Ok(())
    }

    /// Queues the answer to a permission request.
    pub fn answer(
        &mut self,
        request: PermissionRequest,
        answer: &PermissionAnswer,
    ) -> Result<(), DuplexError> {
        self.send(lines::answer_permission(&request.request_id, answer))?;
        self.answered.insert(request.request_id.to_string());
        Ok(())
    }

    /// Queues the refusal of a request that we cannot serve.
    pub fn answer_error(&mut self, request_id: &str, error: &str) -> Result<(), DuplexError> {
        self.send(lines::answer_error(request_id, error))?;
        self.answered.insert(request_id.to_owned());
        Ok(())
    }

    /// Queues `initialize` and returns its request id; the answer comes as
    /// [`DuplexEvent::Answered`].
    pub fn initialize(&mut self) -> Result<String, DuplexError> {
        self.request(lines::initialize)
    }

    /// Queues `interrupt` and returns its request id; the answer comes as
    /// [`DuplexEvent::Answered`].
    pub fn interrupt(&mut self) -> Result<String, DuplexError> {
        self.request(lines::interrupt)
    }

    /// Queues any request, built with a new id, and returns that id.
    pub fn request(
        &mut self,
        build: impl FnOnce(&str) -> ControlLine,
    ) -> Result<String, DuplexError> {
        let id = Uuid::new_v4().to_string();
        self.send(build(&id))?;
        self.asked.insert(id.clone());
        Ok(id)
    }

    /// Queues any line.
    pub fn send(&mut self, line: ControlLine) -> Result<(), DuplexError> {
        if self.closing {
            return Err(DuplexError::Closed);
        }
        let line = line.into_bytes();
        if self.queued.len() - self.written + line.len() > MAX_QUEUED_BYTES {
            return Err(DuplexError::Full);
        }
        self.queued.extend_from_slice(&line);
        Ok(())
    }

    /// Closes the CLI's input once everything queued is written: the CLI finishes its turn and
    /// ends. This denies an open permission request.
    pub fn close(&mut self) {
        self.closing = true;
    }

    /// Returns the next event of the CLI, and meanwhile writes what is queued; `None` when its
    /// output has ended. Dropping the future loses nothing.
    pub async fn next(&mut self) -> Option<Result<DuplexEvent, DuplexError>> {
        std::future::poll_fn(|cx| self.poll_next(cx)).await
    }

    /// Writes everything that is queued. Use it if nothing calls [`Duplex::next`]; it reads
    /// nothing.
    pub async fn flush(&mut self) -> Result<(), DuplexError> {
        std::future::poll_fn(|cx| self.poll_write(cx)).await.map_err(DuplexError::Io)
    }

    fn poll_next(
        &mut self,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<DuplexEvent, DuplexError>>> {
        // A broken pipe is not reported here: a CLI that is ending closes its input first, and its
        // last output comes on the other stream.
        if let Poll::Ready(Err(error)) = self.poll_write(cx)
            && error.kind() != io::ErrorKind::BrokenPipe
        {
            return Poll::Ready(Some(Err(error.into())));
        }
        loop {
            if let Some(event) = self.next_line() {
                return Poll::Ready(Some(Ok(self.classify(event))));
            }
            if self.at_end {
                return Poll::Ready(None);
            }
            let mut buffer = ReadBuf::new(&mut self.chunk);
            if let Err(error) = ready!(Pin::new(&mut self.reader).poll_read(cx, &mut buffer)) {
                self.at_end = true;
                return Poll::Ready(Some(Err(error.into())));
            }
            self.unread = 0..buffer.filled().len();
            self.at_end = self.unread.is_empty();
        }
    }

    /// Returns the next line that is already in the buffer.
    fn next_line(&mut self) -> Option<Result<ClaudeStreamJsonEvent, ClaudeStreamJsonParseError>> {
        loop {
            let mut input = &self.chunk[self.unread.clone()];
            let line =
                if self.at_end { self.splitter.finish() } else { self.splitter.next(&mut input) };
            let parsed = line.map(|line| match line {
                SplitLine::Whole(bytes) => self.parser.parse_bytes(bytes),
                SplitLine::TooLong { size, .. } => Err(ClaudeStreamJsonParseError::too_long(size)),
            });
            self.unread.start = self.unread.end - input.len();
            match parsed? {
                Ok(None) => {}
                Ok(Some(event)) => return Some(Ok(event)),
                Err(error) => return Some(Err(error)),
            }
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let Some(writer) = &mut self.writer else { return Poll::Ready(Ok(())) };
        while self.written < self.queued.len() {
            match ready!(Pin::new(&mut *writer).poll_write(cx, &self.queued[self.written..])) {
                Ok(0) => return self.give_up_writing(io::ErrorKind::WriteZero.into()),
                Ok(count) => self.written += count,
                Err(error) => return self.give_up_writing(error),
            }
        }
        self.queued.clear();
        self.written = 0;
        if let Err(error) = ready!(Pin::new(&mut *writer).poll_flush(cx)) {
            return self.give_up_writing(error);
        }
        if self.closing {
            if let Err(error) = ready!(Pin::new(&mut *writer).poll_shutdown(cx)) {
                return self.give_up_writing(error);
            }
            self.writer = None;
        }
        Poll::Ready(Ok(()))
    }

    fn give_up_writing(&mut self, error: io::Error) -> Poll<io::Result<()>> {
        self.writer = None;
        self.closing = true;
        self.queued = Vec::new();
        self.written = 0;
        Poll::Ready(Err(error))
    }

    fn classify(
        &mut self,
        event: Result<ClaudeStreamJsonEvent, ClaudeStreamJsonParseError>,
    ) -> DuplexEvent {
        let event = match event {
            Ok(event) => event,
            Err(error) => return DuplexEvent::Unreadable(error),
        };
        match &event.body {
            EventBody::ControlRequest(request) => {
                if let ControlRequestBody::CanUseTool(tool) = &request.request {
                    let (request_id, tool) = (request.request_id.clone(), CanUseTool::clone(tool));
                    return DuplexEvent::Permission(Box::new(PermissionRequest {
                        request_id,
                        tool,
                    }));
                }
            }
            EventBody::ControlCancelRequest(cancel) => {
                self.answered.remove(cancel.request_id.as_str());
                return DuplexEvent::PermissionCancelled { request_id: cancel.request_id.clone() };
            }
            EventBody::ControlResponse(response)
                if self.asked.remove(response.request_id.as_str()) =>
            {
                return DuplexEvent::Answered(response.clone());
            }
            EventBody::ControlResponse(response)
                if self.answered.remove(response.request_id.as_str()) =>
            {
                let decision = match &response.outcome {
                    ControlOutcome::Success(success) => success.decision.clone(),
                    ControlOutcome::Error(_) | ControlOutcome::Other(_) => None,
                };
                return DuplexEvent::AnswerDelivered {
                    request_id: response.request_id.clone(),
                    decision,
                };
            }
            EventBody::User(user) if user.meta.is_replay == Some(true) => {
                if let Some(uuid) =
                    event.uuid.as_ref().filter(|uuid| self.prompted.remove(uuid.as_str()))
                {
                    return DuplexEvent::PromptDelivered { uuid: uuid.clone() };
                }
            }
            _ => {}
        }
        DuplexEvent::Event(Box::new(event))
    }
}
