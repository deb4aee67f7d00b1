//! Parking within a wall, where the agent keeps its transcript in a directory of the session's own.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use testkit::messages_api::Step;

use crate::server_with_claude::{ServerWithClaude, Way};

pub(crate) async fn a_parked_agent_wakes_within_its_wall(cli: PathBuf, way: Way) -> Result<()> {
    let arguments = ["--set", "park_after_secs=1"].map(Into::into).into();
    let setup = ServerWithClaude::with(cli, way, None, arguments, Vec::new()).await?;
    let token = setup.server.data_dir().join("operator.token");
    let command = format!("echo ran >> made; cat {}", token.display());
    setup.chat(&[Step::bash(&command), Step::text("done")]).await?;
    let asked = setup.parked().await?;
    ensure!(setup.text_of("made").is_empty(), "it ran unasked");
    setup.allow(&asked).await?;
    let events = setup.completed().await?;
    ensure!(setup.text_of("made") == "ran\n", "it left {:?}: {events:#?}", setup.text_of("made"));
    ensure!(setup.decisions().await?.len() == 1, "it was decided more than once");
    let told = setup.api.tool_results().pop().map(|result| result.text).unwrap_or_default();
    ensure!(
        !told.contains(setup.server.token()?),
        "the woken agent stands outside its wall: {told}"
    );
    Ok(())
}
