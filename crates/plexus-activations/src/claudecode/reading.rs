//! `poll`, `wait` and the waiting half of `chat`: every reader reads from the store, with a
//! position of its own.

use std::sync::Arc;
use std::time::Duration;

use plexus_core::{Call, CallError, Caller, OnGiven, Reader, SessionId};
use plexus_engine::reading::feed::EventView;
use plexus_engine::reading::long_poll::LongPoll;
use plexus_engine::tools::ToolReader;
use plexus_store::{
    ApprovalFilter, Change, ChatStatus, Cursor, EventPage, PageRequest, Priority, ReadLimit,
    SessionRecord, SetCursor, SetReadPosition, Stage, Topic, limits,
};
use plexus_wire::{
    Approval, PageLimit, PollParams, Polled, SessionRef, WaitParams, Waited, WakeOn,
};

use super::shown::as_session_status;
use super::{ClaudeCode, Namespace};

/// How many of the last events of a chat are recent.
const RECENT: u32 = 100;

/// Where a poll reads from.
enum From {
    /// One chat, from this event on; moves nobody.
    Seq { chat: u32, seq: u32 },
    /// One chat, from the default position on, which moves when a door gives the page.
    Default { chat: u32 },
    /// Through all chats, from this position on.
    Cursor(Cursor),
    /// There is no chat yet.
    Nothing,
}

impl ClaudeCode {
    /// Reads a page. The default position moves when the answer is given, so that a page for which
    /// a door has no room is read again by the next poll.
    pub(super) async fn poll(
        &self,
        call: Call,
        params: PollParams,
    ) -> Result<(Polled, Option<OnGiven>), CallError> {
        let handles = params.handles.unwrap_or_else(|| self.tells_handles(call.reader));
        let (polled, moves) = self.read(call, params).await?;
        let polled = if handles { polled } else { polled.without_handles() };
        let on_given = moves.map(|set| -> OnGiven {
            let store = Arc::clone(&self.store);
            Box::pin(async move {
                store.commit(vec![Change::SetReadPosition(set)], Priority::Normal).await?;
                Ok(())
            })
        });
        Ok((polled, on_given))
    }

    /// Whether a page contains handles and node ids when the caller does not say. A model gets
    /// none, unless it calls the method by its older name, which always had them.
    fn tells_handles(&self, reader: Reader) -> bool {
        match reader {
            Reader::Program => true,
            Reader::Model => self.namespace == Namespace::ClaudeCode,
        }
    }

    /// Reads a page, and says where the default position goes if the page counts as read.
    async fn read(
        &self,
        call: Call,
        params: PollParams,
    ) -> Result<(Polled, Option<SetReadPosition>), CallError> {
        let limit = params.limit.unwrap_or_default().get();
        let wait = params.wait_ms.unwrap_or_default().duration();
        // A target repeats the input, and a model pays for every byte.
        let tells_targets = params.handles.unwrap_or(call.reader == Reader::Program);
        let tools = tells_targets.then_some(&self.approvals.views.tools);
        let id = match (params.session_id, &params.name) {
            (Some(id), None) => id,
            (id, name) => self.find(&call.caller, id, name.as_deref()).await?.id,
        };
        let mut poll = LongPoll::new(&self.turns, call.caller, wait)
            .on([self.store.watch(Topic::Session(id))]);
        let mut reached = Some(self.authority.reach(&call.caller, id).await?);
        self.acknowledge(id, &params).await?;
        loop {
            let turn = poll.turn().await;
            let session = match reached.take() {
                Some(session) => session,
                None => self.store.session(id).await?,
            };
            let from = self.from(&session, &params).await?;
            let (page, chat) = self.page(&session, &from, limit).await?;
            let more_may_come = match &from {
                From::Seq { .. } | From::Default { .. } => {
                    page.as_ref().is_some_and(|page| page.status == Some(ChatStatus::Running))
                }
                From::Cursor(_) | From::Nothing => true,
            };
            let empty = page.as_ref().is_none_or(|page| page.events.is_empty());
            if !empty || !more_may_come || poll.is_over() {
                drop(turn);
                return self.polled(&session, &from, page, chat, tools).await;
            }
            poll.wait(turn, 0).await;
        }
    }

