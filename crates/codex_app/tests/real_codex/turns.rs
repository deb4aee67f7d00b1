//! Interrupts, resuming, forking, errors of the model, and the end.

use std::path::PathBuf;

use anyhow::{Context as _, Result, bail, ensure};
use codex_app::event::answer::{AccountState, ThreadPage};
use codex_app::event::thread::TurnStatus;
use codex_app::event::{ItemBody, Notification};
use codex_app::send::{AccountRead, ThreadFork, ThreadList, ThreadResume, TurnInterrupt};
use codex_app::{CallError, ClientRequest, Decision, ServerBody, ServerRequest};
use testkit::responses_api::{Failure, Step};

use crate::talk::{Setting, Talk, shown};

pub(crate) async fn text_comes_in_deltas_and_whole(cli: PathBuf) -> Result<()> {
    let setting = Setting::new(cli).await?;
    let mut talk = setting.talk().await?;
    talk.prompt(&[Step::text("one two three").reasoning("**Hm**").slowly(4, 1)])?;
    ensure!(talk.end_of_turn().await?.status == TurnStatus::Completed);
    let deltas: String = talk
        .lines
        .iter()
        .filter_map(|line| match &line.body {
            ServerBody::Notification(told) => match &**told {
                Notification::AgentMessageDelta(delta) => Some(delta.delta.to_string()),
                _ => None,
            },
            _ => None,
        })
        .collect();
    let whole = talk.completed().into_iter().find_map(|item| match item.body {
        ItemBody::AgentMessage(said) => Some(said.text.to_string()),
        _ => None,
    });
    ensure!(deltas == "one two three" && whole.as_deref() == Some("one two three"), "{deltas:?}");
    Ok(())
}

/// Starts a command that never ends, with a descendant that has left its session.
async fn running(setting: &Setting) -> Result<(Talk, String)> {
    let mut talk = setting.talk().await?;
    let command = "setsid sleep 3600 & echo > running; sleep 3600";
    talk.prompt(&[Step::shell(command), Step::text("never")])?;
    let (id, request) = talk.question().await?;
    let ServerRequest::CommandApproval(asked) = request else { bail!("asked {request:?}") };
    talk.decide(id, Decision::Accept)?;
    let runs = || std::future::ready(setting.file("running"));
    testkit::eventually_async("the command", testkit::wait::PATIENCE, runs).await;
    Ok((talk, asked.turn_id.to_string()))
}

pub(crate) async fn an_interrupt_leaves_nothing_alive_once_the_connection_is_gone(
    cli: PathBuf,
) -> Result<()> {
    let setting = Setting::new(cli).await?;
    let (mut talk, turn_id) = running(&setting).await?;
    let interrupt = TurnInterrupt { thread_id: talk.thread.clone(), turn_id, ..Default::default() };
    talk.server.request(ClientRequest::TurnInterrupt(interrupt))?;
    ensure!(talk.end_of_turn().await?.status == TurnStatus::Interrupted);
    // The interrupt ends a command only in its first moments, so the command is usually still alive
    // here.
    drop(talk);
    setting.nothing_lives().await;
    Ok(())
}

pub(crate) async fn the_end_of_the_input_ends_the_server_and_its_commands(
    cli: PathBuf,
) -> Result<()> {
    let setting = Setting::new(cli).await?;
    let (talk, _) = running(&setting).await?;
    ensure!(talk.server.close().await?.success());
    let left = testkit::process::marked(setting.sandbox.marker())?;
    ensure!(left.is_empty(), "these live on: {left:?}");
    Ok(())
}

fn resume(thread: &str) -> ClientRequest {
    ClientRequest::ThreadResume(ThreadResume {
        thread_id: thread.to_owned(),
        exclude_turns: Some(true),
        ..ThreadResume::default()
    })
}

pub(crate) async fn a_killed_server_is_resumed_with_its_turn_interrupted(
    cli: PathBuf,
) -> Result<()> {
    let setting = Setting::new(cli).await?;
    let mut talk = setting.talk().await?;
    talk.prompt(&[Step::shell("echo ran >> a.txt"), Step::text("Done.")])?;
    talk.question().await?;
    let termination = talk.server.termination();
    termination.terminate();
    termination.terminate();
    let thread = talk.thread.clone();
    // The exit status is ignored, because we killed the server.
    let _killed = talk.server.ended().await;

    let mut talk = setting.talk_with(&setting.launch(), resume(&thread)).await?;
    ensure!(talk.thread == thread, "{} instead of {thread}", talk.thread);
    ensure!(talk.opened.thread.status.status_type == "idle", "{:?}", talk.opened.thread.status);
    talk.prompt(&[Step::text("I go on.")])?;
    ensure!(talk.end_of_turn().await?.status == TurnStatus::Completed);
    ensure!(setting.file("a.txt").is_none(), "what nobody allowed ran");
    ensure!(setting.api.last_input().contains("aborted"), "{}", setting.api.last_input());
    Ok(())
}

