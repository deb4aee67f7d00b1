//! OpenTelemetry on request: what a collector is sent, what it is never sent, and what a dead one
//! holds up.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use rustix::process::Signal;
use serde_json::json;

use crate::installation::{Installation, eventually};
use crate::serve::{Server, log_of, token};

/// One request: where it went, and its body.
type Heard = (String, Vec<u8>);

/// A collector that takes everything and keeps it.
#[derive(Clone)]
struct Collector {
    address: String,
    heard: Arc<Mutex<Vec<Heard>>>,
}

impl Collector {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let collector = Self { address, heard: Arc::default() };
        let serving = collector.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let serving = serving.clone();
                std::thread::spawn(move || serving.serve(stream));
            }
        });
        collector
    }

    /// Takes requests until the other side has no more.
    fn serve(&self, stream: TcpStream) {
        let mut reader = BufReader::new(stream);
        loop {
            let (mut first, mut length) = (String::new(), 0);
            if reader.read_line(&mut first).unwrap_or(0) == 0 {
                return;
            }
            loop {
                let mut line = String::new();
                if reader.read_line(&mut line).unwrap_or(0) == 0 || line.trim().is_empty() {
                    break;
                }
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
            }
            let mut body = vec![0; length];
            if reader.read_exact(&mut body).is_err() {
                return;
            }
            let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
            self.heard.lock().unwrap().push((path, body));
            if reader.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").is_err()
            {
                return;
            }
        }
    }

    /// Everything that came to `path`. Strings stand in a protobuf message as they are.
    fn told(&self, path: &str) -> String {
        let heard = self.heard.lock().unwrap();
        let bodies = heard.iter().filter(|(to, _)| to == path);
        bodies.map(|(_, body)| String::from_utf8_lossy(body)).collect()
    }
}

/// Lets a child say something and end.
fn one_chat(installation: &Installation) -> String {
    let created = installation
        .call("claudecode.create", &json!({"name": "a", "working_dir": installation.work()}));
    installation.call(
        "claudecode.chat_async",
        &json!({"name": "a", "prompt": "sim:\nsay the-secret-of-this-chat"}),
    );
    eventually("the end of the chat", || {
        (installation.call("claudecode.get", &json!({"name": "a"}))["session"]["status"]
            == "complete")
            .then_some(())
    });
    created["id"].as_str().unwrap().to_owned()
}

#[test]
fn a_collector_is_sent_spans_and_lines_and_no_secrets() {
    // A server that ends waits for its collector only briefly.
    eventually("a server that sends everything before it ends", || {
        let installation = Installation::new();
        let collector = Collector::start();
        let endpoint = format!("otel.endpoint=http://{}", collector.address);
        let server = Server::start(&installation, &["--set", &endpoint]);
        let session = one_chat(&installation);
        assert!(!installation.plexus(&["call", "no.such-method", "{}"]).status.success());
        // Its last words are sent before it goes.
        server.signal(Signal::TERM);
        assert!(server.wait().success());

        let (spans, lines) = (collector.told("/v1/traces"), collector.told("/v1/logs"));
        let all = format!("{spans}{lines}");
        for secret in
            [token(&installation).as_str(), "plx_", "the-secret-of-this-chat", "no.such-method"]
        {
            assert!(!all.contains(secret), "{secret} was sent: {all}");
        }
        let names = ["claudecode.create", "claudecode.chat_async", "serve_chat", "operator"];
        let mut expected = names.into_iter().chain(["plexus", &session]);
        (expected.all(|word| spans.contains(word)) && lines.contains("listening")).then_some(())
    });
}

#[test]
fn a_collector_that_never_answers_or_is_not_there_holds_nobody() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let gone = TcpListener::bind("127.0.0.1:0").unwrap();
    let gone = (gone.local_addr().unwrap().to_string(), drop(gone)).0;
    for address in [silent.local_addr().unwrap().to_string(), gone] {
        let installation = Installation::new();
        let server =
            Server::start(&installation, &["--set", &format!("otel.endpoint=http://{address}")]);
        one_chat(&installation);
        server.signal(Signal::TERM);
        assert!(server.wait().success());
        assert!(log_of(&installation).contains("stopped;"), "{}", log_of(&installation));
    }
}
