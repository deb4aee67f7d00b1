//! The encrypted listener: every door works over it, and what is wrong with it is said.

use std::sync::Arc;

use futures::{SinkExt as _, StreamExt as _};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::client::IntoClientRequest as _;

use crate::installation::{DEADLINE, Installation, eventually, mode};
use crate::serve::{Server, log_of, token};

/// Writes a `plexus.toml` that has the server listen with TLS too.
fn with_tls(installation: &Installation, more: &str) {
    std::fs::create_dir(installation.data()).unwrap();
    let text = format!("{more}\n[tls]\nlisten = \"127.0.0.1:0\"\n");
    std::fs::write(installation.data().join("plexus.toml"), text).unwrap();
}

/// What the server said of its encrypted listener: the address and the fingerprint.
fn said(installation: &Installation) -> (String, String) {
    let log = log_of(installation);
    let line = log.lines().find_map(|line| line.trim().strip_prefix("tls ")).expect("a line");
    let (address, fingerprint) = line.trim().split_once(", SHA-256 ").expect("a fingerprint");
    (address.to_owned(), fingerprint.to_owned())
}

async fn connect(installation: &Installation, address: &str) -> TlsStream<TcpStream> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(installation.data().join("tls-cert.pem")).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap()
}

/// Sends one request and reads the answer until it holds `until`.
async fn ask(
    installation: &Installation,
    address: &str,
    head: &str,
    body: &str,
    until: &str,
) -> String {
    let mut stream = connect(installation, address).await;
    let request = format!(
        "{head} HTTP/1.1\r\nHost: {address}\r\nAuthorization: Bearer {}\r\n\
         Content-Type: application/json\r\nAccept: application/json, text/event-stream\r\n\
         Content-Length: {}\r\n\r\n{body}",
        token(installation),
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let (mut answer, mut some) = (String::new(), [0; 16 * 1024]);
    let reading = async {
        while !answer.contains(until) {
            let count = stream.read(&mut some).await.unwrap();
            assert!(count > 0, "the answer ended without {until:?}: {answer}");
            answer.push_str(&String::from_utf8_lossy(&some[..count]));
        }
    };
    tokio::time::timeout(DEADLINE, reading).await.expect(until);
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn every_door_works_over_tls_and_commands_still_find_the_server() {
    let installation = Installation::new();
    with_tls(&installation, "public_url = \"https://phone.example:8443\"");
    let server = Server::start(&installation, &[]);
    eventually("the line about TLS", || log_of(&installation).contains("SHA-256").then_some(()));
    let (address, fingerprint) = said(&installation);
    for file in ["tls-cert.pem", "tls-key.pem"] {
        assert_eq!(mode(&installation.data().join(file)), 0o600, "{file}");
    }

    let page = ask(&installation, &address, "GET /", "", "</html>").await;
    assert!(page.starts_with("HTTP/1.1 200"), "{page}");
    let version = json!({"jsonrpc": "2.0", "id": 1, "method": "plexus.version"}).to_string();
    ask(&installation, &address, "POST /rpc", &version, env!("CARGO_PKG_VERSION")).await;
    ask(&installation, &address, "GET /events", "", "retry: 1000").await;
    let hello = json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {
        "protocolVersion": "2025-06-18", "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"}}});
    ask(&installation, &address, "POST /mcp", &hello.to_string(), "serverInfo").await;

    let mut request = format!("wss://{address}/rpc").into_client_request().unwrap();
    let bearer = format!("Bearer {}", token(&installation)).parse().unwrap();
    request.headers_mut().insert("authorization", bearer);
    let stream = connect(&installation, &address).await;
    let (mut socket, _) = tokio_tungstenite::client_async(request, stream).await.unwrap();
    socket.send(Message::text(version)).await.unwrap();
    let answer = socket.next().await.unwrap().unwrap().into_text().unwrap();
    let answer: Value = serde_json::from_str(&answer).unwrap();
    assert_eq!(answer["result"]["version"], env!("CARGO_PKG_VERSION"));

    // The host of public_url is ours, another is not.
    for (host, expected) in [("phone.example:8443", "200"), ("evil.example:8443", "403")] {
        let mut stream = connect(&installation, &address).await;
        let request = format!("GET /healthz HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let _end = stream.read_to_end(&mut answer).await;
        let answer = String::from_utf8_lossy(&answer).into_owned();
        assert!(answer.starts_with(&format!("HTTP/1.1 {expected}")), "{host}: {answer}");
    }

    // Nothing goes without encryption there.
    let mut plain = TcpStream::connect(&address).await.unwrap();
    plain.write_all(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    let _end = plain.read_to_end(&mut answer).await;
    assert!(!String::from_utf8_lossy(&answer).contains("HTTP/1.1"), "{answer:?}");

    assert!(server.url.starts_with("http://127.0.0.1:"), "commands use the plain listener");
    assert!(installation.works(&["pair"]).contains(&fingerprint));
    let doctor = String::from_utf8(installation.plexus(&["doctor"]).stdout).unwrap();
    assert!(doctor.contains(&fingerprint), "{doctor}");
}

#[test]
fn a_bad_certificate_is_said_before_anything_is_made() {
    let installation = Installation::new();
    let listen = "tls.listen=127.0.0.1:0";
    for (settings, expected) in [
        (&["tls.cert=/no/cert"][..], "tls.key"),
        (&["tls.cert=/no/cert", "tls.key=/no/key"][..], "tls.listen"),
        (&[listen, "tls.cert=/no/cert", "tls.key=/no/key"][..], "tls.cert /no/cert"),
        (&["tls.listen=nowhere"][..], "could not listen on \"nowhere\""),
        (&["public_url=box.example"][..], "public_url"),
    ] {
        let mut arguments = vec!["serve"];
        settings.iter().for_each(|setting| arguments.extend(["--set", setting]));
        let complaint = installation.fails(&arguments);
        assert!(complaint.contains(expected), "{settings:?}: {complaint}");
    }
    assert!(!installation.data().exists());
}
