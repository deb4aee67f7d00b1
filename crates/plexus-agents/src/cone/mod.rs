//! `plexus cone FILE`: a conversation with a model itself, without tools. The engine runs it as an
//! agent of the Agent Client Protocol, so sessions, streams, trees, budgets and restarts are the
//! same as for every other agent. The conversation is kept in FILE.
//!
//! - this file: the requests of the client, one turn at a time;
//! - `options`: what the environment says;
//! - `conversation`: what was said, in a file;
//! - `provider`: the two APIs, each a body and the meaning of its events;
//! - `http`: one streamed request.

mod conversation;
mod http;
mod options;
mod provider;

use std::ffi::OsString;
use std::path::PathBuf;

use acp_lines::send::{ClientBody, METHOD_NOT_FOUND, Prompt};
use acp_lines::serve::{ClientReader, FromClient, INVALID_PARAMS, INVALID_REQUEST, Said, Update};
use acp_lines::{ClientRequest, PROTOCOL_VERSION, RequestId, ServedLine};
use serde_json::{Value, json};
use tokio::io::{AsyncWriteExt as _, Stdin, Stdout};

use self::conversation::Conversation;
pub use self::options::DEFAULT_MODEL;
use self::options::Options;
use self::provider::{Answer, Piece, StopReason};

/// The longest line of a client: a prompt of this size is beyond the context of any model.
const MAX_LINE_BYTES: usize = 16 * 1024 * 1024;

/// The code of an error of the model's service. It is one of those that the protocol leaves to its
/// users.
const MODEL_FAILED: i64 = -32000;

