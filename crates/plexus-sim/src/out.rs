//! Standard output: whole lines, in order, written by a separate thread.
//!
//! [`Out::line`] never waits, so that a line can be written in the middle of a change of state. The
//! thread flushes whenever its queue is empty: a single line is written at once, a burst in large
//! writes. A reader that stops reading stops only the thread. A producer of much output first waits
//! in [`Out::room`], as the real CLI does.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Serialize;
use tokio::sync::{Notify, mpsc, oneshot};

/// Bytes that may wait for a slow reader before the story pauses. Two pipe buffers are enough to
/// never starve the writer.
const MAX_WAITING_BYTES: usize = 128 * 1024;

/// A cheap handle to the one writer of stdout.
#[derive(Clone)]
pub(crate) struct Out {
    lines: mpsc::UnboundedSender<Message>,
    waiting: Arc<Waiting>,
}

#[derive(Default)]
struct Waiting {
    bytes: AtomicUsize,
    drained: Notify,
}

enum Message {
    Line(Vec<u8>),
    Flush(oneshot::Sender<()>),
}

impl Out {
    /// Starts the writer. It ends with the process.
    pub(crate) fn start() -> io::Result<Self> {
        let (lines, receiver) = mpsc::unbounded_channel();
        let waiting = Arc::new(Waiting::default());
        let shared = Arc::clone(&waiting);
        std::thread::Builder::new()
            .name("stdout".to_owned())
            .spawn(move || write_lines(receiver, &shared))?;
        Ok(Self { lines, waiting })
    }

    /// Writes one JSON line.
    pub(crate) fn line(&self, line: &impl Serialize) {
        #[expect(
            clippy::expect_used,
            reason = "our own line types hold string keys and finite numbers only"
        )]
        let bytes = serde_json::to_vec(line).expect("a line of ours is always valid JSON");
        self.raw(bytes);
    }

    /// Writes one line unchanged.
    pub(crate) fn raw(&self, mut bytes: Vec<u8>) {
        bytes.push(b'\n');
        self.waiting.bytes.fetch_add(bytes.len(), Ordering::Relaxed);
        // The writer ends only when nobody can read stdout any more. The real CLI then goes on, and
        // so do we.
        let _ = self.lines.send(Message::Line(bytes));
    }

    /// Waits until the reader lags by no more than a bounded amount.
    pub(crate) async fn room(&self) {
        loop {
            // The wait is armed before the check: a drain between the two would otherwise be
            // missed.
            let drained = self.waiting.drained.notified();
            if self.waiting.bytes.load(Ordering::Relaxed) <= MAX_WAITING_BYTES {
                return;
            }
            drained.await;
        }
    }

    /// Waits until everything queued so far is written to stdout.
    pub(crate) async fn flush(&self) {
        let (done, wait) = oneshot::channel();
        if self.lines.send(Message::Flush(done)).is_ok() {
            // An error means that the writer has ended, so there is nothing to wait for.
            let _ = wait.await;
        }
    }
}

fn write_lines(mut receiver: mpsc::UnboundedReceiver<Message>, waiting: &Waiting) {
    let mut stdout = io::BufWriter::with_capacity(64 * 1024, io::stdout().lock());
    let mut readable = true;
    while let Some(message) = receiver.blocking_recv() {
        match message {
            Message::Line(bytes) => {
                plexus_fault::point!("sim.line.before");
                if readable {
                    readable = stdout.write_all(&bytes).is_ok();
                }
                if receiver.is_empty() && readable {
                    readable = stdout.flush().is_ok();
                }
                plexus_fault::point!("sim.line.after");
                waiting.bytes.fetch_sub(bytes.len(), Ordering::Relaxed);
                waiting.drained.notify_one();
            }
            Message::Flush(done) => {
                if readable {
                    readable = stdout.flush().is_ok();
                }
                let _ = done.send(());
            }
        }
    }
}
