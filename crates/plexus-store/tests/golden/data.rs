//! A PostgreSQL database of each release: this build reads what the release read, and goes on.
//!
//! `postgres.sql` is a dump, `postgres.json` what the release itself read from it. A release adds
//! both with `UPDATE_GOLDEN=1 cargo test -p plexus-store --test golden` and changes none of the old
//! ones; that needs `pg_dump`.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, ensure};
use plexus_core::{Caller, RuleId, ServerId, SessionId};
use plexus_store::{
    AddSpend, AppendEvents, ApprovalFilter, AuditLine, Change, CreateSession, Cursor, EndChat,
    Ending, Fate, Fork, JsonText, NewEvent, NewRule, OutboxEntry, Owner, PageRequest,
    PostgresOptions, PostgresStore, Priority, ReadLimit, RegisterServer, RuleDecision, RuleScope,
    SessionFilter, SetCursor, SettleApproval, Spend, StartChat, Store, Token, TokenHash,
    UnixMillis,
};
use serde_json::{Value, json};
use testkit::fixtures::workspace_root;

use crate::common::{allow, decision, new_run, one, open_postgres, question};
use crate::{database, releases, with_cluster};

pub(crate) async fn postgres_databases_of_earlier_releases_read_as_they_did_and_go_on()
-> anyhow::Result<()> {
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        let golden = workspace_root().join("fixtures").join("golden");
        record(&golden.join(env!("CARGO_PKG_VERSION"))).await?;
    }
    let mut opened = 0;
    for release in releases()? {
        let dump = std::fs::read_to_string(release.join("postgres.sql"))?;
        let expected = std::fs::read_to_string(release.join("postgres.json"))?;
        let restored = with_cluster(move |cluster| {
            let url = cluster.fresh_database()?;
            cluster.sql(database(&url), &dump)?;
            Ok(url)
        });
        let url = restored.await?;
        let store = open_postgres(&PostgresOptions::new(url)).await?;
        let expected: Value = serde_json::from_str(&expected)?;
        let mut found = Vec::new();
        differences("", &expected, &told(&store).await?, &mut found);
        assert!(found.is_empty(), "{}: {}", release.display(), found.join("\n"));
        go_on(&store).await?;
        store.close().await?;
        opened += 1;
    }
    ensure!(opened > 0, "there is no release");
    Ok(())
}

/// Collects where `now` does not hold what `then` held. A field that is new belongs to its release.
fn differences(at: &str, then: &Value, now: &Value, found: &mut Vec<String>) {
    match (then, now) {
        (Value::Object(then), Value::Object(now)) => {
            for (key, then) in then {
                let now = now.get(key).unwrap_or(&Value::Null);
                differences(&format!("{at}.{key}"), then, now, found);
            }
        }
        (Value::Array(then), Value::Array(now)) if then.len() == now.len() => {
            for (i, (then, now)) in then.iter().zip(now).enumerate() {
                differences(&format!("{at}[{i}]"), then, now, found);
            }
        }
        _ if then != now => found.push(format!("{at}: {then} became {now}")),
        _ => {}
    }
}

/// Everything that readers are told, in one order.
async fn told(store: &dyn Store) -> anyhow::Result<Value> {
    let page = || PageRequest::first(1_000);
    let mut sessions = Vec::new();
    for session in store.sessions(SessionFilter::default(), page()).await?.items {
        let id = session.id;
        let events =
            store.read_from(Cursor { session: id, chat: 0, next: 0 }, ReadLimit::events(1_000));
        sessions.push(json!({
            "session": session,
            "ancestors": store.ancestors(id).await?,
            "chats": store.chats(Some(id), None, page()).await?.items,
            "events": events.await?.events,
            "runs": store.runs(id).await?,
            "readers": store.consumers(id).await?,
            "spend": store.spend(id).await?,
            "path": store.path(session.head, 1_000).await?,
        }));
    }
    let servers: Vec<_> =
        store.servers().await?.into_iter().map(|it| (it.lease, it.name, it.url)).collect();
    let feed: Vec<_> = store
        .read_commits(0, ReadLimit::events(1_000))
        .await?
        .events
        .into_iter()
        .map(|it| (it.commit, it.event.id))
        .collect();
    let audit = store.audit(None, page()).await?.items;
    let audit: Vec<_> = audit.into_iter().map(|numbered| numbered.line).collect();
    Ok(json!({
        "commits": store.newest_commit().await?,
        "sessions": sessions,
        "approvals": store.approvals(ApprovalFilter::default(), page()).await?.items,
        "rules": store.rules(page()).await?.items,
        "token": store.token(TokenHash::of("golden")).await?,
        "audit": audit,
        "outbox": store.outbox_due("hook", UnixMillis(i64::MAX), 10).await?.entries,
        "servers": servers,
        "feed": feed,
    }))
}

