//! `plexus demo`: a tour that needs nothing and ends by itself. The server, the shims and the
//! SIGKILL are real; only the agents are played.
//!
//! A parent, three children and a grandchild. One call is allowed by a rule, one is edited, one
//! denied, one escalates from the parent to the operator, and in the middle the server is killed
//! and started again. [`server`] is the folder and the server of the tour.

mod server;

use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use plexus_client::Client;
use plexus_client::wire::{
    Approval, ApprovalPageParams, ChatParams, CreateParams, Object, Owner, RespondParams,
    RuleAddParams, RuleDecision, RuleScope, Said, SessionId, SessionRef, SessionStatus,
};
use serde_json::json;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::args::Demo;
use super::server::failed;
use super::{exit, manage};
use plexus_render::sanitize;
use plexus_render::screen::{self, Screen, Tone};
use plexus_render::tool_call::{self, Extent};
use server::DemoServer;

/// How long one step of the tour may take, on a loaded machine.
const DEADLINE: Duration = Duration::from_secs(60);

/// How often to look whether it has happened.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// How long a parent may leave a question unanswered before it escalates, in seconds.
const ESCALATE_AFTER_SECS: u64 = 2;

/// Runs the command.
pub(super) async fn demo(arguments: &Demo) -> Result<u8> {
    // One listener from beginning to end: between two, a Ctrl-C would be swallowed.
    let mut interrupts = signal(SignalKind::interrupt()).context("could not listen for Ctrl-C")?;
    let mut server = DemoServer::open().await?;
    let screen = Screen::stdout();
    let outcome = tokio::select! {
        outcome = tour(&mut server, screen) => outcome,
        _ = interrupts.recv() => Err(anyhow::anyhow!("the tour was interrupted")),
    };
    if arguments.stay && outcome.is_ok() {
        stay(&server, screen, &mut interrupts).await?;
    }
    server.close().await?;
    outcome.map(|()| exit::OK)
}

async fn stay(server: &DemoServer, screen: Screen, interrupts: &mut Signal) -> Result<()> {
    let link = manage::dashboard_address(&server.client()).await?;
    head(screen, "The dashboard stays open until Ctrl-C (the link works once, within a minute)")?;
    screen::line(&format!("  {link}"))?;
    interrupts.recv().await;
    Ok(())
}

/// The sessions of the tour.
struct Cast {
    lead: SessionId,
    docs: SessionId,
    tests: SessionId,
    fix: SessionId,
    helper: SessionId,
}

async fn tour(server: &mut DemoServer, screen: Screen) -> Result<()> {
    let client = server.client();
    head(screen, "1  A server, a rule, and five sessions: a parent, three children, a grandchild")?;
    say(
        screen,
        &format!(
            "server at {}, agents played by the built-in simulator",
            client.url().map_err(failed)?
        ),
    )?;
    let cast = cast(&client, server).await?;
    let rule = RuleAddParams {
        scope: Some(RuleScope::Subtree(cast.lead)),
        reason: Some("folders are harmless".to_owned()),
        ..RuleAddParams::new(RuleDecision::Allow, "Bash(mkdir:*)")
    };
    client.loopback().rule_add(&rule).await.map_err(failed)?;
    say(screen, "rule: allow Bash(mkdir:*) for everything below `lead`")?;

    head(screen, "2  All of them start at once; chat_async returns before anything has happened")?;
    for (session, script) in [
        (
            cast.docs,
            "sim:\nsay I make a folder for the notes.\ntool Bash {\"command\":\"mkdir notes\"}\nsay The folder is there.",
        ),
        (
            cast.tests,
            "sim:\nsay I write down what to test.\ntool Write {\"file_path\":\"plan.txt\",\"content\":\"test everything\\n\"}\nsay The plan is written.",
        ),
        (
            cast.fix,
            "sim:\nsay I clean up first.\ntool Bash {\"command\":\"rm -rf build\"}\nsay Then I leave it as it is.",
        ),
        (
            cast.helper,
            "sim:\nsay I mark the patch.\ntool Bash {\"command\":\"touch patched.txt\"}\nsay Marked.",
        ),
    ] {
        let chat = ChatParams::new(SessionRef::id(session), script);
        client.agents().chat_async(&chat).await.map_err(failed)?;
    }

    head(screen, "3  Allowed by a rule: nobody was asked")?;
    ended(&client, cast.docs).await?;
    decision(&client, cast.docs, screen).await?;

    head(screen, "4  The server is killed with SIGKILL while three agents wait for permission")?;
    for session in [cast.tests, cast.fix, cast.helper] {
        waiting(&client, session).await?;
    }
    let alive = server.agents();
    server.kill()?;
    say(screen, &format!("killed. {alive} agents were running, {} still are", server.agents()))?;
    server.start().await?;
    say(screen, "started again on the same data: every question is still there, once")?;
    for session in [cast.tests, cast.fix, cast.helper] {
        let approval = waiting(&client, session).await?;
        say(
            screen,
            &format!(
                "{:<7} {}",
                sanitize::one_line(&approval.session_name),
                tool_call::about(&approval, screen)
            ),
        )?;
    }

    head(screen, "5  Edited: what was approved is what runs")?;
    let approval = waiting(&client, cast.tests).await?;
    let mut input: Object =
        approval.input.read().context("could not read what the agent wants to write")?;
    let content = "test the parser first\n";
    let before = input.insert("content".to_owned(), json!(content)).unwrap_or_default();
    lines(tool_call::diff(before.as_str().unwrap_or_default(), content, Extent::Short, screen))?;
    let edited = RespondParams { updated_input: Some(input), ..RespondParams::allow(&approval) };
    client.loopback().respond(&edited).await.map_err(failed)?;
    ended(&client, cast.tests).await?;
    let written = std::fs::read_to_string(server.work().join("plan.txt"))
        .context("could not read what the agent wrote")?;
    say(screen, &format!("plan.txt now says: {}", sanitize::one_line(written.trim())))?;

    head(screen, "6  Denied, with a reason that the agent reads")?;
    let approval = waiting(&client, cast.fix).await?;
    let input = approval.input.to_value();
    lines(tool_call::call(&approval, &input, Extent::Short, screen))?;
    let no = RespondParams::deny(approval.id, "keep the build, it takes an hour");
    client.loopback().respond(&no).await.map_err(failed)?;
    ended(&client, cast.fix).await?;
    decision(&client, cast.fix, screen).await?;

    head(screen, "7  Escalated: the grandchild asked its parent, which did not answer in time")?;
    let approval = escalated(&client, cast.helper).await?;
    say(screen, "after 2 s the question went up to the operator, who allows it")?;
    client.loopback().respond(&RespondParams::allow(&approval)).await.map_err(failed)?;
    ended(&client, cast.helper).await?;
    decision(&client, cast.helper, screen).await?;

    head(screen, "8  Everything that was decided is on record")?;
    let history = client.loopback().history(&ApprovalPageParams::default()).await;
    let decisions = history.map_err(failed)?.decisions.len();
    say(
        screen,
        &format!("{decisions} decisions, each with who, when, and the digest of what they saw"),
    )?;
    if decisions != 4 {
        bail!("could not find the four decisions of the tour: {decisions} are on record");
    }
    say(screen, "next: plexus run \"PROMPT\" in the directory of a project")?;
    Ok(())
}

