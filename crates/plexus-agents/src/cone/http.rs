//! One streamed request to a model's service. Every wait and every buffer is bounded; an error says
//! nothing of the key. Redirects are not followed and proxies of the environment are not used.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use axum::http::header::{CONTENT_TYPE, HOST, USER_AGENT};
use axum::http::{Request, Response};
use futures::StreamExt as _;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::task::JoinHandle;
use url::{Position, Url};

use super::conversation::Conversation;
use super::options::Options;
use super::provider::{self, Answer, Piece, Provider};
use plexus_tls::connect;

/// The longest event: a model's API sends a few words in each.
const MAX_EVENT_BYTES: usize = 1024 * 1024;

/// How much of a refusal is read for its words.
const MAX_REFUSAL_BYTES: usize = 16 * 1024;

/// How much of a refusal is shown.
const MAX_REFUSAL_CHARS: usize = 500;

/// An answer that is coming.
pub(super) struct Asking {
    provider: &'static dyn Provider,
    stream: BodyDataStream,
    /// What came and is not a whole line yet.
    rest: Vec<u8>,
    silence: Duration,
    /// Moves the bytes of the connection; ended with this.
    connection: JoinHandle<()>,
    /// What is known of the answer.
    pub(super) answer: Answer,
}

impl Drop for Asking {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

impl Asking {
    /// Sends the request and waits for the beginning of its answer.
    pub(super) async fn begin(
        options: &Options,
        conversation: &Conversation,
        asked: &str,
    ) -> Result<Self, String> {
        let silent = |_| silence(options.silence);
        let (answer, connection) =
            tokio::time::timeout(options.silence, send(options, conversation, asked))
                .await
                .map_err(silent)??;
        let status = answer.status();
        let mut asking = Self {
            provider: options.provider,
            stream: answer.into_body().into_data_stream(),
            rest: Vec::new(),
            silence: options.silence,
            connection,
            answer: Answer::default(),
        };
        if status.is_success() {
            return Ok(asking);
        }
        while asking.rest.len() < MAX_REFUSAL_BYTES && asking.more().await? {}
        let said = serde_json::from_slice(&asking.rest).ok();
        let words = said.and_then(|said| provider::failure_in(&said));
        let words = words.map(|words| format!(": {words}")).unwrap_or_default();
        let text = format!("the model's service answered {status}{words}");
        Err(text.chars().take(MAX_REFUSAL_CHARS).collect())
    }

    /// Waits for the next piece of the answer.
    pub(super) async fn next(&mut self) -> Result<Piece, String> {
        loop {
            while let Some(end) = self.rest.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=end).collect();
                let line = String::from_utf8_lossy(&line);
                // Both APIs write an event as one line of data; its name is in the data too.
                let Some(data) = line.strip_prefix("data:") else { continue };
                if let Some(piece) = self.provider.read(data.trim(), &mut self.answer)? {
                    return Ok(piece);
                }
            }
            if self.rest.len() > MAX_EVENT_BYTES {
                return Err("the model's service sent an event that is too long".to_owned());
            }
            if !self.more().await? {
                return Err("the answer of the model's service broke off".to_owned());
            }
        }
    }

    /// Reads more; false at the end.
    async fn more(&mut self) -> Result<bool, String> {
        let read = tokio::time::timeout(self.silence, self.stream.next()).await;
        match read.map_err(|_| silence(self.silence))? {
            None => Ok(false),
            Some(Ok(bytes)) => {
                self.rest.extend_from_slice(&bytes);
                Ok(true)
            }
            Some(Err(error)) => {
                Err(format!("the answer of the model's service broke off: {error}"))
            }
        }
    }
}

fn silence(after: Duration) -> String {
    format!("the model's service was silent for {} s", after.as_secs())
}

async fn send(
    options: &Options,
    conversation: &Conversation,
    asked: &str,
) -> Result<(Response<Body>, JoinHandle<()>), String> {
    let at = options.provider.at();
    let url = format!("{}{}", options.base_url.trim_end_matches('/'), at.path);
    let url =
        Url::parse(&url).map_err(|error| format!("{} is no URL: {error}", at.url_variable))?;
    let tls = match url.scheme() {
        "https" => {
            let trust = plexus_tls::trust(None, "SSL_CERT_FILE").map_err(|e| e.to_string())?;
            Some(Arc::new(trust))
        }
        "http" => None,
        other => return Err(format!("{} has the scheme {other:?}", at.url_variable)),
    };
    let body = options.provider.body(options, &provider::messages(conversation, asked));
    let mut request = Request::post(&url[Position::BeforePath..Position::AfterQuery])
        .header(HOST, &url[Position::BeforeHost..Position::AfterPort])
        .header(CONTENT_TYPE, "application/json")
        .header(USER_AGENT, concat!("plexus/", env!("CARGO_PKG_VERSION")));
    for (name, value) in options.provider.headers(&options.key) {
        request = request.header(name, value);
    }
    let request = request
        .body(Body::from(body.to_string()))
        .map_err(|_| format!("{} cannot stand in a header", at.key_variable))?;
    let unreachable = |error: &dyn std::error::Error| {
        format!("the model's service at {} cannot be reached: {error}", url.authority())
    };
    let stream = connect(&url, tls.as_ref()).await.map_err(|error| unreachable(&error))?;
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|error| unreachable(&error))?;
    // An error of the connection also ends the answer, which reports it.
    let connection = tokio::spawn(async move { drop(connection.await) });
    match sender.send_request(request).await {
        Ok(answer) => Ok((answer.map(Body::new), connection)),
        Err(error) => Err(unreachable(&error)),
    }
}
