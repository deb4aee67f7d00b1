//! acpx, a client program that starts a new `plexus acp` for each command.

use std::path::{Path, PathBuf};
use std::process::Output;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use testkit::real_cli::RealCli;
use tokio::process::Command;

use crate::editor::node_beside;
use crate::server_with_agent::ServerWithAgent;

/// Where the program is.
pub(crate) const ACPX: RealCli = RealCli {
    variable: "PLEXUS_ACPX",
    require_variable: "PLEXUS_REQUIRE_ACP",
    cached: ".cache/acp-clients/npm/node_modules/acpx/dist/cli.js",
    script: "scripts/install-acp-clients.sh",
};

/// What acpx says while the process that served the last command ends.
const ENDING: &str = "Queue owner is shutting down";

/// How long one command may take.
const DEADLINE: Duration = Duration::from_secs(120);

/// Runs acpx. It keeps the process of a command alive for a while; a command that arrives while
/// that process ends is retried.
async fn run(acpx: &Path, setup: &ServerWithAgent, words: &[&str]) -> Result<Output> {
    let again = async {
        loop {
            let output = run_once(acpx, setup, words).await?;
            if !text(&output).contains(ENDING) {
                return anyhow::Ok(output);
            }
        }
    };
    tokio::time::timeout(DEADLINE, again).await.context("acpx did not end")?
}

async fn run_once(acpx: &Path, setup: &ServerWithAgent, words: &[&str]) -> Result<Output> {
    let agent = format!(
        "{} acp --data-dir {}",
        env!("CARGO_BIN_EXE_plexus"),
        setup.server.data_dir().display()
    );
    let mut command = Command::new(node_beside(acpx)?);
    command
        .arg(acpx)
        .args(["--agent", &agent, "--ttl", "1", "--cwd"])
        .arg(setup.work())
        .args(words)
        // Its own records of sessions.
        .env("HOME", setup.server.own_data_dir())
        .current_dir(setup.work())
        .stdin(std::process::Stdio::null())
        .kill_on_drop(true);
    command.output().await.context("could not start acpx")
}

fn text(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!("{}\n{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err))
}

pub(crate) async fn acpx_draws_a_call_and_decides_it(acpx: PathBuf) -> Result<()> {
    let setup = ServerWithAgent::simulated().await?;
    let denied = setup.writes("denied", "one\n");
    let output = run(&acpx, &setup, &["--deny-all", "exec", &denied]).await?;
    let said = text(&output);
    ensure!(said.contains("(failed)") && said.contains("[done] end_turn"), "{said}");
    ensure!(setup.text_of("denied").is_none());

    let allowed = setup.writes("allowed", "one\n");
    let output = run(&acpx, &setup, &["--approve-all", "exec", &allowed]).await?;
    let said = text(&output);
    ensure!(output.status.success() && said.contains("All is done."), "{said}");
    ensure!(said.contains(&format!("diff {}", setup.path("allowed").display())), "{said}");
    ensure!(said.contains("[done] end_turn") && said.contains("(completed)"), "{said}");
    ensure!(setup.text_of("allowed").as_deref() == Some("one\n"));
    Ok(())
}

pub(crate) async fn acpx_goes_on_with_a_session_after_the_server_was_killed(
    acpx: PathBuf,
) -> Result<()> {
    let mut setup = ServerWithAgent::simulated().await?;
    let made = run(&acpx, &setup, &["sessions", "new"]).await?;
    ensure!(made.status.success(), "{}", text(&made));
    let first = run(&acpx, &setup, &["prompt", &setup.says("first words")]).await?;
    ensure!(text(&first).contains("first words"), "{}", text(&first));
    setup.server.crash_and_restart().await?;
    let second = run(&acpx, &setup, &["prompt", "sim:\nrecall"]).await?;
    let said = text(&second);
    ensure!(second.status.success() && said.contains("say first words"), "{said}");
    Ok(())
}
