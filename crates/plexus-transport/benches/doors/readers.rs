//! Many readers of one SSE stream: the total number of events that reach them each second.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use plexus_core::StreamItem;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::hub::{Server, TOKEN};

const READERS: usize = 1_000;
const EVENTS: usize = 200;

/// Occurs once in each event and nowhere else: readers count it, however the bytes are split.
const MARK: u8 = b'~';

/// How long the events may take to reach everybody.
const DEADLINE: Duration = Duration::from_secs(120);

pub(crate) struct Read {
    took: Duration,
}

impl fmt::Display for Read {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let deliveries = (READERS * EVENTS) as f64 / self.took.as_secs_f64();
        write!(
            f,
            "{READERS} readers got {EVENTS} events each in {:.2} s: {deliveries:.0} deliveries/s",
            self.took.as_secs_f64()
        )
    }
}

pub(crate) async fn measure(server: &Server) -> anyhow::Result<Read> {
    let mut readers = Vec::new();
    for _ in 0..READERS {
        readers.push(connect(server).await?);
    }
    // A reader may get its headers before its stream is open; the channel counts the open streams.
    while server.events.receiver_count() < READERS {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let started = Instant::now();
    let reading: Vec<_> = readers.into_iter().map(|reader| tokio::spawn(read(reader))).collect();
    for seq in 0..EVENTS {
        let text = format!("~ event {seq} {}", "x".repeat(200));
        let body = plexus_core::method::raw(
            &serde_json::json!({"seq": seq, "event": {"type": "content", "text": text}}),
        )?;
        server
            .events
            .send(StreamItem { cursor: Some(seq.to_string()), body: Arc::from(body) })
            .ok()
            .context("nobody reads")?;
    }
    let all = tokio::time::timeout(DEADLINE, futures::future::join_all(reading))
        .await
        .context("some readers wait for ever")?;
    for reader in all {
        reader??;
    }
    Ok(Read { took: started.elapsed() })
}

async fn connect(server: &Server) -> anyhow::Result<TcpStream> {
    let mut stream = TcpStream::connect(server.doors).await?;
    let request = format!(
        "GET /events HTTP/1.1\r\nhost: {}\r\nauthorization: Bearer {TOKEN}\r\n\r\n",
        server.doors
    );
    stream.write_all(request.as_bytes()).await?;
    Ok(stream)
}

async fn read(mut stream: TcpStream) -> anyhow::Result<()> {
    let mut buffer = vec![0; 16 * 1024];
    let mut got = 0;
    while got < EVENTS {
        let bytes = stream.read(&mut buffer).await?;
        ensure!(bytes > 0, "a stream ended after {got} events");
        got += buffer.iter().take(bytes).filter(|byte| **byte == MARK).count();
    }
    Ok(())
}
