//! The loop between an editor and the server. Every cause of work is one variant of [`Cause`].

use std::collections::HashMap;

use acp_lines::send::{
    ClientAnswer, ClientBody, ClientLine, ClientRequest, Initialize, SessionNew, SessionReopen,
};
use acp_lines::serve::{ClientReader, FromClient};
use acp_lines::{PROTOCOL_VERSION, RequestId, ServedLine};
use plexus_client::wire::{AgentPowers, Approval, Mode, Session, SessionId};
use plexus_client::{Client, ClientError};
use serde_json::{Value, json};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::fronted::{Fronted, How, Undecided, Via};
use crate::hands::{Hands, LEAVE_GRACE};
use crate::opening::{self, Again, Editor, New, Opened, Settings};
use crate::options;
use crate::reader::Heard;
use crate::refusal::Refusal;
use crate::server::Server;
use crate::servers::Servers;
use plexus_render::error::complain;

/// Causes that are queued for the loop; a sender waits while the queue is full.
const MAX_CAUSES: usize = 256;

/// The longest line of an editor: a prompt of 10 MiB, which is the most that the server takes, with
/// every character escaped.
const MAX_LINE_BYTES: usize = 32 * 1024 * 1024;

/// Sessions that one editor may have open in one process; each holds a connection to the server.
const MAX_SESSIONS: usize = 64;

/// Every cause of work.
#[derive(Debug)]
pub(crate) enum Cause {
    /// A session was found or created, or not.
    Found { request: RequestId, how: How, outcome: Result<Opened, Refusal> },
    /// A request that concerns no open session is done.
    Done { request: RequestId, outcome: Result<Value, Refusal> },
    /// Something was heard of a session.
    Heard { session: SessionId, heard: Heard },
    /// The chat of a prompt was started, or not.
    Started { session: SessionId, outcome: Result<u32, Refusal> },
    /// A cancellation was answered.
    CancelTold { session: SessionId, outcome: Result<(), ClientError> },
    /// What a session is now.
    Looked { session: SessionId, outcome: Result<Box<Session>, Refusal> },
    /// What waits in a session.
    Pending { session: SessionId, outcome: Result<Vec<Approval>, Refusal> },
    /// What waits in a session that the agent of another one has started.
    Below { session: SessionId, child: SessionId, waiting: Vec<Approval> },
    /// What became of a decision of the editor.
    Decided { session: SessionId, question: i64, outcome: Result<(), Undecided> },
    /// What became of a mode that the editor set.
    ModeSet { session: SessionId, request: RequestId, via: Via, outcome: Result<Mode, Refusal> },
    /// A mode that the editor set has ended.
    ModeEnds { session: SessionId },
}

/// An agent of the protocol for one editor.
#[derive(Debug)]
pub(crate) struct Door {
    hands: Hands,
    settings: Settings,
    editor: Option<Editor>,
    sessions: HashMap<SessionId, Fronted>,
}

/// Serves an editor on stdin and stdout until it closes stdin. Its sessions go on without it.
///
/// # Errors
/// When stdin cannot be read.
pub async fn serve(client: Client, settings: Settings) -> std::io::Result<()> {
    let (sender, mut causes) = mpsc::channel(MAX_CAUSES);
    let hands = Hands::new(Server::new(client), sender);
    let mut absence = hands.server().absence();
    let mut door = Door { hands, settings, editor: None, sessions: HashMap::new() };
    let mut lines = ClientReader::new(tokio::io::stdin(), MAX_LINE_BYTES);
    while !door.hands.is_gone() {
        tokio::select! {
            line = lines.next() => match line? {
                Some(FromClient::Line(line)) => door.said(line).await,
                Some(FromClient::Unreadable(answer)) => {
                    complain("plexus acp: a line of the editor could not be read");
                    if let Some(answer) = answer {
                        door.hands.say(&answer).await;
                    }
                }
                None => break,
            },
            Some(cause) = causes.recv() => door.work(cause).await,
            Ok(()) = absence.changed() => {
                let is_away = *absence.borrow_and_update();
                door.absence(is_away).await;
            }
        }
    }
    let until = Instant::now() + LEAVE_GRACE;
    // What takes longer waits for a server that is away.
    let _late = tokio::time::timeout_at(until, door.finish(&mut causes)).await;
    door.hands.leave(causes, until).await;
    Ok(())
}

