//! The life of a prompt: it starts a chat, may be cancelled, and is answered when the chat is over.

use acp_lines::send::Block;
use acp_lines::{RequestId, ServedLine, StopReason};
use plexus_client::ClientError;
use plexus_client::wire::{
    CancelParams, ChatParams, ErrorKind, Said, Session, SessionId, SessionRef, SessionStatus,
    Usage, method, prompt_with_images,
};
use serde_json::{Value, json};
use tokio::task::AbortHandle;

use super::Fronted;
use crate::door::Cause;
use crate::hands::Hands;
use crate::prompt::{self, Parts};
use crate::refusal::Refusal;
use crate::view::When;

/// Prompts that were cancelled while nobody knew whether they had arrived; each is looked for when
/// the server is back.
const MAX_GIVEN_UP: usize = 16;

/// The beginning of the error of a chat that somebody cancelled.
const CANCELLED: &str = "cancelled: ";

/// The prompt of this editor that waits for its answer.
#[derive(Debug, Default)]
pub(super) enum Turn {
    /// There is none.
    #[default]
    None,
    /// Its chat has not been started yet, as far as is known.
    Starting { request: RequestId, text: String, is_cancelled: bool, task: AbortHandle },
    /// Its chat runs.
    Running { request: RequestId, chat: u32 },
}

/// How a chat seemed to end.
#[derive(Clone, Debug)]
pub(super) struct Ended {
    pub(super) chat: u32,
    pub(super) usage: Option<Usage>,
    pub(super) error: Option<String>,
}

impl Turn {
    pub(super) fn into_request(self) -> Option<RequestId> {
        match self {
            Self::None => None,
            Self::Starting { request, .. } | Self::Running { request, .. } => Some(request),
        }
    }

    fn request(&self) -> Option<&RequestId> {
        match self {
            Self::None => None,
            Self::Starting { request, .. } | Self::Running { request, .. } => Some(request),
        }
    }

    /// Whether a chat is the one of this prompt, or may be.
    pub(super) fn is_of(&self, chat: u32) -> bool {
        match self {
            Self::None => false,
            Self::Starting { .. } => true,
            Self::Running { chat: own, .. } => *own == chat,
        }
    }
}

impl Fronted {
    /// Whether a prompt waits for its answer, or the session is being opened.
    pub(crate) fn is_busy(&self) -> bool {
        self.opening.is_some() || !matches!(self.turn, Turn::None)
    }

    /// Whether the request that opened the session waits for its answer.
    pub(crate) fn is_opening(&self) -> bool {
        self.opening.is_some()
    }

    /// Whether this request is the prompt that waits.
    pub(crate) fn waits_for(&self, request: &RequestId) -> bool {
        self.turn.request() == Some(request)
    }

    /// Starts a chat with a prompt of the editor.
    pub(crate) async fn prompt(&mut self, request: RequestId, blocks: &[Block], hands: &mut Hands) {
        let parts = if self.opening.is_some() {
            Err(Refusal::now("the session is being loaded"))
        } else if self.is_busy() {
            Err(Refusal::now("a prompt is running in this session: wait for its end or cancel it"))
        } else {
            prompt::parts_of(blocks)
        };
        let Parts { text, images } = match parts {
            Ok(parts) => parts,
            Err(refusal) => return hands.say(&refusal.answer(request)).await,
        };
        for words in std::mem::take(&mut self.notes) {
            self.note(&words, hands).await;
        }
        let (server, session) = (hands.server().clone(), self.id);
        let params = ChatParams {
            // The call is made again when its answer is lost, and must not start a second chat.
            idempotency_key: Some(SessionId::generate().to_string()),
            images: (!images.is_empty()).then(|| images.clone()),
            ..ChatParams::new(SessionRef::id(session), text.as_str())
        };
        // The text that the prompt's node will have, by which the prompt is recognised.
        let text = prompt_with_images(&text, &images);
        let task = hands.later(async move {
            let started = server.call::<method::agents::ChatAsync>(&params).await;
            let outcome = started.map(|started| started.chat).map_err(refused_start);
            Cause::Started { session, outcome }
        });
        self.turn = Turn::Starting { request, text, is_cancelled: false, task };
        if hands.knows_absence() {
            self.note_absence(true, hands).await;
        }
    }

