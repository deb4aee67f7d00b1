//! The story that every case plays, as a patient caller lives it: whatever is not answered is asked
//! again.
//!
//! Chat 0 says things and asks three times (allowed, allowed with an edit, denied), chat 1 asks
//! once, chat 2 is cancelled while it stands still, chat 3 shows that the session goes on. An agent
//! that takes no edits is allowed the second call as it is. Where the egress process is struck,
//! chat 0 runs one command instead, which asks for a host and is denied it.
//! Everything that the caller was told is written down for the [oracle](crate::oracle).

use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::case_server::{CaseServer, PATIENCE};
use crate::oracle;
use crate::points::{Agent, Case, Victim};

/// The name of the one session.
const NAME: &str = "matrix";

/// How long one look for news may wait.
const POLL_MS: u64 = 500;

/// What the caller was told.
#[derive(Debug, Default)]
pub(crate) struct Told {
    pub(crate) session: String,
    /// Every event that the reader got by handing its cursor back: chat, number, event.
    pub(crate) heard: Vec<(u64, u64, Value)>,
    /// How each chat ended, by its number.
    pub(crate) ended: BTreeMap<u64, String>,
    /// Every acknowledged answer, by approval.
    pub(crate) answered: BTreeMap<String, Answer>,
}

/// What the caller answers to a question; which one is told by the letter in the command.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Answer {
    Allow,
    Edit,
    Deny,
}

/// The command that a tool runs. It leaves a process behind, which must not outlive the run.
pub(crate) fn command(letter: char, chat: u64) -> String {
    format!("echo {letter}{chat} >> ran; (setsid sleep 600 >/dev/null 2>&1 &)")
}

/// What the edit makes of a command.
pub(crate) fn edited(chat: u64) -> String {
    format!("echo B{chat}-edited >> ran")
}

/// The letters that a chat asks about, in order.
pub(crate) fn letters(chat: u64, case: &Case) -> &'static [char] {
    match chat {
        0 if case.victim == Victim::Egress => &['N'],
        0 => &['A', 'B', 'C'],
        1 => &['D'],
        2 => &[],
        _ => &['E'],
    }
}

/// What a chat says, in order, when nothing disturbs it.
pub(crate) fn words(chat: u64, case: &Case) -> Vec<String> {
    match chat {
        0 if case.victim == Victim::Egress => vec!["zero begins".into(), "zero ends".into()],
        0 => {
            let burst = (0..5).map(|n| format!("{n} "));
            ["zero begins".to_owned()]
                .into_iter()
                .chain(burst)
                .chain(["zero goes on".into(), "zero ends".into()])
                .collect()
        }
        n => vec![format!("chat {n} begins")],
    }
}

/// What chat 0 runs in a case whose egress process is struck: it wants a host that nobody allowed,
/// through the only network that there is.
fn reaches_out() -> String {
    let request = r"CONNECT matrix.invalid:443 HTTP/1.1\r\nHost: matrix.invalid:443\r\n\r\n";
    format!(
        "echo N0 >> ran; at=${{http_proxy#http://}}; exec 3<>/dev/tcp/${{at%:*}}/${{at#*:}}; \
         printf '{request}' >&3; head -n 1 <&3"
    )
}

fn prompt(chat: u64, case: &Case) -> String {
    let bash = |command: String| {
        format!("tool Bash {}", json!({"command": command, "description": "the matrix"}))
    };
    let ask = |letter: char| bash(command(letter, chat));
    if chat == 0 && case.victim == Victim::Egress {
        return format!("sim:\nsay zero begins\n{}\nsay zero ends", bash(reaches_out()));
    }
    match chat {
        0 => format!(
            "sim:\nsay zero begins\nburst 5 40\n{}\nsay zero goes on\n{}\n{}\nsay zero ends",
            ask('A'),
            ask('B'),
            ask('C')
        ),
        // A thought ends the message before it, which is shown as a whole by some agents.
        2 if case.agent == Agent::Acp => "sim:\nsay chat 2 begins\nthink it over\nhang".to_owned(),
        2 => "sim:\nsay chat 2 begins\nhang".to_owned(),
        n => format!("sim:\nsay chat {n} begins\n{}", ask(letters(n, case)[0])),
    }
}

fn answer_for(approval: &Value, agent: Agent) -> Result<Answer> {
    if approval["tool_name"] == "Network" {
        return Ok(Answer::Deny);
    }
    let command = approval["input"]["command"].as_str().context("a question without a command")?;
    Ok(match command.as_bytes().get(5) {
        Some(b'B') if agent.takes_edits() => Answer::Edit,
        Some(b'C') => Answer::Deny,
        _ => Answer::Allow,
    })
}

/// Plays one case and judges it.
pub(crate) async fn play(case: &Case) -> Result<()> {
    let mut place = CaseServer::new(case).await?;
    let played = tell(&mut place, case).await;
    played.map_err(|error| anyhow::anyhow!("{error:#}\nThe server said:\n{}", tail(&place.log())))
}

async fn tell(place: &mut CaseServer, case: &Case) -> Result<()> {
    let mut told = Told { session: create(place).await?, ..Told::default() };
    place.agent_waits(&told.session).await?;
    let mut cursor = None;
    for chat in 0..4 {
        start(place, &told.session, chat, case).await?;
        drive(place, &mut told, &mut cursor, chat, case).await?;
        oracle::nothing_of_a_dead_run_lives(place, &told, case, chat).await?;
    }
    ensure!(place.was_struck(), "the point was never reached: this case proves nothing");
    place.database_is_back().await?;
    oracle::judge(place, &told, case).await?;
    delete(place, &told.session).await?;
    oracle::nothing_is_left(place).await
}

