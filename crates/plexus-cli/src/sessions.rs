//! What there is, and what a person does with it: `ps`, `tree`, `send`, `fork`, `rename`, `rm`,
//! `cancel`.

use std::collections::BTreeMap;

use anyhow::Result;
use plexus_client::wire::{
    CancelParams, ChatParams, ErrorKind, ForkParams, RenameParams, SendParams, Session, SessionId,
    SessionRef, SessionStatus, TreeParams,
};

use super::args::Global;
use super::exit;
use super::find::session as find_session;
use super::server::{self, failed};
use plexus_render::screen::{self, Screen, Tone, cut, dollars, duration, now_ms};
use plexus_render::{sanitize, tool_call};

/// Columns of the status in a table.
const STATUS_WIDTH: usize = 9;

/// `plexus ps`.
pub(super) async fn ps(global: &Global, json: bool) -> Result<u8> {
    let client = server::find(&global.data_dir()?).await?;
    let sessions = client.sessions().await.map_err(failed)?;
    if json {
        screen::line(&serde_json::to_string_pretty(&sessions)?)?;
        return Ok(exit::OK);
    }
    if sessions.is_empty() {
        screen::line("no session yet; `plexus run \"PROMPT\"` makes one")?;
    }
    let screen = Screen::stdout();
    for line in outline(&sessions, screen) {
        screen::line(&line)?;
    }
    Ok(exit::OK)
}

/// Sessions as a tree: children below their parent, each with status, age and cost.
fn outline(sessions: &[Session], screen: Screen) -> Vec<String> {
    let mut below: BTreeMap<Option<SessionId>, Vec<&Session>> = BTreeMap::new();
    for session in sessions {
        // A parent that is not in the list (deleted since) leaves its children at the top.
        let parent =
            session.parent.filter(|parent| sessions.iter().any(|other| other.id == *parent));
        below.entry(parent).or_default().push(session);
    }
    let columns = |session: &Session| status_of(session).0.chars().count();
    let width = sessions.iter().map(columns).max().unwrap_or(0).max(STATUS_WIDTH);
    let mut lines = Vec::new();
    let mut stack: Vec<(&Session, usize)> =
        below.get(&None).into_iter().flatten().rev().map(|session| (*session, 0)).collect();
    while let Some((session, depth)) = stack.pop() {
        lines.push(session_line(session, depth, width, screen));
        stack.extend(
            below
                .get(&Some(session.id))
                .into_iter()
                .flatten()
                .rev()
                .map(|child| (*child, depth + 1)),
        );
    }
    lines
}

/// What a session does, or how its newest chat ended.
fn status_of(session: &Session) -> (String, Tone) {
    let refused = session.refused.map(tool_call::refused).unwrap_or_default();
    let (word, tone) = match session.status.known() {
        Some(SessionStatus::Idle) => ("idle", Tone::Faint),
        Some(SessionStatus::Running) => return ("running".to_owned(), Tone::Good),
        Some(SessionStatus::AwaitingPermission) => {
            let word = if session.parked { "parked" } else { "asks" };
            return (word.to_owned(), Tone::Warn);
        }
        Some(SessionStatus::Complete) if !refused.is_empty() => ("complete", Tone::Warn),
        Some(SessionStatus::Complete) => ("complete", Tone::Plain),
        Some(SessionStatus::Failed) => ("failed", Tone::Bad),
        Some(SessionStatus::Cancelled) => ("cancelled", Tone::Faint),
        None => {
            let said = session.status.to_string();
            return (sanitize::one_line(&said).into_owned(), Tone::Plain);
        }
    };
    (format!("{word}{refused}"), tone)
}

fn session_line(session: &Session, depth: usize, width: usize, screen: Screen) -> String {
    let (word, tone) = status_of(session);
    let age = duration(now_ms() - session.updated_at.0);
    let facts = match screen.width() {
        // On a narrow screen the name matters most.
        0..50 => String::new(),
        _ => format!("{age:>10} {:>8}  ", dollars(session.spent.cost_usd)),
    };
    let room = screen.width().saturating_sub(width + 1 + facts.len()).max(10);
    let name = format!("{}{}", "  ".repeat(depth), sanitize::one_line(&session.name));
    let folder = sanitize::one_line(&session.working_dir.display().to_string()).into_owned();
    let name = cut(&name, room);
    let left = room.saturating_sub(name.chars().count() + 2);
    let folder = if left >= 10 {
        format!("  {}", screen.paint(Tone::Faint, &cut(&folder, left)))
    } else {
        String::new()
    };
    format!("{} {facts}{name}{folder}", screen.paint(tone, &format!("{word:<width$}")))
}

/// `plexus tree`: all sessions, or the nodes of one session's tree.
pub(super) async fn tree(global: &Global, which: Option<&str>, json: bool) -> Result<u8> {
    let Some(which) = which else { return ps(global, json).await };
    let client = server::find(&global.data_dir()?).await?;
    let session = find_session(&client, which).await.map_err(failed)?;
    let tree = client.agents().get_tree(&SessionRef::id(session.id)).await.map_err(failed)?;
    let rendered = client.arbor().tree_render(&TreeParams::new(tree.tree_id)).await;
    let rendered = rendered.map_err(failed)?;
    screen::line(&if json {
        serde_json::to_string(&rendered)?
    } else {
        sanitize::text(&rendered.text).into_owned()
    })?;
    Ok(exit::OK)
}

