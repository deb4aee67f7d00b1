//! Parses an event stream as its chunks arrive.

use bytes::Bytes;
use futures::{Stream, StreamExt};

/// The longest event that is buffered: twice the largest page, escaped.
const MAX_EVENT_BYTES: usize = 64 * 1024 * 1024;

/// One event.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) id: Option<String>,
    /// When to reconnect, in milliseconds.
    pub(super) retry: Option<u64>,
    pub(super) data: String,
}

/// Turns chunks into events.
#[derive(Debug, Default)]
pub(super) struct Parser {
    buffer: Vec<u8>,
    event: Event,
}

impl Parser {
    /// Takes one chunk and returns the events that are now complete, or `None` when one is longer
    /// than any of ours.
    pub(super) fn take(&mut self, chunk: &[u8]) -> Option<Vec<Event>> {
        self.buffer.extend_from_slice(chunk);
        let mut whole = Vec::new();
        let mut start = 0;
        while let Some(length) = self.buffer[start..].iter().position(|byte| *byte == b'\n') {
            let line = &self.buffer[start..start + length];
            let line =
                String::from_utf8_lossy(line.strip_suffix(b"\r").unwrap_or(line)).into_owned();
            start += length + 1;
            whole.extend(self.take_line(&line));
        }
        self.buffer.drain(..start);
        (self.buffer.len() + self.event.data.len() <= MAX_EVENT_BYTES).then_some(whole)
    }

    fn take_line(&mut self, line: &str) -> Option<Event> {
        if line.is_empty() {
            let event = std::mem::take(&mut self.event);
            return (event != Event::default()).then_some(event);
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "id" => self.event.id = Some(value.to_owned()),
            "retry" => self.event.retry = value.parse().ok(),
            "data" if self.event.data.is_empty() => value.clone_into(&mut self.event.data),
            "data" => {
                self.event.data.push('\n');
                self.event.data.push_str(value);
            }
            _ => {}
        }
        None
    }
}

/// Returns the events of a response's body. The stream ends with the connection.
pub(super) fn events<E>(
    body: impl Stream<Item = Result<Bytes, E>> + Unpin,
) -> impl Stream<Item = Event> + Unpin {
    Box::pin(futures::stream::unfold(
        (body, Parser::default(), Vec::new().into_iter()),
        |(mut body, mut parser, mut ready)| async move {
            loop {
                if let Some(event) = ready.next() {
                    return Some((event, (body, parser, ready)));
                }
                match body.next().await {
                    Some(Ok(chunk)) => ready = parser.take(&chunk)?.into_iter(),
                    Some(Err(_)) | None => return None,
                }
            }
        },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_the_same_however_the_bytes_are_cut() {
        let text = ":c\n\nid: a\nretry: 15\ndata:\n\nevent: message\r\ndata: {\"ü\":1}\r\n\r\ndata: x\ndata: y\n\n";
        let whole = Parser::default().take(text.as_bytes()).expect("events");
        assert_eq!(
            whole.iter().map(|event| event.data.as_str()).collect::<Vec<_>>(),
            ["", "{\"ü\":1}", "x\ny"]
        );
        assert_eq!((whole[0].id.as_deref(), whole[0].retry), (Some("a"), Some(15)));
        let mut parser = Parser::default();
        let cut: Vec<_> =
            text.as_bytes().chunks(1).flat_map(|byte| parser.take(byte).expect("events")).collect();
        assert_eq!(cut, whole);
    }
}
