//! Writes whole lines to a child's standard input from a queue, so that a child which does not read
//! never blocks the sender.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::AsyncWriteExt as _;
use tokio::process::ChildStdin;
use tokio::sync::mpsc;

/// How many bytes may wait to be written. Agents accept prompts of a few MiB; several of them may
/// wait.
pub const MAX_QUEUED_BYTES: usize = 64 * 1024 * 1024;

/// Sends lines to a child. Cheap to clone; the input is closed with the last clone, or by
/// [`InputWriter::close`].
#[derive(Debug, Clone)]
pub struct InputWriter {
    queue: mpsc::UnboundedSender<Message>,
    queued_bytes: Arc<AtomicUsize>,
}

/// Why a line was not queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InputError {
    /// The queue is full because the child does not read its input.
    #[error("more than {MAX_QUEUED_BYTES} bytes wait for the child to read them")]
    Full,
    /// The input was closed, or the child is gone.
    #[error("the child takes no more input")]
    Closed,
}

#[derive(Debug)]
enum Message {
    Line(String),
    Close,
}

impl InputWriter {
    /// Takes over the input of a child. Must be called inside a tokio runtime.
    pub fn new(stdin: ChildStdin) -> Self {
        let (queue, lines) = mpsc::unbounded_channel();
        let queued_bytes = Arc::new(AtomicUsize::new(0));
        tokio::spawn(write(stdin, lines, Arc::clone(&queued_bytes)));
        Self { queue, queued_bytes }
    }

    /// Queues a line, which ends with its newline. Never waits; lines go out whole and in order.
    pub fn send(&self, line: String) -> Result<(), InputError> {
        let bytes = line.len();
        let before = self.queued_bytes.fetch_add(bytes, Ordering::Relaxed);
        let sent = if before + bytes > MAX_QUEUED_BYTES {
            Err(InputError::Full)
        } else {
            self.queue.send(Message::Line(line)).map_err(|_| InputError::Closed)
        };
        if sent.is_err() {
            self.queued_bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
        sent
    }

    /// Closes the input once everything queued is written.
    pub fn close(&self) {
        // A failure means that the input is already closed.
        let _ = self.queue.send(Message::Close);
    }
}

async fn write(
    mut stdin: ChildStdin,
    mut lines: mpsc::UnboundedReceiver<Message>,
    queued_bytes: Arc<AtomicUsize>,
) {
    while let Some(Message::Line(line)) = lines.recv().await {
        // A child that is ending closes its input first; its last output comes on its other
        // streams.
        if stdin.write_all(line.as_bytes()).await.is_err() {
            return;
        }
        queued_bytes.fetch_sub(line.len(), Ordering::Relaxed);
    }
}
