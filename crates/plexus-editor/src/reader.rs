//! Reads one session for the editor: its history page by page, then what happens, across restarts
//! of the server.

use futures::StreamExt as _;
use plexus_client::FollowItem;
use plexus_client::wire::{
    ChatEvent, Delta, FollowParams, FollowedEvent, Node, NodeData, NodeId, NodeParams, PageLimit,
    PollParams, Polled, RenderParams, Said, Session, SessionId, SessionRef, ToolTarget, method,
};
use tokio::sync::mpsc;

use crate::door::Cause;
use crate::hands::Task;
use crate::history::{self, Told};
use crate::refusal::Refusal;
use crate::server::Server;
use crate::view::When;

/// Where reading begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Start {
    /// At the first event.
    Beginning,
    /// After the newest event.
    End,
}

/// What is heard of a session, in order.
#[derive(Debug)]
pub(crate) enum Heard {
    /// A chat begins with this prompt. The text is missing when nobody asked for the chat or its
    /// prompt was removed.
    Prompt { chat: u32, text: Option<String>, when: When },
    /// An event, and what its call acts on where the server says so.
    Event { chat: u32, event: Box<ChatEvent>, target: Option<ToolTarget>, when: When },
    /// A live piece of text.
    Piece(Delta),
    /// Everything that had happened has been told; what follows happens now.
    CaughtUp,
    /// Nothing more will be heard: the session is gone.
    Over(Refusal),
}

/// Starts reading a session.
pub(crate) fn read(
    server: Server,
    session: &Session,
    start: Start,
    causes: mpsc::Sender<Cause>,
) -> Task {
    let reader = Reader { server, session: session.id, head: session.head.node_id, causes };
    let newest = session.chat;
    Task::start(async move {
        if let Err(Stop::Over(refusal)) = reader.run(start, newest).await {
            // Whether the door is still there does not matter: this is the last word.
            let _gone = reader.tell(Heard::Over(refusal)).await;
        }
    })
}

struct Reader {
    server: Server,
    session: SessionId,
    /// Where the session's next chat begins.
    head: NodeId,
    causes: mpsc::Sender<Cause>,
}

/// Why reading ends.
enum Stop {
    /// The session cannot be read any more.
    Over(Refusal),
    /// The door has gone.
    NobodyListens,
}

impl Reader {
    async fn run(&self, start: Start, newest: Option<u32>) -> Result<(), Stop> {
        let cursor = match start {
            Start::Beginning => self.tell_history(newest).await?,
            Start::End => self.end(newest).await?,
        };
        self.tell(Heard::CaughtUp).await?;
        let params = FollowParams { cursor, ..FollowParams::of(self.session).with_deltas() };
        let mut events = self.server.client().follow(params);
        while let Some(item) = events.next().await {
            match item.map_err(|error| Stop::Over(error.into()))? {
                FollowItem::Event(event) => {
                    let FollowedEvent { chat, event: shown, .. } = event.at;
                    self.tell_event(chat, event.event, shown.target, When::Now).await?;
                }
                FollowItem::Live(live) => self.tell(Heard::Piece(live.event)).await?,
                FollowItem::Lost => self.server.note_absence(),
                FollowItem::Back => self.server.note_presence(),
                _ => {}
            }
        }
        Ok(())
    }

    /// Tells every chat up to the newest; returns the position after them.
    async fn tell_history(&self, newest: Option<u32>) -> Result<Option<String>, Stop> {
        let mut cursor = None;
        self.tell_origin(newest).await?;
        for chat in newest.map(|newest| 0..=newest).into_iter().flatten() {
            let mut from = 0;
            loop {
                let page = self.page(chat, from).await?;
                for polled in page.events {
                    from = polled.seq + 1;
                    let event = polled.read().map_err(|error| {
                        Stop::Over(Refusal::failed(format!("could not read an event: {error}")))
                    })?;
                    self.tell_event(chat, event, polled.target, When::Earlier).await?;
                }
                cursor = page.cursor.or(cursor);
                if !page.has_more {
                    break;
                }
            }
        }
        Ok(cursor)
    }

    /// Tells the conversation that a forked session goes on from; a session of its own has none.
    async fn tell_origin(&self, newest: Option<u32>) -> Result<(), Stop> {
        let end = match newest {
            None => Some(self.head),
            Some(_) => {
                let page = self.page(0, 0).await?;
                match page.events.first().and_then(|first| first.read().ok()) {
                    Some(ChatEvent::Start { user_position, .. }) => {
                        self.node(user_position.node_id).await?.and_then(|node| node.parent)
                    }
                    Some(_) | None => None,
                }
            }
        };
        let Some(end) = end else { return Ok(()) };
        let params =
            RenderParams { end: Some(end), ..RenderParams::new(SessionRef::id(self.session)) };
        let rendered = self.server.call::<method::agents::RenderContext>(&params).await;
        let when = When::Earlier;
        for told in history::told(rendered.map_err(|error| Stop::Over(error.into()))?.messages) {
            let heard = match told {
                Told::Prompt(text) => Heard::Prompt { chat: 0, text: Some(text), when },
                Told::Event(event) => {
                    // A message tells no target: its calls are shown with their whole inputs.
                    Heard::Event { chat: 0, event: Box::new(event), target: None, when }
                }
            };
            self.tell(heard).await?;
        }
        Ok(())
    }

    /// Returns the position after the newest event.
    async fn end(&self, newest: Option<u32>) -> Result<Option<String>, Stop> {
        let Some(chat) = newest else { return Ok(None) };
        let total = self.page(chat, 0).await?.total_events;
        Ok(self.page(chat, total.saturating_sub(1)).await?.cursor)
    }

    async fn page(&self, chat: u32, from: u32) -> Result<Polled, Stop> {
        let params = PollParams {
            chat: Some(chat),
            from_seq: Some(from),
            limit: Some(PageLimit::MAX),
            ..PollParams::new(self.session)
        };
        let page = self.server.call::<method::agents::Poll>(&params).await;
        page.map_err(|error| Stop::Over(error.into()))
    }

    async fn tell_event(
        &self,
        chat: u32,
        event: ChatEvent,
        target: Option<Said<ToolTarget>>,
        when: When,
    ) -> Result<(), Stop> {
        if let ChatEvent::Start { user_position, .. } = &event {
            let text = self.prompt(user_position.node_id).await?;
            self.tell(Heard::Prompt { chat, text, when }).await?;
        }
        let target = target.and_then(|target| target.known().cloned());
        self.tell(Heard::Event { chat, event: Box::new(event), target, when }).await
    }

    /// Returns the text of a prompt, which is a node of the tree and no event.
    async fn prompt(&self, node: NodeId) -> Result<Option<String>, Stop> {
        Ok(match self.node(node).await?.map(|node| node.data) {
            Some(Said::Known(NodeData::Text { content })) => Some(content),
            Some(Said::Known(NodeData::External { .. } | NodeData::Pruned {}))
            | Some(Said::Unknown(_))
            | None => None,
        })
    }

    async fn node(&self, node: NodeId) -> Result<Option<Node>, Stop> {
        let found = self.server.call::<method::arbor::NodeGet>(&NodeParams::new(node)).await;
        Ok(found.map_err(|error| Stop::Over(error.into()))?.node)
    }

    async fn tell(&self, heard: Heard) -> Result<(), Stop> {
        let cause = Cause::Heard { session: self.session, heard };
        self.causes.send(cause).await.map_err(|_| Stop::NobodyListens)
    }
}