pub(crate) async fn a_resumed_thread_remembers_and_a_fork_is_another_one(
    cli: PathBuf,
) -> Result<()> {
    let setting = Setting::new(cli).await?;
    let mut talk = setting.talk().await?;
    talk.prompt(&[Step::text("the word is quince")])?;
    talk.end_of_turn().await?;
    let thread = talk.thread.clone();
    talk.server.close().await?;
    let fork = ClientRequest::ThreadFork(ThreadFork {
        thread_id: thread.clone(),
        exclude_turns: Some(true),
        ..ThreadFork::default()
    });
    for (open, is_same) in [(resume(&thread), true), (fork, false)] {
        let mut talk = setting.talk_with(&setting.launch(), open).await?;
        ensure!((talk.thread == thread) == is_same, "{} from {thread}", talk.thread);
        talk.prompt(&[Step::text("yes")])?;
        talk.end_of_turn().await?;
        ensure!(setting.api.last_input().contains("the word is quince"));
        talk.server.close().await?;
    }
    Ok(())
}

pub(crate) async fn an_unknown_thread_is_refused(cli: PathBuf) -> Result<()> {
    let setting = Setting::new(cli).await?;
    let mut server = setting.server(&setting.launch()).await?;
    for id in ["00000000-0000-4000-8000-00000000dead", "not an id at all"] {
        for open in [
            resume(id),
            ClientRequest::ThreadFork(ThreadFork {
                thread_id: id.to_owned(),
                ..ThreadFork::default()
            }),
        ] {
            let method = open.method().to_owned();
            match server.call(open).await {
                Err(CallError::Refused(error)) => {
                    let known = ["no rollout found", "invalid session id", "invalid thread id"];
                    ensure!(
                        known.iter().any(|words| error.message.contains(words)),
                        "{method} of {id}: {error:?}"
                    );
                }
                other => bail!("{method} of {id} gave {other:?}"),
            }
        }
    }
    Ok(())
}

pub(crate) async fn threads_are_listed_by_their_directory(cli: PathBuf) -> Result<()> {
    let setting = Setting::new(cli).await?;
    let mut ids = Vec::new();
    for _ in 0..2 {
        let mut talk = setting.talk().await?;
        talk.prompt(&[Step::text("hello")])?;
        talk.end_of_turn().await?;
        ids.push(talk.thread.clone());
        talk.server.close().await?;
    }
    let mut server = setting.server(&setting.launch()).await?;
    for (cwd, expected) in [(setting.sandbox.work(), ids.last()), (setting.sandbox.outside(), None)]
    {
        let list = ThreadList {
            cwd: Some(shown(&cwd)),
            limit: Some(1),
            sort_key: Some("updated_at".to_owned()),
            model_providers: Some(Vec::new()),
            ..ThreadList::default()
        };
        let page = server.call(ClientRequest::ThreadList(list)).await?;
        let page: ThreadPage = page.read().context("no page")?;
        let found = page.data.first().map(|thread| thread.id.to_string());
        ensure!(found.as_ref() == expected, "in {}: {page:?}", cwd.display());
    }
    Ok(())
}

pub(crate) async fn errors_of_the_model_fail_the_turn_and_not_the_thread(
    cli: PathBuf,
) -> Result<()> {
    let setting = Setting::new(cli).await?;
    let mut talk = setting.talk().await?;
    for (failure, name) in [
        (Failure::Status(500, "server_error".to_owned()), "internalServerError"),
        (Failure::Status(429, "usage_limit_reached".to_owned()), "usageLimitExceeded"),
        (Failure::Status(401, "invalid_api_key".to_owned()), "httpConnectionFailed"),
    ] {
        talk.prompt(&[Step::default().failing(failure)])?;
        let turn = talk.end_of_turn().await?;
        let error = turn.error.context("no reason")?;
        ensure!(turn.status == TurnStatus::Failed && error.info.name == name, "{error:?}");
    }
    talk.prompt(&[Step::text("well again")])?;
    ensure!(talk.end_of_turn().await?.status == TurnStatus::Completed);
    Ok(())
}

pub(crate) async fn a_broken_answer_is_asked_for_again(cli: PathBuf) -> Result<()> {
    let setting = Setting::new(cli).await?;
    let mut talk = setting.talk().await?;
    let step = Step::text("hello world").slowly(3, 1).failing_first(Failure::Cut, 1);
    talk.prompt(&[step])?;
    ensure!(talk.end_of_turn().await?.status == TurnStatus::Completed);
    let retried = talk.lines.iter().any(|line| match &line.body {
        ServerBody::Notification(told) => {
            matches!(&**told, Notification::Error(note) if note.will_retry)
        }
        _ => false,
    });
    ensure!(retried, "nothing was said about the broken answer");
    let started = talk.started();
    let texts = started.iter().filter(|item| matches!(item.body, ItemBody::AgentMessage(_)));
    ensure!(texts.count() == 2, "the answer was not begun again");
    Ok(())
}

pub(crate) async fn an_account_that_is_missing_is_told_before_the_first_turn(
    cli: PathBuf,
) -> Result<()> {
    let setting = Setting::new(cli).await?;
    for (launch, is_required) in [
        (setting.launch(), false),
        (setting.launch().argument("-c").argument("model_provider=\"openai\""), true),
    ] {
        let mut server = setting.server(&launch).await?;
        let state = server.call(ClientRequest::AccountRead(AccountRead::default())).await?;
        let state: AccountState = state.read().context("no state")?;
        ensure!(state.account.is_none(), "{state:?}");
        ensure!(state.requires_openai_auth == is_required, "{state:?}");
    }
    Ok(())
}