    /// The end of the newest chat, for a caller that looks now and then; it moves nobody's position.
    pub(super) async fn recent(&self, call: Call, params: SessionRef) -> Result<Polled, CallError> {
        let session = self.find(&call.caller, params.session_id, params.name.as_deref()).await?;
        let newest = session.newest_chat;
        let poll = PollParams {
            from_seq: Some(newest.map_or(0, |chat| chat.total_events.saturating_sub(RECENT))),
            // Events that come between the two reads belong to the end too.
            limit: Some(PageLimit::MAX),
            chat: newest.map(|chat| chat.number),
            ..PollParams::new(session.id)
        };
        let (polled, _none) = self.read(call, poll).await?;
        Ok(polled)
    }

    /// A named reader that hands back a cursor has read up to there.
    async fn acknowledge(&self, id: SessionId, params: &PollParams) -> Result<(), CallError> {
        let exclusive =
            [params.from_seq.is_some(), params.consumer.is_some() || params.cursor.is_some()]
                .iter()
                .filter(|set| **set)
                .count();
        if exclusive > 1
            || (params.chat.is_some() && (params.consumer.is_some() || params.cursor.is_some()))
        {
            return Err(CallError::invalid("poll from two positions at once")
                .with_field(if params.from_seq.is_some() { "from_seq" } else { "chat" })
                .with_hint("give from_seq (and chat), or consumer and cursor"));
        }
        if let (Some(consumer), Some(cursor)) = (&params.consumer, &params.cursor) {
            let cursor = self.resolve_cursor(id, cursor).await?;
            let set = SetCursor { consumer: consumer.clone(), cursor };
            self.store.commit(vec![Change::SetCursor(set)], Priority::Normal).await?;
        }
        Ok(())
    }

    async fn from(&self, session: &SessionRecord, params: &PollParams) -> Result<From, CallError> {
        if let Some(consumer) = &params.consumer {
            let cursor = match self.store.consumer(session.id, consumer).await? {
                Some(consumer) => consumer.cursor,
                None => {
                    let cursor = Cursor::start(session.id);
                    let set = SetCursor { consumer: consumer.clone(), cursor };
                    self.store.commit(vec![Change::SetCursor(set)], Priority::Normal).await?;
                    cursor
                }
            };
            return Ok(From::Cursor(cursor));
        }
        if let Some(cursor) = &params.cursor {
            return Ok(From::Cursor(self.resolve_cursor(session.id, cursor).await?));
        }
        let chat = match (params.chat, session.newest_chat) {
            (Some(chat), _) => chat,
            (None, Some(newest)) => newest.number,
            (None, None) => {
                return match params.from_seq {
                    None | Some(0) => Ok(From::Nothing),
                    Some(seq) => Err(past_the_end(seq, 0)),
                };
            }
        };
        Ok(params.from_seq.map_or(From::Default { chat }, |seq| From::Seq { chat, seq }))
    }

    /// Reads the page, and says which chat it is of.
    async fn page(
        &self,
        session: &SessionRecord,
        from: &From,
        limit: usize,
    ) -> Result<(Option<EventPage>, Option<u32>), CallError> {
        let limit = ReadLimit::events(limit);
        let store = &self.store;
        let (chat, seq) = match from {
            From::Nothing => return Ok((None, None)),
            From::Cursor(cursor) => {
                let page = store.read_from(*cursor, limit).await?;
                let chat = page.events.last().map_or(page.next.chat, |event| event.chat);
                return Ok((Some(page), Some(chat)));
            }
            From::Seq { chat, seq } => {
                let page = store.read_events(session.id, *chat, *seq, limit).await?;
                if *seq > page.total_events {
                    return Err(past_the_end(*seq, page.total_events));
                }
                return Ok((Some(page), Some(*chat)));
            }
            From::Default { chat } => {
                (*chat, store.chat(session.id, Some(*chat)).await?.read_position)
            }
        };
        Ok((Some(store.read_events(session.id, chat, seq, limit).await?), Some(chat)))
    }