/// Why the agent could not run.
#[derive(Debug, thiserror::Error)]
pub enum ConeError {
    /// The arguments name no file.
    #[error("usage: plexus cone FILE")]
    NoFile,
    /// The process could not start its tasks.
    #[error("plexus cone: could not start: {0}")]
    Start(#[source] std::io::Error),
    /// Its input or output broke.
    #[error("plexus cone: could not go on: {0}")]
    Serve(#[source] std::io::Error),
}

/// Runs the agent until its input ends.
///
/// # Errors
/// When no file is named, or stdin or stdout fails.
pub fn main(mut args: impl Iterator<Item = OsString>) -> Result<(), ConeError> {
    let file = args.next().map(PathBuf::from).ok_or(ConeError::NoFile)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(ConeError::Start)?;
    let mut cone = Cone {
        reader: ClientReader::new(tokio::io::stdin(), MAX_LINE_BYTES),
        out: tokio::io::stdout(),
        file,
        conversation: None,
    };
    let served = runtime.block_on(cone.serve());
    // A read of the input may still be under way on a thread of its own.
    runtime.shutdown_background();
    served.map_err(ConeError::Serve)
}

/// The agent.
struct Cone {
    reader: ClientReader<Stdin>,
    out: Stdout,
    file: PathBuf,
    conversation: Option<Conversation>,
}

/// Why a request is refused: the code of the protocol, and the reason.
struct Refusal(i64, String);

/// How a turn ended.
enum Turn {
    Over(Result<(StopReason, Answer), String>),
    Cancelled,
    /// The client is gone.
    Left,
}

impl Cone {
    async fn serve(&mut self) -> std::io::Result<()> {
        while let Some(line) = self.reader.next().await? {
            match line {
                FromClient::Unreadable(refusal) => self.write_maybe(refusal).await?,
                FromClient::Line(line) => match line.body {
                    ClientBody::Request { id, request } => {
                        if !self.request(id, *request).await? {
                            return Ok(());
                        }
                    }
                    // No turn runs between two requests, and the client was asked nothing.
                    ClientBody::Cancel(_)
                    | ClientBody::CancelRequest { .. }
                    | ClientBody::Notification { .. }
                    | ClientBody::Answer { .. } => {}
                },
            }
        }
        Ok(())
    }

    /// Serves one request; false when the client left meanwhile.
    async fn request(&mut self, id: RequestId, request: ClientRequest) -> std::io::Result<bool> {
        let done = match request {
            ClientRequest::Initialize(_) => Ok(json!({
                "protocolVersion": PROTOCOL_VERSION,
                "agentInfo": {"name": "plexus-cone", "version": env!("CARGO_PKG_VERSION")},
                "agentCapabilities": {"sessionCapabilities": {"resume": {}}},
            })),
            ClientRequest::SessionNew(_) => self.open(Conversation::begin(&self.file)),
            ClientRequest::SessionResume(named) => {
                self.open(Conversation::read(&self.file, &named.session_id))
            }
            ClientRequest::Prompt(prompt) => match self.prompt(&id, &prompt).await? {
                Some(done) => done,
                None => return Ok(false),
            },
            other => {
                let words = format!("{} is not served here", other.method());
                Err(Refusal(METHOD_NOT_FOUND, words))
            }
        };
        self.write(&match done {
            Ok(result) => ServedLine::Result { id, result },
            Err(Refusal(code, message)) => ServedLine::Error { id: Some(id), code, message },
        })
        .await?;
        Ok(true)
    }

    fn open(&mut self, opened: Result<Conversation, String>) -> Result<Value, Refusal> {
        let conversation = opened.map_err(|why| Refusal(INVALID_PARAMS, why))?;
        let answer = json!({ "sessionId": conversation.id });
        self.conversation = Some(conversation);
        Ok(answer)
    }

    /// Has the model answer; `None` when the client left meanwhile.
    async fn prompt(
        &mut self,
        id: &RequestId,
        prompt: &Prompt,
    ) -> std::io::Result<Option<Result<Value, Refusal>>> {
        let Some(mut conversation) = self.conversation.take() else {
            return Ok(Some(Err(Refusal(INVALID_REQUEST, "no conversation is open".into()))));
        };
        let asked = match text_of(prompt) {
            Ok(asked) => asked,
            Err(refusal) => {
                self.conversation = Some(conversation);
                return Ok(Some(Err(refusal)));
            }
        };
        let mut heard = String::new();
        let turn = self.turn(id, &conversation, &asked, &mut heard).await?;
        // A partial answer is kept too: the person has read it.
        let kept = match heard.is_empty() {
            true => Ok(()),
            false => conversation.add(&self.file, asked, heard),
        };
        self.conversation = Some(conversation);
        let kept = kept.map_err(|why| Refusal(MODEL_FAILED, why));
        Ok(match (turn, kept) {
            (Turn::Left, _) => None,
            (_, Err(refusal)) => Some(Err(refusal)),
            (Turn::Cancelled, Ok(())) => Some(Ok(json!({ "stopReason": "cancelled" }))),
            (Turn::Over(Err(why)), Ok(())) => Some(Err(Refusal(MODEL_FAILED, why))),
            (Turn::Over(Ok((reason, answer))), Ok(())) => Some(Ok(json!({
                "stopReason": reason.as_str(),
                "usage": {
                    "inputTokens": answer.input_tokens,
                    "outputTokens": answer.output_tokens,
                    "totalTokens": answer.input_tokens + answer.output_tokens,
                },
            }))),
        })
    }

    /// Asks the model and tells each piece of its answer, until it ends or the client cancels.
    async fn turn(
        &mut self,
        id: &RequestId,
        conversation: &Conversation,
        asked: &str,
        heard: &mut String,
    ) -> std::io::Result<Turn> {
        let options = match Options::from_env(|name| std::env::var(name).ok()) {
            Ok(options) => options,
            Err(why) => return Ok(Turn::Over(Err(why))),
        };
        let mut asking = std::pin::pin!(http::Asking::begin(&options, conversation, asked));
        let mut asking = loop {
            tokio::select! {
                begun = &mut asking => match begun {
                    Ok(asking) => break asking,
                    Err(why) => return Ok(Turn::Over(Err(why))),
                },
                line = self.reader.next() => {
                    if let Some(turn) = self.meanwhile(id, line?).await? {
                        return Ok(turn);
                    }
                }
            }
        };
        loop {
            tokio::select! {
                piece = asking.next() => match piece {
                    Ok(Piece::Text(text)) => {
                        heard.push_str(&text);
                        let said = Said { content: acp_lines::send::Block::text(text), ..Said::default() };
                        self.tell(&conversation.id, Update::AgentMessageChunk(said)).await?;
                    }
                    Ok(Piece::Thought(text)) => {
                        let said = Said { content: acp_lines::send::Block::text(text), ..Said::default() };
                        self.tell(&conversation.id, Update::AgentThoughtChunk(said)).await?;
                    }
                    Ok(Piece::End(reason)) => return Ok(Turn::Over(Ok((reason, asking.answer)))),
                    Err(why) => return Ok(Turn::Over(Err(why))),
                },
                line = self.reader.next() => {
                    if let Some(turn) = self.meanwhile(id, line?).await? {
                        return Ok(turn);
                    }
                }
            }
        }
    }

    /// Serves what the client says while the model answers; tells whether that ends the turn.
    async fn meanwhile(
        &mut self,
        turn: &RequestId,
        line: Option<FromClient>,
    ) -> std::io::Result<Option<Turn>> {
        let body = match line {
            None => return Ok(Some(Turn::Left)),
            Some(FromClient::Unreadable(refusal)) => {
                self.write_maybe(refusal).await?;
                return Ok(None);
            }
            Some(FromClient::Line(line)) => line.body,
        };
        match body {
            ClientBody::Cancel(_) => return Ok(Some(Turn::Cancelled)),
            ClientBody::CancelRequest { request_id } if request_id == *turn => {
                return Ok(Some(Turn::Cancelled));
            }
            ClientBody::Request { id, .. } => {
                let message = "a prompt is being answered".to_owned();
                self.write(&ServedLine::Error { id: Some(id), code: INVALID_REQUEST, message })
                    .await?;
            }
            ClientBody::CancelRequest { .. }
            | ClientBody::Notification { .. }
            | ClientBody::Answer { .. } => {}
        }
        Ok(None)
    }

    async fn tell(&mut self, session: &str, update: Update) -> std::io::Result<()> {
        self.write(&ServedLine::Update { session_id: session.to_owned(), update }).await
    }

    async fn write_maybe(&mut self, line: Option<ServedLine>) -> std::io::Result<()> {
        match line {
            Some(line) => self.write(&line).await,
            None => Ok(()),
        }
    }

    async fn write(&mut self, line: &ServedLine) -> std::io::Result<()> {
        self.out.write_all(line.to_line().as_bytes()).await?;
        self.out.flush().await
    }
}

/// The text of a prompt. Anything else is refused: a part that is left out silently would change
/// the question.
fn text_of(prompt: &Prompt) -> Result<String, Refusal> {
    let texts: Option<Vec<&str>> = prompt
        .prompt
        .iter()
        .map(|block| (block.0["type"] == "text").then(|| block.0["text"].as_str()).flatten())
        .collect();
    match texts {
        Some(texts) if texts.iter().any(|text| !text.trim().is_empty()) => Ok(texts.join("\n")),
        Some(_) => Err(Refusal(INVALID_PARAMS, "the prompt is empty".into())),
        None => Err(Refusal(INVALID_PARAMS, "a prompt is text, and nothing else".into())),
    }
}
