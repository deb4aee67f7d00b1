//! Reads the lines of a client, for a program that implements an agent. The size of a line is
//! bounded, and a line that cannot be read comes with the answer to send.

use agent_lines::rpc::RequestId;
use agent_lines::{LineSplitter, SplitLine};
use serde_json::Value;
use tokio::io::{AsyncRead, AsyncReadExt};

use super::ServedLine;
use crate::send::{ClientAnswer, ClientBody, ClientLine};

/// The error code for a line that is not JSON.
pub const PARSE_ERROR: i64 = -32700;

/// The error code for JSON that is not a request, or that does not fit the state of the connection.
pub const INVALID_REQUEST: i64 = -32600;

/// The error code for parameters of the wrong form.
pub const INVALID_PARAMS: i64 = -32602;

/// How many bytes are read at once.
const CHUNK_BYTES: usize = 64 * 1024;

/// Reads the lines of a client from its pipe.
#[derive(Debug)]
pub struct ClientReader<R> {
    from: R,
    splitter: LineSplitter,
    chunk: Vec<u8>,
    /// The part of the chunk that was not cut into lines yet.
    rest: std::ops::Range<usize>,
}

/// One line of a client.
#[derive(Debug, Clone, PartialEq)]
pub enum FromClient {
    /// A line that can be read.
    Line(ClientLine),
    /// A line that cannot be read, and the answer to send; `None` for a notification, which is not
    /// answered.
    Unreadable(Option<ServedLine>),
}

impl<R: AsyncRead + Unpin> ClientReader<R> {
    /// Creates a reader for lines of at most `max_line_bytes`; a longer line is refused without
    /// being buffered.
    pub fn new(from: R, max_line_bytes: usize) -> Self {
        let splitter = LineSplitter::new(max_line_bytes);
        Self { from, splitter, chunk: vec![0; CHUNK_BYTES], rest: 0..0 }
    }

    /// Returns the next line; `None` at the end. Dropping the future loses nothing.
    pub async fn next(&mut self) -> std::io::Result<Option<FromClient>> {
        loop {
            let mut rest = &self.chunk[self.rest.clone()];
            let line = self.splitter.next(&mut rest);
            self.rest.start = self.rest.end - rest.len();
            if let Some(line) = line {
                match read(&line) {
                    Some(line) => return Ok(Some(line)),
                    None => continue,
                }
            }
            let count = self.from.read(&mut self.chunk).await?;
            self.rest = 0..count;
            if count == 0 {
                // A last line without its newline is incomplete, so it is ignored.
                return Ok(None);
            }
        }
    }
}

/// Reads a line; `None` for an empty one.
fn read(line: &SplitLine<'_>) -> Option<FromClient> {
    let line = match line {
        SplitLine::Whole(line) if line.trim_ascii().is_empty() => return None,
        SplitLine::Whole(line) => line,
        SplitLine::TooLong { size, head } => {
            let message = format!("a line of {size} bytes is too long");
            return Some(refused(id_in(head), INVALID_REQUEST, message));
        }
    };
    let Ok(line) = std::str::from_utf8(line) else {
        return Some(refused(None, PARSE_ERROR, "a line is not UTF-8"));
    };
    if let Ok(line) = ClientLine::parse(line) {
        return Some(FromClient::Line(line));
    }
    let value: Value = match serde_json::from_str(line) {
        Ok(value) => value,
        Err(_) => return Some(refused(None, PARSE_ERROR, "a line is not JSON")),
    };
    let id = value.get("id").and_then(|id| serde_json::from_value::<RequestId>(id.clone()).ok());
    Some(match (value.get("method").and_then(Value::as_str), id) {
        (Some(method), Some(id)) => {
            let message = format!("the parameters of {method:?} have another form");
            refused(Some(id), INVALID_PARAMS, message)
        }
        (Some(_), None) => FromClient::Unreadable(None),
        // An answer of an unknown form still closes its question, but it is not an allow.
        (None, Some(id)) => {
            let body = ClientBody::Answer { id, answer: ClientAnswer::Other(Value::Null) };
            FromClient::Line(ClientLine { body })
        }
        (None, None) => refused(None, INVALID_REQUEST, "a line is neither a request nor an answer"),
    })
}

