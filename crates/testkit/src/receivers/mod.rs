//! Stand-ins for services that show messages to people: [`Ntfy`], [`Telegram`], [`Slack`] and
//! [`PushService`]. Each is as strict as the real one about what it takes, and a test presses the
//! buttons of what it was sent.

mod ntfy;
mod push;
mod slack;
mod telegram;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::Router;
use tokio::net::TcpSocket;
use tokio::sync::Notify;
use tokio::task::JoinHandle;

pub use ntfy::Ntfy;
pub use push::{Browser, PushService, Pushed};
pub use slack::{CHANNEL, Slack};
pub use telegram::Telegram;

/// How many connections may wait to be accepted.
const BACKLOG: u32 = 64;

/// An HTTP server on a port of its own that can go away and come back.
#[derive(Debug)]
struct Site {
    port: u16,
    router: Router,
    task: Option<JoinHandle<()>>,
    /// Holds the port while nobody listens on it, so that nobody else gets it.
    held: Option<TcpSocket>,
}

impl Site {
    /// Takes a port and serves nothing on it yet.
    fn new() -> Self {
        let socket = bound(0);
        let port = socket.local_addr().map(|address| address.port()).unwrap_or_default();
        Self { port, router: Router::new(), task: None, held: Some(socket) }
    }

    fn serve(&mut self, router: Router) {
        self.router = router;
        self.start_again();
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// Nobody listens on its port from now on.
    async fn stop(&mut self) {
        self.held = Some(bound(self.port));
        if let Some(task) = self.task.take() {
            task.abort();
            let _aborted = task.await;
        }
    }

    fn start_again(&mut self) {
        #[expect(clippy::expect_used, reason = "a test calls this only when it is stopped")]
        let listener =
            self.held.take().and_then(|held| held.listen(BACKLOG).ok()).expect("it is stopped");
        let router = self.router.clone();
        self.task = Some(tokio::spawn(async move {
            let _never = axum::serve(listener, router).await;
        }));
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

#[expect(clippy::expect_used, reason = "loopback has a free port")]
fn bound(port: u16) -> TcpSocket {
    let socket = TcpSocket::new_v4().expect("a socket");
    // The port is taken over from one socket to the next without a moment in between.
    socket.set_reuseport(true).expect("SO_REUSEPORT");
    socket.bind(([127, 0, 0, 1], port).into()).expect("a port");
    socket
}

/// A value that several tasks share, with a wake for those who wait for it to change.
#[derive(Debug, Default)]
struct Shared<T> {
    value: Mutex<T>,
    changed: Notify,
}

impl<T> Shared<T> {
    fn new(value: T) -> Arc<Self> {
        Arc::new(Self { value: Mutex::new(value), changed: Notify::new() })
    }

    fn lock(&self) -> MutexGuard<'_, T> {
        self.value.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the value and wakes everybody who waits.
    fn change<R>(&self, change: impl FnOnce(&mut T) -> R) -> R {
        let result = change(&mut self.lock());
        self.changed.notify_waiters();
        result
    }
}