impl Door {
    /// Answers the requests that were read before stdin ended. A prompt is answered when its chat
    /// ends, which may be hours later, so a chat that was started goes on without its editor.
    async fn finish(&mut self, causes: &mut mpsc::Receiver<Cause>) {
        while !self.hands.is_gone() {
            // In this order: a task reports its result before it ends.
            let is_at_work = self.hands.is_at_work();
            let is_opening = self.sessions.values().any(Fronted::is_opening);
            if !is_at_work && !is_opening {
                match causes.try_recv() {
                    Ok(cause) => self.work(cause).await,
                    Err(_) => return,
                }
                continue;
            }
            tokio::select! {
                Some(cause) = causes.recv() => self.work(cause).await,
                () = self.hands.one_is_done(), if is_at_work => {}
            }
        }
    }

    /// Tells every prompt that waits that the server went away or came back.
    async fn absence(&mut self, is_away: bool) {
        if is_away == self.hands.knows_absence() {
            // It went and came back before anybody looked.
            return;
        }
        self.hands.note_absence(is_away);
        for session in self.sessions.values_mut() {
            session.note_absence(is_away, &self.hands).await;
        }
    }

    async fn said(&mut self, line: ClientLine) {
        match line.body {
            ClientBody::Request { id, request } => self.asked(id, *request).await,
            // Without room for one more task, many cancellations are under way.
            ClientBody::Cancel(session) if self.hands.has_room() => {
                if let Ok(session) = open(&mut self.sessions, &session.session_id) {
                    session.cancel(&mut self.hands).await;
                }
            }
            // An editor that gives up its prompt means to cancel it.
            ClientBody::CancelRequest { request_id } => {
                let mut sessions = self.sessions.values_mut();
                if let Some(session) = sessions.find(|session| session.waits_for(&request_id)) {
                    session.cancel(&mut self.hands).await;
                }
            }
            ClientBody::Answer { id, answer } => self.answered(&id, &answer).await,
            ClientBody::Cancel(_) | ClientBody::Notification { .. } => {}
        }
    }

    async fn answered(&mut self, id: &RequestId, answer: &ClientAnswer) {
        let RequestId::Number(question) = *id else { return };
        let mut sessions = self.sessions.values_mut();
        if let Some(session) = sessions.find(|session| session.asked(question)) {
            session.answered(question, answer, &mut self.hands).await;
        }
    }

    async fn asked(&mut self, id: RequestId, request: ClientRequest) {
        if let Err(refusal) = self.take(id.clone(), request).await {
            self.hands.say(&refusal.answer(id)).await;
        }
    }

    /// Takes a request; one that is not refused here is answered when it is done.
    async fn take(&mut self, id: RequestId, request: ClientRequest) -> Result<(), Refusal> {
        if let ClientRequest::Initialize(asked) = request {
            return self.initialize(id, asked);
        }
        let Some(editor) = &self.editor else {
            return Err(Refusal::now("`initialize` comes before every other request"));
        };
        if !self.hands.has_room() {
            return Err(Refusal::now("too many requests are open; wait for one to be answered"));
        }
        let (sessions, hands) = (&mut self.sessions, &mut self.hands);
        match request {
            ClientRequest::SessionNew(asked) => {
                let editor = editor.clone();
                self.begin(id, asked, editor)?;
            }
            ClientRequest::SessionLoad(asked) => self.reopen(id, asked, How::Load)?,
            ClientRequest::SessionResume(asked) => self.reopen(id, asked, How::Resume)?,
            ClientRequest::SessionList(asked) => {
                let (server, settings) = (hands.server().clone(), self.settings.clone());
                hands.later(async move {
                    let outcome = opening::list(&server, &settings, asked.cwd).await;
                    Cause::Done { request: id, outcome }
                });
            }
            ClientRequest::SessionClose(asked) => {
                let session = own(sessions, &asked.session_id)?;
                if let Some(session) = sessions.remove(&session) {
                    session.close(hands).await;
                }
                hands.say(&ServedLine::Result { id, result: json!({}) }).await;
            }
            ClientRequest::Prompt(asked) => {
                let session = open(sessions, &asked.session_id)?;
                session.prompt(id, &asked.prompt, hands).await;
            }
            ClientRequest::SetMode(asked) => {
                let session = open(sessions, &asked.session_id)?;
                let mode = options::mode_of(&asked.mode_id)?;
                session.set_mode(id, mode, Via::Mode, hands).await;
            }
            ClientRequest::SetConfigOption(asked) => {
                let session = open(sessions, &asked.session_id)?;
                session.set_option(id, &asked.config_id, &asked.value, hands).await;
            }
            // It is handled above; a second arm keeps the match whole.
            ClientRequest::Initialize(_)
            | ClientRequest::Authenticate(_)
            | ClientRequest::SessionFork(_)
            | ClientRequest::SetModel(_)
            | ClientRequest::Other { .. } => return Err(Refusal::unknown_method(request.method())),
        }
        Ok(())
    }

