//! What can go wrong between parking and waking, with the real CLI: each case counts how often the
//! command ran. The table in docs/operations.md says which line of the failure matrix each shows.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tempfile::TempDir;
use testkit::messages_api::{Failure, Step, prompt};
use testkit::wait::{PATIENCE, eventually_async};

use crate::parked::{RUN, stage};
use crate::stage::Stage;

/// Longer than the CLI keeps the transcripts of others.
const FORTY_DAYS: Duration = Duration::from_secs(40 * 24 * 3_600);

/// How long a woken CLI may take to ask, where it never does.
const ASKS_WITHIN: Duration = Duration::from_secs(20);

/// A CLI that misbehaves while there is a file of a certain name in its folder.
struct Replaced {
    folder: TempDir,
}

impl Replaced {
    fn new(cli: &Path) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("plexus-replaced-").tempdir()?;
        let at = |name: &str| folder.path().join(name).display().to_string();
        let rows = "\"$HOME\"/.claude/projects/*/*.jsonl";
        let script = format!(
            "#!/bin/sh\n\
             if test \"$1\" = --version; then\n\
               if test -e {old}; then echo '2.1.100 (Claude Code)'; exit 0; fi\n\
             else\n\
               if test -e {forget}; then sed -i /hook_deferred_tool/d {rows}; fi\n\
               if test -e {tamper}; then sed -i s/RAN/TAMPERED/g {rows}; fi\n\
             fi\n\
             exec {cli} \"$@\"\n",
            old = at("old"),
            forget = at("forget"),
            tamper = at("tamper"),
            cli = cli.display(),
        );
        // Written by another process: no child of ours can hold it open while it is started.
        let line = "printf %s \"$2\" > \"$1\" && chmod 755 \"$1\"";
        let status = Command::new("sh")
            .args(["-c", line, "sh"])
            .arg(folder.path().join("claude"))
            .arg(script)
            .status()?;
        ensure!(status.success(), "the script could not be written");
        Ok(Self { folder })
    }

    fn cli(&self) -> PathBuf {
        self.folder.path().join("claude")
    }

    fn now(&self, how: &str) -> Result<()> {
        Ok(std::fs::write(self.folder.path().join(how), "")?)
    }
}

impl Stage {
    /// Allows the call of a parked agent, and returns how its chat ended and what it was told.
    async fn allowed(&self, session: &str, chat: u64, approval: &Value) -> (String, String) {
        self.world.respond(approval, true).await;
        let status = self.world.wait_for_end(session, chat).await;
        (status, json!(self.world.events(session, chat).await).to_string())
    }

    /// Allows the call of a parked agent, which then must not run, and whose chat says why.
    async fn runs_nothing(&self, session: &str, chat: u64, approval: &Value, words: &str) {
        let (status, told) = self.allowed(session, chat, approval).await;
        assert_eq!(status, "failed", "{told}");
        assert!(told.contains(words), "{told}");
        assert_eq!(self.runs_of_the_command(), 0, "it ran: {told}");
        assert_eq!(self.world.processes(), []);
    }
}

pub(crate) async fn an_api_that_is_down_after_the_call_runs_it_once(cli: PathBuf) -> Result<()> {
    let stage = stage(cli).await?;
    let session = stage.session("api down").await;
    let down = Step::text("never").failing(Failure::Status(500));
    let chat = stage.world.chat(&session, &prompt(&[Step::bash(RUN), down])).await;
    let approval = stage.until_parked(&session).await;
    let (status, told) = stage.allowed(&session, chat, &approval).await;
    assert_eq!((status.as_str(), stage.runs_of_the_command()), ("failed", 1), "{told}");
    // The next prompt goes on, and nothing is asked again.
    let next = stage.world.chat_to_end(&session, &prompt(&[Step::text("again")])).await;
    assert_eq!(crate::common::texts(&next), ["again"]);
    assert_eq!(stage.runs_of_the_command(), 1);
    Ok(())
}

pub(crate) async fn a_truncated_transcript_wakes_nothing(cli: PathBuf) -> Result<()> {
    let stage = stage(cli).await?;
    let session = stage.session("truncated").await;
    let (chat, approval) = stage.parked(&session, RUN).await;
    let text = std::fs::read(stage.transcript())?;
    std::fs::write(stage.transcript(), &text[..text.len() / 2])?;
    stage.runs_nothing(&session, chat, &approval, "was changed after it was parked").await;
    Ok(())
}

pub(crate) async fn a_transcript_that_is_gone_with_its_copy_wakes_nothing(
    cli: PathBuf,
) -> Result<()> {
    let stage = stage(cli).await?;
    let session = stage.session("gone").await;
    let (chat, approval) = stage.parked(&session, RUN).await;
    std::fs::remove_dir_all(stage.sandbox.home().join(".claude"))?;
    std::fs::remove_dir_all(stage.world.data().join("parked"))?;
    stage.runs_nothing(&session, chat, &approval, "is gone, and so is our copy").await;
    Ok(())
}