    /// Notes that the chat of the prompt runs, or that there will be none.
    pub(crate) async fn started(&mut self, outcome: Result<u32, Refusal>, hands: &mut Hands) {
        let turn = std::mem::take(&mut self.turn);
        let Turn::Starting { request, is_cancelled, .. } = turn else {
            self.turn = turn;
            return;
        };
        let chat = match outcome {
            Ok(chat) => chat,
            Err(refusal) => return hands.say(&refusal.answer(request)).await,
        };
        self.turn = Turn::Running { request, chat };
        if is_cancelled {
            self.send_cancel(hands);
        }
        if self.ended.as_ref().is_some_and(|ended| ended.chat == chat) {
            self.look(hands);
        }
    }

    /// Shows a prompt that somebody else sent, or that was sent before this connection.
    pub(super) async fn prompted(
        &mut self,
        chat: u32,
        text: Option<String>,
        when: When,
        hands: &mut Hands,
    ) {
        let Some(text) = text else { return };
        let is_own = when == When::Now
            && match &self.turn {
                Turn::None => false,
                Turn::Starting { text: own, .. } => *own == text,
                Turn::Running { chat: own, .. } => *own == chat,
            };
        if is_own {
            return;
        }
        if let Some(index) = self.given_up.iter().position(|given_up| *given_up == text) {
            self.given_up.remove(index);
            self.send_cancel(hands);
        }
        let update = self.view.prompt(&text);
        self.tell([update], hands).await;
    }

    /// Cancels what runs in the session. Dialogs are closed at once: no answer allows anything from
    /// here on.
    pub(crate) async fn cancel(&mut self, hands: &mut Hands) {
        self.close_dialogs(hands).await;
        match &mut self.turn {
            Turn::Starting { is_cancelled, task, .. } => {
                if !hands.server().is_away() {
                    *is_cancelled = true;
                    return;
                }
                // The prompt may have arrived before the server went away: its chat is then
                // cancelled when the session tells of it.
                task.abort();
                let turn = std::mem::take(&mut self.turn);
                if let Turn::Starting { request, text, .. } = turn {
                    self.given_up.truncate(MAX_GIVEN_UP - 1);
                    self.given_up.push_front(text);
                    hands.say(&stopped(request, StopReason::Cancelled, None)).await;
                }
            }
            Turn::Running { .. } | Turn::None => self.send_cancel(hands),
        }
    }

    /// Closes the session for this editor: what its prompt started is cancelled.
    pub(crate) async fn close(mut self, hands: &mut Hands) {
        if self.is_busy() {
            self.cancel(hands).await;
        }
        self.close_dialogs(hands).await;
        if let Some(request) = self.turn.into_request() {
            hands.say(&stopped(request, StopReason::Cancelled, None)).await;
        }
    }

    fn send_cancel(&self, hands: &mut Hands) {
        let (server, session) = (hands.server().clone(), self.id);
        let params = CancelParams {
            reason: Some("the user cancelled it in the editor".to_owned()),
            ..CancelParams::new(SessionRef::id(session))
        };
        hands.later(async move {
            let told = server.call::<method::agents::Cancel>(&params).await;
            Cause::CancelTold { session, outcome: told.map(drop) }
        });
    }

    /// Takes the answer to a cancellation.
    pub(crate) async fn cancel_told(
        &mut self,
        outcome: Result<(), ClientError>,
        hands: &mut Hands,
    ) {
        match outcome {
            Ok(()) => {}
            // Nothing runs: it has ended in this very moment.
            Err(error) if error.kind() == ErrorKind::Conflict => self.look(hands),
            Err(error) => self.note(Refusal::from(error).message(), hands).await,
        }
    }

