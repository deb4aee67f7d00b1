//! What takes minutes: waits longer than any limit of the CLI's that we know of, and a minute
//! without a server.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;
use testkit::messages_api::Step;

use crate::server_with_claude::{CONTROL, MCP, ServerWithClaude, Way};

/// Longer than the 300 s after which the CLI gives up on a call that is silent, and than 6 minutes.
const LONG_WAIT: Duration = Duration::from_secs(390);

/// How long a server is away in a long outage.
const LONG_OUTAGE: Duration = Duration::from_secs(60);

pub(crate) async fn a_wait_of_more_than_six_minutes_is_answered(
    cli: PathBuf,
    way: Way,
) -> Result<()> {
    let setup = ServerWithClaude::new(cli, way).await?;
    setup.chat(&[Step::bash("echo ran >> made"), Step::text("done")]).await?;
    let asked = setup.asked().await?;
    tokio::time::sleep(LONG_WAIT).await;
    ensure!(setup.asked().await?["id"] == asked["id"], "it was asked again");
    setup.allow(&asked).await?;
    let events = setup.completed().await?;
    ensure!(setup.text_of("made") == "ran\n", "{events:#?}");
    ensure!(setup.decisions().await?.len() == 1);
    Ok(())
}

pub(crate) async fn a_wait_outlives_a_minute_without_a_server(cli: PathBuf) -> Result<()> {
    crate::killed::a_wait_outlives_a_killed_server(cli, Way { away: LONG_OUTAGE, ..CONTROL }).await
}

/// Longer than one pause of the client before it looks for the server, shorter than two.
const MISSES_ONCE: Duration = Duration::from_secs(20);

/// The client finds no server the first time. One more failed stream of the client would be one
/// failure too many.
pub(crate) async fn a_wait_outlives_a_client_that_found_nobody(cli: PathBuf) -> Result<()> {
    crate::killed::a_wait_outlives_a_killed_server(cli, Way { away: MISSES_ONCE, ..MCP }).await
}

/// The client gives up after 30 s: its request is cancelled, and nothing waits for an answer.
pub(crate) async fn a_minute_without_a_server_is_a_failed_call_and_a_cancelled_request(
    cli: PathBuf,
) -> Result<()> {
    let mut setup = ServerWithClaude::new(cli, Way { away: LONG_OUTAGE, ..MCP }).await?;
    setup.chat(&[Step::bash("echo ran >> made"), Step::text("done")]).await?;
    let asked = setup.asked().await?;
    setup.outage().await?;
    let events = setup.completed().await?;
    ensure!(setup.text_of("made").is_empty(), "{events:#?}");
    let history =
        setup.server.call("loopback.history", json!({"session_id": setup.session})).await?;
    let decision = &history["decisions"][0];
    ensure!(
        decision["approval_id"] == asked["id"] && decision["status"] == "cancelled",
        "{history:#}"
    );
    Ok(())
}
