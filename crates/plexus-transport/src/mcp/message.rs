//! The parts of a JSON-RPC message that the door must know before it decides who handles it.

use std::borrow::Cow;

use plexus_core::CallError;
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value};

use super::relay::{RELAY, tool_name};
use crate::limits::MAX_ID_BYTES;

/// One message: a request, a notification or an answer. Its parts are borrowed from the body.
#[derive(Debug, Deserialize)]
pub(crate) struct Message<'a> {
    #[serde(borrow)]
    jsonrpc: Cow<'a, str>,
    #[serde(borrow, default)]
    id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    params: Option<&'a RawValue>,
}

/// A call of a tool.
#[derive(Debug, Deserialize)]
pub(crate) struct ToolCall<'a> {
    #[serde(borrow)]
    pub(crate) name: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(crate) arguments: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "_meta")]
    meta: Option<CallMeta<'a>>,
}

impl ToolCall<'_> {
    /// Returns the tool and the arguments that this call really uses: those of the method that
    /// [`RELAY`] names, or its own.
    pub(crate) fn comes_down_to(&self) -> (Cow<'_, str>, Map<String, Value>) {
        let mut given = self
            .arguments
            .and_then(|arguments| serde_json::from_str::<Map<String, Value>>(arguments.get()).ok())
            .unwrap_or_default();
        if self.name != RELAY {
            return (Cow::Borrowed(&self.name), given);
        }
        let method = given.get("method").and_then(Value::as_str).unwrap_or_default();
        let name = Cow::Owned(tool_name(method).into_owned());
        match given.remove("params") {
            Some(Value::Object(params)) => (name, params),
            Some(_) | None => (name, Map::new()),
        }
    }
}

#[derive(Debug, Deserialize)]
struct CallMeta<'a> {
    #[serde(borrow, default, rename = "progressToken")]
    progress_token: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Cancelled<'a> {
    #[serde(borrow, rename = "requestId")]
    request_id: &'a RawValue,
}

impl<'a> Message<'a> {
    /// Reads one message. A duplicate key is refused, because two parsers might use different
    /// values.
    ///
    /// # Errors
    /// -32700 for invalid JSON, -32600 for JSON that is not a message (including a batch, which the
    /// protocol no longer has).
    pub(crate) fn read(body: &'a [u8]) -> Result<Self, CallError> {
        let whole: &RawValue = serde_json::from_slice(body).map_err(|_| {
            let mut error = CallError::invalid("read the message: it is not JSON");
            error.code = Some(-32700);
            error
        })?;
        let message: Self = serde_json::from_str(whole.get())
            .map_err(|_| unreadable("it is not one JSON-RPC message"))?;
        if message.jsonrpc != "2.0" {
            return Err(unreadable("jsonrpc is not \"2.0\""));
        }
        if message.id.is_some_and(|id| !is_id(id)) && message.method.is_some() {
            return Err(unreadable("its id is not a string or a number"));
        }
        if message.id.is_some_and(|id| id.get().len() > MAX_ID_BYTES) {
            return Err(unreadable("its id is longer than 256 bytes"));
        }
        if message.is_request_without_id() {
            return Err(unreadable("a request needs an id that is a string or a number"));
        }
        Ok(message)
    }

    /// Says whether this is a request without an id, whose answer nobody could match. Only
    /// notifications have no id, and their methods begin with `notifications/`.
    fn is_request_without_id(&self) -> bool {
        self.id.is_none()
            && self.method.as_deref().is_some_and(|method| !method.starts_with("notifications/"))
    }

