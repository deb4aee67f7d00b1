//! Standard input, read by a separate thread.
//!
//! Lines that arrive together are passed on together: if a prompt and an `interrupt` arrive in one
//! write, both are read before the prompt begins, as with the real CLI.

use std::io::{self, Read};

use tokio::sync::mpsc;

/// How much is read at once.
const CHUNK_BYTES: usize = 64 * 1024;
/// How many reads may wait to be handled before back-pressure reaches the writer of our stdin.
const MAX_WAITING_BATCHES: usize = 16;

/// Lines that arrived in one read. The channel closes after the last one.
pub(crate) type Batch = Vec<Vec<u8>>;

/// Starts reading lines.
pub(crate) fn lines() -> io::Result<mpsc::Receiver<Batch>> {
    let (batches, receiver) = mpsc::channel(MAX_WAITING_BATCHES);
    std::thread::Builder::new().name("stdin".to_owned()).spawn(move || read_lines(&batches))?;
    Ok(receiver)
}

fn read_lines(batches: &mpsc::Sender<Batch>) {
    let mut stdin = io::stdin().lock();
    let mut chunk = vec![0; CHUNK_BYTES];
    let mut line = Vec::new();
    loop {
        let read = match stdin.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // A broken stdin counts as ended.
            Err(_) => break,
        };
        let mut batch = Vec::new();
        let mut parts = chunk[..read].split(|byte| *byte == b'\n').peekable();
        while let Some(part) = parts.next() {
            line.extend_from_slice(part);
            if parts.peek().is_some() {
                batch.push(std::mem::take(&mut line));
            }
        }
        if !batch.is_empty() && batches.blocking_send(batch).is_err() {
            return;
        }
    }
    if !line.is_empty() {
        // Without a receiver, the line is not needed.
        let _ = batches.blocking_send(vec![line]);
    }
}

/// Reads a whole prompt, for a run without one on the command line.
pub(crate) fn prompt() -> io::Result<String> {
    let mut text = String::new();
    io::stdin().lock().read_to_string(&mut text)?;
    Ok(text.trim_end_matches('\n').to_owned())
}