pub(crate) async fn a_torn_mark_is_written_anew(cli: PathBuf) -> Result<()> {
    let stage = stage(cli).await?;
    let session = stage.session("torn").await;
    let (chat, approval) = stage.parked(&session, RUN).await;
    let mut text = std::fs::read_to_string(stage.transcript())?;
    // The beginning of every mark.
    text.push_str("{\"parentUuid\":");
    std::fs::write(stage.transcript(), text)?;
    let (status, told) = stage.allowed(&session, chat, &approval).await;
    assert_eq!((status.as_str(), stage.runs_of_the_command()), ("complete", 1), "{told}");
    Ok(())
}

pub(crate) async fn a_transcript_of_forty_days_that_another_cli_swept_is_put_back(
    cli: PathBuf,
) -> Result<()> {
    let stage = stage(cli).await?;
    let session = stage.session("old").await;
    let (chat, approval) = stage.parked(&session, RUN).await;
    let path = stage.transcript();
    std::fs::File::options()
        .append(true)
        .open(&path)?
        .set_modified(SystemTime::now() - FORTY_DAYS)?;
    // Any start of the CLI in the same home sweeps.
    let other = stage.session("sweeper").await;
    let stays = prompt(&[Step::text("here").after_ms(60_000)]);
    stage.world.chat(&other, &stays).await;
    eventually_async("the old transcript is swept", PATIENCE, async || {
        (!path.exists()).then_some(())
    })
    .await;
    let (status, told) = stage.allowed(&session, chat, &approval).await;
    assert_eq!((status.as_str(), stage.runs_of_the_command()), ("complete", 1), "{told}");
    stage.world.ok("claudecode.cancel", json!({"session_id": other})).await;
    stage.world.end_children().await;
    Ok(())
}

pub(crate) async fn a_machine_that_dies_before_the_transcript_is_written_fails_the_chat(
    cli: PathBuf,
) -> Result<()> {
    let hour = Duration::from_secs(3_600);
    let stage = Stage::new(cli, |settings| settings.park_after = Some(hour)).await?;
    let session = stage.session("early").await;
    let text = prompt(&[Step::bash(RUN), Step::text("done")]);
    let chat = stage.world.chat(&session, &text).await;
    stage.world.wait_for_approval(&session).await;
    eventually_async("the CLI has its home", PATIENCE, async || {
        stage.transcript().exists().then_some(())
    })
    .await;
    std::fs::remove_dir_all(stage.sandbox.home().join(".claude").join("projects"))?;
    let stage = stage.rebooted("another boot").await;
    assert_eq!(stage.world.wait_for_end(&session, chat).await, "failed");
    let events = stage.world.events(&session, chat).await;
    let words = events.last().unwrap()["message"].to_string();
    assert!(words.contains("could not be parked"), "{words}");
    assert_eq!(stage.runs_of_the_command(), 0);
    Ok(())
}

pub(crate) async fn a_woken_cli_that_asks_nothing_is_ended_and_parks_no_other(
    cli: PathBuf,
) -> Result<()> {
    let replaced = Replaced::new(&cli)?;
    let stage = stage(replaced.cli()).await?;
    let session = stage.session("forgets").await;
    let (chat, approval) = stage.parked(&session, RUN).await;
    let stage = stage.restarted_with(|settings| settings.handshake = ASKS_WITHIN).await;
    replaced.now("forget")?;
    stage.runs_nothing(&session, chat, &approval, "did not ask again within").await;
    Ok(())
}

pub(crate) async fn a_cli_that_was_replaced_by_an_older_one_is_not_woken(
    cli: PathBuf,
) -> Result<()> {
    let replaced = Replaced::new(&cli)?;
    let stage = stage(replaced.cli()).await?;
    let session = stage.session("replaced").await;
    let (chat, approval) = stage.parked(&session, RUN).await;
    replaced.now("old")?;
    let words = "claude 2.1.100 is not known to ask again";
    stage.runs_nothing(&session, chat, &approval, words).await;
    Ok(())
}

pub(crate) async fn an_answer_for_an_input_that_changed_runs_nothing(cli: PathBuf) -> Result<()> {
    let replaced = Replaced::new(&cli)?;
    let stage = stage(replaced.cli()).await?;
    let session = stage.session("tampered").await;
    let (chat, approval) = stage.parked(&session, RUN).await;
    replaced.now("tamper")?;
    let (_, told) = stage.allowed(&session, chat, &approval).await;
    assert!(told.contains("another input than the one that was decided"), "{told}");
    assert_eq!(stage.runs_of_the_command(), 0);
    Ok(())
}

pub(crate) async fn a_directory_that_moved_wakes_nothing(cli: PathBuf) -> Result<()> {
    let stage = stage(cli).await?;
    let session = stage.session("moved").await;
    let (chat, approval) = stage.parked(&session, RUN).await;
    std::fs::rename(stage.sandbox.work(), stage.sandbox.outside("moved"))?;
    stage.runs_nothing(&session, chat, &approval, "is no longer the directory that it was").await;
    // Another one at the same path is another one.
    let (chat, approval) = {
        std::fs::rename(stage.sandbox.outside("moved"), stage.sandbox.work())?;
        stage.parked(&session, RUN).await
    };
    std::fs::rename(stage.sandbox.work(), stage.sandbox.outside("moved"))?;
    std::fs::create_dir(stage.sandbox.work())?;
    stage.runs_nothing(&session, chat, &approval, "is no longer the directory that it was").await;
    assert!(!stage.sandbox.outside("moved").join("log.txt").exists());
    Ok(())
}
