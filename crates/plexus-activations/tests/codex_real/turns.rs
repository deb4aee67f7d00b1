//! Warm turns, steering, interrupts, resuming, forking, failures, restarts.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value, json};
use testkit::responses_api::{Failure, Step, prompt};
use testkit::wait::{PATIENCE, eventually_async};

use crate::common::texts;
use crate::hub_with_codex::HubWithCodex;

/// Waits until something is there.
async fn until<T>(what: &str, look: impl Fn() -> Option<T>) -> T {
    eventually_async(what, PATIENCE, async || look()).await
}

/// How long a server is away in these tests.
const AWAY: Duration = Duration::from_secs(15);

pub(crate) async fn a_message_reaches_a_running_turn(cli: PathBuf) -> Result<()> {
    let setup = HubWithCodex::new(cli, |_| {}).await?;
    let session = setup.session("steered").await;
    let steps = [Step::shell("echo ran > a.txt"), Step::text("Done.")];
    let chat = setup.hub.chat(&session, &prompt(&steps)).await;
    let approval = setup.hub.wait_for_approval(&session).await;
    let message = json!({"session_id": session, "text": "words of the operator"});
    setup.hub.ok("agents.send", message).await;
    setup.hub.respond(&approval, true).await;
    assert_eq!(setup.hub.wait_for_end(&session, chat).await, "complete");
    assert!(setup.api.last_input().contains("words of the operator"));
    assert_eq!(setup.file("a.txt").as_deref(), Some("ran\n"));
    Ok(())
}

pub(crate) async fn an_interrupt_leaves_nothing_alive(cli: PathBuf) -> Result<()> {
    let setup = HubWithCodex::new(cli, |_| {}).await?;
    let session = setup.session("interrupted").await;
    // One of the two leaves the session of its command, which Codex itself would not end.
    let command = "setsid sleep 3601 & touch begun; sleep 3602";
    let chat = setup.hub.chat(&session, &prompt(&[Step::shell(command)])).await;
    setup.hub.allow_next(&session).await;
    until("the command", || setup.file("begun")).await;
    setup.hub.ok("agents.cancel", json!({"session_id": session})).await;
    assert_eq!(setup.hub.wait_for_end(&session, chat).await, "cancelled");
    let gone = || setup.hub.processes().is_empty().then_some(());
    until("the end of every process", gone).await;
    let next = setup.hub.chat_to_end(&session, &prompt(&[Step::text("still here")])).await;
    assert_eq!(texts(&next), ["still here"]);
    Ok(())
}

pub(crate) async fn a_chat_after_the_process_has_left_resumes_the_conversation(
    cli: PathBuf,
) -> Result<()> {
    let setup = HubWithCodex::new(cli, |settings| settings.max_warm = 0).await?;
    let session = setup.session("resumed").await;
    let first = setup.hub.chat_to_end(&session, &prompt(&[Step::text("words-of-one")])).await;
    let second = setup.hub.chat_to_end(&session, &prompt(&[Step::text("two")])).await;
    assert_eq!((texts(&first), texts(&second)), (vec!["words-of-one"], vec!["two"]));
    assert_eq!(setup.hub.runs(&session).await, 2);
    assert!(setup.api.last_input().contains("words-of-one"), "it remembers");
    let (first, second) = (first.last().unwrap(), second.last().unwrap());
    assert_eq!(first["claude_session_id"], second["claude_session_id"]);
    // The thread counts on through its processes; a chat is charged for itself.
    assert_eq!(first["usage"], second["usage"]);
    assert_eq!(second["usage"]["input_tokens"], 100);
    Ok(())
}

pub(crate) async fn a_fork_remembers_what_it_shows(cli: PathBuf) -> Result<()> {
    let setup = HubWithCodex::new(cli, |_| {}).await?;
    let session = setup.session("trunk").await;
    let first = setup.hub.chat_to_end(&session, &prompt(&[Step::text("words-of-one")])).await;
    setup.hub.chat_to_end(&session, &prompt(&[Step::text("words-of-two")])).await;
    let fork = async |name: &str, at: Value| {
        let forked = json!({"session_id": session, "new_name": name, "at": at});
        setup.hub.ok("agents.fork", forked).await["id"].as_str().unwrap().to_owned()
    };
    let after_one = fork("after one", first.last().unwrap()["new_head"]["node_id"].clone()).await;
    let after_two =
        fork("after two", setup.hub.session(&session).await["head"]["node_id"].clone()).await;
    // The process that is forked stays, and its conversation goes on before the forks begin.
    setup.hub.chat_to_end(&session, &prompt(&[Step::text("words-of-three")])).await;
    let all = ["words-of-one", "words-of-two", "words-of-three"];
    for (branch, known) in [(&after_one, 1), (&after_two, 2)] {
        let events = setup.hub.chat_to_end(branch, &prompt(&[Step::text("mine")])).await;
        assert_eq!(texts(&events), ["mine"]);
        let heard = setup.api.last_input();
        // The script of a prompt repeats the words: only what the model said counts.
        let said = |words: &&&str| heard.contains(&format!("\"text\":\"{words}\""));
        let remembered: Vec<_> = all.iter().filter(said).copied().collect();
        assert_eq!(remembered, all[..known], "{heard}");
        assert_eq!(events.last().unwrap()["usage"]["input_tokens"], 100);
    }
    Ok(())
}

