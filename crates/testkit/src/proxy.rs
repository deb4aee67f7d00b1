//! A TCP relay that can be slowed, stalled, half-closed and cut, to simulate a bad network.
//!
//! Clients connect to [`Proxy::address`]; bytes go on to the target. Changes apply at once to every
//! open connection.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context as _, Result};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// How much is relayed at a time: small enough that a delay affects every part of a long answer.
const CHUNK_BYTES: usize = 16 * 1024;

/// How the relay treats the bytes that pass through it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weather {
    /// Relays at once.
    Clear,
    /// Delays every chunk by this long.
    Slow(Duration),
    /// Accepts connections and bytes and passes nothing on: a silent network.
    Stalled,
    /// Passes on requests and holds back every answer: requests are executed, and the client never
    /// learns of it.
    Unanswered,
    /// Refuses connections and closes the open ones.
    Cut,
}

/// The state that every connection watches.
#[derive(Debug, Clone, Copy)]
struct Sky {
    weather: Weather,
    /// How many times open connections were cut; a connection that began at a lower count ends.
    cuts: u64,
    /// The same for half-closes, which end the direction to the client and leave the other open.
    half_closes: u64,
}

/// Which way bytes go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    ToTarget,
    ToClient,
}

/// A running relay; dropping it closes everything.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    sky: watch::Sender<Sky>,
    task: JoinHandle<()>,
}

impl Proxy {
    /// Starts a relay on a free loopback port towards `target`.
    pub async fn start(target: SocketAddr) -> Result<Self> {
        let listener =
            TcpListener::bind("127.0.0.1:0").await.context("could not listen for the proxy")?;
        let address = listener.local_addr()?;
        let (sky, watching) =
            watch::channel(Sky { weather: Weather::Clear, cuts: 0, half_closes: 0 });
        let task = tokio::spawn(accept(listener, target, watching));
        Ok(Self { address, sky, task })
    }

    /// Returns where clients connect to.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Changes the weather for open and for new connections.
    pub fn set(&self, weather: Weather) {
        self.sky.send_modify(|sky| {
            sky.weather = weather;
            sky.cuts += u64::from(weather == Weather::Cut);
        });
    }

    /// Closes every open connection; new ones are relayed as before.
    pub fn cut_open_connections(&self) {
        self.sky.send_modify(|sky| sky.cuts += 1);
    }

    /// Sends every client an end of stream, while the target keeps its connection and still
    /// receives the client's bytes.
    pub fn half_close_open_connections(&self) {
        self.sky.send_modify(|sky| sky.half_closes += 1);
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(listener: TcpListener, target: SocketAddr, sky: watch::Receiver<Sky>) {
    // This task owns the connections, so that dropping it drops all of them.
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        while connections.try_join_next().is_some() {}
        let now = *sky.borrow();
        if now.weather != Weather::Cut {
            connections.spawn(relay(client, target, sky.clone(), now.cuts));
        }
    }
}

async fn relay(
    client: TcpStream,
    target: SocketAddr,
    mut sky: watch::Receiver<Sky>,
    began_under: u64,
) {
    let Ok(server) = TcpStream::connect(target).await else { return };
    // Without this the proxy itself would add 40 ms to small messages.
    let (Ok(()), Ok(())) = (client.set_nodelay(true), server.set_nodelay(true)) else { return };
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let up = copy(from_client, to_server, sky.clone(), Direction::ToTarget);
    let down = copy(from_server, to_client, sky.clone(), Direction::ToClient);
    tokio::select! {
        _cut = sky.wait_for(|sky| sky.cuts != began_under) => {}
        _ended = async { tokio::join!(up, down) } => {}
    }
}

/// Relays one direction until its end. It passes on an end of file, so half-closed connections stay
/// half-closed.
async fn copy(
    mut from: impl AsyncRead + Unpin,
    mut to: impl AsyncWrite + Unpin,
    mut sky: watch::Receiver<Sky>,
    direction: Direction,
) {
    let began_under = sky.borrow().half_closes;
    let mut closing = sky.clone();
    let relaying = async {
        let mut buffer = vec![0; CHUNK_BYTES];
        while let Ok(length @ 1..) = from.read(&mut buffer).await {
            let Ok(weather) =
                sky.wait_for(|sky| passes(sky.weather, direction)).await.map(|sky| sky.weather)
            else {
                return;
            };
            if let Weather::Slow(delay) = weather {
                tokio::time::sleep(delay).await;
            }
            if to.write_all(&buffer[..length]).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        _closed = closing.wait_for(|sky| direction == Direction::ToClient && sky.half_closes != began_under) => {}
        () = relaying => {}
    }
    // The peer may be gone already.
    let _gone = to.shutdown().await;
}

fn passes(weather: Weather, direction: Direction) -> bool {
    match weather {
        Weather::Clear | Weather::Slow(_) | Weather::Cut => true,
        Weather::Stalled => false,
        Weather::Unanswered => direction == Direction::ToTarget,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wait::{PATIENCE, within};

    async fn echo() -> SocketAddr {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                tokio::spawn(async move {
                    let (mut from, mut to) = stream.split();
                    tokio::io::copy(&mut from, &mut to).await
                });
            }
        });
        address
    }

