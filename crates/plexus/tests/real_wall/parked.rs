//! Parking within a wall, where the agent keeps its transcript in a directory of the session's own.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use testkit::messages_api::Step;

use crate::server_with_claude::{ServerWithClaude, Way};

pub(crate) async fn a_parked_agent_wakes_within_its_wall(cli: PathBuf, way: Way) -> Result<()> {
    let arguments = ["--set", "park_after_secs=1"].map(Into::into).into();
    let site = ServerWithClaude::with(cli, way, None, arguments, Vec::new()).await?;
    let token = site.server.data_dir().join("operator.token");
    let command = format!("echo ran >> made; cat {}", token.display());
    site.chat(&[Step::bash(&command), Step::text("done")]).await?;
    let asked = site.parked().await?;
    ensure!(site.text_of("made").is_empty(), "it ran unasked");
    site.allow(&asked).await?;
    let events = site.completed().await?;
    ensure!(site.text_of("made") == "ran\n", "it left {:?}: {events:#?}", site.text_of("made"));
    ensure!(site.decisions().await?.len() == 1, "it was decided more than once");
    let told = site.api.tool_results().pop().map(|result| result.text).unwrap_or_default();
    ensure!(
        !told.contains(site.server.token()?),
        "the woken agent stands outside its wall: {told}"
    );
    Ok(())
}
