//! A proxy of the machine's own network, through which the egress process has to go.
//!
//! It is taken from the environment, as other programs do. What is behind it is resolved there, so
//! the check against private addresses is then that proxy's to make.

use std::io;
use std::time::Duration;

use hyper::Uri;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::hosts::normal;

/// The longest answer to CONNECT that is read.
const MAX_HEAD_BYTES: usize = 8 * 1024;
/// The longest wait for that proxy.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A proxy between this machine and the internet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UpstreamProxy {
    host: String,
    port: u16,
    /// Hosts that are reached without it: names, and suffixes that begin with a dot.
    except: Vec<String>,
}

impl UpstreamProxy {
    /// Reads what the variables say; `None` when they name no proxy.
    ///
    /// # Errors
    /// When they name one that cannot be used: the sentence says why.
    pub fn from_variables(
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>, String> {
        let either = |names: [&str; 2]| {
            names.into_iter().find_map(|name| variable(name).filter(|text| !text.is_empty()))
        };
        let named =
            either(["HTTPS_PROXY", "https_proxy"]).or_else(|| either(["ALL_PROXY", "all_proxy"]));
        let Some(text) = named else { return Ok(None) };
        let refuse = || {
            format!(
                "the proxy of this machine must be written http://host:port, without a password, \
                 and is {:?}",
                text.split('@').next_back().unwrap_or_default()
            )
        };
        let uri: Uri = text.parse().map_err(|_| refuse())?;
        let plain = matches!(uri.scheme_str(), Some("http") | None);
        let authority = uri.authority().filter(|at| plain && !at.as_str().contains('@'));
        let (host, port) = authority
            .and_then(|at| Some((normal(at.host()), at.port_u16()?)))
            .ok_or_else(refuse)?;
        let except = either(["NO_PROXY", "no_proxy"]).unwrap_or_default();
        let except = except.split(',').map(|name| normal(name.trim().trim_start_matches('*')));
        Ok(Some(Self { host, port, except: except.filter(|name| !name.is_empty()).collect() }))
    }

    /// Whether a host is reached through it.
    pub(crate) fn serves(&self, host: &str) -> bool {
        let is_here =
            host == "localhost" || host.parse().is_ok_and(|ip: std::net::IpAddr| ip.is_loopback());
        let is_excepted = self.except.iter().any(|name| {
            let bare = name.trim_start_matches('.');
            host == bare || host.strip_suffix(bare).is_some_and(|rest| rest.ends_with('.'))
        });
        !is_here && !is_excepted
    }

    /// Connects to a host through it.
    pub(crate) async fn dial(&self, host: &str, port: u16) -> io::Result<TcpStream> {
        match tokio::time::timeout(TIMEOUT, self.tunnel(host, port)).await {
            Ok(dialled) => dialled,
            Err(_elapsed) => Err(io::ErrorKind::TimedOut.into()),
        }
    }

    async fn tunnel(&self, host: &str, port: u16) -> io::Result<TcpStream> {
        let mut stream = TcpStream::connect((self.host.as_str(), self.port)).await?;
        stream.set_nodelay(true)?;
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        let head = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n");
        stream.write_all(head.as_bytes()).await?;
        let mut answer = Vec::new();
        // Byte by byte: what follows the head belongs to the tunnel.
        while !answer.ends_with(b"\r\n\r\n") {
            if answer.len() > MAX_HEAD_BYTES {
                return Err(io::Error::other("the proxy of this machine answers too much"));
            }
            answer.push(stream.read_u8().await?);
        }
        let line = String::from_utf8_lossy(&answer).lines().next().unwrap_or_default().to_owned();
        match line.split(' ').nth(1) {
            Some("200") => Ok(stream),
            _ => Err(io::Error::other(format!("the proxy of this machine says {line:?}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Option<UpstreamProxy>, String> {
        UpstreamProxy::from_variables(|name| {
            pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_variables_of_a_proxy_are_read_as_other_programs_do() {
        assert_eq!(read(&[]), Ok(None));
        assert_eq!(read(&[("HTTPS_PROXY", "")]), Ok(None));
        let proxy = read(&[
            ("https_proxy", "http://proxy.example.org:3128"),
            ("NO_PROXY", "internal.example.org, *.lan,.corp"),
        ]);
        let proxy = proxy.unwrap().unwrap();
        for (host, expected) in [
            ("api.example.com", true),
            ("internal.example.org", false),
            ("a.internal.example.org", false),
            ("b.lan", false),
            ("c.corp", false),
            ("notcorp", true),
            ("localhost", false),
            ("127.0.0.1", false),
        ] {
            assert_eq!(proxy.serves(host), expected, "{host}");
        }
        for text in ["socks5://proxy:1080", "http://user:secret@proxy:3128", "http://proxy"] {
            let why = read(&[("ALL_PROXY", text)]).unwrap_err();
            assert!(!why.contains("secret"), "{why}");
        }
    }

    #[tokio::test]
    async fn a_tunnel_begins_after_the_head_of_the_answer() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let served = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut head = [0; 256];
            let length = stream.read(&mut head).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\nvia: x\r\n\r\nhello").await.unwrap();
            String::from_utf8_lossy(&head[..length]).into_owned()
        });
        let proxy = UpstreamProxy { host: "127.0.0.1".into(), port, except: vec![] };
        let mut stream = proxy.dial("example.org", 443).await.unwrap();
        let mut said = String::new();
        stream.read_to_string(&mut said).await.unwrap();
        assert_eq!(said, "hello");
        assert!(served.await.unwrap().starts_with("CONNECT example.org:443 HTTP/1.1\r\n"));
    }
}
