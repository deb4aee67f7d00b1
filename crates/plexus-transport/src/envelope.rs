//! JSON-RPC 2.0, read and written. Errors have the shape `{code, message, data: {kind, message,
//! hint, …}}`.

use plexus_core::CallError;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::limits::MAX_ID_BYTES;

/// One call as received.
#[derive(Debug)]
pub(crate) struct Request {
    /// `None` for a notification, which gets no answer.
    pub(crate) id: Option<Box<RawValue>>,
    pub(crate) method: String,
    pub(crate) params: Option<Box<RawValue>>,
}

/// A received body: one call, or a batch in which each call is checked separately.
#[derive(Debug)]
pub(crate) enum Incoming {
    One(Result<Request, Refused>),
    Batch(Vec<Result<Request, Refused>>),
}

/// A call that cannot be made, with its id if that could be read.
#[derive(Debug)]
pub(crate) struct Refused {
    pub(crate) id: Option<Box<RawValue>>,
    pub(crate) error: CallError,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    jsonrpc: String,
    #[serde(default, deserialize_with = "present")]
    id: Option<Box<RawValue>>,
    method: String,
    #[serde(default, deserialize_with = "present")]
    params: Option<Box<RawValue>>,
}

/// Distinguishes `"id": null` from a missing id: serde would read both as `None`.
fn present<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Box<RawValue>>, D::Error> {
    Box::<RawValue>::deserialize(deserializer).map(Some)
}

/// Reads a body.
///
/// # Errors
/// -32700 when it is not JSON at all, -32600 for an empty batch or one over `max_batch`.
pub(crate) fn read(body: &[u8], max_batch: usize) -> Result<Incoming, CallError> {
    let whole: Box<RawValue> = serde_json::from_slice(body)
        .map_err(|_| coded(-32700, "read the request: it is not JSON"))?;
    if !whole.get().starts_with('[') {
        return Ok(Incoming::One(read_one(&whole)));
    }
    let calls: Vec<Box<RawValue>> =
        serde_json::from_str(whole.get()).map_err(|_| coded(-32700, "read the batch"))?;
    if calls.is_empty() || calls.len() > max_batch {
        return Err(coded(-32600, &format!("take a batch of {} calls", calls.len()))
            .with_hint(format_args!("send 1 to {max_batch} calls at a time")));
    }
    Ok(Incoming::Batch(calls.iter().map(|call| read_one(call)).collect()))
}

fn read_one(call: &RawValue) -> Result<Request, Refused> {
    if !call.get().starts_with('{') {
        let error = coded(-32600, "read the request: it is not an object");
        return Err(Refused { id: None, error });
    }
    let wire: Wire = match serde_json::from_str(call.get()) {
        Ok(wire) => wire,
        Err(error) => {
            let text = error.to_string();
            let text = text.split(" at line ").next().unwrap_or_default();
            return Err(Refused {
                id: id_of(call),
                error: coded(-32600, &format!("read the request: {text}")),
            });
        }
    };
    let refuse =
        |id: Option<Box<RawValue>>, what: &str| Err(Refused { id, error: coded(-32600, what) });
    if wire.jsonrpc != "2.0" {
        return refuse(wire.id, "read the request: jsonrpc is not \"2.0\"");
    }
    if wire.id.as_deref().is_some_and(|id| !is_id(id)) {
        let what = format!(
            "read the request: id is not a string, a number or null of at most {MAX_ID_BYTES} bytes"
        );
        return refuse(None, &what);
    }
    if wire.params.as_deref().is_some_and(|params| !params.get().starts_with('{')) {
        let error = CallError::invalid("read the parameters: they are not an object")
            .with_hint("name each parameter: {\"name\": …}");
        return Err(Refused { id: wire.id, error });
    }
    Ok(Request { id: wire.id, method: wire.method, params: wire.params })
}

fn is_id(id: &RawValue) -> bool {
    id.get().len() <= MAX_ID_BYTES
        && !matches!(id.get().as_bytes().first(), Some(b'{' | b'[' | b't' | b'f') | None)
}

/// Finds the id of an otherwise invalid request, so that the client can match the answer to it.
fn id_of(call: &RawValue) -> Option<Box<RawValue>> {
    #[derive(Deserialize)]
    struct Id {
        id: Box<RawValue>,
    }
    serde_json::from_str::<Id>(call.get()).ok().map(|id| id.id).filter(|id| is_id(id))
}

fn coded(code: i64, message: &str) -> CallError {
    let mut error = CallError::invalid(message);
    error.code = Some(code);
    error
}

#[derive(Serialize)]
struct Success<'a> {
    jsonrpc: &'static str,
    id: Option<&'a RawValue>,
    result: &'a RawValue,
}

#[derive(Serialize)]
struct Failure<'a> {
    jsonrpc: &'static str,
    id: Option<&'a RawValue>,
    error: ErrorObject<'a>,
}

#[derive(Serialize)]
struct ErrorObject<'a> {
    code: i64,
    message: &'a str,
    data: &'a CallError,
}

