//! Judges a case from outside: what callers were told, what the child really did, what the store
//! says.
//!
//! A blow to the server, or a freeze of anything, may not be noticed at all (P1 to P6). A blow to a
//! shim, a child or an egress process may end the chat that it served, with a reason; nothing that
//! was not allowed runs, nothing runs twice, nothing waits for ever and nobody is left behind (P3,
//! P4, P8, P9).

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use testkit::process;
use tokio::time::Instant;

use crate::case_server::CaseServer;
use crate::points::{Agent, Blow, Case, Channel, Loss, Victim, Warmth};
use crate::story::{Answer, Told, command, edited, letters, words};

/// How long a process of a run may outlive it: the five seconds of P9, and what a loaded machine
/// adds.
const LEAVING: Duration = Duration::from_secs(20);

/// Whether the case may end the chat that was struck.
fn may_fail(case: &Case) -> bool {
    matches!(case.victim, Victim::Shim | Victim::Child | Victim::Egress)
        && case.blow != Blow::Freeze
}

/// Judges everything that can be judged while the session exists.
pub(crate) async fn judge(place: &mut CaseServer, told: &Told, case: &Case) -> Result<()> {
    let history = history(place, &told.session).await?;
    let stored = stored_events(place, &told.session).await?;
    heard_is_stored(told, &stored)?;
    answers_stand(told, &history, case)?;
    for chat in 0..4 {
        let events = stored.get(&chat).with_context(|| format!("chat {chat} has no events"))?;
        chat_is_well_formed(chat, events, told, case)
            .with_context(|| format!("chat {chat}: {}", kinds(events)))?;
    }
    what_ran_was_allowed(place, &history, case)?;
    what_ran_is_what_should(place, told, case)?;
    let pending = place.call("loopback.pending", json!({"session_id": told.session})).await??;
    ensure!(pending["approvals"] == json!([]), "still waiting: {pending:#}");
    let audit = place.call("loopback.audit", json!({"session_id": told.session})).await??;
    ensure!(!audit.to_string().contains("\"breach\""), "a breach without a breach: {audit:#}");
    ensure!(
        history.iter().all(|decision| decision.get("breach").is_none()),
        "a breach: {history:#?}"
    );
    Ok(())
}

async fn history(place: &mut CaseServer, session: &str) -> Result<Vec<Value>> {
    let page =
        place.call("loopback.history", json!({"session_id": session, "limit": 100})).await??;
    Ok(page["decisions"].as_array().context("no decisions")?.clone())
}

/// Every event of every chat, read from its beginning.
async fn stored_events(place: &mut CaseServer, session: &str) -> Result<BTreeMap<u64, Vec<Value>>> {
    let mut stored = BTreeMap::new();
    for chat in 0..4 {
        let params = json!({"session_id": session, "chat": chat, "from_seq": 0, "limit": 1000});
        let page = place.call("agents.poll", params).await??;
        stored.insert(chat, page["events"].as_array().context("no events")?.clone());
    }
    Ok(stored)
}

/// P1, P2: what a reader got by its cursor is what is stored, in order, without a gap and without a
/// repeat.
fn heard_is_stored(told: &Told, stored: &BTreeMap<u64, Vec<Value>>) -> Result<()> {
    let key = |chat: u64, event: &Value| {
        (chat, event["seq"].as_u64(), event["node_id"].as_str().map(str::to_owned))
    };
    let heard: Vec<_> = told.heard.iter().map(|(chat, _, event)| key(*chat, event)).collect();
    let all: Vec<_> = stored
        .iter()
        .flat_map(|(chat, events)| events.iter().map(|event| key(*chat, event)))
        .collect();
    ensure!(heard == all, "the reader heard {heard:?}\nand stored is {all:?}");
    for (chat, events) in stored {
        let numbers: Vec<_> =
            events.iter().map(|event| event["seq"].as_u64().unwrap_or(u64::MAX)).collect();
        ensure!(
            numbers.iter().copied().eq(0..numbers.len() as u64),
            "the numbers of chat {chat}: {numbers:?}"
        );
    }
    Ok(())
}

/// P1, P3: every acknowledged answer is the decision that stands, and every approval is decided
/// once and finally.
fn answers_stand(told: &Told, history: &[Value], case: &Case) -> Result<()> {
    for (id, answer) in &told.answered {
        let found: Vec<_> =
            history.iter().filter(|decision| decision["approval_id"] == **id).collect();
        let [decision] = found[..] else { bail!("{} decisions for {id}", found.len()) };
        let stands = match answer {
            Answer::Allow => {
                decision["status"] == "allowed" && decision.get("updated_input").is_none()
            }
            Answer::Edit => {
                decision["status"] == "allowed" && decision["updated_input"]["command"] == edited(0)
            }
            Answer::Deny => decision["status"] == "denied",
        };
        ensure!(stands, "acknowledged was {answer:?}, and there is {decision:#}");
    }
    let ids: BTreeSet<_> =
        history.iter().map(|decision| decision["approval_id"].as_str()).collect();
    ensure!(ids.len() == history.len(), "an approval is there twice: {history:#?}");
    // A child whose shim was killed before it could announce the child may still have asked over
    // MCP. That question ends with the child, unanswered, and the process that serves the chat next
    // asks again.
    let is_silent = case.victim == Victim::Shim
        && case.blow == Blow::KillWithServer
        && case.channel == Channel::Mcp;
    let counts = |decision: &&Value| !(is_silent && decision["decided_by"] == "agent_ended");
    let counted: Vec<_> = history.iter().filter(counts).collect();
    let asked: BTreeSet<_> =
        counted.iter().map(|decision| decision["input"]["command"].as_str()).collect();
    ensure!(asked.len() == counted.len(), "something was asked twice: {history:#?}");
    Ok(())
}