    async fn polled(
        &self,
        session: &SessionRecord,
        from: &From,
        page: Option<EventPage>,
        chat: Option<u32>,
        tools: Option<&ToolReader>,
    ) -> Result<(Polled, Option<SetReadPosition>), CallError> {
        let pending_approvals = self.pending_of(session).await?;
        let Some(chat) = chat else {
            let polled = Polled {
                status: session.status().into(),
                events: Vec::new(),
                pending_approvals,
                read_position: 0,
                total_events: 0,
                has_more: false,
                cursor: Some(Cursor::start(session.id).to_string()),
                chat: None,
            };
            return Ok((polled, None));
        };
        let page = page.ok_or_else(|| CallError::internal("poll: there is a chat and no page"))?;
        // The page has the status of the chat in which the reader continues. That is nearly always
        // the chat of the last event.
        let (chat_status, total_events, mut read_position) = if page.next.chat == chat {
            (page.status, page.total_events, page.read_position)
        } else {
            let of = self.store.chat(session.id, Some(chat)).await?;
            (Some(of.status), of.total_events, of.read_position)
        };
        let mut moves = None;
        if let From::Default { chat } = from
            && page.next.next > read_position
        {
            read_position = page.next.next;
            moves = Some(SetReadPosition { session: session.id, chat: *chat, next: read_position });
        }
        let is_newest = session.newest_chat.is_none_or(|newest| newest.number <= chat);
        let status = match (chat_status, is_newest) {
            (Some(status), false) => as_session_status(status),
            _ => session.status(),
        };
        let view = EventView::new(tools, session);
        let polled = Polled {
            status: status.into(),
            events: page.events.iter().map(|event| view.paged(event)).collect(),
            pending_approvals,
            read_position,
            total_events,
            has_more: page.has_more,
            cursor: Some(page.next.to_string()),
            chat: Some(chat),
        };
        Ok((polled, moves))
    }

    /// The permission requests of a session that wait.
    pub(super) async fn pending_of(
        &self,
        session: &SessionRecord,
    ) -> Result<Vec<Approval>, CallError> {
        if session.pending_approvals == 0 {
            return Ok(Vec::new());
        }
        let filter = ApprovalFilter {
            stage: Stage::Pending,
            session: Some(session.id),
            ..ApprovalFilter::default()
        };
        let page = self
            .store
            .approvals(filter, PageRequest::first(limits::MAX_PENDING_PER_SESSION))
            .await?;
        let views = &self.approvals.views;
        let shown = page.items.iter().map(|record| views.pending(record, session));
        Ok(shown.collect::<Result<_, _>>()?)
    }

    /// Waits until the chat has ended or something waits for a decision, or the wait is over. Never
    /// for the child alone.
    pub(super) async fn wait_for_turn(
        &self,
        caller: Caller,
        session: SessionId,
        chat: u32,
        wait: Duration,
    ) -> Result<(), CallError> {
        let mut poll = LongPoll::new(&self.turns, caller, wait)
            .on([self.store.watch(Topic::Session(session))]);
        loop {
            let turn = poll.turn().await;
            let now = self.store.session(session).await?;
            if now.open_chat() != Some(chat) || now.pending_approvals > 0 || poll.is_over() {
                return Ok(());
            }
            poll.wait(turn, 0).await;
        }
    }

    pub(super) async fn wait(&self, call: Call, params: WaitParams) -> Result<Waited, CallError> {
        let wait = params.wait_ms.unwrap_or_default().duration();
        let wanted = params.session_ids.unwrap_or_default();
        for id in &wanted {
            self.authority.reach(&call.caller, *id).await?;
        }
        let mut after = params.after.unwrap_or(0);
        let any = wanted.is_empty().then(|| self.scopes.watch(call.caller.session()));
        let mut poll = LongPoll::new(&self.turns, call.caller, wait)
            .on(wanted.iter().map(|id| self.store.watch(Topic::Session(*id))))
            .on_scope(any);
        loop {
            let turn = poll.turn().await;
            let found = match params.wake_on.unwrap_or_default() {
                WakeOn::Change => self.news.changed_after(&call.caller, after).await?,
                WakeOn::AsksOrEnds => self.news.asked_or_ended(&call.caller, after).await?,
            };
            let changed: Vec<&SessionRecord> = found
                .sessions
                .iter()
                .filter(|session| wanted.is_empty() || wanted.contains(&session.id))
                .collect();
            if !changed.is_empty() || poll.is_over() {
                let mut sessions = Vec::with_capacity(changed.len());
                for session in changed {
                    sessions.push(self.news.changed(session).await?);
                }
                return Ok(Waited { after: found.after.max(after), sessions });
            }
            // A change that was read and concerned nobody is not read again.
            after = found.after.max(after);
            poll.wait(turn, after).await;
        }
    }
}

fn past_the_end(seq: u32, total: u32) -> CallError {
    CallError::invalid(format_args!("read from event {seq}: the chat has {total}"))
        .with_field("from_seq")
        .with_hint("read from total_events at the latest")
}