async fn cast(client: &Client, server: &DemoServer) -> Result<Cast> {
    let create = |name: &'static str, parent: Option<SessionId>| {
        let session = CreateParams {
            parent,
            can_spawn: Some(true),
            may_decide: Some(vec!["*".to_owned()]),
            escalate_after_secs: Some(ESCALATE_AFTER_SECS),
            ..CreateParams::new(name, server.work())
        };
        async move {
            let created = client.agents().create(&session).await;
            created.map(|created| created.id).map_err(failed)
        }
    };
    let lead = create("lead", None).await?;
    let docs = create("docs", Some(lead)).await?;
    let tests = create("tests", Some(lead)).await?;
    let fix = create("fix", Some(lead)).await?;
    let helper = create("helper", Some(fix)).await?;
    Ok(Cast { lead, docs, tests, fix, helper })
}

/// Waits until a session asks, and returns what.
async fn waiting(client: &Client, session: SessionId) -> Result<Approval> {
    eventually("a question of an agent", || async {
        Ok(client.pending(Some(session)).await.map_err(failed)?.into_iter().next())
    })
    .await
}

/// Waits until a session's question has come up to the operator.
async fn escalated(client: &Client, session: SessionId) -> Result<Approval> {
    eventually("an escalation", || async {
        let first = client.pending(Some(session)).await.map_err(failed)?.into_iter().next();
        Ok(first.filter(|approval| approval.escalated_to == Some(Owner::Operator.into())))
    })
    .await
}

/// Waits until a chat has ended well.
async fn ended(client: &Client, session: SessionId) -> Result<()> {
    let status = eventually("the end of a chat", || async {
        let status = client.session(&SessionRef::id(session)).await.map_err(failed)?.status;
        let over = |status: &SessionStatus| !status.is_busy() && *status != SessionStatus::Idle;
        Ok(status.known().copied().filter(over))
    })
    .await?;
    if status == SessionStatus::Complete {
        Ok(())
    } else {
        bail!("could not go on: a chat of the tour ended {}", status.as_str())
    }
}

async fn eventually<T, F: Future<Output = Result<Option<T>>>>(
    what: &str,
    mut look: impl FnMut() -> F,
) -> Result<T> {
    let deadline = tokio::time::Instant::now() + DEADLINE;
    loop {
        if let Some(found) = look().await? {
            return Ok(found);
        }
        if tokio::time::Instant::now() > deadline {
            bail!("could not go on: {what} did not come within {} s", DEADLINE.as_secs());
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Shows the newest decision of a session.
async fn decision(client: &Client, session: SessionId, screen: Screen) -> Result<()> {
    let of = ApprovalPageParams { session_id: Some(session), ..ApprovalPageParams::default() };
    let history = client.loopback().history(&of).await.map_err(failed)?;
    let newest = history.decisions.first().context("could not find the decision of the tour")?;
    let word = &newest.status;
    let by = newest.decided_by.as_ref().and_then(Said::known).copied();
    let by = by.map_or("nobody", tool_call::decider);
    let (tool, why) = (
        sanitize::one_line(&newest.tool_name),
        sanitize::one_line(newest.message.as_deref().unwrap_or_default()),
    );
    say(screen, &format!("{tool} {word} by {by}. {why}"))
}

fn head(screen: Screen, words: &str) -> Result<()> {
    Ok(screen::line(&format!("\n{}", screen.paint(Tone::Strong, words)))?)
}

fn say(_: Screen, words: &str) -> Result<()> {
    Ok(screen::line(&format!("  {words}"))?)
}

fn lines(lines: Vec<String>) -> Result<()> {
    Ok(lines.iter().try_for_each(|line| screen::line(&format!("  {line}")))?)
}