/// Order and number of what a chat holds, and how it ended.
fn chat_is_well_formed(chat: u64, events: &[Value], told: &Told, case: &Case) -> Result<()> {
    let of = |kind: &str| -> Vec<&Value> {
        events.iter().map(|event| &event["event"]).filter(|event| event["type"] == kind).collect()
    };
    let status = told.ended.get(&chat).context("it never ended")?;
    let said: Vec<&str> = of("content").iter().filter_map(|event| event["text"].as_str()).collect();
    let expected = words(chat, case);
    let said_in_order =
        said.iter().zip(&expected).all(|(said, expected)| said.starts_with(expected.as_str()));
    ensure!(said_in_order, "said: {said:?}");
    if may_fail(case) || case.loss == Loss::Questions {
        ensure!(chat != 3 || status == "complete", "the session does not go on: {status}");
        ensure!(status != "cancelled" || chat == 2, "nobody cancelled it");
    } else {
        ensure!(status == if chat == 2 { "cancelled" } else { "complete" }, "it ended {status}");
        let more = match case.agent {
            // A chat whose script ends with a tool call says one more text at its end.
            Agent::Claude => usize::from(chat == 1 || chat == 3),
            // The reason of the denial is a message of its own, which it acknowledges.
            Agent::Codex => usize::from(chat == 0),
            Agent::Acp => 0,
        };
        ensure!(said.len() == expected.len() + more, "said: {said:?}");
        let asks_for_a_host = usize::from(case.victim == Victim::Egress && chat == 0);
        let due = letters(chat, case).len() + asks_for_a_host;
        let asked = of("awaiting_approval").len();
        let some_are_lost =
            case.loss == Loss::LaterQuestions && chat == 0 && (1..due).contains(&asked);
        ensure!(asked == due || some_are_lost, "asked {asked} times");
        ensure!(
            of("tool_result").len() == letters(chat, case).len(),
            "{} results",
            of("tool_result").len()
        );
    }
    ensure!(of("start").len() == 1 && events[0]["event"]["type"] == "start", "how it starts");
    let ends = of("complete").len() + of("error").len();
    ensure!(ends >= 1, "it has no end");
    ensure!(of("complete").len() <= 1, "it ends twice");
    let last = events.last().map(|event| event["event"]["type"].clone()).unwrap_or_default();
    ensure!(
        last == if status == "complete" { "complete" } else { "error" },
        "the last event is {last}"
    );
    each_question_once(events)
}

/// A question is asked once, resolved once and later, and its result comes once and last.
fn each_question_once(events: &[Value]) -> Result<()> {
    let at = |kind: &str, field: &str, id: &Value| -> Vec<usize> {
        let wanted = events.iter().map(|event| &event["event"]).enumerate();
        wanted
            .filter(|(_, event)| event["type"] == kind && event[field] == *id)
            .map(|(at, _)| at)
            .collect()
    };
    for event in events.iter().map(|event| &event["event"]) {
        match event["type"].as_str() {
            Some("awaiting_approval") => {
                let (id, tool) = (&event["approval_id"], &event["tool_use_id"]);
                let (asked, resolved) = (
                    at("awaiting_approval", "approval_id", id),
                    at("approval_resolved", "approval_id", id),
                );
                ensure!(
                    asked.len() == 1 && resolved.len() == 1,
                    "{id} asked at {asked:?}, resolved at {resolved:?}"
                );
                ensure!(asked[0] < resolved[0], "{id} was resolved before it was asked");
                ensure!(
                    at("awaiting_approval", "tool_use_id", tool).len() == 1,
                    "{tool} was asked about twice"
                );
            }
            Some("tool_use") => {
                let tool = &event["tool_use_id"];
                let (used, result) =
                    (at("tool_use", "tool_use_id", tool), at("tool_result", "tool_use_id", tool));
                ensure!(
                    used.len() == 1 && result.len() <= 1,
                    "{tool} at {used:?}, its result at {result:?}"
                );
                ensure!(
                    result.first().is_none_or(|result| used[0] < *result),
                    "{tool} has its result first"
                );
            }
            _ => {}
        }
    }
    Ok(())
}