/// `plexus send`: into the chat that runs, or as the next prompt.
pub(super) async fn send(global: &Global, which: &str, text: &str) -> Result<u8> {
    let client = server::find(&global.data_dir()?).await?;
    let session = find_session(&client, which).await.map_err(failed)?;
    let into = SessionRef::id(session.id);
    let words = match client.agents().send(&SendParams::new(into.clone(), text)).await {
        Ok(_) => "told",
        // No chat runs: it is the next prompt.
        Err(error) if error.kind() == ErrorKind::Conflict => {
            client.agents().chat_async(&ChatParams::new(into, text)).await.map_err(failed)?;
            "started"
        }
        Err(error) => return Err(failed(error)),
    };
    let name = sanitize::one_line(&session.name).into_owned();
    screen::line(&format!("{words} {name}; `plexus attach {}` watches it", session.id))?;
    Ok(exit::OK)
}

/// `plexus fork`.
pub(super) async fn fork(global: &Global, which: &str, name: &str) -> Result<u8> {
    let client = server::find(&global.data_dir()?).await?;
    let session = find_session(&client, which).await.map_err(failed)?;
    let params = ForkParams::new(SessionRef::id(session.id), name);
    let forked = client.agents().fork(&params).await.map_err(failed)?;
    screen::line(&format!("made {}; `plexus run --session {} …` goes on", forked.id, forked.id))?;
    Ok(exit::OK)
}

/// `plexus rename`.
pub(super) async fn rename(global: &Global, which: &str, name: &str) -> Result<u8> {
    let client = server::find(&global.data_dir()?).await?;
    let session = find_session(&client, which).await.map_err(failed)?;
    let params = RenameParams::new(SessionRef::id(session.id), name);
    let renamed = client.agents().rename(&params).await.map_err(failed)?;
    let (old, new) = (sanitize::one_line(&session.name), sanitize::one_line(&renamed.name));
    screen::line(&format!("{old} is {new} now"))?;
    Ok(exit::OK)
}

/// `plexus rm`.
pub(super) async fn rm(global: &Global, which: &[String]) -> Result<u8> {
    let client = server::find(&global.data_dir()?).await?;
    // All are found before one is removed.
    let mut sessions = Vec::new();
    for which in which {
        sessions.push(find_session(&client, which).await.map_err(failed)?);
    }
    for session in sessions {
        client.agents().delete(&SessionRef::id(session.id)).await.map_err(failed)?;
        screen::line(&format!("removed {}", sanitize::one_line(&session.name)))?;
    }
    Ok(exit::OK)
}

/// `plexus cancel`.
pub(super) async fn cancel(global: &Global, which: &str, reason: Option<&str>) -> Result<u8> {
    let client = server::find(&global.data_dir()?).await?;
    let session = find_session(&client, which).await.map_err(failed)?;
    let reason = reason.unwrap_or("the operator asked for it").to_owned();
    let params =
        CancelParams { reason: Some(reason), ..CancelParams::new(SessionRef::id(session.id)) };
    client.agents().cancel(&params).await.map_err(failed)?;
    screen::line(&format!(
        "asked {} to stop; `plexus logs {}` shows how it ends",
        sanitize::one_line(&session.name),
        session.id
    ))?;
    Ok(exit::OK)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session(name: &str, parent: Option<&Session>) -> Session {
        let id = SessionId::generate();
        serde_json::from_value(serde_json::json!({
            "id": id, "name": name, "parent": parent.map(|parent| parent.id),
            "working_dir": "/work dir", "channel": "auto", "loopback_enabled": true,
            "can_spawn": false, "status": "running", "head": {"tree_id": id, "node_id": id},
            "spent": {"cost_usd": 0.0, "turns": 0, "input_tokens": 0, "output_tokens": 0, "wall_ms": 0},
            "metadata": {}, "created_at": now_ms(), "updated_at": now_ms(),
        }))
        .unwrap()
    }

    #[test]
    fn children_stand_below_their_parent() {
        let top = session("top", None);
        let (a, b) = (session("a", Some(&top)), session("b", Some(&top)));
        let below = session("below", Some(&a));
        let other = session("other", None);
        let lost = session("lost", Some(&session("gone", None)));
        let lines = outline(&[top, a, b, below, other, lost], Screen::plain(60));
        let names: Vec<&str> =
            lines.iter().map(|line| line.split_at(31).1.split("  /").next().unwrap()).collect();
        assert_eq!(names, ["top", "  a", "    below", "  b", "other", "lost"], "{lines:#?}");
    }

    #[test]
    fn an_agent_that_asks_without_a_process_is_parked() {
        let word = |parked| {
            let mut session = session("s", None);
            session.status = SessionStatus::AwaitingPermission.into();
            session.parked = parked;
            let line = session_line(&session, 0, STATUS_WIDTH, Screen::plain(60));
            line.split_whitespace().next().unwrap_or_default().to_owned()
        };
        assert_eq!((word(false), word(true)), ("asks".to_owned(), "parked".to_owned()));
    }

    #[test]
    fn an_end_in_which_something_was_refused_says_so() {
        let mut all = [session("a", None), session("b", None)];
        for one in &mut all {
            one.status = SessionStatus::Complete.into();
        }
        all[1].refused = Some(plexus_client::wire::Refused { denied: 1, expired: 2 });
        let lines = outline(&all, Screen::plain(100));
        assert!(lines[1].starts_with("complete · 1 denied · 2 expired "), "{lines:#?}");
        assert_eq!(lines[0].find(" a "), lines[1].replace('·', ".").find(" b "), "{lines:#?}");
    }

    #[test]
    fn a_line_fits_a_narrow_screen() {
        let long = session(&"x".repeat(200), None);
        for width in [40, 60, 100] {
            assert!(
                session_line(&long, 3, STATUS_WIDTH, Screen::plain(width)).chars().count() <= width,
                "{width}"
            );
        }
    }
}