/// Writes the answer to a call that worked.
pub(crate) fn success(id: Option<&RawValue>, result: &RawValue) -> String {
    write(&Success { jsonrpc: "2.0", id, result })
}

/// Writes the answer to a call that failed.
pub(crate) fn failure(id: Option<&RawValue>, error: &CallError) -> String {
    write(&Failure {
        jsonrpc: "2.0",
        id,
        error: ErrorObject { code: error.rpc_code(), message: &error.message, data: error },
    })
}

/// Writes one item of a stream:
/// `{"jsonrpc":"2.0","method":"stream","params":{"id":CALL,"event":…}}`.
pub(crate) fn stream_item(id: &RawValue, event: &RawValue, cursor: Option<&str>) -> String {
    #[derive(Serialize)]
    struct Item<'a> {
        jsonrpc: &'static str,
        method: &'static str,
        params: Params<'a>,
    }
    #[derive(Serialize)]
    struct Params<'a> {
        id: &'a RawValue,
        event: &'a RawValue,
        #[serde(skip_serializing_if = "Option::is_none")]
        cursor: Option<&'a str>,
    }
    write(&Item { jsonrpc: "2.0", method: "stream", params: Params { id, event, cursor } })
}

fn write(value: &impl Serialize) -> String {
    #[expect(clippy::expect_used, reason = "these structs have string keys and hold JSON already")]
    serde_json::to_string(value).expect("an envelope is always JSON")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn code_of(body: &str) -> i64 {
        match read(body.as_bytes(), 3) {
            Err(error) | Ok(Incoming::One(Err(Refused { error, .. }))) => error.rpc_code(),
            other => panic!("{other:?}"),
        }
    }

    /// A call with an id of this many bytes, its quotes included.
    fn with_id(bytes: usize) -> String {
        format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"a.b"}}"#, "x".repeat(bytes - 2))
    }

    #[test]
    fn what_is_wrong_has_its_code() {
        for (body, code) in [
            ("", -32700),
            ("{", -32700),
            ("\u{feff}{}", -32700),
            ("[]", -32600),
            ("[1,2,3,4]", -32600),
            ("1", -32600),
            ("{}", -32600),
            (r#"{"jsonrpc":"1.0","id":1,"method":"a.b"}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":{},"method":"a.b"}"#, -32600),
            (&with_id(MAX_ID_BYTES + 1), -32600),
            (r#"{"jsonrpc":"2.0","id":1,"method":"a.b","extra":1}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":1,"method":7}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":1,"method":"a.b","params":[1]}"#, -32602),
        ] {
            assert_eq!(code_of(body), code, "{}", &body[..body.len().min(60)]);
        }
        let longest = with_id(MAX_ID_BYTES);
        assert!(matches!(read(longest.as_bytes(), 3), Ok(Incoming::One(Ok(_)))));
    }

    #[test]
    fn a_request_that_is_no_object_is_called_that() {
        for body in ["1", "null", "\"a\"", "[1,[],true]"] {
            let refused: Vec<String> = match read(body.as_bytes(), 3) {
                Ok(Incoming::One(Err(refused))) => vec![refused.error.message],
                Ok(Incoming::Batch(calls)) => {
                    calls.into_iter().map(|call| call.unwrap_err().error.message).collect()
                }
                other => panic!("{body}: {other:?}"),
            };
            for message in refused {
                assert_eq!(message, "read the request: it is not an object", "{body}");
            }
        }
    }

    #[test]
    fn an_id_that_is_too_long_is_not_repeated() {
        for wrong in ["", r#","extra":1"#] {
            let body = with_id(MAX_ID_BYTES + 1).replace('}', &format!("{wrong}}}"));
            let Ok(Incoming::One(Err(refused))) = read(body.as_bytes(), 3) else {
                panic!("{wrong}")
            };
            assert!(refused.id.is_none(), "{wrong}");
        }
    }

    #[test]
    fn deep_nesting_is_refused_where_it_is_read() {
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        let Ok(Incoming::Batch(calls)) = read(deep.as_bytes(), 3) else { panic!("not a batch") };
        assert!(calls.iter().all(Result::is_err) && calls.len() == 1);
    }

    #[test]
    fn a_null_id_is_answered_and_no_id_is_a_notification() {
        for (body, answered) in [
            (r#"{"jsonrpc":"2.0","id":null,"method":"a.b"}"#, true),
            (r#"{"jsonrpc":"2.0","method":"a.b"}"#, false),
        ] {
            let Ok(Incoming::One(Ok(request))) = read(body.as_bytes(), 3) else { panic!("{body}") };
            assert_eq!(request.id.is_some(), answered);
        }
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(body in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = read(&body, 10);
        }

        #[test]
        fn arbitrary_json_never_panics(text in r#"[\[{]("(jsonrpc|id|method|params)"[:,]("2.0"|1|null|\{\}|\[\])[,}]?){0,6}[\]}]?"#) {
            let _ = read(text.as_bytes(), 10);
        }
    }
}
