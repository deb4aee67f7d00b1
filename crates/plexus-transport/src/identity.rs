//! Checks the token, `Host` and `Origin` of a request, and identifies the caller.
//!
//! A page on another site can make a browser send requests to this host (DNS rebinding, plain
//! cross-site requests); it cannot choose `Host` and `Origin`. A program on this machine can choose
//! both, but lacks the token.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use plexus_core::{Authenticator, CallError, Caller, ErrorKind, SecretToken};
use tokio::sync::watch;

use crate::connections::Connection;
use crate::doors::Doors;
use crate::envelope;

/// The host names under which this server may be reached, and the origins of its own pages.
#[derive(Clone, Debug, Default)]
pub struct AllowedHosts {
    /// `host:port` as in a `Host` header, in lower case.
    hosts: BTreeSet<String>,
    /// `scheme://host:port` as in an `Origin` header, in lower case.
    origins: BTreeSet<String>,
}

const PLAIN: &str = "http";
const ENCRYPTED: &str = "https";

impl AllowedHosts {
    /// Allows `localhost`, `127.0.0.1` and `[::1]` on `port` of a plain listener, and the names in
    /// `more` (each `host` or `host:port`). A name with a port is that of a proxy, whose pages may
    /// be encrypted or not.
    pub fn loopback(port: u16, more: impl IntoIterator<Item = String>) -> Self {
        Self::on_listener(PLAIN, port, more)
    }

    /// Allows the same on `port` of a listener with TLS.
    pub fn loopback_tls(port: u16, more: impl IntoIterator<Item = String>) -> Self {
        Self::on_listener(ENCRYPTED, port, more)
    }

    fn on_listener(scheme: &str, port: u16, more: impl IntoIterator<Item = String>) -> Self {
        let mut allowed = Self::default();
        for host in ["localhost", "127.0.0.1", "[::1]"] {
            allowed.add(&[scheme], format!("{host}:{port}"));
        }
        for name in more {
            let name = name.to_ascii_lowercase();
            let has_port =
                name.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
            if has_port {
                allowed.add(&[PLAIN, ENCRYPTED], name);
            } else {
                allowed.add(&[scheme], format!("{name}:{port}"));
            }
        }
        allowed
    }

    /// Allows a host, and pages of it with these schemes.
    fn add(&mut self, schemes: &[&str], host: String) {
        self.origins.extend(schemes.iter().map(|scheme| format!("{scheme}://{host}")));
        self.hosts.insert(host);
    }

    /// Allows what `other` allows too.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.hosts.extend(other.hosts);
        self.origins.extend(other.origins);
        self
    }

    /// Also allows the host of `url`, as a browser that opens that address names it: without the
    /// port where that is the scheme's own.
    #[must_use]
    pub fn with_url(mut self, url: &str) -> Self {
        let Some((scheme, rest)) = url.split_once("://") else { return self };
        let scheme = scheme.to_ascii_lowercase();
        let host = rest.split(['/', '?', '#']).next().unwrap_or_default().to_ascii_lowercase();
        let own_port = if scheme == ENCRYPTED { ":443" } else { ":80" };
        if host.is_empty() {
            return self;
        }
        if let Some(bare) = host.strip_suffix(own_port) {
            self.add(&[&scheme], bare.to_owned());
        }
        self.add(&[&scheme], host);
        self
    }

    fn admits_host(&self, host: &str) -> bool {
        self.hosts.contains(&host.to_ascii_lowercase())
    }

    /// Returns whether an `Origin` is exactly ours, scheme and all: `null`, odd spellings of schemes
    /// and trailing slashes are refused.
    fn admits_origin(&self, origin: &str) -> bool {
        let Some((scheme, host)) = origin.split_once("://") else { return false };
        self.origins.contains(&format!("{scheme}://{}", host.to_ascii_lowercase()))
    }
}

/// Refuses a request that is not meant for us: another `Host`, or an `Origin` that is not exactly
/// ours.
pub(crate) async fn require_our_host(
    State(doors): State<Doors>,
    request: Request,
    next: Next,
) -> Response {
    match check_host(
        &doors.hosts,
        request.headers(),
        request.uri().authority().map(|authority| authority.as_str()),
    ) {
        Ok(()) => next.run(request).await,
        Err(error) => refuse(StatusCode::FORBIDDEN, &error),
    }
}

