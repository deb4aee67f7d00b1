//! Finds what a person names: a session by its name, its id or the beginning of its id, and an
//! approval by its id or the beginning of it.

use anyhow::{Result, bail};
use plexus_client::wire::{
    Approval, ApprovalPageParams, CallError, DecidedApproval, ErrorKind, Session, SessionId,
    SessionRef, may_begin_an_id,
};
use plexus_client::{Client, ClientError};

use super::server::failed;
use plexus_render::sanitize;
use plexus_render::tool_call;

/// How many are named when several fit.
const NAMED: usize = 4;

/// Finds a session.
///
/// # Errors
/// `not_found`, or `conflict` when several sessions are named so, or have ids that begin so.
pub(crate) async fn session(client: &Client, which: &str) -> Result<Session, ClientError> {
    if let Ok(id) = which.parse::<SessionId>() {
        return client.session(&SessionRef::id(id)).await;
    }
    if !may_begin_an_id(which) {
        return match client.session(&SessionRef::named(which)).await {
            Err(error) if error.kind() == ErrorKind::NotFound => Err(unknown(which)),
            other => other,
        };
    }
    // An earlier release gave such names too, and an agent may have chosen one to be taken for
    // another session.
    let sessions = client.sessions().await?;
    let fits = |session: &&Session| session.name == which || fits(&session.id.to_string(), which);
    let found: Vec<&Session> = sessions.iter().filter(fits).collect();
    match found.as_slice() {
        [] => Err(unknown(which)),
        [one] => Ok((*one).clone()),
        several => {
            let names: Vec<String> = several.iter().map(|it| described(it, &sessions)).collect();
            Err(ambiguous(which, "sessions are named or", &names))
        }
    }
}

/// Says which session it is and who created it.
fn described(session: &Session, all: &[Session]) -> String {
    let creator = session.parent.map(|parent| {
        let parent = all.iter().find(|it| it.id == parent);
        let name = parent.map_or("another session", |parent| parent.name.as_str());
        format!("by {}", sanitize::one_line(name))
    });
    let creator = creator.unwrap_or_else(|| "by the operator".to_owned());
    format!("{} ({}, created {creator})", session.id, sanitize::one_line(&session.name))
}

/// What a command does with the approval that it finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Purpose {
    Decide,
    Preview,
    Show,
}

impl Purpose {
    fn verb(self) -> &'static str {
        match self {
            Self::Decide => "decide",
            Self::Preview => "preview",
            Self::Show => "show",
        }
    }
}

/// Finds an approval that waits. One that is decided is named with its decision.
pub(crate) async fn approval(
    client: &Client,
    pending: &[Approval],
    which: &str,
    purpose: Purpose,
) -> Result<Approval> {
    match fitting(pending, which).as_slice() {
        [one] => return Ok((*one).clone()),
        [] => {}
        several => {
            let ids: Vec<String> = several.iter().map(|it| it.id.to_string()).collect();
            return Err(failed(ambiguous(which, "approvals", &ids)));
        }
    }
    match decided(client, which).await.map_err(failed)? {
        Some(decided) => bail!("could not {} {which}: {}", purpose.verb(), stands(&decided)),
        None => bail!(
            "could not find {} among the approvals that wait; `plexus pending` lists them",
            sanitize::one_line(which)
        ),
    }
}

/// Finds an approval among those that are decided, newest first.
async fn decided(client: &Client, which: &str) -> Result<Option<DecidedApproval>, ClientError> {
    let mut cursor = None;
    loop {
        let page = client.loopback().history(&ApprovalPageParams::page(cursor)).await?;
        let mut decisions = page.decisions.into_iter();
        let found = decisions.find(|it| fits(&it.approval_id.to_string(), which));
        if found.is_some() || page.cursor.is_none() {
            return Ok(found);
        }
        cursor = page.cursor;
    }
}

/// Returns the approvals whose ids begin like this.
pub(crate) fn fitting<'a>(approvals: &'a [Approval], which: &str) -> Vec<&'a Approval> {
    approvals.iter().filter(|it| fits(&it.id.to_string(), which)).collect()
}

fn fits(id: &str, which: &str) -> bool {
    id == which || (may_begin_an_id(which) && id.starts_with(which))
}

/// Says how an approval was decided.
pub(crate) fn stands(decided: &DecidedApproval) -> String {
    let status = decided.status.to_string();
    let by = decided.decided_by.as_ref().and_then(|by| by.known());
    let by = by.map(|by| format!(" by the {}", tool_call::decider(*by))).unwrap_or_default();
    let why = decided.message.as_deref().filter(|words| !words.is_empty());
    let why = why.map(|words| format!(": {}", sanitize::one_line(words))).unwrap_or_default();
    format!("it was already {}{by}{why}", sanitize::one_line(&status))
}

