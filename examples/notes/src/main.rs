//! A Plexus with notes: `plexus-notes DATA_DIR`.

use anyhow::Context as _;
use plexus::PlexusBuilder;
use plexus_notes::Notes;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let data_dir = std::env::args_os().nth(1).context("usage: plexus-notes DATA_DIR")?;
    let data_dir = std::path::PathBuf::from(data_dir);
    std::fs::create_dir_all(&data_dir)?;
    let notes = Notes::open(data_dir.join("notes.json"))?;
    let plexus = PlexusBuilder::new(&data_dir).with_activation(notes).build()?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}", listener.local_addr()?);
    let shutdown = CancellationToken::new();
    let on_signal = shutdown.clone();
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            on_signal.cancel();
        }
    });
    plexus.serve(listener, shutdown).await?;
    Ok(())
}