    fn initialize(&mut self, id: RequestId, asked: Initialize) -> Result<(), Refusal> {
        if asked.protocol_version < PROTOCOL_VERSION {
            return Err(Refusal::params(format!(
                "version {} of the protocol is not spoken here; version {PROTOCOL_VERSION} is",
                asked.protocol_version
            )));
        }
        let name = asked.client_info.map(|info| info.name).unwrap_or_default();
        self.editor = Some(Editor(name));
        let (server, settings) = (self.hands.server().clone(), self.settings.clone());
        self.hands.later(async move {
            let outcome = opening::powers(&server, &settings).await.map(introduction);
            Cause::Done { request: id, outcome }
        });
        Ok(())
    }

    fn begin(&mut self, id: RequestId, asked: SessionNew, editor: Editor) -> Result<(), Refusal> {
        self.check_room()?;
        let (server, settings) = (self.hands.server().clone(), self.settings.clone());
        let servers = Servers::of(&asked.mcp_servers)?;
        let more_dirs = asked.additional_directories.unwrap_or_default();
        let new = New { cwd: asked.cwd, more_dirs, servers };
        self.hands.later(async move {
            let outcome = opening::begin(&server, &settings, &editor, new).await;
            Cause::Found { request: id, how: How::New, outcome }
        });
        Ok(())
    }

    fn reopen(&mut self, id: RequestId, asked: SessionReopen, how: How) -> Result<(), Refusal> {
        if asked.additional_directories.is_some_and(|dirs| !dirs.is_empty()) {
            return Err(Refusal::params("a session keeps the directories it was created with"));
        }
        let known = asked.session_id.parse().ok().and_then(|id| self.sessions.get(&id));
        match known {
            Some(session) if session.is_busy() => {
                return Err(Refusal::now("a prompt is running in this session"));
            }
            Some(_) => {}
            None => self.check_room()?,
        }
        let (server, settings) = (self.hands.server().clone(), self.settings.clone());
        let servers = Servers::of(&asked.mcp_servers.unwrap_or_default())?;
        let again = Again { session: asked.session_id, cwd: asked.cwd, servers };
        self.hands.later(async move {
            let outcome = opening::find(&server, &settings, again).await;
            Cause::Found { request: id, how, outcome }
        });
        Ok(())
    }

    fn check_room(&self) -> Result<(), Refusal> {
        match self.sessions.len() < MAX_SESSIONS {
            true => Ok(()),
            false => Err(Refusal::now("too many sessions are open here; close one first")),
        }
    }

