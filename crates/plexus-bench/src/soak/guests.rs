//! Clients besides the workers: slow readers, readers that never read, and clients that misbehave.

use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use super::dice::Dice;
use super::soak_server::SoakServer;

/// How many of each kind.
const OF_EACH: usize = 4;

/// The longest visit of a guest before it disconnects and comes again.
const VISIT: Duration = Duration::from_secs(20);

/// The pause of a slow reader between two small reads.
const SLOW: Duration = Duration::from_millis(300);

/// Starts all of them. Each task returns how often it connected.
pub fn all(
    site: &Arc<SoakServer>,
    dice: &mut Dice,
    home: &CancellationToken,
) -> Vec<JoinHandle<u64>> {
    let kinds = [Kind::Slow, Kind::Deaf, Kind::Rude];
    let guests = kinds.into_iter().flat_map(|kind| std::iter::repeat_n(kind, OF_EACH));
    guests
        .map(|kind| tokio::spawn(come_and_go(kind, Arc::clone(site), dice.split(), home.clone())))
        .collect()
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    /// Reads the stream of all events, a few bytes at a time.
    Slow,
    /// Opens that stream and never reads.
    Deaf,
    /// Sends malformed requests.
    Rude,
}

async fn come_and_go(
    kind: Kind,
    site: Arc<SoakServer>,
    mut dice: Dice,
    home: CancellationToken,
) -> u64 {
    let mut visits = 0;
    while !home.is_cancelled() {
        let visit = async {
            // Guests must expect that the server is away or disconnects them.
            let _over = match kind {
                Kind::Slow => read_slowly(&site, SLOW).await,
                Kind::Deaf => read_slowly(&site, VISIT).await,
                Kind::Rude => misbehave(&site, &mut dice).await,
            };
        };
        tokio::select! {
            _ = tokio::time::timeout(VISIT, visit) => visits += 1,
            () = home.cancelled() => {}
        }
        tokio::time::sleep(Duration::from_millis(100) + dice.time(Duration::from_secs(1))).await;
    }
    visits
}

async fn connect(site: &SoakServer) -> std::io::Result<TcpStream> {
    TcpStream::connect(site.url().trim_start_matches("http://")).await
}

async fn read_slowly(site: &SoakServer, pause: Duration) -> std::io::Result<()> {
    let mut stream = connect(site).await?;
    let head = format!(
        "GET /events HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {}\r\nAccept: text/event-stream\r\n\r\n",
        site.url().trim_start_matches("http://"),
        site.token()
    );
    stream.write_all(head.as_bytes()).await?;
    let mut few = [0; 64];
    loop {
        tokio::time::sleep(pause).await;
        if stream.read(&mut few).await? == 0 {
            return Ok(());
        }
    }
}

async fn misbehave(site: &SoakServer, dice: &mut Dice) -> std::io::Result<()> {
    let mut stream = connect(site).await?;
    let host = site.url().trim_start_matches("http://").to_owned();
    let body = match dice.below(5) {
        0 => "{".repeat(2_000),
        1 => json!({"jsonrpc": "2.0", "id": 1, "method": "claudecode.no_such", "params": {}}).to_string(),
        2 => json!({"jsonrpc": "2.0", "id": [1], "method": 7}).to_string(),
        3 => {
            json!({"jsonrpc": "2.0", "id": 1, "method": "loopback.respond", "params": {"approval_id": "x"}}).to_string()
        }
        _ => String::from("\u{0}\u{ffff}"),
    };
    let token = if dice.percent(50) { site.token() } else { "plx_of_somebody_else" };
    let request = match dice.below(4) {
        // Announces more than it sends, and disconnects.
        0 => format!(
            "POST /rpc HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nContent-Length: 99999\r\n\r\n{body}"
        ),
        // Is not HTTP at all.
        1 => format!("\u{1}\u{2}{body}\r\n\r\n"),
        // Never ends its headers.
        2 => format!("GET /mcp HTTP/1.1\r\nHost: {host}\r\nX-Long: {}", "x".repeat(4_000)),
        _ => format!(
            "POST /rpc HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {token}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        ),
    };
    stream.write_all(request.as_bytes()).await?;
    let mut answer = [0; 1024];
    drop(tokio::time::timeout(dice.time(Duration::from_secs(2)), stream.read(&mut answer)).await);
    Ok(())
}
