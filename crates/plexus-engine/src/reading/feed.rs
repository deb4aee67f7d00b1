//! Events as readers get them, serialised once for all who follow the same stream.
//!
//! A follower asks for what comes after its position. The newest events of a followed session are
//! kept, serialised, in a small ring; the first follower to need a new event reads it from the
//! store and the others find it there. A follower that is further behind reads from the store
//! itself.

use std::cell::OnceCell;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use plexus_core::{CallError, SessionId, StreamItem};
use plexus_store::{Cursor, Event, FeedEvent, ReadLimit, SessionRecord, Store, StoreError};
use plexus_wire::{ChatEvent, FollowedEvent, PolledEvent, Said, ToolTarget};

use crate::session::SessionConfig;
use crate::tools::ToolReader;

/// Events kept for each followed stream.
const RING_EVENTS: usize = 512;

/// Bytes kept for each followed stream.
const RING_BYTES: usize = 1024 * 1024;

/// What a follower takes at a time. A follower whose reader reads nothing holds this much, or one
/// event that is larger.
const TAKE: ReadLimit = ReadLimit { events: 256, bytes: 256 * 1024 };

/// Shows the events of one session. What a tool call acts on is not stored: the driver of the
/// session's agent reads it whenever the event is shown.
pub struct EventView<'a> {
    /// `None` leaves targets out.
    tools: Option<&'a ToolReader>,
    session: &'a SessionRecord,
    /// Read for the first tool call, because most pages have none; `None` when it cannot be read.
    config: OnceCell<Option<SessionConfig>>,
}

impl<'a> EventView<'a> {
    /// Shows the events of this session: with the targets that `tools` reads, or without targets.
    pub fn new(tools: Option<&'a ToolReader>, session: &'a SessionRecord) -> Self {
        Self { tools, session, config: OnceCell::new() }
    }

    /// An event as `poll` shows it: a page may span chats, so each event says its own.
    pub fn paged(&self, event: &Event) -> PolledEvent {
        PolledEvent { chat: Some(event.chat), ..polled(event, self.target(event)) }
    }

    /// An event as a stream shows it.
    pub fn followed(&self, event: &Event) -> FollowedEvent {
        followed(event, self.target(event))
    }

    fn target(&self, event: &Event) -> Option<ToolTarget> {
        let tools = self.tools.filter(|_| tells_call(event))?;
        let config = self.config.get_or_init(|| SessionConfig::of(self.session).ok());
        target(tools, config.as_ref()?, event)
    }
}

/// Whether an event may have a target. Its type is known without reading its body.
fn tells_call(event: &Event) -> bool {
    matches!(event.event_type.as_str(), "tool_use" | "awaiting_approval")
}

/// What the call of an event acts on; `None` for an event that tells of no call of its session.
fn target(tools: &ToolReader, config: &SessionConfig, event: &Event) -> Option<ToolTarget> {
    match event.body.read().ok()? {
        ChatEvent::ToolUse { tool_name, input, .. }
        | ChatEvent::AwaitingApproval { tool_name, input, .. } => {
            tools.target(config, &tool_name, &input.to_value())
        }
        _ => None,
    }
}

fn polled(event: &Event, target: Option<ToolTarget>) -> PolledEvent {
    PolledEvent {
        chat: None,
        seq: event.seq,
        event: event.body.clone().into(),
        target: target.map(Said::from),
        timestamp: event.timestamp.into(),
        node_id: Some(event.node_id()),
        handle: Some(event.handle()),
    }
}

fn followed(event: &Event, target: Option<ToolTarget>) -> FollowedEvent {
    FollowedEvent { session_id: event.session, chat: event.chat, event: polled(event, target) }
}

/// The sessions whose tool calls are on one page; each is read once. `None` for a session that was
/// removed after its events were read, or whose configuration cannot be read.
type Configs = HashMap<SessionId, Option<SessionConfig>>;

/// Reads streams for followers.
pub struct Feed {
    store: Arc<dyn Store>,
    tools: ToolReader,
    sessions: Mutex<HashMap<SessionId, Weak<SessionFeed>>>,
    all: tokio::sync::Mutex<Ring<u64>>,
}

/// The newest events of one session.
pub struct SessionFeed {
    ring: tokio::sync::Mutex<Ring<Cursor>>,
}

/// A stretch of a stream: from a position, through its events, to the position after the last.
struct Ring<P> {
    /// Where the first kept event begins, and where what comes after the last would begin.
    span: Option<(P, P)>,
    /// Each event with the position after it.
    events: VecDeque<(P, SessionId, Arc<StreamItem>)>,
    bytes: usize,
}

impl<P> Default for Ring<P> {
    fn default() -> Self {
        Self { span: None, events: VecDeque::new(), bytes: 0 }
    }
}