/// The shortest beginnings by which these ids can be told apart from all that are taken.
pub(crate) fn short_ids(ids: &[String], taken: &[String]) -> Vec<String> {
    let shortest = |id: &String| {
        let others = || taken.iter().filter(|other| *other != id);
        let unique = (8..id.len()).find(|end| {
            let start = id.get(..*end).unwrap_or(id);
            others().all(|other| !other.starts_with(start))
        });
        id.get(..unique.unwrap_or(id.len())).unwrap_or(id).to_owned()
    };
    ids.iter().map(shortest).collect()
}

fn unknown(which: &str) -> ClientError {
    let error = CallError::not_found(format_args!("find the session {which:?}"));
    error
        .with_hint("`plexus ps` lists them; a name is exact, and the beginning of an id is enough")
        .into()
}

fn ambiguous(which: &str, what: &str, ids: &[String]) -> ClientError {
    let named: Vec<&str> = ids.iter().take(NAMED).map(String::as_str).collect();
    let more = if ids.len() > NAMED { ", …" } else { "" };
    let error =
        CallError::conflict(format_args!("find {which}: {} {what} begin like this", ids.len()));
    error.with_hint(format_args!("give more of the id: {}{more}", named.join(", "))).into()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::stand_in::answering;

    #[tokio::test]
    async fn a_decision_of_long_ago_is_named() {
        let id = "01a1de6b-3b4a-75ed-a2ee-6d8405ee5847";
        let client = answering(move |_, params| {
            let old = json!({"approval_id": id, "session_id": id, "tool_name": "T",
                "tool_use_id": "t", "input": {}, "input_digest": "d", "status": "denied",
                "created_at": 1, "decided_by": "operator"});
            Ok(match params["cursor"].as_str() {
                None => json!({"type": "ok", "decisions": [], "cursor": "2"}),
                Some(_) => json!({"type": "ok", "decisions": [old]}),
            })
        });
        let client = client.await;
        for which in [id, &id[..8]] {
            for (purpose, verb) in [
                (Purpose::Decide, "decide"),
                (Purpose::Preview, "preview"),
                (Purpose::Show, "show"),
            ] {
                let error = approval(&client, &[], which, purpose).await.unwrap_err().to_string();
                let told = "it was already denied by the operator";
                assert_eq!(error, format!("could not {verb} {which}: {told}"));
            }
        }
        let error = approval(&client, &[], "ffff", Purpose::Show).await;
        let error = error.unwrap_err().to_string();
        assert!(error.starts_with("could not find ffff"), "{error}");
    }

    #[test]
    fn ids_are_as_short_as_they_can_be_told_apart() {
        let ids = ["01a1de6b-3b4a-75ed", "01a1de6b-3b4a-76aa", "ff000000-0000-0000"];
        let ids = ids.map(str::to_owned);
        assert_eq!(short_ids(&ids, &ids), ["01a1de6b-3b4a-75", "01a1de6b-3b4a-76", "ff000000"]);
        assert_eq!(short_ids(&ids[..1], &ids[..1]), ["01a1de6b"]);
        assert_eq!(short_ids(&ids[..1], &ids), ["01a1de6b-3b4a-75"], "others are not shown");
    }

    #[tokio::test]
    async fn a_name_like_the_id_of_another_session_is_a_conflict() {
        let (id, lead) =
            ("01a1de6b-3b4a-75ed-a2ee-6d8405ee5847", "01a2ffff-3b4a-75ed-a2ee-6d8405ee5847");
        let impostor = "01a30000-3b4a-75ed-a2ee-6d8405ee5847";
        let client = answering(move |method, _| {
            assert_eq!(method, "agents.list", "the name alone decides nothing");
            let session = |id: &str, name: &str, parent: Option<&str>| {
                json!({"id": id, "name": name, "parent": parent, "working_dir": "/", "model": null,
                    "channel": "control", "loopback_enabled": true, "can_spawn": false,
                    "status": "idle", "head": {"tree_id": id, "node_id": id}, "metadata": {},
                    "spent": {"cost_usd": 0.0, "turns": 0, "input_tokens": 0, "output_tokens": 0,
                        "wall_ms": 0},
                    "created_at": 1, "updated_at": 1})
            };
            let sessions = [
                session(id, "docs", None),
                session(lead, "lead", None),
                session(impostor, &id[..8], Some(lead)),
            ];
            Ok(json!({"type": "ok", "sessions": sessions}))
        });
        let client = client.await;
        let error = session(&client, &id[..8]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Conflict, "{error}");
        // The hint has the candidates.
        let said = format!("{error:?}");
        for expected in ["docs, created by the operator", "created by lead"] {
            assert!(said.contains(expected), "{said}");
        }
        assert_eq!(session(&client, &lead[..8]).await.unwrap().name, "lead");
    }
}