/// P4, P8: nothing ran that was not allowed, with other input than was approved, or twice.
fn what_ran_was_allowed(place: &CaseServer, history: &[Value], case: &Case) -> Result<()> {
    let mut calls = BTreeSet::new();
    for line in place.diary()? {
        let tool = line["tool_use_id"].as_str().context("no id in the diary")?.to_owned();
        ensure!(calls.insert(tool.clone()), "{tool} ran twice");
        let decision = history.iter().find(|decision| decision["tool_use_id"] == *tool);
        let decision = decision.with_context(|| format!("nobody was asked about {line}"))?;
        ensure!(decision["status"] == "allowed", "it ran and was not allowed: {line} {decision:#}");
        let approved = decision.get("updated_input").unwrap_or(&decision["input"]);
        // Codex adds its shell and its directory to what it asks.
        let is_same = match case.agent {
            Agent::Codex => line["input"]["command"] == approved["command"],
            Agent::Claude | Agent::Acp => line["input"] == *approved,
        };
        ensure!(is_same, "approved was {approved}, and {line} ran");
    }
    Ok(())
}

/// What the tools left behind: each at most once, and where nothing may be lost exactly what the
/// story says, all of it by one process.
fn what_ran_is_what_should(place: &CaseServer, told: &Told, case: &Case) -> Result<()> {
    let text = std::fs::read_to_string(place.work().join("ran")).unwrap_or_default();
    let ran: Vec<&str> = text.lines().collect();
    let distinct: BTreeSet<_> = ran.iter().collect();
    ensure!(distinct.len() == ran.len(), "something ran twice: {ran:?}");
    let edited = case.agent.takes_edits();
    ensure!(
        !ran.iter().any(|word| word.starts_with('C') || (edited && *word == "B0")),
        "what was denied or edited ran: {ran:?}"
    );
    let diary = place.diary()?;
    if may_fail(case) {
        return Ok(());
    }
    let all: &[&str] = match (case.victim, edited) {
        (Victim::Egress, _) => &["N0", "D1", "E3"],
        (_, true) => &["A0", "B0-edited", "D1", "E3"],
        (_, false) => &["A0", "B0", "D1", "E3"],
    };
    if case.loss == Loss::Questions {
        ensure!(ran.iter().all(|word| all.contains(word)), "{ran:?} ran");
        return Ok(());
    }
    // The first question of chat 0 is always decided; its others may be lost.
    let may_miss = |word: &str| case.loss == Loss::LaterQuestions && word == "B0-edited";
    let expected = all.iter().filter(|word| ran.contains(word) || !may_miss(word));
    ensure!(ran.iter().eq(expected), "{ran:?} ran, answered were {:?}", told.answered);
    let later = [command('D', 1), command('E', 3)];
    let of_chat_0 =
        |line: &&Value| !later.iter().any(|command| line["input"]["command"] == *command);
    let pids: BTreeSet<_> =
        diary.iter().filter(of_chat_0).map(|line| line["pid"].as_u64()).collect();
    // A woken process may be parked in its turn, on a machine that stands still.
    // Within a wall the diary cannot be written.
    let is_one = pids.len() == 1 || case.warmth == Warmth::Parks || case.victim == Victim::Egress;
    ensure!(is_one, "chat 0 was served by {} processes", pids.len());
    Ok(())
}

/// P9, after each chat: a run that has ended leaves nobody. A warm child with all that it started
/// may stay, and only one run does.
pub(crate) async fn nothing_of_a_dead_run_lives(
    place: &mut CaseServer,
    told: &Told,
    case: &Case,
    chat: u64,
) -> Result<()> {
    let failed = told.ended.get(&chat).is_some_and(|status| status == "failed");
    let stays = matches!(case.warmth, Warmth::Warm | Warmth::Early);
    let leaves = !stays || case.channel == Channel::Mcp || failed;
    if leaves { gone(place, &format!("chat {chat}")).await } else { Ok(()) }
}

/// P9, after everything: no process, no run directory, no temporary file, no copy of a transcript.
pub(crate) async fn nothing_is_left(place: &mut CaseServer) -> Result<()> {
    gone(place, "the session").await?;
    let mut open = vec![place.runs(), place.parked()];
    let mut files = Vec::new();
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
            let path = entry.path();
            if path.is_dir() { open.push(path) } else { files.push(path) }
        }
    }
    ensure!(files.is_empty(), "these files were left: {files:?}");
    Ok(())
}

/// Waits until no process but the server carries the marker.
async fn gone(place: &mut CaseServer, what: &str) -> Result<()> {
    let deadline = Instant::now() + LEAVING;
    loop {
        place.keep_alive().await?;
        let mut left = process::marked(&place.marker())?;
        left.retain(|process| !process.command.contains(" serve "));
        if left.is_empty() {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "after the end of {what} there lives {left:#?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn kinds(events: &[Value]) -> String {
    let kind = |event: &Value| {
        let event = &event["event"];
        let more = event
            .get("text")
            .or_else(|| event.get("message"))
            .and_then(Value::as_str)
            .unwrap_or_default();
        format!("{} {more}", event["type"].as_str().unwrap_or("?"))
    };
    events.iter().map(kind).collect::<Vec<_>>().join(" | ")
}
