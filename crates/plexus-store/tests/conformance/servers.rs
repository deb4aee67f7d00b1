//! Servers that share a store: leases, fencing, and takeover from a dead server.

use std::time::Duration;

use plexus_core::{Caller, ServerId, SessionId};
use plexus_store::{
    AddSpend, AppendEvents, ApprovalFilter, ApprovalStatus, AssignRun, Change, ChatStatus,
    DecidedBy, EndRun, Fate, JournalPosition, JsonText, KeepTranscript, Lease, NewRule,
    OpenApproval, Owner, PageRequest, ParkApproval, ParkStep, Parking, Prompts, ReadLimit,
    RegisterServer, RenewLease, RuleDecision, RuleScope, RunKey, Server, ServerState,
    SetJournalPosition, SettleApproval, Spend, Stage, StartChat, Store, StoreError, TakeOver,
    Token, TokenHash, Trace, UnixMillis, UpdateRun, Verdict,
};
use serde_json::json;

use crate::assert_err;
use crate::fixture::{
    allow, chat, decision, end, events, new_run, one, question, run, session, text,
};

/// Longer than any test runs.
const LONG: Duration = Duration::from_secs(3600);

/// A lease that has run out before anybody can look.
const OVER: Duration = Duration::from_millis(1);

/// How long a lease of a millisecond may take to run out on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

async fn register(
    store: &dyn Store,
    id: ServerId,
    name: &str,
    lease: Duration,
) -> anyhow::Result<Lease> {
    let url = format!("http://{name}.example:4445");
    let new = RegisterServer { id, name: name.to_owned(), url, lease };
    let lease = one(store, Change::RegisterServer(new)).await?.lease();
    Ok(lease.expect("a registration gives a lease"))
}

async fn server(store: &dyn Store, id: ServerId) -> anyhow::Result<Server> {
    let all = store.servers().await?;
    Ok(all
        .into_iter()
        .find(|it| it.lease.server == id)
        .expect("a server that registered is listed"))
}

