//! Reads a child's standard output into the event channel, line by line, never ahead of the caller
//! by more than the channel.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::{mpsc, watch};

use super::handle::Item;
use crate::line::{LineSplitter, SplitLine};
use crate::{LineError, LineParser};

/// How much is read at once: the usual size of a pipe.
const CHUNK_BYTES: usize = 64 * 1024;

/// How much may still be in the pipe of a child that is gone: the largest pipe that an ordinary
/// user can have on Linux. Whatever keeps writing beyond that is not the child.
const LEFT_IN_PIPE_BYTES: usize = 1024 * 1024;

/// How long the pipe of a child that is gone may stay silent before it is given up. What is in it
/// can be read at once.
const SILENCE: Duration = Duration::from_millis(50);

/// Where the events go, and when to stop.
pub(super) struct Output<P: LineParser> {
    pub(super) parser: P,
    pub(super) items: mpsc::Sender<Item<P::Event>>,
    pub(super) max_line_bytes: usize,
    /// Becomes true when the child and its descendants are gone.
    pub(super) exited: watch::Receiver<bool>,
}

/// Reads to the end of the output, or until nobody listens.
pub(super) async fn read<P: LineParser>(mut stdout: impl AsyncRead + Unpin, mut output: Output<P>) {
    let mut splitter = LineSplitter::new(output.max_line_bytes);
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut left = LEFT_IN_PIPE_BYTES;
    loop {
        let got = match next_chunk(&mut stdout, &mut chunk, &mut output.exited, &mut left).await {
            0 => break,
            got => got,
        };
        let mut input = &chunk[..got];
        while let Some(line) = splitter.next(&mut input) {
            let Some(item) = read_line(&mut output.parser, line) else { continue };
            if output.items.send(item).await.is_err() {
                return;
            }
        }
    }
    if let Some(item) = splitter.finish().and_then(|line| read_line(&mut output.parser, line)) {
        // The caller may be gone, and then nobody misses the last line.
        let _ = output.items.send(item).await;
    }
}

/// Reads a chunk; 0 at the end. A failing pipe counts as its end: the child's exit tells the rest.
async fn next_chunk(
    stdout: &mut (impl AsyncRead + Unpin),
    chunk: &mut [u8],
    exited: &mut watch::Receiver<bool>,
    left: &mut usize,
) -> usize {
    if !*exited.borrow() {
        tokio::select! {
            biased;
            got = stdout.read(chunk) => return got.unwrap_or(0),
            // An error means that the owner is gone, and the child with it.
            _ = exited.wait_for(|exited| *exited) => {}
        }
    }
    let wanted = chunk.len().min(*left);
    match tokio::time::timeout(SILENCE, stdout.read(&mut chunk[..wanted])).await {
        Ok(Ok(got)) => {
            *left -= got;
            got
        }
        Ok(Err(_)) | Err(_) => 0,
    }
}

fn read_line<P: LineParser>(parser: &mut P, line: SplitLine<'_>) -> Option<Item<P::Event>> {
    match line {
        SplitLine::Whole(bytes) => parser.parse_bytes(bytes).transpose(),
        SplitLine::TooLong { size, .. } => Some(Err(LineError::too_long(size))),
    }
}
