//! Live pieces of text for watchers: sent, never stored. A watcher that is slow misses some,
//! and the whole text comes as an event.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use plexus_core::SessionId;
use plexus_store::Cursor;
use tokio::sync::broadcast;

use crate::scrub::Pieces;

/// Pieces that wait for a slow watcher before it loses the oldest.
const QUEUE: usize = 256;

/// What a watcher gets.
#[derive(Clone, Debug)]
pub enum Live {
    /// A message begins. Text that was shown and has not become an event is void: after a broken
    /// connection to the model it comes again.
    MessageStart,
    /// A piece of text.
    Text(Arc<str>),
    /// Everything before this position is stored: the pieces so far have become events.
    Stored(Cursor),
}

/// How many bytes of the current text are kept for a watcher that begins in the middle of it. Of a
/// longer text, such a watcher gets only what follows.
const MAX_SO_FAR: usize = 256 * 1024;

/// The live text of all sessions.
#[derive(Clone, Default)]
pub struct Deltas {
    shared: Arc<Mutex<Shared>>,
}

#[derive(Default)]
struct Shared {
    /// A session has a channel only while somebody watches it.
    channels: HashMap<SessionId, broadcast::Sender<Live>>,
    /// The text that each run is writing, as far as it is written. A run that was picked up in the
    /// middle of a text has none until the next text begins.
    so_far: HashMap<SessionId, String>,
}

impl Deltas {
    /// Watches a session. Also returns the text that its run is writing, as far as it is written;
    /// the rest comes over the channel.
    pub fn subscribe(&self, session: SessionId) -> (broadcast::Receiver<Live>, Option<String>) {
        let mut shared = self.lock();
        shared.channels.retain(|_, sender| sender.receiver_count() > 0);
        let sender = shared.channels.entry(session).or_insert_with(|| broadcast::channel(QUEUE).0);
        let receiver = sender.subscribe();
        let so_far = shared.so_far.get(&session).filter(|text| !text.is_empty()).cloned();
        (receiver, so_far)
    }

    /// Returns the end that a run of `session` writes to.
    pub(crate) fn sender(&self, session: SessionId) -> DeltaSender {
        self.lock().so_far.remove(&session);
        DeltaSender { deltas: self.clone(), session, pieces: Pieces::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a run puts its live text.
pub(crate) struct DeltaSender {
    deltas: Deltas,
    session: SessionId,
    /// Sees every piece, watched or not: a watcher that begins in the middle of a token must not
    /// get its other half.
    pieces: Pieces,
}

impl DeltaSender {
    /// Shows a piece of text to the watchers, of which there may be none.
    pub(crate) fn send(&mut self, text: &str) {
        let shown = self.pieces.push(text);
        if shown.is_empty() {
            return;
        }
        let mut shared = self.deltas.lock();
        let fits = match shared.so_far.get_mut(&self.session) {
            Some(so_far) if so_far.len() + shown.len() <= MAX_SO_FAR => {
                so_far.push_str(&shown);
                true
            }
            Some(_) => false,
            None => true,
        };
        if !fits {
            shared.so_far.remove(&self.session);
        }
        shared.show(self.session, Live::Text(shown.into()));
    }

    /// Takes note of a piece of text that is not shown.
    pub(crate) fn pass_over(&mut self, text: &str) {
        let _not_shown = self.pieces.push(text);
        self.deltas.lock().so_far.remove(&self.session);
    }

    /// Tells the watchers that a message begins.
    pub(crate) fn start_message(&mut self) {
        self.pieces.end();
        let mut shared = self.deltas.lock();
        shared.so_far.insert(self.session, String::new());
        shared.show(self.session, Live::MessageStart);
    }

    /// A text has ended; it comes whole as an event.
    pub(crate) fn end_text(&mut self) {
        self.pieces.end();
        self.deltas.lock().so_far.insert(self.session, String::new());
    }

    /// The text is stored as an event: a watcher that begins now reads it there.
    pub(crate) fn became_event(&self) {
        self.deltas.lock().so_far.insert(self.session, String::new());
    }

    /// Tells the watchers that the pieces so far are stored as events before this position.
    pub(crate) fn stored(&self, before: Cursor) {
        self.deltas.lock().show(self.session, Live::Stored(before));
    }
}

impl Drop for DeltaSender {
    fn drop(&mut self) {
        self.deltas.lock().so_far.remove(&self.session);
    }
}

impl Shared {
    fn show(&self, session: SessionId, live: Live) {
        if let Some(sender) = self.channels.get(&session) {
            let _nobody_watches = sender.send(live);
        }
    }
}

#[cfg(test)]
mod tests {
    use plexus_core::auth::TOKEN_PREFIX;

    use super::*;

    #[test]
    fn nobody_gets_a_part_of_a_token_whenever_they_begin_to_watch() {
        let secret = "aB3-_".repeat(8);
        let pieces =
            ["it is ", "pl", "x_", &secret[..9], &secret[9..30], &secret[30..], " they said"];
        for late in 0..pieces.len() {
            let (deltas, session) = (Deltas::default(), SessionId::generate());
            let mut sender = deltas.sender(session);
            sender.start_message();
            let mut seen = String::new();
            let mut watcher = None;
            for (n, piece) in pieces.iter().enumerate() {
                if n == late {
                    let (pieces, so_far) = deltas.subscribe(session);
                    seen.push_str(so_far.as_deref().unwrap_or_default());
                    watcher = Some(pieces);
                }
                sender.send(piece);
            }
            while let Ok(Live::Text(text)) = watcher.as_mut().unwrap().try_recv() {
                seen.push_str(&text);
            }
            assert!(seen.starts_with("it is "), "{seen}");
            assert!(seen.ends_with(" they said"), "{seen}");
            let part =
                |at: usize| seen.contains(&secret[at..at + 5]) || seen.contains(TOKEN_PREFIX);
            assert!(!(0..secret.len() - 5).any(part), "who came at piece {late} saw {seen}");
        }
    }
    #[test]
    fn a_late_watcher_gets_the_beginning_of_the_text() {
        let (deltas, session) = (Deltas::default(), SessionId::generate());
        let so_far = || deltas.subscribe(session).1;
        let mut sender = deltas.sender(session);
        sender.send("the end of something that began before this server");
        assert_eq!(so_far(), None);
        sender.start_message();
        assert_eq!(so_far(), None);
        sender.send("one ");
        sender.send("two");
        assert_eq!(so_far().as_deref(), Some("one two"));
        sender.end_text();
        assert_eq!(so_far(), None);
        sender.send("three");
        assert_eq!(so_far().as_deref(), Some("three"));
        sender.send(&"x".repeat(MAX_SO_FAR));
        assert_eq!(so_far(), None, "a text without bound is not kept");
        sender.start_message();
        sender.send("four");
        drop(sender);
        assert_eq!(so_far(), None, "the run has ended");
    }
}