    async fn said_back(stream: &mut TcpStream, word: &[u8]) -> bool {
        let mut answer = vec![0; word.len()];
        stream.write_all(word).await.is_ok()
            && stream.read_exact(&mut answer).await.is_ok()
            && answer == word
    }

    #[tokio::test]
    async fn a_cut_closes_open_connections_and_spares_new_ones() {
        let proxy = Proxy::start(echo().await).await.unwrap();
        let mut first = TcpStream::connect(proxy.address()).await.unwrap();
        assert!(said_back(&mut first, b"one").await);
        proxy.cut_open_connections();
        assert!(
            !within("the end of the first connection", PATIENCE, said_back(&mut first, b"two"))
                .await
        );
        let mut second = TcpStream::connect(proxy.address()).await.unwrap();
        assert!(said_back(&mut second, b"three").await);
    }

    #[tokio::test]
    async fn a_stalled_relay_holds_bytes_and_lets_them_go_later() {
        let proxy = Proxy::start(echo().await).await.unwrap();
        let mut stream = TcpStream::connect(proxy.address()).await.unwrap();
        proxy.set(Weather::Stalled);
        stream.write_all(b"held").await.unwrap();
        let mut answer = [0; 4];
        let early =
            tokio::time::timeout(Duration::from_millis(50), stream.read_exact(&mut answer)).await;
        assert!(early.is_err(), "a stalled relay must pass nothing on");
        proxy.set(Weather::Slow(Duration::from_millis(1)));
        within("the held bytes", PATIENCE, stream.read_exact(&mut answer)).await.unwrap();
        assert_eq!(&answer, b"held");
    }

    #[tokio::test]
    async fn a_half_closed_connection_ends_for_the_client_and_still_carries_what_it_says() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Proxy::start(listener.local_addr().unwrap()).await.unwrap();
        let mut client = TcpStream::connect(proxy.address()).await.unwrap();
        let (mut target, _) = listener.accept().await.unwrap();
        target.write_all(b"hello").await.unwrap();
        client.read_exact(&mut [0; 5]).await.unwrap();
        proxy.half_close_open_connections();
        let end =
            within("the end of the answers", PATIENCE, client.read(&mut [0; 5])).await.unwrap();
        assert_eq!(end, 0);
        client.write_all(b"still").await.unwrap();
        within("what the client still says", PATIENCE, target.read_exact(&mut [0; 5]))
            .await
            .unwrap();
    }

    #[tokio::test]
    async fn an_unanswered_question_arrives_and_its_answer_comes_when_the_weather_clears() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Proxy::start(listener.local_addr().unwrap()).await.unwrap();
        let mut client = TcpStream::connect(proxy.address()).await.unwrap();
        let (mut target, _) = listener.accept().await.unwrap();
        proxy.set(Weather::Unanswered);
        client.write_all(b"question").await.unwrap();
        within("the question", PATIENCE, target.read_exact(&mut [0; 8])).await.unwrap();
        target.write_all(b"answer").await.unwrap();
        let early =
            tokio::time::timeout(Duration::from_millis(50), client.read_exact(&mut [0; 6])).await;
        assert!(early.is_err(), "the answer must be held back");
        proxy.set(Weather::Clear);
        within("the answer", PATIENCE, client.read_exact(&mut [0; 6])).await.unwrap();
    }

    #[tokio::test]
    async fn a_cut_relay_refuses_until_the_weather_clears() {
        let proxy = Proxy::start(echo().await).await.unwrap();
        proxy.set(Weather::Cut);
        let mut refused = TcpStream::connect(proxy.address()).await.unwrap();
        assert!(!within("the refusal", PATIENCE, said_back(&mut refused, b"no")).await);
        proxy.set(Weather::Clear);
        let mut accepted = TcpStream::connect(proxy.address()).await.unwrap();
        assert!(within("the answer", PATIENCE, said_back(&mut accepted, b"yes")).await);
    }
}
