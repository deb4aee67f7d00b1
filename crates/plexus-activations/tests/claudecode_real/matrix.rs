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

use crate::hub_with_claude::HubWithClaude;
use crate::parked::{RUN, setup};

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

impl HubWithClaude {
    /// Allows the call of a parked agent, and returns how its chat ended and what it was told.
    async fn allowed(&self, session: &str, chat: u64, approval: &Value) -> (String, String) {
        self.hub.respond(approval, true).await;
        let status = self.hub.wait_for_end(session, chat).await;
        (status, json!(self.hub.events(session, chat).await).to_string())
    }

    /// Allows the call of a parked agent, which then must not run, and whose chat says why.
    async fn runs_nothing(&self, session: &str, chat: u64, approval: &Value, words: &str) {
        let (status, told) = self.allowed(session, chat, approval).await;
        assert_eq!(status, "failed", "{told}");
        assert!(told.contains(words), "{told}");
        assert_eq!(self.runs_of_the_command(), 0, "it ran: {told}");
        assert_eq!(self.hub.processes(), []);
    }
}

pub(crate) async fn an_api_that_is_down_after_the_call_runs_it_once(cli: PathBuf) -> Result<()> {
    let setup = setup(cli).await?;
    let session = setup.session("api down").await;
    let down = Step::text("never").failing(Failure::Status(500));
    let chat = setup.hub.chat(&session, &prompt(&[Step::bash(RUN), down])).await;
    let approval = setup.until_parked(&session).await;
    let (status, told) = setup.allowed(&session, chat, &approval).await;
    assert_eq!((status.as_str(), setup.runs_of_the_command()), ("failed", 1), "{told}");
    // The next prompt goes on, and nothing is asked again.
    let next = setup.hub.chat_to_end(&session, &prompt(&[Step::text("again")])).await;
    assert_eq!(crate::common::texts(&next), ["again"]);
    assert_eq!(setup.runs_of_the_command(), 1);
    Ok(())
}

pub(crate) async fn a_truncated_transcript_wakes_nothing(cli: PathBuf) -> Result<()> {
    let setup = setup(cli).await?;
    let session = setup.session("truncated").await;
    let (chat, approval) = setup.parked(&session, RUN).await;
    let text = std::fs::read(setup.transcript())?;
    std::fs::write(setup.transcript(), &text[..text.len() / 2])?;
    setup.runs_nothing(&session, chat, &approval, "was changed after it was parked").await;
    Ok(())
}

pub(crate) async fn a_transcript_that_is_gone_with_its_copy_wakes_nothing(
    cli: PathBuf,
) -> Result<()> {
    let setup = setup(cli).await?;
    let session = setup.session("gone").await;
    let (chat, approval) = setup.parked(&session, RUN).await;
    std::fs::remove_dir_all(setup.sandbox.home().join(".claude"))?;
    std::fs::remove_dir_all(setup.hub.data().join("parked"))?;
    setup.runs_nothing(&session, chat, &approval, "is gone, and so is our copy").await;
    Ok(())
}

pub(crate) async fn a_torn_mark_is_written_anew(cli: PathBuf) -> Result<()> {
    let setup = setup(cli).await?;
    let session = setup.session("torn").await;
    let (chat, approval) = setup.parked(&session, RUN).await;
    let mut text = std::fs::read_to_string(setup.transcript())?;
    // The beginning of every mark.
    text.push_str("{\"parentUuid\":");
    std::fs::write(setup.transcript(), text)?;
    let (status, told) = setup.allowed(&session, chat, &approval).await;
    assert_eq!((status.as_str(), setup.runs_of_the_command()), ("complete", 1), "{told}");
    Ok(())
}

pub(crate) async fn a_transcript_of_forty_days_that_another_cli_swept_is_put_back(
    cli: PathBuf,
) -> Result<()> {
    let setup = setup(cli).await?;
    let session = setup.session("old").await;
    let (chat, approval) = setup.parked(&session, RUN).await;
    let path = setup.transcript();
    std::fs::File::options()
        .append(true)
        .open(&path)?
        .set_modified(SystemTime::now() - FORTY_DAYS)?;
    // Any start of the CLI in the same home sweeps.
    let other = setup.session("sweeper").await;
    let stays = prompt(&[Step::text("here").after_ms(60_000)]);
    setup.hub.chat(&other, &stays).await;
    eventually_async("the old transcript is swept", PATIENCE, async || {
        (!path.exists()).then_some(())
    })
    .await;
    let (status, told) = setup.allowed(&session, chat, &approval).await;
    assert_eq!((status.as_str(), setup.runs_of_the_command()), ("complete", 1), "{told}");
    setup.hub.ok("claudecode.cancel", json!({"session_id": other})).await;
    setup.hub.end_children().await;
    Ok(())
}

