//! Codex started before its first chat.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use plexus_engine::settings::Prestart;
use testkit::responses_api::{Step, prompt};
use testkit::wait::{PATIENCE, eventually_async};

use crate::common::texts;
use crate::hub_with_codex::HubWithCodex;

/// How long Codex is left to itself: some chats come before its handshake is over, some after it.
const PAUSES: [Duration; 3] = [Duration::ZERO, Duration::from_millis(300), Duration::from_secs(5)];

pub(crate) async fn the_first_chat_has_the_process_that_waited(cli: PathBuf) -> Result<()> {
    let setup = HubWithCodex::new(cli, |settings| settings.prestart = Prestart::On).await?;
    for (n, pause) in PAUSES.into_iter().enumerate() {
        let session = setup.session(&format!("early-{n}")).await;
        let dir = plexus_shim::layout::RunDir::new(setup.hub.run_dir(&session, 0));
        let pid = async || dir.read_pid().ok().flatten().map(|pids| pids.child_pid);
        let pid = eventually_async("a process that waits", PATIENCE, pid).await;
        tokio::time::sleep(pause).await;
        let (steps, file) = ([Step::shell("echo ran >> a.txt"), Step::text("done")], "a.txt");
        let chat = setup.hub.chat(&session, &prompt(&steps)).await;
        setup.hub.allow_next(&session).await;
        assert_eq!(setup.hub.wait_for_end(&session, chat).await, "complete");
        let events = setup.hub.events(&session, chat).await;
        assert_eq!(texts(&events), ["done"], "the prompt was sent once");
        assert_eq!(setup.file(file).map(|ran| ran.lines().count()), Some(n + 1));
        let now = i32::try_from(setup.hub.pids(&session, 0).1)?;
        assert_eq!((setup.hub.runs(&session).await, now), (1, pid));
    }
    Ok(())
}

pub(crate) async fn one_that_never_had_a_chat_leaves_nothing_to_resume(cli: PathBuf) -> Result<()> {
    let setup = HubWithCodex::new(cli, |settings| settings.prestart = Prestart::On).await?;
    let session = setup.session("early").await;
    let dir = plexus_shim::layout::RunDir::new(setup.hub.run_dir(&session, 0));
    let pid = async || dir.read_pid().ok().flatten();
    eventually_async("a process that waits", PATIENCE, pid).await;
    tokio::time::sleep(PAUSES[2]).await;
    testkit::process::kill(setup.hub.pids(&session, 0).1);
    let gone = async || (setup.hub.children() == 0).then_some(());
    eventually_async("its end", PATIENCE, gone).await;
    let events = setup.hub.chat_to_end(&session, &prompt(&[Step::text("a new one")])).await;
    assert_eq!(texts(&events), ["a new one"]);
    Ok(())
}
