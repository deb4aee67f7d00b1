//! Readers: a few connections of their own, each read in one snapshot.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::connect::Connector;
use super::sql::{Class, Conn, classify};
use crate::contract::StoreError;

/// How long a read may take before its connection is considered dead.
pub(super) const READ_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a caller waits for a database that is away before it gets an error: a restart takes
/// seconds.
pub(super) const PATIENCE: Duration = Duration::from_secs(15);

/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(100);

/// The pool.
#[derive(Debug)]
pub(super) struct Readers {
    connector: Connector,
    permits: Arc<Semaphore>,
    idle: Arc<Mutex<Vec<Conn>>>,
    size: u32,
}

/// A connection in the middle of a read. When it is dropped early, the connection still goes back
/// to the pool: unread answers are discarded in order.
#[derive(Debug)]
pub(super) struct Reading {
    conn: Option<Conn>,
    idle: Arc<Mutex<Vec<Conn>>>,
    /// Released last, after the connection.
    _permit: OwnedSemaphorePermit,
}

impl Readers {
    /// Makes a pool of at most `size` connections, which are opened when needed.
    pub(super) fn new(connector: Connector, size: usize) -> Self {
        let size = u32::try_from(size.max(1)).unwrap_or(1);
        Self {
            connector,
            permits: Arc::new(Semaphore::new(size as usize)),
            idle: Arc::default(),
            size,
        }
    }

    /// Returns whether its connections are encrypted.
    pub(super) fn encrypted(&self) -> bool {
        self.connector.encrypted()
    }

    /// Takes a connection and begins a snapshot.
    pub(super) async fn begin(&self) -> Result<Reading, StoreError> {
        let reading = self.take().await?;
        reading.conn()?.send("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY");
        Ok(reading)
    }

    /// Takes a connection for work that begins its own transaction.
    pub(super) async fn take(&self) -> Result<Reading, StoreError> {
        let permit =
            Arc::clone(&self.permits).acquire_owned().await.map_err(|_| StoreError::Closed)?;
        let pooled = loop {
            let conn = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
            match conn {
                Some(conn) if conn.is_closed() => {}
                conn => break conn,
            }
        };
        let conn = match pooled {
            Some(conn) => conn,
            None => self.connector.connect().await?,
        };
        Ok(Reading { conn: Some(conn), idle: Arc::clone(&self.idle), _permit: permit })
    }

    /// Accepts no more reads, waits for running ones, and closes the connections.
    pub(super) async fn close(&self) {
        let all = self.permits.acquire_many(self.size).await;
        self.permits.close();
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
        drop(all);
    }
}

impl Reading {
    /// Returns the connection.
    pub(super) fn conn(&self) -> Result<&Conn, StoreError> {
        self.conn.as_ref().ok_or(StoreError::Closed)
    }

    /// Drops the connection instead of returning it to the pool.
    pub(super) fn discard(mut self) {
        self.conn = None;
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        if let Some(conn) = self.conn.take().filter(|conn| !conn.is_closed()) {
            conn.send("ROLLBACK");
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(conn);
        }
    }
}

/// The deadline of a read that may be retried.
#[derive(Debug)]
pub(super) struct Tries {
    until: Instant,
}

impl Tries {
    pub(super) fn new() -> Self {
        Self { until: Instant::now() + PATIENCE }
    }

    /// Waits before the next attempt, if the error may pass and there is time left; otherwise
    /// returns the error.
    pub(super) async fn again(&self, error: StoreError) -> Result<(), StoreError> {
        let may_pass = matches!(classify(&error), Class::Lost | Class::Again);
        if !may_pass || Instant::now() >= self.until {
            return Err(error);
        }
        tokio::time::sleep(PAUSE).await;
        Ok(())
    }
}
