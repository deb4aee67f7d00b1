//! 20,000 silent connections: they get an eighth of all places, and the oldest are closed first. So
//! earlier clients are served all the time, and later ones too.
//!
//! This is a separate program, because it needs nearly all descriptors that a process may have.
//! Further processes of it hold the connections.
#![cfg(target_os = "linux")]
#![expect(clippy::unwrap_used, clippy::expect_used, reason = "tests")]

mod crowd;
#[path = "../doors/support/mod.rs"]
#[expect(dead_code, unused_imports, reason = "most of it is for the tests of the doors")]
mod support;

use std::sync::Arc;
use std::time::Duration;

use plexus_transport::Limits;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::crowd::Crowd;
use crate::support::{OPERATOR, Server, until};

/// How many connections are opened.
const ALL: usize = 20_000;

/// Descriptors that a process needs besides its connections.
const OTHERS: u64 = 500;

/// How much memory a second crowd may add to what the first left behind: the allocator keeps
/// varying amounts.
const SLACK_MIB: u64 = 64;

fn resident_mib() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    statm.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or_default() * 4
        / 1024
}

/// Raises the descriptor limit of this process to its maximum, and returns it.
fn descriptors() -> u64 {
    let maximum = getrlimit(Resource::Nofile).maximum;
    setrlimit(Resource::Nofile, Rlimit { current: maximum, maximum }).unwrap();
    maximum.unwrap_or(u64::MAX)
}

/// A client that connected before the crowd, and calls again on its connection.
struct Regular(TcpStream);

impl Regular {
    async fn is_served(&mut self, server: &Server) {
        let body = r#"{"jsonrpc":"2.0","id":1,"method":"test.echo","params":{"text":"alive"}}"#;
        let request = format!(
            "POST /rpc HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {OPERATOR}\r\ncontent-length: {}\r\n\r\n{body}",
            server.address,
            body.len()
        );
        self.0.write_all(request.as_bytes()).await.unwrap();
        let mut heard = Vec::new();
        while !heard.ends_with(b"}}") {
            let mut some = [0; 1_024];
            let count = support::soon("the answer", self.0.read(&mut some)).await.unwrap();
            assert!(count > 0, "hung up after {}", String::from_utf8_lossy(&heard));
            heard.extend_from_slice(&some[..count]);
        }
        let heard = String::from_utf8(heard).unwrap();
        assert!(heard.starts_with("HTTP/1.1 200 ") && heard.contains("alive"), "{heard}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_thousand_idle_connections_lock_nobody_out_and_leave_no_memory_behind() {
    let files = descriptors();
    if crowd::hold_if_told().await {
        return;
    }
    let fit = usize::try_from(files.saturating_sub(OTHERS)).unwrap();
    let connections = Limits::default().connections.min(fit);
    let limits =
        Limits { connections, header_timeout: Duration::from_secs(3_600), ..Limits::default() };
    let silent = connections / 8;
    let server = Server::with(&Arc::default(), limits).await;
    let mut regular = Regular(TcpStream::connect(server.address).await.unwrap());
    regular.is_served(&server).await;

    let mut after = Vec::new();
    for _ in 0..2 {
        let crowd = Crowd::gather(server.address, ALL, fit.min(5_000));
        until("the end of all but the newest", || crowd.ended() == ALL - silent).await;
        until("the places of the others", || server.doors.stats().open_connections == silent + 1)
            .await;
        regular.is_served(&server).await;
        // A client that connects now evicts one more of the crowd, and is served.
        let mut newcomer = Regular(TcpStream::connect(server.address).await.unwrap());
        newcomer.is_served(&server).await;
        drop((crowd, newcomer));
        until("the end of the crowd", || server.doors.stats().open_connections == 1).await;
        regular.is_served(&server).await;
        after.push(resident_mib());
    }
    assert!(
        after[1] < after[0] + SLACK_MIB,
        "{} MiB after the first crowd, {} after the second",
        after[0],
        after[1]
    );
}