impl<P: Copy + PartialEq> Ring<P> {
    /// Returns what is kept after `from`, about as much as [`TAKE`] says; `None` when `from` is not
    /// within what is kept.
    fn after(&self, from: P) -> Option<Vec<(P, SessionId, Arc<StreamItem>)>> {
        let (start, _) = self.span?;
        let at = if start == from {
            0
        } else {
            self.events.iter().rposition(|(position, _, _)| *position == from)? + 1
        };
        let mut taken: Vec<(P, SessionId, Arc<StreamItem>)> = Vec::new();
        let mut bytes = 0;
        for event in self.events.iter().skip(at) {
            bytes += event.2.body.get().len();
            // Events of one commit share a position, so they are taken together.
            let begins_another = taken.last().is_some_and(|(position, _, _)| *position != event.0);
            if begins_another && (bytes > TAKE.bytes || taken.len() >= TAKE.events) {
                break;
            }
            taken.push(event.clone());
        }
        Some(taken)
    }

    fn ends_at(&self, position: P) -> bool {
        self.span.is_none_or(|(_, end)| end == position)
    }

    fn extend(&mut self, from: P, events: &[(P, SessionId, Arc<StreamItem>)]) {
        let Some((last, _, _)) = events.last() else { return };
        let start = self.span.map_or(from, |(start, _)| start);
        self.span = Some((start, *last));
        for event in events {
            self.bytes += event.2.body.get().len();
            self.events.push_back(event.clone());
        }
        while self.events.len() > RING_EVENTS || self.bytes > RING_BYTES {
            let Some((position, _, item)) = self.events.pop_front() else { break };
            self.bytes -= item.body.get().len();
            // Events of one commit share a position, so they leave together: a ring never begins in
            // the middle of one.
            while let Some((next, _, item)) = self.events.front()
                && *next == position
            {
                self.bytes -= item.body.get().len();
                self.events.pop_front();
            }
            self.span = self.span.map(|(_, end)| (position, end));
        }
    }
}

impl Feed {
    /// Reads from this store, and tool calls with `tools`.
    pub fn new(store: Arc<dyn Store>, tools: ToolReader) -> Self {
        Self { store, tools, sessions: Mutex::default(), all: tokio::sync::Mutex::default() }
    }

    /// Returns the shared feed of a session; it lives as long as somebody follows.
    pub fn session(&self, id: SessionId) -> Arc<SessionFeed> {
        let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(feed) = sessions.get(&id).and_then(Weak::upgrade) {
            return feed;
        }
        sessions.retain(|_, feed| feed.strong_count() > 0);
        let feed = Arc::new(SessionFeed { ring: tokio::sync::Mutex::default() });
        sessions.insert(id, Arc::downgrade(&feed));
        feed
    }

    /// Reads what comes after `from` in one session, each event with the position after it. Empty
    /// when there is nothing yet.
    pub async fn read_session(
        &self,
        feed: &SessionFeed,
        from: Cursor,
    ) -> Result<(Vec<(Cursor, Arc<StreamItem>)>, Cursor), CallError> {
        let mut ring = feed.ring.lock().await;
        let mut events = ring.after(from).unwrap_or_default();
        if events.is_empty() {
            let page = self.store.read_from(from, TAKE).await?;
            let mut configs = Configs::new();
            for event in &page.events {
                let behind = event.cursor_after();
                let item = self.item(event, behind.to_string(), &mut configs).await?;
                events.push((behind, event.session, item));
            }
            if events.is_empty() {
                // At the end of a chat the position moves on to the next chat by itself.
                return Ok((Vec::new(), page.next));
            }
            if ring.ends_at(from) {
                ring.extend(from, &events);
            }
        }
        drop(ring);
        let next = events.last().map_or(from, |(behind, _, _)| *behind);
        Ok((events.into_iter().map(|(behind, _, item)| (behind, item)).collect(), next))
    }

    /// Reads what comes after commit `from` in all sessions, whole commits at a time.
    pub async fn read_all(
        &self,
        from: u64,
    ) -> Result<(Vec<(SessionId, Arc<StreamItem>)>, u64), CallError> {
        let mut ring = self.all.lock().await;
        let mut events = ring.after(from).unwrap_or_default();
        let mut next = events.last().map_or(from, |(behind, _, _)| *behind);
        if events.is_empty() {
            let page = self.store.read_commits(from, TAKE).await?;
            next = page.after;
            events = self.with_cursors(&page.events).await?;
            // The ring's positions are whole commits, so the last one of each stands for it.
            if !events.is_empty()
                && ring.ends_at(from)
                && events.last().is_some_and(|(behind, _, _)| *behind == next)
            {
                ring.extend(from, &events);
            }
        }
        Ok((events.into_iter().map(|(_, session, item)| (session, item)).collect(), next))
    }

