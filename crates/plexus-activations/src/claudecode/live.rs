//! `follow` with live text: pieces and events in the order in which the agent said them.
//!
//! A run shows the pieces of a text, commits the event that the text becomes, and then says how far
//! it is stored; it is one task, so this is the order of its channel. A follower that has read an
//! event therefore finds every piece of it in the channel, before the mark that the event is
//! stored. It passes on what stands before a mark, then the events up to the mark. Pieces that it
//! could not place are left out: the whole text comes as an event.

use std::collections::VecDeque;
use std::sync::Arc;

use futures::{StreamExt, stream};
use plexus_core::method::{raw, stream_reply};
use plexus_core::{CallError, Reply, SessionId, StreamItem};
use plexus_engine::deltas::Live;
use plexus_engine::reading::feed::SessionFeed;
use plexus_store::{Cursor, Topic, Wake};
use plexus_wire::{Delta, LiveText};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};

use super::ClaudeCode;

/// A follower of one session's events and live text.
struct LiveFollower {
    this: Arc<ClaudeCode>,
    session: SessionId,
    feed: Arc<SessionFeed>,
    wake: Wake,
    pieces: Receiver<Live>,
    /// What was said of a text before its pieces were heard; it is passed on before them.
    so_far: Option<String>,
    /// Whether such a beginning was passed on and may be stored before `live_from`.
    gave_beginning: bool,
    /// The position after the last event that was read.
    at: Cursor,
    /// Pieces in the channel belong to events after this position.
    live_from: Cursor,
    /// Events that were read and not passed on, each with the position after it.
    held: VecDeque<(Cursor, Arc<StreamItem>)>,
    /// Whether there may be events that were not read.
    unread: bool,
}

impl ClaudeCode {
    /// The events of a session after `at`, and its live text, as they come.
    pub(super) async fn follow_live(
        self: Arc<Self>,
        session: SessionId,
        at: Cursor,
    ) -> Result<Reply, CallError> {
        let (pieces, so_far) = self.deltas.subscribe(session);
        let mut follower = LiveFollower {
            session,
            feed: self.feed.session(session),
            wake: self.store.watch(Topic::Session(session)),
            pieces,
            so_far,
            gave_beginning: false,
            at,
            live_from: at,
            held: VecDeque::new(),
            unread: true,
            this: self,
        };
        follower.begin_anew().await?;
        let items = stream::unfold(Some(follower), |follower| async move {
            let mut follower = follower?;
            match follower.next().await {
                Ok(items) => Some((Ok(items), Some(follower))),
                Err(error) => Some((Err(error), None)),
            }
        });
        Ok(stream_reply(items.flat_map(|items| match items {
            Ok(items) => stream::iter(items.into_iter().map(Ok).collect::<Vec<_>>()),
            Err(error) => stream::iter(vec![Err(error)]),
        })))
    }
}

impl LiveFollower {
    /// Drops the pieces received so far and subscribes again. Nothing is lost: their text is stored
    /// before `live_from`, will come as an event, or is the text that the agent is writing, which
    /// the new subscription returns from its beginning.
    async fn begin_anew(&mut self) -> Result<(), CallError> {
        let newest = self.this.store.session(self.session).await?.newest_chat;
        if let Some(chat) = newest {
            let (session, chat, next) = (self.session, chat.number, chat.total_events);
            self.live_from = Cursor { session, chat, next };
        }
        (self.pieces, self.so_far) = self.this.deltas.subscribe(self.session);
        self.unread = true;
        Ok(())
    }

    /// Waits for what comes next.
    async fn next(&mut self) -> Result<Vec<StreamItem>, CallError> {
        loop {
            if self.unread && self.held.is_empty() {
                self.read().await?;
            }
            // What was stored before the pieces began has none of its own.
            let past = self.release(self.live_from);
            if !past.is_empty() {
                return Ok(past);
            }
            if let Some(text) = self.so_far.take() {
                self.gave_beginning = true;
                return Ok(vec![self.item(Delta::DeltaStart)?, self.item(Delta::Delta { text })?]);
            }
            let piece = match self.pieces.try_recv() {
                Ok(piece) => piece,
                Err(TryRecvError::Lagged(_)) => {
                    self.begin_anew().await?;
                    continue;
                }
                // Every piece of what is held was in the channel when it was read.
                Err(TryRecvError::Empty | TryRecvError::Closed) if !self.held.is_empty() => {
                    return Ok(self.held.drain(..).map(|(_, item)| (*item).clone()).collect());
                }
                Err(TryRecvError::Empty | TryRecvError::Closed) if self.unread => continue,
                Err(TryRecvError::Empty | TryRecvError::Closed) => {
                    tokio::select! {
                        biased;
                        piece = self.pieces.recv() => match piece {
                            Ok(piece) => piece,
                            Err(RecvError::Lagged(_)) => {
                                self.begin_anew().await?;
                                continue;
                            }
                            Err(RecvError::Closed) => {
                                self.wake.changed().await;
                                self.unread = true;
                                continue;
                            }
                        },
                        _ = self.wake.changed() => {
                            self.unread = true;
                            continue;
                        }
                    }
                }
            };
            match piece {
                Live::MessageStart => return Ok(vec![self.item(Delta::DeltaStart)?]),
                Live::Text(text) => {
                    return Ok(vec![self.item(Delta::Delta { text: (*text).to_owned() })?]);
                }
                Live::Stored(before) => {
                    // The text was stored after the reader got its beginning and before its end was
                    // announced. The reader gets the event, so the beginning that it was shown is
                    // void.
                    if std::mem::take(&mut self.gave_beginning) && before <= self.live_from {
                        return Ok(vec![self.item(Delta::DeltaStart)?]);
                    }
                    while self.at < before && self.read().await? {}
                    let events = self.release(before);
                    if !events.is_empty() {
                        return Ok(events);
                    }
                }
            }
        }
    }

    /// Reads on, and says whether that brought it further.
    async fn read(&mut self) -> Result<bool, CallError> {
        self.wake.seen();
        let (events, next) = self.this.feed.read_session(&self.feed, self.at).await?;
        let moved = next != self.at;
        self.at = next;
        self.held.extend(events);
        // A page may have been full, and the end of a chat may be before the start of another.
        self.unread = moved;
        Ok(moved)
    }

    /// Takes the held events before a position.
    fn release(&mut self, before: Cursor) -> Vec<StreamItem> {
        let count = self.held.iter().take_while(|(behind, _)| *behind <= before).count();
        self.held.drain(..count).map(|(_, item)| (*item).clone()).collect()
    }

    fn item(&self, event: Delta) -> Result<StreamItem, CallError> {
        let body = raw(&LiveText { session_id: self.session, event })?;
        Ok(StreamItem { cursor: None, body: Arc::from(body) })
    }
}