fn check_host(
    hosts: &AllowedHosts,
    headers: &HeaderMap,
    authority: Option<&str>,
) -> Result<(), CallError> {
    let mut named = headers.get_all(header::HOST).iter();
    let host = named.next().and_then(|host| host.to_str().ok()).or(authority).unwrap_or_default();
    // A request may name its host twice, in `Host` and in an absolute target. Both must be ours.
    let targets_another = authority.is_some_and(|authority| !hosts.admits_host(authority));
    if named.next().is_some() || targets_another || !hosts.admits_host(host) {
        return Err(CallError::forbidden("accept a request for another host").with_hint(
            "use the address that the server printed, or name yours with allowed_hosts \
                in plexus.toml",
        ));
    }
    let mut origins = headers.get_all(header::ORIGIN).iter();
    match (origins.next(), origins.next()) {
        (None, _) => Ok(()),
        (Some(origin), None) if origin.to_str().is_ok_and(|origin| hosts.admits_origin(origin)) => {
            Ok(())
        }
        _ => Err(CallError::forbidden("accept a request from another site")
            .with_hint("open the dashboard from this server's own address")),
    }
}

/// Turns the bearer token into a [`Caller`], which handlers take as an extension, and assigns the
/// connection to that caller.
pub(crate) async fn require_token(
    State(doors): State<Doors>,
    mut request: Request,
    next: Next,
) -> Response {
    let Some(token) = bearer(request.headers()) else {
        let error = CallError::unauthorized("find a token in the Authorization header")
            .with_hint("send `Authorization: Bearer …`; `plexus token` prints the operator's");
        return refuse(StatusCode::UNAUTHORIZED, &error);
    };
    // Subscribed before the token is read: a revocation in between is then seen by what it opens.
    let revocations = doors.auth.revocations();
    match doors.auth.authenticate(&token).await {
        Ok(caller) => {
            if let Some(connection) = request.extensions().get::<Arc<Connection>>()
                && let Err(error) = connection.prove(caller)
            {
                return refuse_and_close(&error);
            }
            request.extensions_mut().insert(caller);
            request.extensions_mut().insert(Presented { token, caller, revocations });
            next.run(request).await
        }
        Err(error) if error.kind == ErrorKind::Unauthorized => {
            refuse(StatusCode::UNAUTHORIZED, &error)
        }
        Err(error) => refuse(StatusCode::SERVICE_UNAVAILABLE, &error),
    }
}

/// A token and the caller that it identified when its request arrived, for doors that stay open
/// longer than one request.
#[derive(Clone)]
pub(crate) struct Presented {
    token: SecretToken,
    caller: Caller,
    /// Changes when tokens were revoked after this one was read.
    revocations: watch::Receiver<u64>,
}

impl Presented {
    /// Returns the caller that it identified.
    pub(crate) fn caller(&self) -> Caller {
        self.caller
    }

    /// Checks the token again.
    ///
    /// # Errors
    /// `unauthorized` when it no longer identifies its caller; the store's error when the store
    /// cannot be read.
    pub(crate) async fn check(&self, auth: &dyn Authenticator) -> Result<(), CallError> {
        match auth.authenticate(&self.token).await? {
            caller if caller == self.caller => Ok(()),
            _ => Err(CallError::unauthorized("use this token: it belongs to another caller now")),
        }
    }

    /// Says whether the token was revoked. While the store cannot be read, the answer is no.
    pub(crate) async fn is_revoked(&self, auth: &dyn Authenticator) -> bool {
        self.check(auth).await.is_err_and(|error| error.kind == ErrorKind::Unauthorized)
    }

    /// Resolves when the token is revoked or the server stops: long-lived streams end then.
    pub(crate) async fn over(self, doors: Doors) {
        tokio::select! {
            () = self.revoked(&doors) => tracing::debug!("a stream ends with its token"),
            () = doors.closing.cancelled() => {}
        }
    }

