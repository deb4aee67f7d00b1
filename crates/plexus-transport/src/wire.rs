//! The bytes of one connection. The connection keeps its place among the counted ones until its
//! descriptor is closed, and is closed when its client reads nothing for too long.
//!
//! At an upgrade the HTTP server passes this to the WebSocket, so a socket keeps the place of its
//! connection.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::{Instant, Sleep};

use crate::connections::Connection;

/// A TCP connection with its place.
pub(crate) struct Wire {
    stream: TcpStream,
    connection: Arc<Connection>,
    _place: OwnedSemaphorePermit,
    stall_timeout: Duration,
    /// Runs while a write waits for the other side to read.
    stalled: Option<Pin<Box<Sleep>>>,
}

impl Wire {
    pub(crate) fn new(
        stream: TcpStream,
        connection: Arc<Connection>,
        place: OwnedSemaphorePermit,
        stall_timeout: Duration,
    ) -> Self {
        Self { stream, connection, _place: place, stall_timeout, stalled: None }
    }

    /// Turns a write that has waited too long into an error, which closes the connection.
    fn within_patience<T>(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if written.is_ready() {
            if self.stalled.take().is_some() {
                self.connection.drained();
            }
            return written;
        }
        let until = Instant::now() + self.stall_timeout;
        let stalled = self.stalled.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(until)));
        ready!(stalled.as_mut().poll(cx));
        self.stalled = None;
        tracing::debug!("a client read nothing for too long; its connection is closed");
        Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the client reads nothing")))
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, buf))?;
        let received = self.connection.received(buf.filled().len() - before);
        Poll::Ready(received.map_err(|error| {
            tracing::debug!(%error, "a message is larger than what its caller may hold");
            io::Error::new(io::ErrorKind::OutOfMemory, error)
        }))
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.within_patience(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.within_patience(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.within_patience(cx, flushed)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
