//! `follow`, and `chat` where the door carries a stream: events as they happen, from a position on.

use std::sync::Arc;

use futures::{Stream, StreamExt, stream};
use plexus_core::method::stream_reply;
use plexus_core::{Answer, Call, CallError, Caller, Reply, SessionId, StreamItem};
use plexus_engine::reading::feed::{AllCursor, SessionFeed};
use plexus_store::{ChatStatus, Cursor, Topic};
use plexus_wire::{ChatParams, FollowParams, PollParams, WaitMs};

use super::ClaudeCode;

/// The position of a follower of one session.
struct Follower {
    this: Arc<ClaudeCode>,
    feed: Arc<SessionFeed>,
    wake: plexus_store::Wake,
    at: Cursor,
    /// Ends with this chat; `None` goes on through all chats.
    until_chat: Option<u32>,
}

impl ClaudeCode {
    pub(super) async fn follow(
        self: Arc<Self>,
        call: Call,
        params: FollowParams,
    ) -> Result<Reply, CallError> {
        let Some(id) = params.session_id else {
            return self.follow_all(call.caller, params).await;
        };
        self.authority.reach(&call.caller, id).await?;
        let at = match (&params.cursor, &params.consumer) {
            (Some(_), Some(_)) => {
                return Err(CallError::invalid("follow from two positions at once")
                    .with_field("consumer")
                    .with_hint("give cursor or consumer"));
            }
            (Some(cursor), None) => self.resolve_cursor(id, cursor).await?,
            (None, Some(consumer)) => self
                .store
                .consumer(id, consumer)
                .await?
                .map_or(Cursor::start(id), |consumer| consumer.cursor),
            (None, None) => Cursor::start(id),
        };
        if params.deltas.unwrap_or(false) {
            return self.follow_live(id, at).await;
        }
        Ok(stream_reply(self.events_from(id, at, None)))
    }

    pub(super) async fn chat(
        self: Arc<Self>,
        call: Call,
        params: ChatParams,
    ) -> Result<Reply, CallError> {
        let wait = params.wait_ms.unwrap_or(WaitMs::MAX).duration();
        let session = self.find(&call.caller, params.session_id, params.name.as_deref()).await?;
        let started = self.start_chat(call.caller, &session, &params).await?;
        if call.can_stream {
            let at = Cursor { session: session.id, chat: started.chat, next: 0 };
            return Ok(stream_reply(self.events_from(session.id, at, Some(started.chat))));
        }
        self.wait_for_turn(call.caller, session.id, started.chat, wait).await?;
        let poll = PollParams { chat: Some(started.chat), ..PollParams::new(session.id) };
        let (polled, on_given) = self.poll(call, poll).await?;
        Answer::new(&polled, on_given).map(Reply::Value)
    }

    /// The events of a session after `at`, as they come.
    fn events_from(
        self: Arc<Self>,
        session: SessionId,
        at: Cursor,
        until_chat: Option<u32>,
    ) -> impl Stream<Item = Result<StreamItem, CallError>> + Send + 'static {
        let wake = self.store.watch(Topic::Session(session));
        let feed = self.feed.session(session);
        let follower = Follower { this: self, feed, wake, at, until_chat };
        stream::unfold(Some(follower), |follower| async move {
            let mut follower = follower?;
            match follower.next().await {
                Ok(Some(items)) => Some((Ok(items), Some(follower))),
                Ok(None) => None,
                Err(error) => Some((Err(error), None)),
            }
        })
        .flat_map(|items| match items {
            Ok(items) => stream::iter(
                items.into_iter().map(|item| Ok(StreamItem::clone(&item))).collect::<Vec<_>>(),
            ),
            Err(error) => stream::iter(vec![Err(error)]),
        })
    }

    async fn follow_all(
        self: Arc<Self>,
        caller: Caller,
        params: FollowParams,
    ) -> Result<Reply, CallError> {
        if params.consumer.is_some() || params.deltas.is_some() {
            return Err(CallError::invalid("follow all sessions as a named reader or with deltas")
                .with_field("session_id")
                .with_hint("name a session_id"));
        }
        let at = match &params.cursor {
            Some(cursor) => cursor.parse()?,
            // Without a cursor the stream begins now. All past events of all sessions would be too
            // much for a stream.
            None => AllCursor { after: self.store.newest_commit().await?, skip: 0 },
        };
        let wake = self.store.watch(Topic::Commits);
        let state = Some((self, wake, at));
        let pages = stream::unfold(state, move |state| async move {
            let (this, mut wake, mut at) = state?;
            match this.next_of_all(&caller, &mut wake, &mut at).await {
                Ok(items) => Some((Ok(items), Some((this, wake, at)))),
                Err(error) => Some((Err(error), None)),
            }
        });
        Ok(stream_reply(pages.flat_map(|items| match items {
            Ok(items) => stream::iter(
                items.into_iter().map(|item| Ok(StreamItem::clone(&item))).collect::<Vec<_>>(),
            ),
            Err(error) => stream::iter(vec![Err(error)]),
        })))
    }

    async fn next_of_all(
        &self,
        caller: &Caller,
        wake: &mut plexus_store::Wake,
        at: &mut AllCursor,
    ) -> Result<Vec<Arc<StreamItem>>, CallError> {
        loop {
            wake.seen();
            let (events, next) = self.feed.read_all(at.after).await?;
            let mut shown = Vec::with_capacity(events.len());
            for (session, item) in events.into_iter().skip(at.skip) {
                if self.may_see(caller, session).await? {
                    shown.push(item);
                }
            }
            let moved = next != at.after;
            *at = AllCursor { after: next, skip: if moved { 0 } else { at.skip } };
            if !shown.is_empty() {
                return Ok(shown);
            }
            if !moved {
                wake.changed().await;
            }
        }
    }

    async fn may_see(&self, caller: &Caller, session: SessionId) -> Result<bool, CallError> {
        match caller {
            Caller::Operator | Caller::Device(_) => Ok(true),
            Caller::Session(own) => match self.store.ancestors(session).await {
                Ok(ancestors) => Ok(ancestors.contains(own)),
                Err(plexus_store::StoreError::NotFound { .. }) => Ok(false),
                Err(error) => Err(error.into()),
            },
            Caller::Child(_) => Ok(false),
        }
    }
}

impl Follower {
    /// Waits for what comes next; `None` when the chat it was to follow has ended.
    async fn next(&mut self) -> Result<Option<Vec<Arc<StreamItem>>>, CallError> {
        loop {
            self.wake.seen();
            let before = self.at;
            if self.until_chat.is_some_and(|chat| self.at.chat > chat) {
                return Ok(None);
            }
            let (items, next) = self.this.feed.read_session(&self.feed, self.at).await?;
            self.at = next;
            if !items.is_empty() {
                return Ok(Some(items.into_iter().map(|(_, item)| item).collect()));
            }
            if let Some(chat) = self.until_chat {
                let facts = self.this.store.chat(self.at.session, Some(chat)).await?;
                if facts.status != ChatStatus::Running
                    && (self.at.chat > chat || self.at.next >= facts.total_events)
                {
                    return Ok(None);
                }
            }
            if self.at == before {
                self.wake.changed().await;
            }
        }
    }
}
