//! The egress process: outside the wall, and all that a program inside has of the network.
//!
//! In reading order: this file opens the doors and serves them; [`gate`] decides about hosts and
//! bounds how long a connection is held; [`hosts`] is the list; [`connection`] finds the process
//! that opened a connection; [`proxy`] is the HTTP proxy, [`dial`] resolves and connects for it;
//! [`model`] is the door to the model's API; [`upstream`] is a proxy that this machine has to go
//! through.
//!
//! TLS is not decrypted: what goes through an allowed tunnel is between the program and the
//! host.

mod connection;
mod dial;
mod gate;
mod hosts;
mod model;
mod proxy;
mod upstream;

use std::convert::Infallible;
use std::future::Future;
use std::io::{self, IoSliceMut};
use std::mem::MaybeUninit;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use hyper_util::rt::{TokioIo, TokioTimer};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;

pub use connection::{Connection, Holder};
pub use gate::{Bounds, Decide, Decision, ListedHosts};
pub use hosts::{BadHost, HostPattern};
pub use model::{ApiKey, ModelApi, ModelError};
pub use upstream::UpstreamProxy;

use crate::network::TAKEN;
use crate::wall::Doors;
use gate::Gate;

/// The proxy's port in a network of the program's own.
const PROXY_PORT: u16 = 8200;
/// The port of the model's API in a network of the program's own.
const MODEL_PORT: u16 = 8201;
/// The most connections of one program at a time. Package managers open some dozens.
const MAX_CONNECTIONS: usize = 256;
/// The longest wait for the head of a request.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest wait before a listener that could not accept tries again.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// What the egress process serves.
pub struct EgressOptions {
    /// Decides about hosts; without it there is no proxy.
    pub decider: Option<Arc<dyn Decide>>,
    /// The model's API; without it there is no such door.
    pub model: Option<ModelApi>,
    /// How much may wait for an answer.
    pub bounds: Bounds,
    /// A server on this machine that the program may call; without it there is no such door.
    pub server: Option<ServerDoor>,
    /// A proxy that this machine has to go through.
    pub upstream: Option<UpstreamProxy>,
}

/// A door through which bytes go to a server on this machine as they are.
#[derive(Clone)]
pub struct ServerDoor {
    /// The port at which the program calls it.
    pub port: u16,
    /// Finds where it listens now: a server that was started again may listen elsewhere.
    pub find: Arc<dyn Fn() -> Option<SocketAddr> + Send + Sync>,
}

impl std::fmt::Debug for EgressOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EgressOptions").field("model", &self.model).finish_non_exhaustive()
    }
}

/// Doors that are open or wait to be handed over; [`Egress::run`] serves them.
#[derive(Debug)]
pub struct Egress {
    options: EgressOptions,
    doors: Doors,
    source: Source,
}

#[derive(Debug)]
enum Source {
    /// Listeners on this machine.
    Here(Vec<(u16, TcpListener)>),
    /// Listeners that the stage makes in the program's network and hands over here.
    Inside(UnixListener, SocketFile),
    /// Listeners that the stage has handed over. It waits for the word that they are taken.
    Taken(Vec<(u16, TcpListener)>, UnixStream),
}

/// A socket's file that goes with its value.
#[derive(Debug)]
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _already_gone = std::fs::remove_file(&self.0);
    }
}

impl Egress {
    /// Listens on free ports of this machine, for the landlock tier.
    ///
    /// # Errors
    /// When no port can be had.
    pub async fn listen_here(options: EgressOptions) -> io::Result<Self> {
        let mut listeners = Vec::new();
        let mut open = async |is_wanted: bool| {
            if !is_wanted {
                return io::Result::Ok(None);
            }
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
            let port = listener.local_addr()?.port();
            listeners.push((port, listener));
            Ok(Some(port))
        };
        let proxy = open(options.decider.is_some()).await?;
        let model = open(options.model.is_some()).await?;
        let doors = Doors { proxy, model, server: None, socket: None };
        Ok(Self { options, doors, source: Source::Here(listeners) })
    }

