//! Outgoing connections, plain or over TLS.

use std::io;
use std::sync::Arc;

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use url::{Host, Url};

/// A connection of either kind.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// Connects to the host of a URL, over TLS where a configuration for it is given.
///
/// # Errors
/// When the URL has no host, or the connection or its TLS handshake fails.
pub async fn connect(
    url: &Url,
    tls: Option<&Arc<ClientConfig>>,
) -> io::Result<Box<dyn Connection>> {
    let none = || io::Error::new(io::ErrorKind::InvalidInput, "its url has no host");
    let host = url.host().ok_or_else(none)?;
    let port = url.port_or_known_default().ok_or_else(none)?;
    let (stream, name) = match host {
        Host::Domain(name) => {
            let known = ServerName::try_from(name.to_owned()).map_err(io::Error::other)?;
            (TcpStream::connect((name, port)).await?, known)
        }
        Host::Ipv4(ip) => (TcpStream::connect((ip, port)).await?, ServerName::IpAddress(ip.into())),
        Host::Ipv6(ip) => (TcpStream::connect((ip, port)).await?, ServerName::IpAddress(ip.into())),
    };
    stream.set_nodelay(true)?;
    Ok(match tls {
        Some(tls) => Box::new(TlsConnector::from(Arc::clone(tls)).connect(name, stream).await?),
        None => Box::new(stream),
    })
}
