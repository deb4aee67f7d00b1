//! The way to the server, which may be away: a call waits until it is back, and says so once.

use std::sync::Arc;
use std::time::Duration;

use plexus_client::wire::{ErrorKind, Method};
use plexus_client::{Client, ClientError};
use tokio::sync::watch;

use plexus_render::error::complain;

/// The first pause before a call is made again, and the longest one.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// The server that the editor's sessions run on. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    client: Client,
    /// Whether it was away when it was last asked.
    is_away: Arc<watch::Sender<bool>>,
}

impl Server {
    pub(crate) fn new(client: Client) -> Self {
        Self { client, is_away: Arc::new(watch::Sender::new(false)) }
    }

    /// Returns the client, for streams, which reconnect by themselves.
    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Calls a method, again and again while the server is away. A call that changes something must
    /// be one that may arrive twice.
    pub(crate) async fn call<M: Method>(
        &self,
        params: &M::Params,
    ) -> Result<M::Result, ClientError> {
        let mut pause = FIRST_PAUSE;
        loop {
            match self.client.call::<M>(params).await {
                Err(error) if is_away(&error) => self.note_absence(),
                answer => {
                    self.note_presence();
                    return answer;
                }
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Whether the server was away when it was last asked.
    pub(crate) fn is_away(&self) -> bool {
        *self.is_away.borrow()
    }

    /// Changes when the server goes away or comes back, noticed by a call or by a stream.
    pub(crate) fn absence(&self) -> watch::Receiver<bool> {
        self.is_away.subscribe()
    }

    /// Says on stderr that the server is away, if that is news.
    pub(crate) fn note_absence(&self) {
        if self.is_news(true) {
            complain("plexus acp: the server is away; waiting for it to come back");
        }
    }

    /// Says on stderr that the server is back, if that is news.
    pub(crate) fn note_presence(&self) {
        if self.is_news(false) {
            complain("plexus acp: the server is back");
        }
    }

    fn is_news(&self, is_away: bool) -> bool {
        self.is_away.send_if_modified(|known| std::mem::replace(known, is_away) != is_away)
    }
}

/// Whether nobody answered, or the server said that it cannot answer right now. A busy session does
/// not count: its server is there.
fn is_away(error: &ClientError) -> bool {
    error.is_absence() && error.kind() != ErrorKind::Busy
}
