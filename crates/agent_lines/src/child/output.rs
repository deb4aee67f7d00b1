//! Reads a child's standard output into the event channel, line by line. It reads no further than
//! the capacity of the channel allows.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::{mpsc, watch};

use super::handle::Item;
use crate::line::{LineSplitter, SplitLine};
use crate::{LineError, LineParser};

/// How much is read at once: the usual size of a pipe.
const CHUNK_BYTES: usize = 64 * 1024;

/// How much may still be in the pipe after the child is gone: the largest pipe that an ordinary
/// user can have on Linux. Anything beyond that was written by another process.
const LEFT_IN_PIPE_BYTES: usize = 1024 * 1024;

/// How long the pipe may stay silent, after the child is gone, before the reader gives up. Whatever
/// is in the pipe can be read at once.
const SILENCE: Duration = Duration::from_millis(50);

/// Where the events go, and when to stop.
pub(super) struct Output<P: LineParser> {
    pub(super) parser: P,
    pub(super) items: mpsc::Sender<Item<P::Event>>,
    pub(super) max_line_bytes: usize,
    /// Becomes true when the child and its descendants are gone.
    pub(super) exited: watch::Receiver<bool>,
}

/// Reads until the output ends or the receiver is dropped.
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
        // The send fails only if the caller is gone and no longer needs the last line.
        let _ = output.items.send(item).await;
    }
}

/// Reads a chunk and returns its length; 0 means the end. A read error counts as the end, because
/// the child's exit status explains it.
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
