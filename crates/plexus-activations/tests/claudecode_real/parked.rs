//! Parking with the real CLI: nothing runs twice or unasked. Every command of these cases appends
//! to a file, so that its runs can be counted.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use plexus_engine::Settings;
use serde_json::{Value, json};
use testkit::messages_api::{PLAN_FILE, Step, prompt};
use testkit::wait::{PATIENCE, eventually_async};

use crate::hub_with_claude::HubWithClaude;

/// A command whose runs can be counted.
pub(crate) const RUN: &str = "echo RAN >> log.txt";

/// A hub that parks as soon as it can.
pub(crate) async fn setup(cli: PathBuf) -> Result<HubWithClaude> {
    HubWithClaude::new(cli, |settings| settings.park_after = Some(Duration::from_millis(1))).await
}

impl HubWithClaude {
    pub(crate) fn runs_of_the_command(&self) -> usize {
        let log = std::fs::read_to_string(self.sandbox.work().join("log.txt")).unwrap_or_default();
        log.lines().count()
    }

    /// Starts a chat that asks about a command, and waits until its agent has no process.
    pub(crate) async fn parked(&self, session: &str, command: &str) -> (u64, Value) {
        let text = prompt(&[Step::bash(command), Step::text("done")]);
        let chat = self.hub.chat(session, &text).await;
        let approval = self.hub.wait_for_approval(session).await;
        self.until_parked(session).await;
        (chat, approval)
    }

    /// The only transcript in the home of the agent.
    pub(crate) fn transcript(&self) -> PathBuf {
        let projects = self.sandbox.home().join(".claude").join("projects");
        let folders = std::fs::read_dir(projects).into_iter().flatten().flatten();
        let mut files = folders.flat_map(|it| std::fs::read_dir(it.path()).into_iter().flatten());
        let is_transcript = |path: &PathBuf| path.extension().is_some_and(|end| end == "jsonl");
        let found = files.find_map(|file| file.ok().map(|it| it.path()).filter(is_transcript));
        found.unwrap_or_default()
    }

    /// The same hub after a restart of the machine: no process, no run directory and no temporary
    /// file is left.
    pub(crate) async fn rebooted(self, boot: &str) -> Self {
        let Self { hub, sandbox, api } = self;
        let processes = hub.processes();
        let mut down = hub.down().await;
        processes.iter().for_each(|process| testkit::process::kill(process.pid));
        std::fs::remove_dir_all(down.data().join("runs")).unwrap();
        std::fs::remove_dir_all(sandbox.outside("tmp")).unwrap();
        std::fs::create_dir(sandbox.outside("tmp")).unwrap();
        if boot != "the same boot" {
            down.change(|settings| settings.boot = Some(boot.to_owned()));
        }
        let (hub, _) = down.up().await;
        Self { hub, sandbox, api }
    }

    /// The same hub after a restart, with other settings.
    pub(crate) async fn restarted_with(self, change: impl FnOnce(&mut Settings)) -> Self {
        let Self { hub, sandbox, api } = self;
        let mut down = hub.down().await;
        down.change(change);
        let (hub, _) = down.up().await;
        Self { hub, sandbox, api }
    }

    pub(crate) async fn until_parked(&self, session: &str) -> Value {
        eventually_async("the agent is parked", PATIENCE, async || {
            let pending = self.hub.ok("loopback.pending", json!({})).await;
            let all = pending["approvals"].as_array().cloned().unwrap_or_default();
            all.into_iter().find(|it| it["session_id"] == session && it["parked"] == json!(true))
        })
        .await
    }
}

pub(crate) async fn a_parked_call_runs_once_when_it_is_allowed(cli: PathBuf) -> Result<()> {
    let setup = setup(cli).await?;
    let session = setup.session("allowed").await;
    let (chat, approval) = setup.parked(&session, RUN).await;
    assert_eq!(setup.hub.processes(), []);
    assert_eq!(setup.runs_of_the_command(), 0);
    let status = setup.hub.session(&session).await;
    assert_eq!(
        (&status["status"], &status["parked"]),
        (&json!("awaiting_permission"), &json!(true))
    );
    setup.hub.respond(&approval, true).await;
    assert_eq!(setup.hub.wait_for_end(&session, chat).await, "complete");
    assert_eq!(setup.runs_of_the_command(), 1);
    assert_eq!(setup.hub.runs(&session).await, 2);
    // The conversation goes on as any other.
    let next = setup.hub.chat_to_end(&session, &prompt(&[Step::text("again")])).await;
    assert_eq!(crate::common::texts(&next), ["again"]);
    assert_eq!(setup.runs_of_the_command(), 1);
    setup.hub.end_children().await;
    assert_eq!(setup.hub.processes(), []);
    Ok(())
}

