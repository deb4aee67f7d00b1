//! Servers that are killed while they park or wake an agent, at every step of it: the call runs
//! once, as it was decided. The crash matrix strikes the same steps with the simulator; here it is
//! shown that the real CLI does what the simulator plays.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use testkit::messages_api::Step;

use crate::site::{CONTROL, Site, count};

/// The steps of parking at which a server is killed, each with how often it is reached before.
pub(crate) const PARKING: [&str; 7] = [
    "park.begin.before@1",
    "park.begin.committed@1",
    "exit.noticed@1",
    "park.copied@1",
    "park.end.before@1",
    "park.end.committed@1",
    "end.committed@1",
];

/// The steps of waking. The second start is that of the woken process.
pub(crate) const WAKING: [&str; 10] = [
    "wake.claim.before@1",
    "wake.claimed@1",
    "wake.marked@1",
    "launch.dir.made@2",
    "launch.shim.started@2",
    "wake.asked.before@1",
    "answer.put.before@1",
    "answer.put.after@1",
    "echo.seen@1",
    "chat.end.committed@1",
];

/// The steps at which the CLI's own files and processes are between two states. They are struck in
/// every run of the suite, the others in its slow part.
pub(crate) const QUICK: [&str; 4] =
    ["park.begin.committed@1", "wake.marked@1", "wake.asked.before@1", "answer.put.after@1"];

/// A server that parks soon, and is killed when it reaches `point`.
async fn armed(cli: PathBuf, point: &str) -> Result<(Site, PathBuf)> {
    let faults = tempfile::Builder::new().prefix("plexus-parking-").tempdir()?.keep();
    let orders = point.replace('@', ":kill@");
    let env = vec![
        ("PLEXUS_FAULT".to_owned(), orders),
        ("PLEXUS_FAULT_DIR".to_owned(), faults.display().to_string()),
    ];
    let arguments = ["--set", "park_after_secs=1"].map(Into::into).into();
    let site = Site::with(cli, CONTROL, None, arguments, env).await?;
    site.chat(&[Step::bash("echo ran >> made"), Step::text("done")]).await?;
    Ok((site, faults.join(point)))
}

/// Waits until the server has killed itself, and starts it again.
async fn struck(site: &mut Site, mark: &std::path::Path) -> Result<()> {
    site.eventually("the blow", async || Ok(mark.exists().then_some(()))).await?;
    site.server.kill_9()?;
    site.server.start_again().await
}

async fn ran_once(site: &Site) -> Result<()> {
    let events = site.completed().await?;
    ensure!(site.text_of("made") == "ran\n", "it left {:?}: {events:#?}", site.text_of("made"));
    for kind in ["tool_use", "awaiting_approval", "approval_resolved", "tool_result", "complete"] {
        ensure!(count(&events, kind) == 1, "{kind} is not there once: {events:#?}");
    }
    ensure!(site.decisions().await?.len() == 1, "it was decided more than once");
    Ok(())
}

pub(crate) async fn killed_while_parking(cli: PathBuf, point: &'static str) -> Result<()> {
    let (mut site, mark) = armed(cli, point).await?;
    struck(&mut site, &mark).await?;
    let approval = site.parked().await?;
    ensure!(site.text_of("made").is_empty(), "it ran unasked");
    site.allow(&approval).await?;
    ran_once(&site).await
}

pub(crate) async fn killed_while_waking(cli: PathBuf, point: &'static str) -> Result<()> {
    let (mut site, mark) = armed(cli, point).await?;
    let approval = site.parked().await?;
    ensure!(site.text_of("made").is_empty(), "it ran unasked");
    site.allow(&approval).await?;
    struck(&mut site, &mark).await?;
    ran_once(&site).await
}