    /// Gives each event the cursor after it: a commit's last event has the commit number, those
    /// before it say how many came.
    async fn with_cursors(
        &self,
        events: &[FeedEvent],
    ) -> Result<Vec<(u64, SessionId, Arc<StreamItem>)>, CallError> {
        let mut shown = Vec::with_capacity(events.len());
        let mut configs = Configs::new();
        let mut within = 0;
        for (i, event) in events.iter().enumerate() {
            within += 1;
            let is_last = events.get(i + 1).is_none_or(|next| next.commit != event.commit);
            let cursor = if is_last {
                event.commit.to_string()
            } else {
                format!("{}.{within}", event.commit - 1)
            };
            if is_last {
                within = 0;
            }
            let item = self.item(&event.event, cursor, &mut configs).await?;
            shown.push((event.commit, event.event.session, item));
        }
        Ok(shown)
    }

    /// An event as an item of a stream. The session is read only for an event that tells of a tool
    /// call; all followers of a stream share the item.
    async fn item(
        &self,
        event: &Event,
        cursor: String,
        configs: &mut Configs,
    ) -> Result<Arc<StreamItem>, CallError> {
        let target = match tells_call(event) {
            true => {
                let config = match configs.entry(event.session) {
                    Entry::Occupied(known) => known.into_mut(),
                    Entry::Vacant(unknown) => unknown.insert(self.config(event.session).await?),
                };
                config.as_ref().and_then(|config| target(&self.tools, config, event))
            }
            false => None,
        };
        let body = plexus_core::method::raw(&followed(event, target))?;
        Ok(Arc::new(StreamItem { cursor: Some(cursor), body: Arc::from(body) }))
    }

    async fn config(&self, session: SessionId) -> Result<Option<SessionConfig>, StoreError> {
        match self.store.session(session).await {
            Ok(session) => Ok(SessionConfig::of(&session).ok()),
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// A position in the feed of all sessions: after a commit, and how many events after it were seen
/// already.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AllCursor {
    /// The commit after which it stands.
    pub after: u64,
    /// How many events of the next commits it has had.
    pub skip: usize,
}

impl std::str::FromStr for AllCursor {
    type Err = CallError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let (after, skip) = text.split_once('.').unwrap_or((text, "0"));
        match (after.parse(), skip.parse()) {
            (Ok(after), Ok(skip)) => Ok(Self { after, skip }),
            _ => {
                Err(CallError::invalid("read the cursor: hand back exactly the one you were given")
                    .with_field("cursor"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(position: u64) -> (u64, SessionId, Arc<StreamItem>) {
        let body: Arc<serde_json::value::RawValue> =
            Arc::from(serde_json::value::to_raw_value(&position).unwrap());
        (position, SessionId::generate(), Arc::new(StreamItem { cursor: None, body }))
    }

    fn positions(events: Option<Vec<(u64, SessionId, Arc<StreamItem>)>>) -> Option<Vec<u64>> {
        events.map(|events| events.into_iter().map(|(position, _, _)| position).collect())
    }

    #[test]
    fn a_ring_gives_the_events_after_a_position_it_knows() {
        let mut ring = Ring::default();
        assert_eq!(positions(ring.after(0)), None);
        ring.extend(0, &[entry(1), entry(2)]);
        ring.extend(2, &[entry(3)]);
        assert_eq!(positions(ring.after(0)), Some(vec![1, 2, 3]));
        assert_eq!(positions(ring.after(2)), Some(vec![3]));
        assert_eq!(positions(ring.after(3)), Some(vec![]));
        assert_eq!(positions(ring.after(9)), None);
    }

    #[test]
    fn a_ring_never_begins_in_the_middle_of_a_commit() {
        let mut ring = Ring::default();
        let half = RING_EVENTS / 2 + 100;
        ring.extend(0, &(0..half).map(|_| entry(1)).collect::<Vec<_>>());
        ring.extend(1, &(0..half).map(|_| entry(2)).collect::<Vec<_>>());
        assert_eq!(positions(ring.after(1)), Some(vec![2; half]));
    }

    #[test]
    fn a_follower_takes_a_bounded_part_and_goes_on_after_it() {
        let text = "x".repeat(TAKE.bytes / 2);
        let mut ring = Ring::default();
        for i in 0..3 {
            let body = Arc::from(serde_json::value::to_raw_value(&text).unwrap());
            let item = Arc::new(StreamItem { cursor: None, body });
            ring.extend(i, &[(i + 1, SessionId::generate(), item)]);
        }
        assert_eq!(positions(ring.after(0)), Some(vec![1]));
        assert_eq!(positions(ring.after(1)), Some(vec![2]));
        assert_eq!(positions(ring.after(2)), Some(vec![3]));
        assert_eq!(positions(ring.after(3)), Some(vec![]));
    }

    #[test]
    fn a_ring_forgets_the_oldest_and_says_so() {
        let mut ring = Ring::default();
        for i in 0..(RING_EVENTS as u64 + 10) {
            ring.extend(i, &[entry(i + 1)]);
        }
        assert_eq!(positions(ring.after(0)), None);
        assert_eq!(positions(ring.after(10)).map(|events| events.len()), Some(TAKE.events));
    }
}