pub(crate) async fn an_error_of_the_model_fails_the_chat_and_not_the_session(
    cli: PathBuf,
) -> Result<()> {
    let setup = HubWithCodex::new(cli, |_| {}).await?;
    let session = setup.session("errors").await;
    let failing = Step::default().failing(Failure::Status(401, "invalid_api_key".to_owned()));
    let chat = setup.hub.chat(&session, &prompt(&[failing])).await;
    assert_eq!(setup.hub.wait_for_end(&session, chat).await, "failed");
    let events = setup.hub.events(&session, chat).await;
    let error = events.last().unwrap()["message"].as_str().unwrap();
    assert!(error.contains("401"), "{error}");
    let next = setup.hub.chat_to_end(&session, &prompt(&[Step::text("better")])).await;
    assert_eq!(texts(&next), ["better"]);
    assert_eq!(setup.hub.runs(&session).await, 1);
    Ok(())
}

pub(crate) async fn a_killed_process_fails_its_chat_and_the_next_one_resumes(
    cli: PathBuf,
) -> Result<()> {
    let setup = HubWithCodex::new(cli, |_| {}).await?;
    let session = setup.session("killed").await;
    setup.hub.chat_to_end(&session, &prompt(&[Step::text("words-of-one")])).await;
    let steps = [Step::shell("echo ran >> a.txt"), Step::text("Done.")];
    let chat = setup.hub.chat(&session, &prompt(&steps)).await;
    let approval = setup.hub.wait_for_approval(&session).await;
    let (_, child) = setup.hub.pids(&session, 0);
    testkit::process::kill(child);
    assert_eq!(setup.hub.wait_for_end(&session, chat).await, "failed");
    let answer = json!({"approval_id": approval["id"], "approve": true});
    let late = setup.hub.call("loopback.respond", answer).await;
    assert!(late.is_err(), "nobody waits for an answer: {late:?}");
    let next = setup.hub.chat_to_end(&session, &prompt(&[Step::text("two")])).await;
    assert_eq!(texts(&next), ["two"]);
    assert!(setup.api.last_input().contains("words-of-one"), "it remembers");
    assert_eq!(setup.file("a.txt"), None, "what nobody answered did not run");
    Ok(())
}

pub(crate) async fn a_restart_while_it_asks_is_answered_once_and_runs_once(
    cli: PathBuf,
) -> Result<()> {
    let setup = HubWithCodex::new(cli, |_| {}).await?;
    let session = setup.session("asked").await;
    let steps = [Step::shell("echo ran >> a.txt"), Step::text("Done.")];
    let chat = setup.hub.chat(&session, &prompt(&steps)).await;
    let before = setup.hub.wait_for_approval(&session).await;
    let HubWithCodex { hub, sandbox, api } = setup;
    let down = hub.down().await;
    tokio::time::sleep(AWAY).await;
    let (hub, picked_up) = down.up().await;
    assert_eq!(picked_up, 1, "the child was not picked up");
    let setup = HubWithCodex { hub, sandbox, api };
    let after = setup.hub.wait_for_approval(&session).await;
    assert_eq!(before["id"], after["id"], "nobody is asked again");
    setup.hub.respond(&after, true).await;
    assert_eq!(setup.hub.wait_for_end(&session, chat).await, "complete");
    assert_eq!(setup.file("a.txt").as_deref(), Some("ran\n"));
    assert_eq!(setup.hub.runs(&session).await, 1);
    Ok(())
}

pub(crate) async fn a_restart_in_the_middle_of_an_answer_loses_nothing(cli: PathBuf) -> Result<()> {
    let setup = HubWithCodex::new(cli, |_| {}).await?;
    let session = setup.session("middle").await;
    let slow = Step::text("a text that comes in many small pieces").slowly(1, 50);
    let chat = setup.hub.chat(&session, &prompt(&[slow, Step::text("unused")])).await;
    let asked = || (!setup.api.requests().is_empty()).then_some(());
    until("the first call of the model", asked).await;
    let setup = setup.restart().await;
    assert_eq!(setup.hub.wait_for_end(&session, chat).await, "complete");
    let events = setup.hub.events(&session, chat).await;
    assert_eq!(texts(&events), ["a text that comes in many small pieces"]);
    assert_eq!(setup.api.requests().len(), 1, "the prompt was sent once");
    Ok(())
}