/// Goes on where the release stopped: every kind of change that touches what it left.
async fn go_on(store: &PostgresStore) -> anyhow::Result<()> {
    let named = async |name: &str| store.session_named(None, name).await;
    let (open, commits) = (named("open").await?, store.newest_commit().await?);
    let chat = open.open_chat().context("an open chat")?;
    let before = store.chat(open.id, Some(chat)).await?.total_events;
    one(store, append(open.id, chat, "after the release")).await?;
    let pending = store.approvals(ApprovalFilter::default(), PageRequest::first(10)).await?.items;
    let pending = pending.iter().find(|it| it.decision.is_none()).context("a pending approval")?;
    one(store, Change::DecideApproval(decision(pending.id, allow()))).await?;
    let settled = SettleApproval { id: pending.id, fate: Fate::Delivered, at: UnixMillis::now() };
    one(store, Change::SettleApproval(settled)).await?;
    one(store, end(open.id, chat)).await?;
    one(store, Change::StartChat(StartChat::new(open.id, "once more"))).await?;
    one(store, Change::CreateSession(CreateSession::new("new", Some(open.id)))).await?;
    assert_eq!(store.chat(open.id, Some(chat)).await?.total_events, before + 2);
    assert_eq!(store.newest_commit().await?, commits + 6);
    assert_eq!(store.integrity().await?, Vec::<String>::new());
    Ok(())
}

// What a release leaves behind.

async fn record(release: &Path) -> anyhow::Result<()> {
    let url = with_cluster(testkit::postgres::Postgres::fresh_database).await?;
    let store = open_postgres(&PostgresOptions::new(&url)).await?;
    write(&store).await?;
    let told = told(&store).await?;
    store.close().await?;
    let dump = Command::new("pg_dump")
        .args(["--schema=plexus", "--inserts", "--no-owner", "--no-privileges", "--no-comments"])
        .arg(&url)
        .env("PGSSLMODE", "disable")
        .output()
        .context("run pg_dump")?;
    ensure!(dump.status.success(), "pg_dump: {}", String::from_utf8_lossy(&dump.stderr));
    // What psql alone understands, and what only says which programs were used.
    let kept = |line: &&str| !line.starts_with('\\') && !line.starts_with("--") && !line.is_empty();
    let dump: Vec<&str> = std::str::from_utf8(&dump.stdout)?.lines().filter(kept).collect();
    std::fs::create_dir_all(release)?;
    std::fs::write(release.join("postgres.sql"), dump.join("\n") + "\n")?;
    std::fs::write(release.join("postgres.json"), serde_json::to_string_pretty(&told)? + "\n")?;
    Ok(())
}