pub(crate) async fn a_parked_call_that_is_denied_never_runs(cli: PathBuf) -> Result<()> {
    let setup = setup(cli).await?;
    let session = setup.session("denied").await;
    let (chat, approval) = setup.parked(&session, RUN).await;
    let answer =
        json!({"approval_id": approval["id"], "approve": false, "message": "not at night"});
    setup.hub.ok("loopback.respond", answer).await;
    assert_eq!(setup.hub.wait_for_end(&session, chat).await, "complete");
    let events = setup.hub.events(&session, chat).await;
    let result = events.iter().find(|event| event["type"] == "tool_result").unwrap();
    assert_eq!(result["output"], json!("not at night"));
    assert_eq!(setup.runs_of_the_command(), 0);
    Ok(())
}

pub(crate) async fn a_parked_call_runs_as_it_was_edited(cli: PathBuf) -> Result<()> {
    let setup = setup(cli).await?;
    let session = setup.session("edited").await;
    let (chat, approval) = setup.parked(&session, "echo no >> log.txt; echo no >> log.txt").await;
    let mut edited = approval["input"].clone();
    edited["command"] = json!(RUN);
    let answer = json!({"approval_id": approval["id"], "approve": true, "updated_input": edited});
    setup.hub.ok("loopback.respond", answer).await;
    assert_eq!(setup.hub.wait_for_end(&session, chat).await, "complete");
    assert_eq!(setup.runs_of_the_command(), 1);
    Ok(())
}

/// Ends every process of the hub without asking, as a machine does that loses its power.
fn kill_all(setup: &HubWithClaude) {
    for process in setup.hub.processes() {
        testkit::process::kill(process.pid);
    }
}

pub(crate) async fn a_woken_call_that_may_have_run_is_not_run_again(cli: PathBuf) -> Result<()> {
    let setup = setup(cli).await?;
    let session = setup.session("killed").await;
    let (chat, approval) = setup.parked(&session, &format!("{RUN}; sleep 3600")).await;
    setup.hub.respond(&approval, true).await;
    eventually_async("the command runs", PATIENCE, async || {
        (setup.runs_of_the_command() > 0).then_some(())
    })
    .await;
    kill_all(&setup);
    // It is woken again, asks again, and reads why it may not.
    assert_eq!(setup.hub.wait_for_end(&session, chat).await, "complete");
    let events = setup.hub.events(&session, chat).await;
    let result = events.iter().find(|event| event["type"] == "tool_result").unwrap();
    assert!(result["output"].to_string().contains("it may have run"), "{result}");
    assert_eq!(setup.runs_of_the_command(), 1);
    // Nor does the next chat run it.
    setup.hub.chat_to_end(&session, &prompt(&[Step::text("again")])).await;
    assert_eq!(setup.runs_of_the_command(), 1);
    Ok(())
}

pub(crate) async fn a_woken_call_that_was_cancelled_is_forgotten(cli: PathBuf) -> Result<()> {
    let setup = setup(cli).await?;
    let session = setup.session("cancelled in its call").await;
    let (chat, approval) = setup.parked(&session, &format!("{RUN}; sleep 3600")).await;
    setup.hub.respond(&approval, true).await;
    eventually_async("the command runs", PATIENCE, async || {
        (setup.runs_of_the_command() > 0).then_some(())
    })
    .await;
    // The wish to end it is stored before its processes die.
    setup.hub.ok("claudecode.cancel", json!({"session_id": session})).await;
    kill_all(&setup);
    assert_eq!(setup.hub.wait_for_end(&session, chat).await, "cancelled");
    let next = setup.hub.chat_to_end(&session, &prompt(&[Step::text("again")])).await;
    assert_eq!(crate::common::texts(&next), ["again"]);
    assert_eq!(setup.runs_of_the_command(), 1);
    Ok(())
}

