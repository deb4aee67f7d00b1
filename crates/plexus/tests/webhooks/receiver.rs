//! A receiver of webhooks: takes what is posted to it, and behaves as the test says.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use testkit::wait::{PATIENCE, eventually_async};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;

/// What the receiver does with the n-th message (counted from 0) that comes to it.
pub(crate) type Manner = fn(usize) -> Act;

/// What it does with one.
#[derive(Clone, Copy)]
pub(crate) enum Act {
    /// Takes it and says so.
    Take,
    /// Takes it, and says that something went wrong.
    Fail,
    /// Takes it, and breaks off before it says so.
    BreakOff,
    /// Says nothing at all.
    Hang,
    /// Takes it, says so, and goes on talking for ever.
    Babble,
    /// Redirects the sender to another address.
    Redirect,
}

/// One message as it came.
#[derive(Clone, Debug)]
pub(crate) struct Letter {
    pub(crate) signature: String,
    pub(crate) id: String,
    pub(crate) text: String,
}

impl Letter {
    pub(crate) fn body(&self) -> Value {
        serde_json::from_str(&self.text).unwrap()
    }
}

/// A receiver on a port of its own.
pub(crate) struct Receiver {
    pub(crate) port: u16,
    letters: Arc<Mutex<Vec<Letter>>>,
    seen: Arc<AtomicUsize>,
    manner: Arc<Mutex<Manner>>,
    /// Its TLS, with its certificate; nothing where it speaks plain HTTP.
    tls: Option<TlsAcceptor>,
    task: Option<JoinHandle<()>>,
    /// Holds the port while nobody listens on it, so that nobody else gets it.
    held: Option<TcpSocket>,
}

impl Receiver {
    pub(crate) async fn new(manner: Manner) -> Self {
        Self::speaking(manner, None)
    }

    /// One that speaks TLS.
    pub(crate) async fn over_tls(manner: Manner, tls: TlsAcceptor) -> Self {
        Self::speaking(manner, Some(tls))
    }

    fn speaking(manner: Manner, tls: Option<TlsAcceptor>) -> Self {
        let socket = bound(0);
        let mut receiver = Self {
            port: socket.local_addr().unwrap().port(),
            letters: Arc::default(),
            seen: Arc::default(),
            manner: Arc::new(Mutex::new(manner)),
            tls,
            task: None,
            held: None,
        };
        receiver.listen(socket.listen(BACKLOG).unwrap());
        receiver
    }

    fn listen(&mut self, listener: TcpListener) {
        let (letters, seen, manner) =
            (Arc::clone(&self.letters), Arc::clone(&self.seen), Arc::clone(&self.manner));
        let tls = self.tls.clone();
        self.task = Some(tokio::spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else { continue };
                let act = manner.lock().unwrap()(seen.fetch_add(1, Ordering::SeqCst));
                let (tls, letters) = (tls.clone(), Arc::clone(&letters));
                tokio::spawn(async move {
                    match tls {
                        None => serve(stream, act, letters).await,
                        // A sender that does not trust our certificate leaves before it has sent
                        // anything.
                        Some(tls) => {
                            if let Ok(stream) = tls.accept(stream).await {
                                serve(stream, act, letters).await;
                            }
                        }
                    }
                });
            }
        }));
    }

    /// Kills it: nobody listens on its port from then on.
    pub(crate) async fn kill(&mut self) {
        self.held = Some(bound(self.port));
        if let Some(task) = self.task.take() {
            task.abort();
            let _aborted = task.await;
        }
    }

    /// Starts it again on the same port, behaving like this from now on.
    pub(crate) fn start_again(&mut self, manner: Manner) {
        *self.manner.lock().unwrap() = manner;
        let held = self.held.take().expect("it was killed");
        self.listen(held.listen(BACKLOG).unwrap());
    }

    /// What it has taken, in the order it came.
    pub(crate) fn letters(&self) -> Vec<Letter> {
        self.letters.lock().unwrap().clone()
    }

    /// Waits for a message that is as wanted.
    pub(crate) async fn wait_for(&self, what: &str, wanted: impl Fn(&Value) -> bool) -> Letter {
        eventually_async(what, PATIENCE, || {
            std::future::ready(self.letters().into_iter().find(|letter| wanted(&letter.body())))
        })
        .await
    }

    /// Waits for a message of this type.
    pub(crate) async fn wait_for_type(&self, kind: &str) -> Letter {
        self.wait_for(kind, |body| body["type"] == kind).await
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// How many connections may wait to be accepted.
const BACKLOG: u32 = 64;

/// A socket on this port that does not listen yet: connections are refused.
fn bound(port: u16) -> TcpSocket {
    let socket = TcpSocket::new_v4().unwrap();
    // The port is taken over from one socket to the next without a moment in between.
    socket.set_reuseport(true).unwrap();
    socket.bind(([127, 0, 0, 1], port).into()).unwrap();
    socket
}

async fn serve(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    act: Act,
    letters: Arc<Mutex<Vec<Letter>>>,
) {
    if matches!(act, Act::Hang) {
        std::future::pending::<()>().await;
    }
    let Some(letter) = read(&mut stream).await else { return };
    letters.lock().unwrap().push(letter);
    let answer: &[u8] = match act {
        Act::Take => b"HTTP/1.1 204 No Content\r\nconnection: close\r\n\r\n",
        Act::Fail => b"HTTP/1.1 500 Internal Server Error\r\ncontent-length: 4\r\nconnection: close\r\n\r\nnope",
        Act::Redirect => {
            b"HTTP/1.1 307 Temporary Redirect\r\nlocation: http://127.0.0.1:1/elsewhere\r\ncontent-length: 0\r\n\r\n"
        }
        Act::Babble => b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
        Act::BreakOff | Act::Hang => return,
    };
    if stream.write_all(answer).await.is_err() || stream.flush().await.is_err() {
        return;
    }
    while matches!(act, Act::Babble) && stream.write_all(b"4\r\nblah\r\n").await.is_ok() {}
}

async fn read(stream: &mut (impl AsyncRead + Unpin)) -> Option<Letter> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        if let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
            let header = |name: &str| {
                head.lines()
                    .find_map(|line| line.strip_prefix(&format!("{name}: ")))
                    .unwrap_or_default()
                    .to_owned()
            };
            let length: usize = header("content-length").parse().ok()?;
            if bytes.len() >= end + 4 + length {
                let text = String::from_utf8(bytes[end + 4..end + 4 + length].to_vec()).ok()?;
                return Some(Letter {
                    signature: header("plexus-signature"),
                    id: header("plexus-webhook-id"),
                    text,
                });
            }
        }
        match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => return None,
            Ok(n) => bytes.extend_from_slice(&buffer[..n]),
        }
    }
}