pub(crate) async fn a_machine_that_dies_before_the_transcript_is_written_fails_the_chat(
    cli: PathBuf,
) -> Result<()> {
    let hour = Duration::from_secs(3_600);
    let setup = HubWithClaude::new(cli, |settings| settings.park_after = Some(hour)).await?;
    let session = setup.session("early").await;
    let text = prompt(&[Step::bash(RUN), Step::text("done")]);
    let chat = setup.hub.chat(&session, &text).await;
    setup.hub.wait_for_approval(&session).await;
    // Until the call is in it the CLI goes on writing, and would make the folder again.
    eventually_async("the call in the transcript", PATIENCE, async || {
        let written = std::fs::read_to_string(setup.transcript()).ok()?;
        written.contains("toolu_").then_some(())
    })
    .await;
    std::fs::remove_dir_all(setup.sandbox.home().join(".claude").join("projects"))?;
    let setup = setup.rebooted("another boot").await;
    assert_eq!(setup.hub.wait_for_end(&session, chat).await, "failed");
    let events = setup.hub.events(&session, chat).await;
    let words = events.last().unwrap()["message"].to_string();
    assert!(words.contains("could not be parked"), "{words}");
    assert_eq!(setup.runs_of_the_command(), 0);
    Ok(())
}

pub(crate) async fn a_woken_cli_that_asks_nothing_is_ended_and_parks_no_other(
    cli: PathBuf,
) -> Result<()> {
    let replaced = Replaced::new(&cli)?;
    let setup = setup(replaced.cli()).await?;
    let session = setup.session("forgets").await;
    let (chat, approval) = setup.parked(&session, RUN).await;
    let setup = setup.restarted_with(|settings| settings.handshake = ASKS_WITHIN).await;
    replaced.now("forget")?;
    setup.runs_nothing(&session, chat, &approval, "did not ask again within").await;
    Ok(())
}

pub(crate) async fn a_cli_that_was_replaced_by_an_older_one_is_not_woken(
    cli: PathBuf,
) -> Result<()> {
    let replaced = Replaced::new(&cli)?;
    let setup = setup(replaced.cli()).await?;
    let session = setup.session("replaced").await;
    let (chat, approval) = setup.parked(&session, RUN).await;
    replaced.now("old")?;
    let words = "claude 2.1.100 is not known to ask again";
    setup.runs_nothing(&session, chat, &approval, words).await;
    Ok(())
}

pub(crate) async fn an_answer_for_an_input_that_changed_runs_nothing(cli: PathBuf) -> Result<()> {
    let replaced = Replaced::new(&cli)?;
    let setup = setup(replaced.cli()).await?;
    let session = setup.session("tampered").await;
    let (chat, approval) = setup.parked(&session, RUN).await;
    replaced.now("tamper")?;
    let (_, told) = setup.allowed(&session, chat, &approval).await;
    assert!(told.contains("another input than the one that was decided"), "{told}");
    assert_eq!(setup.runs_of_the_command(), 0);
    Ok(())
}

pub(crate) async fn a_directory_that_moved_wakes_nothing(cli: PathBuf) -> Result<()> {
    let setup = setup(cli).await?;
    let session = setup.session("moved").await;
    let (chat, approval) = setup.parked(&session, RUN).await;
    std::fs::rename(setup.sandbox.work(), setup.sandbox.outside("moved"))?;
    setup.runs_nothing(&session, chat, &approval, "is no longer the directory that it was").await;
    // Another one at the same path is another one.
    let (chat, approval) = {
        std::fs::rename(setup.sandbox.outside("moved"), setup.sandbox.work())?;
        setup.parked(&session, RUN).await
    };
    std::fs::rename(setup.sandbox.work(), setup.sandbox.outside("moved"))?;
    std::fs::create_dir(setup.sandbox.work())?;
    setup.runs_nothing(&session, chat, &approval, "is no longer the directory that it was").await;
    assert!(!setup.sandbox.outside("moved").join("log.txt").exists());
    Ok(())
}