/// Creates the session. A lost answer may have been a success: then the name is taken by ours.
pub(crate) async fn create(place: &mut CaseServer) -> Result<String> {
    let mut params = place.session_params();
    params["name"] = json!(NAME);
    let created = match place.call("agents.create", params).await? {
        Ok(created) => created["id"].clone(),
        Err(error) if error.kind() == "conflict" => {
            place.call("agents.get", json!({"name": NAME})).await??["session"]["id"].clone()
        }
        Err(error) => bail!("create: {error}"),
    };
    Ok(created.as_str().context("no id")?.to_owned())
}

/// Starts a chat. The key makes asking again safe; a run that is being ended may still hold the
/// place.
async fn start(place: &mut CaseServer, session: &str, chat: u64, case: &Case) -> Result<()> {
    let params = json!({"session_id": session, "prompt": prompt(chat, case), "idempotency_key": format!("chat-{chat}")});
    let began = Instant::now();
    loop {
        match place.call("agents.chat_async", params.clone()).await? {
            Ok(started) => {
                ensure!(started["chat"] == chat, "the same key began another chat: {started}");
                return Ok(());
            }
            Err(error) if error.kind() == "busy" && began.elapsed() < PATIENCE => {
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
            Err(error) => bail!("chat {chat} could not be started: {error}"),
        }
    }
}

/// Reads a chat to its end, answers what it asks, and cancels it where the story says so.
async fn drive(
    place: &mut CaseServer,
    told: &mut Told,
    cursor: &mut Option<String>,
    chat: u64,
    case: &Case,
) -> Result<()> {
    let mut cancelled = false;
    let began = Instant::now();
    loop {
        let mut params = json!({"session_id": told.session, "limit": 3, "wait_ms": POLL_MS});
        match &cursor {
            Some(cursor) => params["cursor"] = json!(cursor),
            None => params["consumer"] = json!("a reader"),
        }
        let page = place
            .call("agents.poll", params)
            .await?
            .map_err(anyhow::Error::from)
            .context("poll")?;
        *cursor = page["cursor"].as_str().map(str::to_owned);
        let events = page["events"].as_array().context("no events")?;
        let of_chat = page["chat"].as_u64().context("no chat")?;
        for event in events {
            told.heard.push((of_chat, event["seq"].as_u64().context("no seq")?, event.clone()));
        }
        let waiting = page["pending_approvals"].as_array().cloned().unwrap_or_default();
        if !waiting.is_empty() {
            place.a_question_waits().await?;
        }
        for approval in waiting.iter().filter(|it| place.may_answer(it)).collect::<Vec<_>>() {
            answer(place, told, approval, case).await?;
        }
        let hanging = || {
            told.heard
                .iter()
                .any(|(of, _, event)| *of == 2 && event["event"]["text"] == words(2, case)[0])
        };
        if chat == 2 && !cancelled && hanging() {
            cancelled = true;
            // It may have ended by itself in this moment.
            match place
                .call(
                    "agents.cancel",
                    json!({"session_id": told.session, "reason": "the story says so"}),
                )
                .await?
            {
                Ok(_) => {}
                Err(error) if error.kind() == "conflict" => {}
                Err(error) => bail!("cancel: {error}"),
            }
        }
        let status = page["status"].as_str().unwrap_or_default();
        let over = of_chat == chat && ["complete", "failed", "cancelled"].contains(&status);
        if over && page["has_more"] == false && events.is_empty() {
            told.ended.insert(chat, status.to_owned());
            return Ok(());
        }
        if began.elapsed() > PATIENCE * 2 {
            bail!("chat {chat} did not end: {page:#}");
        }
    }
}

/// Answers a question until that is acknowledged, once more to hear the same, and with the opposite
/// to hear what stands.
async fn answer(
    place: &mut CaseServer,
    told: &mut Told,
    approval: &Value,
    case: &Case,
) -> Result<()> {
    let id = approval["id"].as_str().context("no id")?.to_owned();
    if told.answered.contains_key(&id) {
        return Ok(());
    }
    let answer = answer_for(approval, case.agent)?;
    let mut params = json!({"approval_id": id, "approve": answer != Answer::Deny, "input_digest": approval["input_digest"]});
    match answer {
        Answer::Allow => {}
        Answer::Edit => {
            params["updated_input"] = json!({"command": edited(0), "description": "the matrix"})
        }
        Answer::Deny => params["message"] = json!("the story says no"),
    }
    match place.call("loopback.respond", params.clone()).await? {
        Ok(_) => {}
        // The child is gone, and its questions with it; or it went on without an answer.
        Err(error)
            if error.kind() == "conflict" && error.data["standing"]["status"] == "cancelled" =>
        {
            return Ok(());
        }
        Err(error) => bail!("respond: {error}"),
    }
    told.answered.insert(id, answer);
    let again = place.call("loopback.respond", params.clone()).await?;
    ensure!(again.is_ok(), "the same answer again was refused: {again:?}");
    let opposite = json!({"approval_id": approval["id"], "approve": answer == Answer::Deny});
    let other = place.call("loopback.respond", opposite).await?;
    let stands = if answer == Answer::Deny { "denied" } else { "allowed" };
    let conflict = other
        .as_ref()
        .err()
        .is_some_and(|it| it.kind() == "conflict" && it.data["standing"]["status"] == stands);
    ensure!(conflict, "another answer was not told what stands: {other:?}");
    Ok(())
}

pub(crate) async fn delete(place: &mut CaseServer, session: &str) -> Result<()> {
    match place.call("agents.delete", json!({"session_id": session})).await? {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == "not_found" => Ok(()),
        Err(error) => bail!("delete: {error}"),
    }
}

pub(crate) fn tail(log: &str) -> String {
    let lines: Vec<&str> = log.lines().collect();
    lines[lines.len().saturating_sub(40)..].join("\n")
}