fn refused(id: Option<RequestId>, code: i64, message: impl Into<String>) -> FromClient {
    FromClient::Unreadable(Some(ServedLine::Error { id, code, message: message.into() }))
}

/// Finds the id in the beginning of a line that is too long. Clients write it before the
/// parameters; if it is not found, the refusal names no request.
fn id_in(head: &[u8]) -> Option<RequestId> {
    let head = String::from_utf8_lossy(head);
    let (before, after) = head.split_once("\"id\":")?;
    if before.contains("\"params\"") {
        return None;
    }
    serde_json::Deserializer::from_str(after).into_iter::<RequestId>().next()?.ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::send::ClientRequest;

    async fn lines(text: &[u8]) -> Vec<FromClient> {
        let mut reader = ClientReader::new(text, 200);
        let mut lines = Vec::new();
        while let Some(line) = reader.next().await.expect("a slice can be read") {
            lines.push(line);
        }
        lines
    }

    /// Returns the answer to a line that cannot be read.
    async fn answer(line: &str) -> Value {
        match &lines(format!("{line}\n").as_bytes()).await[..] {
            [FromClient::Unreadable(Some(answer))] => answer.to_json(),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[tokio::test]
    async fn requests_are_read_one_by_one_and_half_a_line_is_not() {
        let text = concat!(
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"session/close\",",
            "\"params\":{\"sessionId\":\"s\"}}\n\n",
            "{\"jsonrpc\":\"2.0\",\"method\":\"session/cancel\",\"params\":{\"sessionId\":\"s\"}}\n",
            "{\"jsonrpc\":\"2.0\",\"id\":2,\"method\":\"session/close\",\"params\":{\"se",
        );
        let lines = lines(text.as_bytes()).await;
        let [FromClient::Line(first), FromClient::Line(second)] = &lines[..] else {
            panic!("{lines:?}")
        };
        let ClientBody::Request { request, .. } = &first.body else { panic!("{first:?}") };
        assert!(matches!(&**request, ClientRequest::SessionClose(_)));
        assert_eq!(*second, ClientLine::cancel("s"));
    }

    #[tokio::test]
    async fn a_line_that_cannot_be_read_is_refused_by_its_id() {
        let long = "x".repeat(300);
        for (line, id, code) in [
            ("nonsense".to_owned(), Value::Null, PARSE_ERROR),
            ("[]".to_owned(), Value::Null, INVALID_REQUEST),
            ("{}".to_owned(), Value::Null, INVALID_REQUEST),
            (r#"{"id":3,"method":"session/prompt","params":{}}"#.into(), json!(3), INVALID_PARAMS),
            (
                format!(r#"{{"id":"a","method":"m","params":"{long}"}}"#),
                json!("a"),
                INVALID_REQUEST,
            ),
            (format!(r#"{{"params":{{"id":7,"x":"{long}"}}}}"#), Value::Null, INVALID_REQUEST),
        ] {
            let answer = answer(&line).await;
            assert_eq!((&answer["id"], answer["error"]["code"].as_i64()), (&id, Some(code)));
        }
    }

    #[tokio::test]
    async fn an_answer_of_no_known_form_is_an_answer_that_allows_nothing() {
        let lines = lines(b"{\"id\":5}\n{\"method\":\"session/cancel\",\"params\":{}}\n").await;
        let body = ClientBody::Answer { id: 5.into(), answer: ClientAnswer::Other(Value::Null) };
        let expected = [FromClient::Line(ClientLine { body }), FromClient::Unreadable(None)];
        assert_eq!(lines, expected);
    }
}
