//! Live pieces of text for whoever watches: sent, never stored. A watcher that is slow misses some, and the whole text comes as an event.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use plexus_core::SessionId;
use tokio::sync::broadcast;

/// Pieces that wait for a slow watcher before it loses the oldest.
const QUEUE: usize = 256;

/// What somebody who watches gets.
#[derive(Clone, Debug)]
pub(crate) enum Live {
    /// A message begins. Text that was shown and has not become an event is void: after a broken connection to the model it comes again.
    MessageStart,
    /// A piece of text.
    Text(Arc<str>),
}

/// The live text of all sessions. A session has a channel only while somebody watches it.
#[derive(Clone, Default)]
pub(crate) struct Deltas {
    channels: Arc<Mutex<HashMap<SessionId, broadcast::Sender<Live>>>>,
}

impl Deltas {
    /// Watches a session.
    pub(crate) fn subscribe(&self, session: SessionId) -> broadcast::Receiver<Live> {
        let mut channels = self.channels.lock().unwrap_or_else(PoisonError::into_inner);
        channels.retain(|_, sender| sender.receiver_count() > 0);
        channels.entry(session).or_insert_with(|| broadcast::channel(QUEUE).0).subscribe()
    }

    /// Returns the end that a run of `session` writes to.
    pub(crate) fn sender(&self, session: SessionId) -> DeltaSender {
        DeltaSender { deltas: self.clone(), session }
    }
}

/// Where a run puts its live text.
pub(crate) struct DeltaSender {
    deltas: Deltas,
    session: SessionId,
}

impl DeltaSender {
    /// Whether anybody watches.
    pub(crate) fn is_watched(&self) -> bool {
        let channels = self.deltas.channels.lock().unwrap_or_else(PoisonError::into_inner);
        channels.get(&self.session).is_some_and(|sender| sender.receiver_count() > 0)
    }

    /// Shows a piece of text to whoever watches; nobody may.
    pub(crate) fn send(&self, text: &str) {
        self.show(Live::Text(crate::scrub::text(text).into()));
    }

    /// Tells whoever watches that a message begins.
    pub(crate) fn start_message(&self) {
        self.show(Live::MessageStart);
    }

    fn show(&self, live: Live) {
        let channels = self.deltas.channels.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = channels.get(&self.session) {
            let _nobody_watches = sender.send(live);
        }
    }
}