    /// Waits at a Unix socket for listeners that the stage makes, in the program's own network or
    /// on free ports of this machine. The socket must lie where the program cannot see it.
    ///
    /// # Errors
    /// When the socket cannot be made.
    pub fn listen_inside(options: EgressOptions, socket: &Path) -> io::Result<Self> {
        let listener = UnixListener::bind(socket)?;
        let doors = doors_inside(&options, Some(socket));
        let source = Source::Inside(listener, SocketFile(socket.to_owned()));
        Ok(Self { options, doors, source })
    }

    /// Takes every listener that a stage hands over on this connection. The stage goes on, and the
    /// program starts, when [`Egress::run`] serves them.
    ///
    /// # Errors
    /// When the stage is gone, or hands over something else.
    pub async fn take_over(
        options: EgressOptions,
        stage: std::os::unix::net::UnixStream,
    ) -> io::Result<Self> {
        stage.set_nonblocking(true)?;
        let stage = UnixStream::from_std(stage)?;
        let doors = doors_inside(&options, None);
        let listeners = receive_all(&stage, &doors).await?;
        Ok(Self { options, doors, source: Source::Taken(listeners, stage) })
    }

    /// Returns the doors, for the wall.
    #[must_use]
    pub fn doors(&self) -> &Doors {
        &self.doors
    }

    /// Serves until `shutdown` resolves. Connections end with it.
    ///
    /// # Errors
    /// When the stage cannot hand its listeners over.
    pub async fn run(self, shutdown: impl Future<Output = ()>) -> io::Result<()> {
        let Self { options, doors, source } = self;
        let service = Arc::new(Service {
            gate: options.decider.map(|decider| Gate::new(decider, options.bounds)),
            model: options.model,
            server: options.server,
            upstream: options.upstream,
            doors,
            connections: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
        });
        let mut tasks = JoinSet::new();
        let serve = async {
            let listeners = match source {
                Source::Here(listeners) => listeners,
                Source::Inside(listener, file) => {
                    let (stage, _) = listener.accept().await?;
                    let taken = receive_all(&stage, &service.doors).await?;
                    // One program, one hand-over: nobody else finds the socket afterwards.
                    drop(file);
                    confirm(&stage).await?;
                    taken
                }
                Source::Taken(listeners, stage) => {
                    confirm(&stage).await?;
                    listeners
                }
            };
            for (port, listener) in listeners {
                tasks.spawn(Arc::clone(&service).accept(port, listener));
            }
            while tasks.join_next().await.is_some() {}
            io::Result::Ok(())
        };
        tokio::select! {
            outcome = serve => outcome,
            () = shutdown => Ok(()),
        }
    }
}

struct Service {
    gate: Option<Arc<Gate>>,
    model: Option<ModelApi>,
    server: Option<ServerDoor>,
    upstream: Option<UpstreamProxy>,
    doors: Doors,
    connections: Arc<Semaphore>,
}

impl Service {
    async fn accept(self: Arc<Self>, port: u16, listener: TcpListener) {
        let mut connections = JoinSet::new();
        loop {
            // A program that opens too many waits in its own backlog.
            let Ok(place) = Arc::clone(&self.connections).acquire_owned().await else { return };
            match listener.accept().await {
                Ok((stream, program)) => {
                    let serving = Arc::clone(&self).connection(port, stream, program, place);
                    connections.spawn(serving);
                }
                // Out of descriptors, or the peer was gone: the listener itself is well.
                Err(_) => tokio::time::sleep(ACCEPT_PAUSE).await,
            }
            while connections.try_join_next().is_some() {}
        }
    }