    /// Notes that a chat seems to have ended; the session knows.
    pub(super) fn may_have_ended(&mut self, ended: Ended, hands: &mut Hands) {
        let is_own = matches!(self.turn, Turn::Running { chat, .. } if chat == ended.chat);
        self.ended = Some(ended);
        if is_own {
            self.look(hands);
        }
    }

    /// Looks at the session.
    pub(crate) fn look(&self, hands: &mut Hands) {
        let (server, session) = (hands.server().clone(), self.id);
        hands.later(async move {
            let found = server.call::<method::agents::Get>(&SessionRef::id(session)).await;
            let outcome = found.map(|found| Box::new(found.session)).map_err(Refusal::from);
            Cause::Looked { session, outcome }
        });
    }

    /// Takes what the session is now: the prompt is answered if its chat is over.
    pub(crate) async fn looked(
        &mut self,
        outcome: Result<Box<Session>, Refusal>,
        hands: &mut Hands,
    ) {
        let session = match outcome {
            Ok(session) => session,
            Err(refusal) => return self.over(refusal, hands).await,
        };
        self.refresh(&session, hands).await;
        let Turn::Running { chat, .. } = self.turn else { return };
        let ended = self.ended.clone().filter(|ended| ended.chat == chat);
        let status = match session.status {
            _ if session.chat != Some(chat) => status_of(ended.as_ref()),
            Said::Known(status) if !status.is_busy() => status,
            Said::Known(_) | Said::Unknown(_) => {
                // The error was about one line, and not the end.
                if let Some(error) = ended.and_then(|ended| ended.error) {
                    self.ended = None;
                    self.note(&error, hands).await;
                }
                return;
            }
        };
        let updates = self.view.close();
        self.tell(updates, hands).await;
        self.close_dialogs(hands).await;
        let Some(request) = std::mem::take(&mut self.turn).into_request() else { return };
        hands.say(&answer(request, status, ended)).await;
    }
}

/// How a chat ended that is no longer the newest, from its last event.
fn status_of(ended: Option<&Ended>) -> SessionStatus {
    match ended.and_then(|ended| ended.error.as_deref()) {
        None => SessionStatus::Complete,
        Some(error) if error.starts_with(CANCELLED) => SessionStatus::Cancelled,
        Some(_) => SessionStatus::Failed,
    }
}

/// The answer to a prompt whose chat has ended.
fn answer(request: RequestId, status: SessionStatus, ended: Option<Ended>) -> ServedLine {
    let usage = ended.as_ref().and_then(|ended| ended.usage);
    match status {
        SessionStatus::Complete => stopped(request, StopReason::EndTurn, usage),
        SessionStatus::Cancelled => stopped(request, StopReason::Cancelled, usage),
        SessionStatus::Failed
        | SessionStatus::Idle
        | SessionStatus::Running
        | SessionStatus::AwaitingPermission => {
            let error = ended.and_then(|ended| ended.error);
            let words = error.unwrap_or_else(|| "the chat failed".to_owned());
            Refusal::failed(words).answer(request)
        }
    }
}

fn stopped(id: RequestId, reason: StopReason, usage: Option<Usage>) -> ServedLine {
    let mut result = json!({"stopReason": reason.as_str()});
    if let Some(Usage { input_tokens, output_tokens, cost_usd, .. }) = usage {
        result["usage"] = json!({
            "inputTokens": input_tokens, "outputTokens": output_tokens,
            "totalTokens": input_tokens + output_tokens,
        });
        result["_meta"] = json!({"plexus": {"costUsd": Value::from(cost_usd)}});
    }
    ServedLine::Result { id, result }
}

/// Says why a chat was not started; a busy session works on somebody else's prompt.
fn refused_start(error: ClientError) -> Refusal {
    match error.kind() {
        ErrorKind::Busy => Refusal::now(format!(
            "the session works on another prompt, which this editor did not send: wait for its \
             end or cancel it ({error})"
        )),
        _ => error.into(),
    }
}
