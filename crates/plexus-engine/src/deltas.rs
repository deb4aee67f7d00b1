//! Live pieces of text for whoever watches: sent, never stored. A watcher that is slow misses some,
//! and the whole text comes as an event.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use plexus_core::SessionId;
use plexus_store::Cursor;
use tokio::sync::broadcast;

use crate::scrub::Pieces;

/// Pieces that wait for a slow watcher before it loses the oldest.
const QUEUE: usize = 256;

/// What somebody who watches gets.
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

/// The live text of all sessions. A session has a channel only while somebody watches it.
#[derive(Clone, Default)]
pub struct Deltas {
    channels: Arc<Mutex<HashMap<SessionId, broadcast::Sender<Live>>>>,
}

impl Deltas {
    /// Watches a session.
    pub fn subscribe(&self, session: SessionId) -> broadcast::Receiver<Live> {
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        channels.retain(|_, sender| sender.receiver_count() > 0);
        channels.entry(session).or_insert_with(|| broadcast::channel(QUEUE).0).subscribe()
    }

    /// Returns the end that a run of `session` writes to.
    pub(crate) fn sender(&self, session: SessionId) -> DeltaSender {
        DeltaSender { deltas: self.clone(), session, pieces: Pieces::default() }
    }
}

/// Where a run puts its live text.
pub(crate) struct DeltaSender {
    deltas: Deltas,
    session: SessionId,
    /// Sees every piece, watched or not: whoever begins to watch in the middle of a token must not
    /// get its other half.
    pieces: Pieces,
}

impl DeltaSender {
    /// Shows a piece of text to whoever watches; nobody may.
    pub(crate) fn send(&mut self, text: &str) {
        let shown = self.pieces.push(text);
        if !shown.is_empty() {
            self.show(Live::Text(shown.into()));
        }
    }

    /// Takes note of a piece of text that is not shown.
    pub(crate) fn pass_over(&mut self, text: &str) {
        let _not_shown = self.pieces.push(text);
    }

    /// Tells whoever watches that a message begins.
    pub(crate) fn start_message(&mut self) {
        self.pieces.end();
        self.show(Live::MessageStart);
    }

    /// A text has ended; it comes whole as an event.
    pub(crate) fn end_text(&mut self) {
        self.pieces.end();
    }

    /// Tells whoever watches that the pieces so far are stored as events before this position.
    pub(crate) fn stored(&self, before: Cursor) {
        self.show(Live::Stored(before));
    }

    fn show(&self, live: Live) {
        let channels = self.deltas.channels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = channels.get(&self.session) {
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
            let mut watcher = None;
            for (n, piece) in pieces.iter().enumerate() {
                if n == late {
                    watcher = Some(deltas.subscribe(session));
                }
                sender.send(piece);
            }
            let mut seen = String::new();
            while let Ok(Live::Text(text)) = watcher.as_mut().unwrap().try_recv() {
                seen.push_str(&text);
            }
            assert!(seen.ends_with(" they said"), "{seen}");
            let part =
                |at: usize| seen.contains(&secret[at..at + 5]) || seen.contains(TOKEN_PREFIX);
            assert!(!(0..secret.len() - 5).any(part), "who came at piece {late} saw {seen}");
        }
    }
}