pub(crate) async fn a_parked_chat_that_is_cancelled_runs_nothing(cli: PathBuf) -> Result<()> {
    let setup = setup(cli).await?;
    let session = setup.session("cancelled").await;
    let (chat, approval) = setup.parked(&session, RUN).await;
    let sent = json!({"session_id": session, "text": "hurry"});
    let error = setup.hub.call("claudecode.send", sent).await.unwrap_err();
    assert!(error.message.contains("the agent is parked"), "{error:?}");
    setup.hub.ok("claudecode.cancel", json!({"session_id": session})).await;
    assert_eq!(setup.hub.wait_for_end(&session, chat).await, "cancelled");
    let answer = json!({"approval_id": approval["id"], "approve": true});
    let error = setup.hub.call("loopback.respond", answer).await.unwrap_err();
    assert_eq!(error.kind, plexus_core::ErrorKind::Conflict, "{error:?}");
    let next = setup.hub.chat_to_end(&session, &prompt(&[Step::text("again")])).await;
    assert_eq!(crate::common::texts(&next), ["again"]);
    assert_eq!(setup.runs_of_the_command(), 0);
    Ok(())
}

pub(crate) async fn a_parked_call_that_expires_is_denied(cli: PathBuf) -> Result<()> {
    let setup = setup(cli).await?;
    let session = setup.session_with("expired", json!({"loopback_timeout_secs": 10})).await;
    let text = prompt(&[Step::bash(RUN), Step::text("done")]);
    let chat = setup.hub.chat(&session, &text).await;
    assert_eq!(setup.hub.wait_for_end(&session, chat).await, "complete");
    let events = setup.hub.events(&session, chat).await;
    let result = events.iter().find(|event| event["type"] == "tool_result").unwrap();
    assert!(result["output"].to_string().contains("nobody answered"), "{result}");
    assert_eq!(setup.runs_of_the_command(), 0);
    Ok(())
}

pub(crate) async fn a_transcript_that_was_changed_wakes_nothing(cli: PathBuf) -> Result<()> {
    let setup = setup(cli).await?;
    let session = setup.session("changed").await;
    let (chat, approval) = setup.parked(&session, RUN).await;
    let path = setup.transcript();
    let text = std::fs::read_to_string(&path)?;
    std::fs::write(&path, text.replace("RAN", "RAN; echo RAN"))?;
    setup.hub.respond(&approval, true).await;
    assert_eq!(setup.hub.wait_for_end(&session, chat).await, "failed");
    let events = setup.hub.events(&session, chat).await;
    let words = events.last().unwrap()["message"].to_string();
    assert!(words.contains("was changed after it was parked"), "{words}");
    assert_eq!(setup.runs_of_the_command(), 0);
    Ok(())
}

pub(crate) async fn a_transcript_that_was_swept_is_put_back(cli: PathBuf) -> Result<()> {
    let setup = setup(cli).await?;
    let session = setup.session("swept").await;
    let (chat, approval) = setup.parked(&session, RUN).await;
    std::fs::remove_dir_all(setup.sandbox.home().join(".claude"))?;
    setup.hub.respond(&approval, true).await;
    assert_eq!(setup.hub.wait_for_end(&session, chat).await, "complete");
    assert_eq!(setup.runs_of_the_command(), 1);
    Ok(())
}

pub(crate) async fn a_parked_question_is_answered(cli: PathBuf) -> Result<()> {
    let setup = setup(cli).await?;
    let session = setup.session("question").await;
    let question = json!({"questions": [{"question": "Which?", "header": "W", "multiSelect": false,
        "options": [{"label": "One", "description": "1"}, {"label": "Two", "description": "2"}]}]});
    let text = prompt(&[Step::tool("AskUserQuestion", question), Step::text("done")]);
    let chat = setup.hub.chat(&session, &text).await;
    let approval = setup.hub.wait_for_approval(&session).await;
    setup.until_parked(&session).await;
    let answers = json!({"Which?": ["Two"]});
    let answer = json!({"approval_id": approval["id"], "approve": true, "answers": answers});
    setup.hub.ok("loopback.respond", answer).await;
    assert_eq!(setup.hub.wait_for_end(&session, chat).await, "complete");
    let events = setup.hub.events(&session, chat).await;
    let result = events.iter().find(|event| event["type"] == "tool_result").unwrap();
    assert!(result["output"].to_string().contains("Two"), "{result}");
    Ok(())
}

