//! Measures a call at each door against a bare axum handler in the same run: `cargo bench -p
//! plexus-transport`.
//!
//! Client and server share the machine and its cores, so the ratios say more than the figures. In
//! reading order:
//! - `hub`: a hub with a trivial method, one that answers like `poll`, and a stream of events; and
//!   the bare handler.
//! - `clients`: one caller at each door.
//! - `load`: many callers at once, and the latency of their calls.
//! - `readers`: many readers of one SSE stream.
#![expect(clippy::print_stdout, reason = "a benchmark prints")]

mod clients;
mod hub;
mod load;
mod readers;

use clients::{Door, Method};

fn main() -> anyhow::Result<()> {
    // `cargo test --benches` runs this without the flag; there is nothing to check then.
    if !std::env::args().any(|arg| arg == "--bench") {
        return Ok(());
    }
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(measure())
}

async fn measure() -> anyhow::Result<()> {
    let server = hub::Server::start().await?;
    for method in [Method::Trivial, Method::Poll] {
        println!("{} ({} callers at once)", method.title(), load::CALLERS);
        let bare = load::measure(&server, Door::Bare, method).await?;
        println!("  {:<16} {bare}", Door::Bare.title());
        for door in [Door::Rpc, Door::Socket, Door::Mcp] {
            let figures = load::measure(&server, door, method).await?;
            let ratio = figures.calls_per_s / bare.calls_per_s;
            println!(
                "  {:<16} {figures}  {:>4.0} % of the bare handler",
                door.title(),
                100.0 * ratio
            );
        }
    }
    let read = readers::measure(&server).await?;
    println!("/events\n  {read}");
    Ok(())
}