    async fn connection(
        self: Arc<Self>,
        port: u16,
        stream: TcpStream,
        program: SocketAddr,
        _: OwnedSemaphorePermit,
    ) {
        let (Ok(()), Ok(door)) = (stream.set_nodelay(true), stream.local_addr()) else { return };
        let from = Connection { program, door };
        if let Some(server) = self.server.as_ref().filter(|server| server.port == port) {
            return relay(stream, server).await;
        }
        let (tunnels, mut tunnel) = mpsc::channel(1);
        let service = hyper::service::service_fn(|request| {
            let (this, tunnels) = (Arc::clone(&self), tunnels.clone());
            async move { Ok::<_, Infallible>(this.answer(port, from, tunnels, request).await) }
        });
        let serving = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .preserve_header_case(true)
            .serve_connection(TokioIo::new(stream), service)
            .with_upgrades();
        // The program knows how its connection ended.
        let _ended = serving.await;
        // A tunnel keeps the place of its connection, and ends with the egress process.
        if let Ok(tunnel) = tunnel.try_recv() {
            tunnel.await;
        }
    }

    async fn answer(
        &self,
        port: u16,
        from: Connection,
        tunnels: mpsc::Sender<proxy::Tunnel>,
        request: hyper::Request<hyper::body::Incoming>,
    ) -> proxy::Answer {
        let port = Some(port);
        match (&self.gate, &self.model) {
            (Some(gate), _) if port == self.doors.proxy => {
                let gate = proxy::Passage { gate, from };
                proxy::serve(gate, tunnels, self.upstream.as_ref(), request).await
            }
            (_, Some(model)) if port == self.doors.model => {
                model.serve(self.upstream.as_ref(), request).await
            }
            _ => proxy::say(hyper::StatusCode::NOT_FOUND, "there is no such door"),
        }
    }
}

/// Passes bytes between the program and a server. Without a server the connection ends, as it would
/// without us.
async fn relay(mut inside: TcpStream, server: &ServerDoor) {
    let Some(address) = (server.find)() else { return };
    let Ok(mut upstream) = TcpStream::connect(address).await else { return };
    if upstream.set_nodelay(true).is_ok() {
        // How it ends is known to both ends, and nobody else asks.
        let _ended = tokio::io::copy_bidirectional(&mut inside, &mut upstream).await;
    }
}

/// The doors that a stage opens for us.
fn doors_inside(options: &EgressOptions, socket: Option<&Path>) -> Doors {
    Doors {
        proxy: options.decider.is_some().then_some(PROXY_PORT),
        model: options.model.is_some().then_some(MODEL_PORT),
        server: options.server.as_ref().map(|server| server.port),
        socket: socket.map(Path::to_owned),
    }
}

/// Takes the listeners that the stage hands over, one for each door.
async fn receive_all(stage: &UnixStream, doors: &Doors) -> io::Result<Vec<(u16, TcpListener)>> {
    let mut listeners = Vec::new();
    for _ in doors.ports() {
        listeners.push(receive(stage).await?);
    }
    Ok(listeners)
}

/// Tells the stage that every door is ours, so that the program may start.
async fn confirm(stage: &UnixStream) -> io::Result<()> {
    loop {
        stage.writable().await?;
        match stage.try_write(&[TAKEN]) {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}

/// Takes one listener, with the number of its port.
async fn receive(stream: &UnixStream) -> io::Result<(u16, TcpListener)> {
    loop {
        stream.readable().await?;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut port = [0; 2];
        let mut data = [IoSliceMut::new(&mut port)];
        let received = stream.try_io(tokio::io::Interest::READABLE, || {
            Ok(recvmsg(stream, &mut data, &mut control, RecvFlags::CMSG_CLOEXEC)?)
        });
        match received {
            Ok(message) if message.bytes == port.len() => {
                let handed = control.drain().find_map(|message| match message {
                    RecvAncillaryMessage::ScmRights(mut fds) => fds.next(),
                    _ => None,
                });
                let handed: OwnedFd = handed.ok_or(io::ErrorKind::InvalidData)?;
                let listener = std::net::TcpListener::from(handed);
                listener.set_nonblocking(true)?;
                return Ok((u16::from_be_bytes(port), TcpListener::from_std(listener)?));
            }
            Ok(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
}