    /// Returns the id of a request.
    pub(crate) fn id(&self) -> Option<&'a RawValue> {
        self.id
    }

    /// Says whether this is the first message of a session.
    pub(crate) fn begins_session(&self) -> bool {
        self.method.as_deref() == Some("initialize")
    }

    /// Says whether the client asks which protocol versions are supported, the first message of the
    /// newest protocol.
    pub(crate) fn is_discovery(&self) -> bool {
        self.method.as_deref() == Some("server/discover")
    }

    /// Returns the tool that a request calls. A notification calls nothing.
    pub(crate) fn tool_call(&self) -> Option<ToolCall<'a>> {
        let called = self.id.is_some() && self.method.as_deref() == Some("tools/call");
        called.then_some(self.params?).and_then(|params| serde_json::from_str(params.get()).ok())
    }

    /// Says whether this answers a request.
    pub(crate) fn is_answer(&self) -> bool {
        self.method.is_none() && self.id.is_some()
    }

    /// Returns the resource that a request subscribes to (`true`) or unsubscribes from.
    pub(crate) fn subscription(&self) -> Option<(String, bool)> {
        #[derive(Deserialize)]
        struct Uri {
            uri: String,
        }
        let on = match self.method.as_deref()? {
            "resources/subscribe" => true,
            "resources/unsubscribe" => false,
            _ => return None,
        };
        serde_json::from_str::<Uri>(self.params?.get()).ok().map(|params| (params.uri, on))
    }

    /// Returns the request that a notification cancels.
    pub(crate) fn cancelled_request(&self) -> Option<&'a RawValue> {
        let cancels = self.method.as_deref() == Some("notifications/cancelled");
        let cancelled: Cancelled<'a> =
            serde_json::from_str(cancels.then_some(self.params?)?.get()).ok()?;
        Some(cancelled.request_id)
    }
}

impl<'a> ToolCall<'a> {
    /// Returns the token with which the client asks for progress notifications.
    pub(crate) fn progress_token(&self) -> Option<&'a RawValue> {
        self.meta.as_ref()?.progress_token.filter(|token| is_id(token))
    }
}

/// Says whether `id` is a string or a number, as ids and progress tokens are.
pub(crate) fn is_id(id: &RawValue) -> bool {
    matches!(id.get().as_bytes().first(), Some(b'"' | b'-' | b'0'..=b'9'))
}

/// Returns the error for a message that cannot be handled at all.
pub(crate) fn unreadable(what: &str) -> CallError {
    let mut error = CallError::invalid(format_args!("read the message: {what}"));
    error.code = Some(-32600);
    error
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_malformed_message_has_its_error_code() {
        for (body, code) in [
            ("", -32700),
            ("{", -32700),
            ("[]", -32600),
            ("7", -32600),
            ("{}", -32600),
            (r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#, -32600),
            (r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#, -32600),
            (r#"{"jsonrpc":"2.0","method":"tools/call","params":{"name":"x_y"}}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#, -32600),
            (r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"tools/call"}"#, -32600),
        ] {
            assert_eq!(
                Message::read(body.as_bytes()).map(|_| ()).map_err(|error| error.rpc_code()),
                Err(code),
                "{body}"
            );
        }
    }

    #[test]
    fn a_long_id_is_refused() {
        let body = |length: usize| {
            format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"ping"}}"#, "x".repeat(length))
        };
        assert!(Message::read(body(MAX_ID_BYTES - 2).as_bytes()).is_ok());
        assert!(Message::read(body(MAX_ID_BYTES - 1).as_bytes()).is_err());
    }

    #[test]
    fn a_tool_call_is_seen_with_its_parts_as_they_came() {
        let body = r#"{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"x_y","arguments":{"n":1.50},"_meta":{"progressToken":7,"other":1}}}"#;
        let message = Message::read(body.as_bytes()).expect("a message");
        let call = message.tool_call().expect("a call");
        assert_eq!(
            (&*call.name, call.arguments.map(RawValue::get)),
            ("x_y", Some(r#"{"n":1.50}"#))
        );
        assert_eq!(call.progress_token().map(RawValue::get), Some("7"));
    }

    proptest! {
        #[test]
        fn arbitrary_bytes_never_panic(body in proptest::collection::vec(any::<u8>(), 0..300)) {
            if let Ok(message) = Message::read(&body) {
                let _ = (message.tool_call(), message.cancelled_request());
            }
        }
    }
}
