//! The door to the model's API. The program holds a stand-in, and the real key is put in here.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::header::{AUTHORIZATION, HeaderName, HeaderValue};
use hyper::{Request, StatusCode, Uri};
use rustls::pki_types::ServerName;
use subtle::ConstantTimeEq as _;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use super::proxy::{Answer, pass_on, say};
use super::upstream::UpstreamProxy;

/// The calls that an agent needs. Others (files, batches, administration) are ways out or more.
const CALLS: &[(&str, &str)] = &[
    ("POST", "/v1/messages"),
    ("POST", "/v1/messages/count_tokens"),
    ("GET", "/v1/models"),
    ("HEAD", "/"),
];
/// How a token of a login begins; it is sent as a bearer, a key of the console is not.
const LOGIN_PREFIX: &str = "sk-ant-oat";
const API_KEY: HeaderName = HeaderName::from_static("x-api-key");

/// A secret that does not print.
#[derive(Clone)]
pub struct ApiKey(Arc<str>);

impl ApiKey {
    /// Takes a key.
    #[must_use]
    pub fn new(key: impl Into<Arc<str>>) -> Self {
        Self(key.into())
    }

    /// Makes a random stand-in for the program, worthless everywhere but at its own door. It looks
    /// like the real key, because the CLI chooses its headers by the form of the key.
    ///
    /// # Errors
    /// When the machine has no random numbers.
    pub fn stand_in_for(key: &Self) -> std::io::Result<Self> {
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(std::io::Error::other)?;
        let number = u128::from_ne_bytes(random);
        let prefix = if key.is_login() { "sk-ant-oat01" } else { "sk-ant-api03" };
        Ok(Self::new(format!("{prefix}-standin-{number:032x}")))
    }

    /// Returns the secret, for the environment of the program. Only a stand-in goes there.
    #[must_use]
    pub fn reveal(&self) -> &str {
        &self.0
    }

    fn is_login(&self) -> bool {
        self.0.starts_with(LOGIN_PREFIX)
    }
}

impl fmt::Debug for ApiKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ApiKey(…)")
    }
}

/// Why a door cannot be opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ModelError {
    /// The address is not valid.
    #[error("{0:?} is not the address of an API: write https://host")]
    Address(String),
    /// A key cannot be sent in the clear to another machine.
    #[error("{0:?} would send the key unencrypted: write https://")]
    Unencrypted(String),
    /// TLS cannot be used.
    #[error(transparent)]
    Trust(#[from] plexus_tls::TrustError),
}

/// The model's API behind its door.
#[derive(Clone)]
pub struct ModelApi {
    host: String,
    port: u16,
    /// The value of the `Host` header.
    authority: String,
    /// What stands before the path of each call, for an API behind a gateway.
    prefix: String,
    tls: Option<(TlsConnector, ServerName<'static>)>,
    key: ApiKey,
    stand_in: ApiKey,
}

impl ModelApi {
    /// Opens the door to `upstream` (`https://host[:port][/path]`, or `http://` to this machine)
    /// for a caller that shows `stand_in`, with `key` put in its place. `authorities` is a file of
    /// trusted certificate authorities; without one those of this machine count.
    ///
    /// # Errors
    /// When the address cannot be used.
    pub fn new(
        upstream: &str,
        key: ApiKey,
        stand_in: ApiKey,
        authorities: Option<&Path>,
    ) -> Result<Self, ModelError> {
        let bad = || ModelError::Address(upstream.to_owned());
        let uri: Uri = upstream.trim_end_matches('/').parse().map_err(|_| bad())?;
        let authority = uri.authority().filter(|at| !at.as_str().contains('@')).ok_or_else(bad)?;
        let host = authority.host().trim_matches(['[', ']']).to_owned();
        let (port, tls) = match uri.scheme_str() {
            Some("https") => {
                let name = ServerName::try_from(host.clone()).map_err(|_| bad())?;
                let config = plexus_tls::trust(authorities, "the authorities of the model's API")?;
                (443, Some((TlsConnector::from(Arc::new(config)), name)))
            }
            Some("http") if matches!(host.as_str(), "127.0.0.1" | "::1" | "localhost") => {
                (80, None)
            }
            Some("http") => return Err(ModelError::Unencrypted(upstream.to_owned())),
            Some(_) | None => return Err(bad()),
        };
        let port = authority.port_u16().unwrap_or(port);
        let authority = authority.to_string();
        let prefix = uri.path().trim_end_matches('/').to_owned();
        Ok(Self { host, port, authority, prefix, tls, key, stand_in })
    }

    /// Serves one request of the program.
    pub(crate) async fn serve(
        &self,
        upstream: Option<&UpstreamProxy>,
        mut request: Request<Incoming>,
    ) -> Answer {
        let (method, path) = (request.method().as_str(), request.uri().path());
        if !CALLS.contains(&(method, path)) {
            let words = format!("{method} {path} is not a call that this proxy passes on");
            return say(StatusCode::FORBIDDEN, &words);
        }
        if !self.is_shown(&request) {
            return say(StatusCode::UNAUTHORIZED, "this is not the key of this program");
        }
        let key = self.key.reveal();
        let (name, value) = if self.key.is_login() {
            (AUTHORIZATION, HeaderValue::from_str(&format!("Bearer {key}")))
        } else {
            (API_KEY, HeaderValue::from_str(key))
        };
        let Ok(mut value) = value else {
            return say(StatusCode::BAD_GATEWAY, "the key of the model's API cannot be sent");
        };
        value.set_sensitive(true);
        let headers = request.headers_mut();
        headers.remove(AUTHORIZATION);
        headers.remove(API_KEY);
        headers.insert(name, value);
        self.pass_on(upstream, request).await
    }

    /// Returns whether the request carries the stand-in for the key. This must be checked, because
    /// in the landlock tier every program of this machine can connect here.
    fn is_shown(&self, request: &Request<Incoming>) -> bool {
        let headers = request.headers();
        let shown = headers.get(API_KEY).or_else(|| headers.get(AUTHORIZATION));
        let shown = shown.and_then(|value| value.to_str().ok()).unwrap_or_default();
        let shown = shown.strip_prefix("Bearer ").unwrap_or(shown);
        shown.as_bytes().ct_eq(self.stand_in.reveal().as_bytes()).into()
    }

    async fn pass_on(
        &self,
        upstream: Option<&UpstreamProxy>,
        mut request: Request<Incoming>,
    ) -> Answer {
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let Ok(path) = format!("{}{path}", self.prefix).parse() else {
            return say(StatusCode::BAD_REQUEST, "the address of the request cannot be passed on");
        };
        *request.uri_mut() = path;
        let failed = |error: std::io::Error| {
            say(StatusCode::BAD_GATEWAY, &format!("the model's API could not be reached: {error}"))
        };
        let dialled = match upstream.filter(|proxy| proxy.serves(&self.host)) {
            Some(proxy) => proxy.dial(&self.host, self.port).await,
            None => TcpStream::connect((self.host.as_str(), self.port)).await,
        };
        let stream = match dialled.and_then(|stream| stream.set_nodelay(true).map(|()| stream)) {
            Ok(stream) => stream,
            Err(error) => return failed(error),
        };
        match &self.tls {
            None => pass_on(stream, request, &self.authority).await,
            Some((connector, name)) => match connector.connect(name.clone(), stream).await {
                Ok(stream) => pass_on(stream, request, &self.authority).await,
                Err(error) => failed(error),
            },
        }
    }
}

impl fmt::Debug for ModelApi {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelApi").field("authority", &self.authority).finish_non_exhaustive()
    }
}