    /// Resolves when the token is revoked: at once when this server revokes it, and within
    /// `token_check` when another one does.
    pub(crate) async fn revoked(&self, doors: &Doors) {
        let (mut revocations, every) = (self.revocations.clone(), doors.limits.token_check);
        let mut look = tokio::time::interval_at(tokio::time::Instant::now() + every, every);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = look.tick() => {}
                Ok(()) = revocations.changed() => {}
            }
            if self.is_revoked(&*doors.auth).await {
                return;
            }
        }
    }
}

fn bearer(headers: &HeaderMap) -> Option<SecretToken> {
    let mut named = headers.get_all(header::AUTHORIZATION).iter();
    let value = named.next()?.to_str().ok()?;
    if named.next().is_some() {
        return None;
    }
    let (scheme, token) = value.split_once(' ')?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.trim().is_empty())
        .then(|| SecretToken::new(token.trim()))
}

/// Answers a request on a connection that is one too many.
fn refuse_and_close(error: &CallError) -> Response {
    let mut response = refuse(StatusCode::SERVICE_UNAVAILABLE, error);
    response.headers_mut().insert(header::CONNECTION, header::HeaderValue::from_static("close"));
    response
}

/// Answers a request that never became a call, with an HTTP status and the usual error object.
pub(crate) fn refuse(status: StatusCode, error: &CallError) -> Response {
    let mut response =
        (status, [(header::CONTENT_TYPE, "application/json")], envelope::failure(None, error))
            .into_response();
    if status == StatusCode::UNAUTHORIZED {
        response
            .headers_mut()
            .insert(header::WWW_AUTHENTICATE, header::HeaderValue::from_static("Bearer"));
    }
    if let Some(ms) = error.retry_after_ms {
        response
            .headers_mut()
            .insert(header::RETRY_AFTER, header::HeaderValue::from(ms.div_ceil(1_000)));
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_names_are_hosts_and_origins() {
        let hosts =
            AllowedHosts::loopback(4445, ["Box.example".into(), "proxy.example:443".into()]);
        for host in [
            "localhost:4445",
            "127.0.0.1:4445",
            "[::1]:4445",
            "LOCALHOST:4445",
            "box.example:4445",
            "proxy.example:443",
        ] {
            assert!(hosts.admits_host(host), "{host}");
        }
        for host in [
            "",
            "localhost",
            "localhost:80",
            "evil.example:4445",
            "localhost:4445.evil.example",
            "127.0.0.1:4445@evil",
        ] {
            assert!(!hosts.admits_host(host), "{host}");
        }
        let hosts = hosts
            .with_url("https://Phone.example/plexus/")
            .with_url("https://other.example:443")
            .with_url("https://192.168.1.7:4446")
            .with_url("nonsense");
        for host in ["phone.example", "other.example", "other.example:443", "192.168.1.7:4446"] {
            assert!(hosts.admits_host(host), "{host}");
        }
        assert!(!hosts.admits_host("phone.example:4445") && !hosts.admits_host(""));
        for origin in [
            "http://localhost:4445",
            "http://box.example:4445",
            "https://proxy.example:443",
            "https://phone.example",
            "https://192.168.1.7:4446",
        ] {
            assert!(hosts.admits_origin(origin), "{origin}");
        }
        for origin in [
            "null",
            "",
            "http://localhost:4446",
            "http://localhost:4445/",
            "file://localhost:4445",
            "http://evil.example",
            // The listener of that port is plain, and these addresses are encrypted.
            "https://localhost:4445",
            "https://box.example:4445",
            "http://phone.example",
            "http://192.168.1.7:4446",
            "HTTP://localhost:4445",
        ] {
            assert!(!hosts.admits_origin(origin), "{origin}");
        }
    }

    #[test]
    fn a_page_of_a_tls_listener_is_ours_only_with_https() {
        let hosts = AllowedHosts::loopback(4445, []).and(AllowedHosts::loopback_tls(4446, []));
        assert!(hosts.admits_origin("https://localhost:4446"));
        assert!(hosts.admits_origin("http://localhost:4445"));
        assert!(!hosts.admits_origin("http://localhost:4446"));
        assert!(!hosts.admits_origin("https://localhost:4445"));
    }
}
