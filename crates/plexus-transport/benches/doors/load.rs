//! Many callers at once, each with one call at a time, and the latency of their calls.

use std::fmt;
use std::time::{Duration, Instant};

use crate::clients::{Client, Door, Method};
use crate::hub::Server;

/// Callers at once; enough to keep both cores of a small machine busy.
pub(crate) const CALLERS: usize = 16;

/// How long a measurement takes, after each caller has made a few calls that are not counted.
const FOR: Duration = Duration::from_millis(1_500);
const WARM_UP: usize = 20;

pub(crate) struct Figures {
    pub(crate) calls_per_s: f64,
    p50: Duration,
    p99: Duration,
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |time: Duration| time.as_secs_f64() * 1_000.0;
        write!(
            f,
            "{:>8.0} calls/s  p50 {:>6.2} ms  p99 {:>6.2} ms",
            self.calls_per_s,
            ms(self.p50),
            ms(self.p99)
        )
    }
}

pub(crate) async fn measure(
    server: &Server,
    door: Door,
    method: Method,
) -> anyhow::Result<Figures> {
    let mut clients = Vec::new();
    for _ in 0..CALLERS {
        let mut client = Client::new(server, door, method).await?;
        for _ in 0..WARM_UP {
            client.call().await?;
        }
        clients.push(client);
    }
    let started = Instant::now();
    let callers = clients.into_iter().map(|mut client| {
        tokio::spawn(async move {
            let mut took = Vec::new();
            while started.elapsed() < FOR {
                let call = Instant::now();
                client.call().await?;
                took.push(call.elapsed());
            }
            anyhow::Ok(took)
        })
    });
    let mut took = Vec::new();
    for caller in futures::future::join_all(callers).await {
        took.extend(caller??);
    }
    let calls_per_s = took.len() as f64 / started.elapsed().as_secs_f64();
    took.sort_unstable();
    let at =
        |share: f64| took.get((took.len() as f64 * share) as usize).copied().unwrap_or_default();
    Ok(Figures { calls_per_s, p50: at(0.50), p99: at(0.99) })
}