pub(crate) async fn a_parked_plan_is_sent_back_and_then_approved(cli: PathBuf) -> Result<()> {
    let setup = setup(cli).await?;
    let session = setup.session("plan").await;
    let steps = [
        Step::tool("EnterPlanMode", json!({})),
        Step::tool("Write", json!({"file_path": PLAN_FILE, "content": "# First"})),
        Step::tool("ExitPlanMode", json!({})),
        Step::tool("ExitPlanMode", json!({})),
        Step::bash(RUN),
        Step::text("done"),
    ];
    let chat = setup.hub.chat(&session, &prompt(&steps)).await;
    for approve in [false, true, true] {
        let parked = setup.until_parked(&session).await;
        assert_eq!(setup.runs_of_the_command(), 0);
        setup.hub.respond(&parked, approve).await;
    }
    assert_eq!(setup.hub.wait_for_end(&session, chat).await, "complete");
    let events = setup.hub.events(&session, chat).await;
    let told = serde_json::to_string(&events)?;
    assert!(told.contains("approved your plan") || told.contains("approved exiting"), "{told}");
    assert_eq!(setup.runs_of_the_command(), 1);
    // Each question had a process of its own.
    assert_eq!(setup.hub.runs(&session).await, 4);
    Ok(())
}

pub(crate) async fn a_parked_agent_survives_a_restart_of_the_server(cli: PathBuf) -> Result<()> {
    let setup = setup(cli).await?;
    let session = setup.session("restarted").await;
    let (chat, approval) = setup.parked(&session, RUN).await;
    let setup = setup.rebooted("the same boot").await;
    setup.until_parked(&session).await;
    setup.hub.respond(&approval, true).await;
    assert_eq!(setup.hub.wait_for_end(&session, chat).await, "complete");
    assert_eq!(setup.runs_of_the_command(), 1);
    Ok(())
}

/// A person's day: asked in the evening, the machine restarts at night, answered in the morning.
pub(crate) async fn an_agent_that_waited_when_the_machine_died_is_parked(
    cli: PathBuf,
) -> Result<()> {
    // Parking is on, and the machine dies long before the time for it.
    let hour = Duration::from_secs(3_600);
    let setup = HubWithClaude::new(cli, |settings| settings.park_after = Some(hour)).await?;
    let session = setup.session("rebooted").await;
    let text = prompt(&[Step::bash(RUN), Step::text("done")]);
    let chat = setup.hub.chat(&session, &text).await;
    let approval = setup.hub.wait_for_approval(&session).await;
    // The CLI writes its transcript a moment after it asks, in several writes.
    let mut before = String::new();
    eventually_async("the call is in the transcript", PATIENCE, || {
        let text = std::fs::read_to_string(setup.transcript()).unwrap_or_default();
        let has_call = text.contains(approval["tool_use_id"].as_str().unwrap());
        let is_written = has_call && text.ends_with('\n') && text == before;
        before = text;
        std::future::ready(is_written.then_some(()))
    })
    .await;
    let setup = setup.rebooted("another boot").await;
    setup.until_parked(&session).await;
    assert_eq!((setup.hub.processes(), setup.runs_of_the_command()), (vec![], 0));
    setup.hub.respond(&approval, true).await;
    assert_eq!(setup.hub.wait_for_end(&session, chat).await, "complete");
    assert_eq!(setup.runs_of_the_command(), 1);
    Ok(())
}

pub(crate) async fn an_agent_that_worked_when_the_machine_died_has_failed(
    cli: PathBuf,
) -> Result<()> {
    let hour = Duration::from_secs(3_600);
    let setup = HubWithClaude::new(cli, |settings| settings.park_after = Some(hour)).await?;
    let session = setup.session("worked").await;
    let text = prompt(&[Step::bash(&format!("{RUN}; sleep 3600")), Step::text("done")]);
    let chat = setup.hub.chat(&session, &text).await;
    setup.hub.allow_next(&session).await;
    eventually_async("the command runs", PATIENCE, async || {
        (setup.runs_of_the_command() > 0).then_some(())
    })
    .await;
    let setup = setup.rebooted("another boot").await;
    assert_eq!(setup.hub.wait_for_end(&session, chat).await, "failed");
    let events = setup.hub.events(&session, chat).await;
    let words = events.last().unwrap()["message"].to_string();
    assert!(words.contains("ended with its machine"), "{words}");
    assert_eq!(setup.runs_of_the_command(), 1);
    Ok(())
}
