//! The connection, and the calls: typed by a method's marker, or by name where there is none.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use plexus_wire::{CallError, FollowParams, Method, SecretToken};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::endpoint::{Address, Endpoint};
use crate::error::ClientError;
use crate::follow::Follow;

/// The longest a call may take: the longest wait of any method is a minute.
const CALL_TIMEOUT: Duration = Duration::from_secs(90);

/// How long connecting to a server may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// A client of one server. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Client {
    endpoint: Arc<Endpoint>,
    http: reqwest::Client,
}

impl Client {
    /// Makes a client of the server at `url`, such as `http://127.0.0.1:4445`, which signs in with
    /// `token`.
    pub fn connect(url: impl AsRef<str>, token: SecretToken) -> Self {
        Self::new(Endpoint::Fixed(Address::new(url.as_ref(), token)))
    }

    /// Makes a client of the server whose data directory is `dir`, as its operator. The server is
    /// found again when it comes back at another address.
    pub fn from_data_dir(dir: impl Into<PathBuf>) -> Self {
        Self::new(Endpoint::DataDir(dir.into()))
    }

    fn new(endpoint: Endpoint) -> Self {
        let builder =
            reqwest::Client::builder().timeout(CALL_TIMEOUT).connect_timeout(CONNECT_TIMEOUT);
        // The server is on this machine or its address was given, so a proxy from the environment
        // is not used.
        let http = builder.no_proxy().build().unwrap_or_else(|error| {
            tracing::warn!(%error, "a plain HTTP client takes the place of ours");
            reqwest::Client::new()
        });
        Self { endpoint: Arc::new(endpoint), http }
    }

    /// Returns the server's current address.
    ///
    /// # Errors
    /// When no server has announced itself in the data directory.
    pub fn url(&self) -> Result<String, ClientError> {
        self.endpoint.address().map(|address| address.url)
    }

    pub(crate) fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Calls a method by its marker, such as [`plexus_wire::method::agents::Create`]. The functions
    /// of the namespaces use this; an activation that others wrote can bring its own markers.
    ///
    /// # Errors
    /// [`ClientError::Call`] when the server refused; the other variants when there was no valid
    /// answer.
    pub async fn call<M: Method>(&self, params: &M::Params) -> Result<M::Result, ClientError> {
        self.call_by_name(M::FULL_NAME, params).await
    }

    /// Calls a method that has no marker: one of an activation that others wrote, or one whose name
    /// is known only at run time. Every method of ours has a typed function.
    ///
    /// # Errors
    /// As [`Client::call`].
    pub async fn call_by_name<T: DeserializeOwned>(
        &self,
        method: &str,
        params: impl Serialize,
    ) -> Result<T, ClientError> {
        #[derive(Serialize)]
        struct Request<'a, P> {
            jsonrpc: &'static str,
            id: u32,
            method: &'a str,
            params: P,
        }
        let body = serde_json::to_vec(&Request { jsonrpc: "2.0", id: 1, method, params }).map_err(
            |error| CallError::invalid(format_args!("write the parameters of {method}: {error}")),
        )?;
        let address = self.endpoint.address()?;
        let request = self
            .http
            .post(format!("{}/rpc", address.url))
            .bearer_auth(address.token.expose())
            .header("content-type", "application/json")
            .body(body);
        let unreachable = |error: reqwest::Error| ClientError::Unreachable {
            url: address.url.clone(),
            problem: innermost(&error),
        };
        let response = request.send().await.map_err(unreachable)?;
        let status = response.status();
        let body = response.bytes().await.map_err(unreachable)?;
        read_answer(method, &body).map_err(|problem| match problem {
            ClientError::BadAnswer { method, problem } if !status.is_success() => {
                ClientError::BadAnswer { method, problem: format!("HTTP {status}; {problem}") }
            }
            other => other,
        })
    }

    /// Follows events across reconnects: of one session, or of all that the caller may see.
    #[must_use]
    pub fn follow(&self, params: FollowParams) -> Follow {
        Follow::start(self.clone(), params)
    }
}

/// Returns the innermost cause, which a person can act on ("connection refused").
fn innermost(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(cause) => innermost(cause),
        None => error.to_string(),
    }
}

/// A JSON-RPC error object.
#[derive(Deserialize)]
pub(crate) struct ErrorObject {
    message: String,
    data: Option<CallError>,
}

impl ErrorObject {
    pub(crate) fn into_call_error(self) -> CallError {
        self.data.unwrap_or_else(|| CallError::internal(self.message))
    }
}

fn read_answer<T: DeserializeOwned>(method: &str, body: &[u8]) -> Result<T, ClientError> {
    #[derive(Deserialize)]
    struct Answer<'a> {
        #[serde(borrow)]
        result: Option<&'a serde_json::value::RawValue>,
        error: Option<ErrorObject>,
    }
    let bad = |problem: String| ClientError::BadAnswer { method: method.to_owned(), problem };
    let answer: Answer<'_> =
        serde_json::from_slice(body).map_err(|error| bad(error.to_string()))?;
    match (answer.result, answer.error) {
        (_, Some(error)) => Err(error.into_call_error().into()),
        (Some(result), None) => {
            serde_json::from_str(result.get()).map_err(|error| bad(error.to_string()))
        }
        (None, None) => Err(bad("it has neither a result nor an error".to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use plexus_wire::ErrorKind;
    use serde_json::Value;

    use super::*;

    #[test]
    fn answers_become_results_and_errors() {
        let ok: Value = read_answer("m", br#"{"jsonrpc":"2.0","id":1,"result":{"a":1}}"#).unwrap();
        assert_eq!(ok["a"], 1);
        let no = br#"{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"m","data":{"kind":"conflict","message":"x","hint":"h","field":"a.b","standing":{"b":2}}}}"#;
        let error = read_answer::<Value>("m", no).unwrap_err();
        assert_eq!(
            (error.kind(), error.hint(), error.field()),
            (ErrorKind::Conflict, "h", Some("a.b"))
        );
        for odd in [&b"<html>"[..], b"{}", b"[]", b"{\"result\":"] {
            assert!(matches!(read_answer::<Value>("m", odd), Err(ClientError::BadAnswer { .. })));
        }
    }

    #[tokio::test]
    async fn a_data_directory_without_a_server_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let client = Client::from_data_dir(folder.path());
        let error = client.plexus().version().await.unwrap_err();
        assert!(matches!(error, ClientError::NoServer(_)) && error.is_absence());
    }

    #[tokio::test]
    async fn a_port_that_nobody_listens_on_is_unreachable() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        drop(listener);
        let client = Client::connect(url, SecretToken::new("t"));
        let error = client.plexus().version().await.unwrap_err();
        assert!(matches!(error, ClientError::Unreachable { .. }), "{error}");
    }
}
