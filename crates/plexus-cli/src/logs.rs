//! `plexus logs`: what happened in a session, with times and deciders, and what it waits for.

use anyhow::{Context as _, Result};
use futures::StreamExt as _;
use plexus_client::wire::{
    ChatEvent, FollowParams, FollowedEvent, Node, NodeData, NodeId, NodeParams, PolledEvent, Said,
    Session,
};
use plexus_client::{Client, FollowItem};

use super::args::{Global, Logs};
use super::exit;
use super::find::session as find_session;
use super::run::{Form, View, poll_from};
use super::server::{self, failed};
use plexus_render::screen::{Screen, duration, now_ms};
use plexus_render::tool_call::{self, Extent};

/// `plexus logs`.
pub(super) async fn logs(global: &Global, arguments: &Logs) -> Result<u8> {
    let client = server::find(&global.data_dir()?).await?;
    let session = find_session(&client, &arguments.session).await.map_err(failed)?;
    let form = if arguments.json { Form::Json } else { Form::Text };
    let screen = Screen::stdout();
    let whole = arguments.full || screen.is_endless();
    let mut view = View::log(screen, form, if whole { Extent::Whole } else { Extent::Short });
    let chats = match (arguments.chat, session.chat) {
        (Some(chat), _) => chat..=chat,
        (None, Some(newest)) => 0..=newest,
        (None, None) => {
            view.remark("no chat yet")?;
            #[expect(clippy::reversed_empty_ranges, reason = "nothing to read")]
            let none = 1..=0;
            none
        }
    };
    let mut cursor = None;
    for chat in chats {
        let mut from = 0;
        loop {
            let page = poll_from(&client, session.id, chat, from).await.map_err(failed)?;
            for event in page.events {
                from = event.seq + 1;
                let read = event.read().context("could not read an event")?;
                // An item of `follow` says its chat beside the session, and not in the event too.
                let event = PolledEvent { chat: None, ..event };
                let at = FollowedEvent { session_id: session.id, chat, event };
                show(&client, (&mut view, form), &at, &read).await?;
            }
            cursor = page.cursor.or(cursor);
            if !page.has_more {
                break;
            }
        }
    }
    if !arguments.follow {
        tell_what_waits(&client, &mut view, &session, screen).await?;
        return Ok(exit::OK);
    }
    let mut events = client.follow(FollowParams { cursor, ..FollowParams::of(session.id) });
    while let Some(item) = events.next().await {
        match item.map_err(failed)? {
            FollowItem::Event(event) => {
                show(&client, (&mut view, form), &event.at, &event.event).await?;
            }
            FollowItem::Lost => view.remark("  (the server is away)")?,
            FollowItem::Back => view.remark("  (the server is back)")?,
            _ => {}
        }
    }
    Ok(exit::OK)
}

/// Shows an event. A chat begins with its prompt, which is a node of the tree and not an event.
async fn show(
    client: &Client,
    (view, form): (&mut View, Form),
    at: &FollowedEvent,
    event: &ChatEvent,
) -> Result<()> {
    let pruned_start = matches!(event, ChatEvent::Pruned { was } if was == "start");
    let prompt = match event {
        ChatEvent::Start { user_position, .. } => {
            Some(node(client, user_position.node_id).await.map(|node| node.data))
        }
        ChatEvent::Pruned { .. } if pruned_start => {
            Some(prompt_before(client, at.event.node_id).await)
        }
        _ => None,
    };
    if let Some(prompt) = prompt {
        let words = match &prompt {
            Some(Said::Known(NodeData::Text { content })) => content.as_str(),
            Some(Said::Known(NodeData::Pruned {})) => "(pruned)",
            Some(Said::Known(NodeData::External { .. }) | Said::Unknown(_)) | None => "",
        };
        view.began(at, words)?;
        if pruned_start && form == Form::Text {
            return Ok(());
        }
    }
    Ok(view.event(at, event)?)
}

/// Finds the prompt of a chat whose start was pruned: what the start said is gone, and the prompt
/// is kept. It is the node before that of the chat, which is the one before the start's.
async fn prompt_before(client: &Client, start: Option<NodeId>) -> Option<Said<NodeData>> {
    let start = node(client, start?).await?;
    let chat = node(client, start.parent?).await?;
    node(client, chat.parent?).await.map(|node| node.data)
}

/// Reads a node of a tree. A log does without one that cannot be read.
async fn node(client: &Client, id: NodeId) -> Option<Node> {
    client.arbor().node_get(&NodeParams::new(id)).await.ok()?.node
}

/// Says what the session waits for, and how to answer.
async fn tell_what_waits(
    client: &Client,
    view: &mut View,
    session: &Session,
    screen: Screen,
) -> Result<()> {
    for approval in client.pending(Some(session.id)).await.map_err(failed)? {
        let age = duration(now_ms() - approval.created_at.0 * 1_000);
        let about = tool_call::about(&approval, screen);
        view.remark(&format!("has waited {age} for an answer: {about}"))?;
        let id = approval.id;
        view.remark(&format!("  `plexus approve {id}`, `plexus deny {id}` or `plexus review`"))?;
    }
    Ok(())
}