/// Registers a server with a short lease, and waits until it has run out by the store's clock.
async fn expire(store: &dyn Store, id: ServerId, name: &str) -> anyhow::Result<Lease> {
    let lease = register(store, id, name, OVER).await?;
    let deadline = tokio::time::Instant::now() + PATIENCE;
    while server(store, id).await?.state != ServerState::Expired {
        anyhow::ensure!(
            tokio::time::Instant::now() < deadline,
            "a lease of {OVER:?} was not over after {PATIENCE:?}"
        );
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(lease)
}

fn take_over(lease: Lease) -> Change {
    Change::TakeOver(TakeOver {
        lease,
        reason: "the node alpha is gone".into(),
        at: UnixMillis::now(),
    })
}

fn journal(run: RunKey) -> Change {
    let to = JournalPosition { segment: 1, offset: 1 };
    Change::SetJournalPosition(SetJournalPosition { run, expects: JournalPosition::default(), to })
}

/// Returns every change that only the server of a run and its chat may make.
fn writes_of(
    session: SessionId,
    run: RunKey,
    undelivered: plexus_core::ApprovalId,
) -> Vec<(&'static str, Change)> {
    let token = Token {
        hash: TokenHash::of("plx_c_other"),
        caller: Caller::Child(session),
        run: Some(run),
        expires_at: None,
    };
    let settle = SettleApproval { id: undelivered, fate: Fate::Delivered, at: UnixMillis::now() };
    vec![
        ("AppendEvents", events(session, 0, &["late"])),
        ("EndChat", end(session, 0)),
        ("AssignRun", Change::AssignRun(AssignRun { session, chat: 0, run: run.n })),
        ("UpdateRun", Change::UpdateRun(UpdateRun::of(run))),
        ("SetJournalPosition", journal(run)),
        ("EndRun", Change::EndRun(EndRun { run, exit: JsonText::empty_object() })),
        (
            "OpenApproval",
            Change::OpenApproval(OpenApproval {
                run: Some(run.n),
                ..question(session, "late", "ls")
            }),
        ),
        ("SettleApproval", Change::SettleApproval(settle)),
        ("RetireApproval", Change::RetireApproval(undelivered)),
        ("MarkBreach", Change::MarkBreach { id: undelivered, what: "late".into() }),
        ("AddToken", Change::AddToken(token)),
    ]
}

/// Creates a session with an open chat, the run that serves it, and an approval that is allowed but
/// not delivered.
async fn busy(
    store: &dyn Store,
    name: &str,
) -> anyhow::Result<(SessionId, RunKey, plexus_core::ApprovalId)> {
    let s = session(store, name, None).await?;
    chat(store, s, "go").await?;
    let r = run(store, s).await?;
    one(store, Change::AssignRun(AssignRun { session: s, chat: 0, run: r.n })).await?;
    let open = OpenApproval { run: Some(r.n), chat: Some(0), ..question(s, "decided", "ls") };
    let id = open.id;
    one(store, Change::OpenApproval(open)).await?;
    one(store, Change::DecideApproval(decision(id, allow()))).await?;
    Ok((s, r, id))
}

pub(crate) async fn without_a_lease_nothing_is_owned(store: &dyn Store) -> anyhow::Result<()> {
    let (s, r, _) = busy(store, "s").await?;
    assert_eq!((store.lease(), store.servers().await?), (None, Vec::new()));
    assert_eq!((store.run(r).await?.server, store.chat(s, None).await?.server), (None, None));
    // A server that registers later may write to it, because it has no owner.
    register(store, ServerId::generate(), "alpha", LONG).await?;
    one(store, events(s, 0, &["on"])).await?;
    one(store, journal(r)).await?;
    Ok(())
}

pub(crate) async fn a_run_belongs_to_the_server_that_began_it(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let id = ServerId::generate();
    let lease = register(store, id, "alpha", LONG).await?;
    assert_eq!((lease, store.lease()), (Lease { server: id, epoch: 1 }, Some(lease)));
    let (s, r, _) = busy(store, "s").await?;
    assert_eq!(
        (store.run(r).await?.server, store.chat(s, None).await?.server),
        (Some(id), Some(id))
    );
    one(store, events(s, 0, &["mine"])).await?;
    one(store, journal(r)).await?;
    let it = server(store, id).await?;
    assert_eq!((it.name.as_str(), it.url.as_str()), ("alpha", "http://alpha.example:4445"));
    assert_eq!((it.state, it.open_runs, it.open_chats), (ServerState::Alive, 1, 1));
    assert!(it.lease_left > Duration::ZERO && it.lease_left <= LONG, "{it:?}");
    Ok(())
}

pub(crate) async fn another_servers_run_is_fenced(store: &dyn Store) -> anyhow::Result<()> {
    let a = ServerId::generate();
    register(store, a, "alpha", LONG).await?;
    let (s, r, undelivered) = busy(store, "s").await?;
    let before = store.chat(s, None).await?;
    register(store, ServerId::generate(), "beta", LONG).await?;
    for (name, change) in writes_of(s, r, undelivered) {
        // The spending before it is rolled back with it.
        let amount = Spend { turns: 1, ..Spend::default() };
        let list = vec![Change::AddSpend(AddSpend { session: s, amount }), change];
        match store.commit(list, plexus_store::Priority::Normal).await {
            Err(StoreError::Fenced { .. }) => {}
            other => panic!("{name}: {other:?}"),
        }
    }
    assert_eq!(store.chat(s, None).await?, before);
    assert_eq!(store.spend(s).await?.own, Spend::default());
    // A run in that session would be a second process in one conversation.
    let Err(StoreError::Conflict { standing, .. }) =
        one(store, Change::CreateRun(new_run(s))).await
    else {
        panic!("a second server began in a session that runs elsewhere");
    };
    assert_eq!(standing["server"], json!(a));
    // Any server may open approvals for it, decide, escalate, and delete it.
    let other = OpenApproval { chat: Some(0), ..question(s, "other", "ls") };
    let id = other.id;
    one(store, Change::OpenApproval(other)).await?;
    let decide = plexus_store::DecideApproval {
        event: Some(text("decided")),
        ..decision(id, Verdict::Deny)
    };
    one(store, Change::DecideApproval(decide)).await?;
    assert_eq!(store.chat(s, None).await?.total_events, before.total_events + 1);
    let delete = plexus_store::DeleteSession { id: s, children: plexus_store::Children::Refuse };
    one(store, Change::DeleteSession(delete)).await?;
    Ok(())
}

pub(crate) async fn registering_again_keeps_the_runs_and_ends_the_epoch(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let a = ServerId::generate();
    let first = register(store, a, "alpha", LONG).await?;
    let (s, r, _) = busy(store, "s").await?;
    let second = register(store, a, "alpha", LONG).await?;
    assert!(second.epoch > first.epoch, "{first:?} {second:?}");
    one(store, events(s, 0, &["still mine"])).await?;
    one(store, journal(r)).await?;
    let renew = |lease| Change::RenewLease(RenewLease { lease, lasts: LONG });
    assert_err!(one(store, renew(first)).await, StoreError::Fenced { .. });
    assert_err!(one(store, Change::RetireServer(first)).await, StoreError::Fenced { .. });
    assert_err!(one(store, take_over(first)).await, StoreError::Conflict { .. });
    one(store, renew(second)).await?;
    let unknown = Lease { server: ServerId::generate(), epoch: 1 };
    assert_err!(one(store, take_over(unknown)).await, StoreError::NotFound { .. });
    Ok(())
}

pub(crate) async fn an_expired_lease_writes_nothing(store: &dyn Store) -> anyhow::Result<()> {
    let a = ServerId::generate();
    register(store, a, "alpha", LONG).await?;
    let (s, r, undelivered) = busy(store, "s").await?;
    let idle = session(store, "idle", None).await?;
    let before = (store.chat(s, None).await?, store.run(r).await?);
    let lease = expire(store, a, "alpha").await?;
    for (name, change) in writes_of(s, r, undelivered) {
        match one(store, change).await {
            Err(StoreError::Fenced { .. }) => {}
            other => panic!("{name}: {other:?}"),
        }
    }
    assert_err!(
        one(store, Change::StartChat(StartChat::new(idle, "go"))).await,
        StoreError::Fenced { .. }
    );
    assert_err!(one(store, Change::CreateRun(new_run(idle))).await, StoreError::Fenced { .. });
    assert_err!(
        one(store, Change::RenewLease(RenewLease { lease, lasts: LONG })).await,
        StoreError::Fenced { .. }
    );
    assert_eq!((store.chat(s, None).await?, store.run(r).await?), before);
    // A server that was late registers again and continues.
    register(store, a, "alpha", LONG).await?;
    one(store, events(s, 0, &["back"])).await?;
    Ok(())
}

pub(crate) async fn a_living_server_is_not_taken_over(store: &dyn Store) -> anyhow::Result<()> {
    let a = ServerId::generate();
    let lease = register(store, a, "alpha", LONG).await?;
    let (s, _, _) = busy(store, "s").await?;
    register(store, ServerId::generate(), "beta", LONG).await?;
    let Err(StoreError::Conflict { standing, .. }) = one(store, take_over(lease)).await else {
        panic!("a server with a lease was taken over");
    };
    assert_eq!(standing["state"], json!("alive"));
    assert_eq!(store.chat(s, None).await?.status, ChatStatus::Running);
    Ok(())
}

pub(crate) async fn a_takeover_ends_all_that_was_open(store: &dyn Store) -> anyhow::Result<()> {
    let a = ServerId::generate();
    register(store, a, "alpha", LONG).await?;
    let (s, r, undelivered) = busy(store, "s").await?;
    let open = OpenApproval { run: Some(r.n), chat: Some(0), ..question(s, "pending", "rm -rf /") };
    let pending = open.id;
    one(store, Change::OpenApproval(open)).await?;
    let hash = TokenHash::of("plx_c_child");
    let token = Token { hash, caller: Caller::Child(s), run: Some(r), expires_at: None };
    one(store, Change::AddToken(token)).await?;
    let rule = NewRule {
        id: plexus_core::RuleId::generate(),
        decision: RuleDecision::Allow,
        pattern: "Bash(ls)".into(),
        scope: RuleScope::Session(s),
        author: Owner::Operator,
        ends_with: Some(r),
        expires_at: None,
        uses: None,
        reason: None,
        matches: Vec::new(),
        does_not_match: Vec::new(),
    };
    one(store, Change::AddRule(rule)).await?;
    // A chat without a run: its server died between the prompt and the process.
    let early = session(store, "early", None).await?;
    let ephemeral = StartChat { trace: Trace::Ephemeral, ..StartChat::new(early, "go") };
    one(store, Change::StartChat(ephemeral)).await?;
    // A warm process without a chat.
    let warm = session(store, "warm", None).await?;
    let warm_run = run(store, warm).await?;
    // Records of another server, and answers that were delivered, are left alone.
    let lease = expire(store, a, "alpha").await?;
    register(store, ServerId::generate(), "beta", LONG).await?;
    let (other, other_run, _) = busy(store, "other").await?;

    let done = one(store, take_over(lease)).await?;
    let [plexus_store::Outcome::TakenOver(taken)] = &done.outcomes[..] else { panic!("{done:?}") };
    assert_eq!(taken.runs, vec![r, warm_run]);
    assert_eq!(taken.chats, vec![(s, 0), (early, 0)]);
    assert_eq!((&taken.cancelled[..], &taken.voided[..]), (&[pending][..], &[undelivered][..]));
    let ended = store.chat(s, None).await?;
    assert_eq!(
        (ended.status, ended.error.as_deref()),
        (ChatStatus::Failed, Some("the node alpha is gone"))
    );
    assert_eq!(store.chat(early, None).await?.status, ChatStatus::Failed);
    let read = store.read_events(s, 0, 0, ReadLimit::events(100)).await?;
    let types: Vec<_> = read.events.iter().map(|event| event.event_type.as_str()).collect();
    assert_eq!(types, ["start", "approval_resolved", "error"]);
    assert_eq!(
        read.events[2].body.to_value(),
        json!({"type": "error", "message": "the node alpha is gone"})
    );
    let cancelled = store.approval(pending).await?;
    assert_eq!(cancelled.status, ApprovalStatus::Cancelled);
    assert_eq!(cancelled.decision.map(|it| it.by), Some(DecidedBy::AgentEnded));
    assert!(cancelled.void_at.is_some());
    let voided = store.approval(undelivered).await?;
    assert_eq!((voided.status, voided.delivered_at), (ApprovalStatus::Allowed, None));
    assert!(voided.void_at.is_some(), "an answer that nobody can deliver is void");
    assert_eq!(store.token(hash).await?, None);
    assert_eq!(store.rules(PageRequest::default()).await?.items, Vec::new());
    assert!(
        store.run(r).await?.ended_at.is_some() && store.run(warm_run).await?.ended_at.is_some()
    );
    assert_eq!(
        store.open_runs().await?.into_iter().map(|it| it.key).collect::<Vec<_>>(),
        vec![other_run]
    );
    assert_eq!(store.chat(other, None).await?.status, ChatStatus::Running);

    // A takeover is final, and happens once.
    assert_err!(one(store, take_over(lease)).await, StoreError::Conflict { .. });
    assert_eq!(server(store, a).await?.state, ServerState::TakenOver);
    let back = register(store, a, "alpha", LONG).await?;
    assert!(back.epoch > lease.epoch);
    assert_err!(
        one(
            store,
            Change::AppendEvents(AppendEvents { session: s, chat: 0, events: vec![text("late")] })
        )
        .await,
        StoreError::Conflict { .. }
    );
    assert_err!(one(store, Change::UpdateRun(UpdateRun::of(r))).await, StoreError::Conflict { .. });
    // The session continues, on this server or another.
    assert_eq!(chat(store, s, "again").await?, 1);
    Ok(())
}

pub(crate) async fn a_server_leaves_only_when_nothing_is_open(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let a = ServerId::generate();
    let lease = register(store, a, "alpha", LONG).await?;
    let s = session(store, "s", None).await?;
    let r = run(store, s).await?;
    assert_err!(one(store, Change::RetireServer(lease)).await, StoreError::Conflict { .. });
    one(store, Change::EndRun(EndRun { run: r, exit: JsonText::empty_object() })).await?;
    one(store, Change::RetireServer(lease)).await?;
    assert_eq!((server(store, a).await?.state, store.lease()), (ServerState::Retired, None));
    assert_err!(one(store, take_over(lease)).await, StoreError::Conflict { .. });
    store.prune(UnixMillis(UnixMillis::now().0 + 60_000), Prompts::Keep).await?;
    assert_eq!(store.servers().await?, Vec::new());
    Ok(())
}

/// Asks in a chat of its own and is parked, with a transcript in the store where `transcript` says
/// so.
async fn parked(
    store: &dyn Store,
    name: &str,
    transcript: bool,
) -> anyhow::Result<(SessionId, plexus_core::ApprovalId)> {
    let s = session(store, name, None).await?;
    chat(store, s, "hi").await?;
    let r = run(store, s).await?;
    let open = OpenApproval { chat: Some(0), run: Some(r.n), ..question(s, "r", "ls") };
    let id = open.id;
    one(store, Change::OpenApproval(open)).await?;
    one(store, step(id, ParkStep::Begin)).await?;
    one(store, step(id, ParkStep::Done(JsonText::empty_object()))).await?;
    if transcript {
        let data = b"packed".to_vec();
        let keep = KeepTranscript { session: s, chat: 0, data };
        one(store, Change::KeepTranscript(keep)).await?;
    }
    one(store, Change::EndRun(EndRun { run: r, exit: JsonText::empty_object() })).await?;
    Ok((s, id))
}

fn step(id: plexus_core::ApprovalId, step: ParkStep) -> Change {
    Change::ParkApproval(ParkApproval { id, step })
}

pub(crate) async fn a_takeover_leaves_agents_parked_whose_transcript_is_here(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let a = ServerId::generate();
    register(store, a, "alpha", LONG).await?;
    let (kept, stays) = parked(store, "kept", true).await?;
    let (lost, goes) = parked(store, "lost", false).await?;
    one(store, Change::DecideApproval(decision(stays, allow()))).await?;
    // While its server lives, nobody else wakes it.
    let b = ServerId::generate();
    register(store, b, "beta", LONG).await?;
    let adopt = || step(stays, ParkStep::Adopt(JsonText::empty_object()));
    assert_err!(one(store, adopt()).await, StoreError::Fenced { .. });
    assert_err!(one(store, step(stays, ParkStep::Wake)).await, StoreError::Fenced { .. });

    let lease = expire(store, a, "alpha").await?;
    register(store, b, "beta", LONG).await?;
    let done = one(store, take_over(lease)).await?;
    let [plexus_store::Outcome::TakenOver(taken)] = &done.outcomes[..] else { panic!("{done:?}") };
    assert_eq!((&taken.parked[..], &taken.cancelled[..]), (&[stays][..], &[goes][..]));
    assert_eq!(taken.chats, vec![(lost, 0)]);
    let chat = store.chat(kept, None).await?;
    assert_eq!((chat.status, chat.server), (ChatStatus::Running, None));
    let record = store.approval(stays).await?;
    assert_eq!((record.parking, record.void_at), (Some(Parking::Parked), None));
    assert_eq!(store.parked_transcript(kept, 0).await?, Some(b"packed".to_vec()));
    let read = store.read_events(kept, 0, 0, ReadLimit::events(100)).await?;
    let last = read.events.last().map(|event| event.body.to_value()).unwrap_or_default();
    assert_eq!(last["type"], "notice", "{last}");

    // Whoever adopts it first has it.
    one(store, adopt()).await?;
    assert_eq!(store.chat(kept, None).await?.server, Some(b));
    assert_err!(one(store, adopt()).await, StoreError::Conflict { .. });
    register(store, ServerId::generate(), "gamma", LONG).await?;
    assert_err!(one(store, adopt()).await, StoreError::Fenced { .. });
    register(store, b, "beta", LONG).await?;
    one(store, step(stays, ParkStep::Wake)).await?;
    Ok(())
}

pub(crate) async fn an_agent_that_was_being_woken_is_parked_again_by_another_server(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let a = ServerId::generate();
    register(store, a, "alpha", LONG).await?;
    let (s, id) = parked(store, "s", true).await?;
    one(store, Change::DecideApproval(decision(id, allow()))).await?;
    one(store, step(id, ParkStep::Wake)).await?;
    let woken = run(store, s).await?;
    let lease = expire(store, a, "alpha").await?;
    let b = ServerId::generate();
    register(store, b, "beta", LONG).await?;
    one(store, take_over(lease)).await?;
    assert!(store.run(woken).await?.ended_at.is_some());
    let filter = ApprovalFilter { stage: Stage::Waking, ..ApprovalFilter::default() };
    let waking = store.approvals(filter, PageRequest::default()).await?.items;
    assert_eq!(waking.iter().map(|it| it.id).collect::<Vec<_>>(), vec![id]);
    one(store, step(id, ParkStep::Again(JsonText::from(json!({"tries": 1}))))).await?;
    one(store, step(id, ParkStep::Adopt(JsonText::from(json!({"tries": 1}))))).await?;
    one(store, step(id, ParkStep::Wake)).await?;
    let n = run(store, s).await?.n;
    let asked = ParkStep::Asked { run: n, request_id: "again".to_owned(), at: UnixMillis(7) };
    one(store, step(id, asked)).await?;
    assert_eq!(store.approval(id).await?.allow_sent_at, Some(UnixMillis(7)));
    Ok(())
}