    async fn work(&mut self, cause: Cause) {
        match cause {
            Cause::Found { request, how, outcome } => match outcome {
                Ok(opened) => self.found(opened, request, how).await,
                Err(refusal) => self.hands.say(&refusal.answer(request)).await,
            },
            Cause::Done { request, outcome } => {
                let line = match outcome {
                    Ok(result) => ServedLine::Result { id: request, result },
                    Err(refusal) => refusal.answer(request),
                };
                self.hands.say(&line).await;
            }
            Cause::Heard { session, heard: heard @ Heard::Over(_) } => {
                if let Some(mut gone) = self.sessions.remove(&session) {
                    gone.heard(heard, &mut self.hands).await;
                }
            }
            Cause::Heard { session, heard } => {
                if let Some(session) = self.sessions.get_mut(&session) {
                    session.heard(heard, &mut self.hands).await;
                }
            }
            Cause::Started { session, outcome } => {
                if let Some(session) = self.sessions.get_mut(&session) {
                    session.started(outcome, &mut self.hands).await;
                }
            }
            Cause::CancelTold { session, outcome } => {
                if let Some(session) = self.sessions.get_mut(&session) {
                    session.cancel_told(outcome, &mut self.hands).await;
                }
            }
            Cause::Looked { session, outcome } => {
                if let Some(session) = self.sessions.get_mut(&session) {
                    session.looked(outcome, &mut self.hands).await;
                }
            }
            Cause::Pending { session, outcome } => {
                if let Some(session) = self.sessions.get_mut(&session) {
                    session.pending(outcome, &mut self.hands).await;
                }
            }
            Cause::Below { session, child, waiting } => {
                if let Some(session) = self.sessions.get_mut(&session) {
                    session.waits_below(child, waiting, &mut self.hands).await;
                }
            }
            Cause::Decided { session, question, outcome } => {
                if let Some(session) = self.sessions.get_mut(&session) {
                    session.decided(question, outcome, &mut self.hands).await;
                }
            }
            Cause::ModeSet { session, request, via, outcome } => {
                match self.sessions.get_mut(&session) {
                    Some(session) => {
                        session.mode_set(request, via, outcome, &mut self.hands).await;
                    }
                    None => self.hands.say(&closed().answer(request)).await,
                }
            }
            Cause::ModeEnds { session } => {
                if let Some(session) = self.sessions.get_mut(&session) {
                    session.look(&mut self.hands);
                }
            }
        }
    }

    async fn found(&mut self, opened: Opened, request: RequestId, how: How) {
        let Opened { session, notes } = opened;
        for words in &notes {
            complain(&format!("plexus acp: {words}"));
        }
        if self.sessions.get(&session.id).is_some_and(Fronted::is_busy) {
            let refusal = Refusal::now("a prompt is running in this session");
            return self.hands.say(&refusal.answer(request)).await;
        }
        // The earlier opening is dropped first, so that the session is not heard twice.
        self.sessions.remove(&session.id);
        let opened = Fronted::open(&session, request, how, notes, &self.hands).await;
        self.sessions.insert(session.id, opened);
    }
}

/// Finds a session that this editor has open.
fn open<'a>(
    sessions: &'a mut HashMap<SessionId, Fronted>,
    id: &str,
) -> Result<&'a mut Fronted, Refusal> {
    let id = own(sessions, id)?;
    sessions.get_mut(&id).ok_or_else(closed)
}

fn own(sessions: &HashMap<SessionId, Fronted>, id: &str) -> Result<SessionId, Refusal> {
    let found = id.parse().ok().filter(|id| sessions.contains_key(id));
    found.ok_or_else(|| {
        Refusal::not_found(format!("the session {id:?} is not open here; load or resume it first"))
    })
}

/// Who this is, and what it takes: as much as the agent of new sessions does. What is not named
/// here is not offered: audio in prompts, MCP servers over SSE, forks.
fn introduction(powers: AgentPowers) -> Value {
    json!({
        "protocolVersion": PROTOCOL_VERSION,
        "agentCapabilities": {
            "loadSession": true,
            "promptCapabilities":
                {"image": powers.images, "audio": false, "embeddedContext": true},
            "mcpCapabilities": {"http": powers.mcp_servers, "sse": false},
            "sessionCapabilities": {"list": {}, "resume": {}, "close": {}},
        },
        "agentInfo": {"name": "plexus", "title": "Plexus", "version": env!("CARGO_PKG_VERSION")},
        "authMethods": [],
    })
}

fn closed() -> Refusal {
    Refusal::not_found("the session is not open here any more")
}