/// Writes at least one row into every table.
async fn write(store: &dyn Store) -> anyhow::Result<()> {
    let at = UnixMillis(1_700_000_000_000);
    let server = RegisterServer {
        id: ServerId::generate(),
        name: "first".into(),
        url: "http://first".into(),
        // Long enough that whoever opens the dump finds what belongs to a living server.
        lease: std::time::Duration::from_secs(3600),
    };
    // What is begun before a server registers belongs to nobody, so that any handle may go on.
    let open = new_session(store, "open", None).await?;
    let child = new_session(store, "child", Some(open)).await?;
    let run = one(store, Change::CreateRun(new_run(open))).await?.run().context("a run")?;
    let start = StartChat {
        run: Some(run.n),
        idempotency_key: Some("key".into()),
        images: vec![plexus_store::PromptImage::new("image/png", "AAAA")],
        reserve: Some(plexus_store::Reservation { amount: spend(7), within: Vec::new() }),
        ..StartChat::new(open, "an 'open' chat; with a \\ and a 名")
    };
    one(store, Change::StartChat(start)).await?;
    one(store, append(open, 0, "first")).await?;
    one(store, append(open, 0, "second")).await?;
    let whole = vec![Change::StartChat(StartChat::new(child, "done")), append(child, 0, "x")];
    store.commit(whole, Priority::Normal).await?;
    one(store, end(child, 0)).await?;
    let fork = CreateSession {
        fork: Some(Fork { of: child, at: None }),
        ..CreateSession::new("fork", None)
    };
    let forked = fork.id;
    one(store, Change::CreateSession(fork)).await?;
    one(store, Change::StartChat(StartChat::new(forked, "on"))).await?;
    let gone = new_session(store, "gone", None).await?;
    let delete = plexus_store::DeleteSession { id: gone, children: plexus_store::Children::Refuse };
    one(store, Change::DeleteSession(delete)).await?;
    let (first, second) = (question(open, "r1", "ls"), question(open, "r2", "rm"));
    let decided = decision(first.id, allow());
    one(store, Change::OpenApproval(first)).await?;
    one(store, Change::DecideApproval(decided)).await?;
    one(store, Change::OpenApproval(second)).await?;
    let rule = NewRule {
        id: RuleId::generate(),
        decision: RuleDecision::Deny,
        pattern: "Bash(rm:*)".into(),
        scope: RuleScope::Subtree(open),
        author: Owner::Session(open),
        ends_with: Some(run),
        expires_at: Some(at),
        uses: Some(3),
        reason: Some("because".into()),
        matches: vec!["Bash(rm x)".into()],
        does_not_match: Vec::new(),
    };
    let outbox = OutboxEntry {
        id: uuid::Uuid::now_v7(),
        kind: "approval.requested".into(),
        target: "hook".into(),
        body: JsonText::empty_object(),
        created_at: at,
        due_at: at,
        attempts: 2,
        last_error: Some("refused".into()),
    };
    let token = Token {
        hash: TokenHash::of("golden"),
        caller: Caller::Child(open),
        run: Some(run),
        expires_at: Some(at),
    };
    let line = AuditLine {
        at,
        kind: "breach".into(),
        session: Some(open),
        body: JsonText::empty_object(),
    };
    let cursor = Cursor { session: open, chat: 0, next: 1 };
    let rest = vec![
        Change::AddRule(rule),
        Change::Enqueue(outbox),
        Change::AddToken(token),
        Change::AppendAudit(line),
        Change::SetCursor(SetCursor { consumer: "reader".into(), cursor }),
        Change::AddSpend(AddSpend { session: child, amount: spend(11) }),
    ];
    store.commit(rest, Priority::Normal).await?;
    one(store, Change::RegisterServer(server)).await?;
    one(store, Change::CreateRun(new_run(child))).await?;
    Ok(())
}

async fn new_session(
    store: &dyn Store,
    name: &str,
    parent: Option<SessionId>,
) -> anyhow::Result<SessionId> {
    let new = CreateSession::new(name, parent);
    let id = new.id;
    one(store, Change::CreateSession(new)).await?;
    Ok(id)
}

fn append(session: SessionId, chat: u32, text: &str) -> Change {
    let body = JsonText::from(json!({ "type": "content", "text": text }));
    Change::AppendEvents(AppendEvents {
        session,
        chat,
        events: vec![NewEvent::now("content", body)],
    })
}

fn end(session: SessionId, chat: u32) -> Change {
    let event = NewEvent::now("complete", JsonText::from(json!({ "type": "complete" })));
    Change::EndChat(EndChat { session, chat, ending: Ending::Complete, usage: None, event })
}

fn spend(cost_micros: u64) -> Spend {
    Spend { cost_micros, turns: 1, input_tokens: 2, output_tokens: 3, wall_ms: 4 }
}
