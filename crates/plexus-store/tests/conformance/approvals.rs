//! Approvals: asked once, decided once.

use plexus_store::{
    ApprovalFilter, ApprovalStatus, Change, DecideApproval, DecidedBy, EscalateApproval, Fate,
    Fresh, JsonText, NewEvent, OpenApproval, Owner, PageRequest, Priority, ReadLimit,
    SettleApproval, Stage, Store, StoreError, UnixMillis, Verdict, limits,
};
use serde_json::json;

use crate::assert_err;
use crate::fixture::{
    allow, approval_of, ask, chat, decision, end, one, question, run, session, text,
};

pub(crate) async fn a_question_is_asked_once(store: &dyn Store) -> anyhow::Result<()> {
    let s = session(store, "s", None).await?;
    chat(store, s, "hi").await?;
    let event =
        || NewEvent::now("awaiting_approval", JsonText::from(json!({"type": "awaiting_approval"})));
    let open = || OpenApproval { chat: Some(0), event: Some(event()), ..question(s, "r", "ls") };
    let first = open();
    let made = one(store, Change::OpenApproval(first.clone())).await?;
    assert_eq!(made.approval().expect("an approval").1, Fresh::Made);
    let record = approval_of(&made);
    assert_eq!(
        (record.id, record.status, record.input.clone()),
        (first.id, ApprovalStatus::Pending, first.input)
    );
    let again = one(store, Change::OpenApproval(open())).await?;
    assert_eq!(again.approval(), Some((&record, Fresh::Found)));
    assert_eq!(
        store.read_events(s, 0, 0, ReadLimit::events(10)).await?.total_events,
        2,
        "one question, one event"
    );
    one(store, Change::DecideApproval(decision(first.id, Verdict::Deny))).await?;
    let decided = approval_of(&one(store, Change::OpenApproval(open())).await?);
    assert_eq!(
        (decided.id, decided.status),
        (first.id, ApprovalStatus::Denied),
        "asked again, the decision stands"
    );
    assert_eq!(store.approval_by_request(s, None, "r").await?, Some(decided));
    one(store, Change::RetireApproval(first.id)).await?;
    one(store, Change::RetireApproval(first.id)).await?;
    assert_eq!(store.approval_by_request(s, None, "r").await?, None);
    let new = approval_of(&one(store, Change::OpenApproval(open())).await?);
    assert_ne!(new.id, first.id, "a retired key is free");
    Ok(())
}

pub(crate) async fn other_input_under_the_same_request_is_a_conflict(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let s = session(store, "s", None).await?;
    let id = ask(store, s, "r").await?;
    let Err(StoreError::Conflict { standing, .. }) =
        one(store, Change::OpenApproval(question(s, "r", "rm -rf /"))).await
    else {
        panic!("another input slipped in");
    };
    assert_eq!(standing["id"], json!(id));
    // The same request of another run is another approval.
    let r = run(store, s).await?;
    let other = OpenApproval { run: Some(r.n), ..question(s, "r", "rm -rf /") };
    assert_ne!(approval_of(&one(store, Change::OpenApproval(other)).await?).id, id);
    Ok(())
}

pub(crate) async fn a_second_answer_loses_and_learns_what_stands(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let s = session(store, "s", None).await?;
    chat(store, s, "hi").await?;
    let open = OpenApproval { chat: Some(0), ..question(s, "r", "ls") };
    one(store, Change::OpenApproval(open.clone())).await?;
    let edit = JsonText::from(json!({"command": "ls -l"}));
    let resolved =
        NewEvent::now("approval_resolved", JsonText::from(json!({"type": "approval_resolved"})));
    let yes = DecideApproval {
        message: Some("go on".into()),
        event: Some(resolved),
        ..decision(open.id, Verdict::Allow { updated_input: Some(edit.clone()) })
    };
    let committed = one(store, Change::DecideApproval(yes.clone())).await?;
    let record = approval_of(&committed);
    assert_eq!(record.status, ApprovalStatus::Allowed);
    let stands = record.decision.clone().expect("a decision");
    assert_eq!(
        (stands.by, stands.message.as_deref(), stands.updated_input),
        (DecidedBy::Operator, Some("go on"), Some(edit))
    );
    // The same answer again is accepted and changes nothing.
    let again =
        one(store, Change::DecideApproval(DecideApproval { event: Some(text("x")), ..yes }))
            .await?;
    assert_eq!(again.approval(), Some((&record, Fresh::Found)));
    assert_eq!(store.chat(s, None).await?.total_events, 2);
    for other in [Verdict::Deny, allow(), Verdict::Expire, Verdict::Cancel] {
        let Err(StoreError::Conflict { standing, .. }) =
            one(store, Change::DecideApproval(decision(open.id, other))).await
        else {
            panic!("decided twice");
        };
        assert_eq!((&standing["status"], &standing["id"]), (&json!("allowed"), &json!(open.id)));
    }
    assert_eq!(store.approval(open.id).await?, record);
    Ok(())
}

pub(crate) async fn a_decision_is_bound_to_the_input(store: &dyn Store) -> anyhow::Result<()> {
    let s = session(store, "s", None).await?;
    let open = question(s, "r", "ls");
    one(store, Change::OpenApproval(open.clone())).await?;
    let with = |digest: &str| {
        Change::DecideApproval(DecideApproval {
            expects_digest: Some(digest.into()),
            ..decision(open.id, allow())
        })
    };
    assert_err!(one(store, with("0000")).await, StoreError::Conflict { .. });
    assert_eq!(store.approval(open.id).await?.status, ApprovalStatus::Pending);
    one(store, with(&open.input_digest)).await?;
    assert_err!(one(store, with("0000")).await, StoreError::Conflict { .. });
    Ok(())
}

pub(crate) async fn one_of_many_deciders_wins(store: &dyn Store) -> anyhow::Result<()> {
    let s = session(store, "s", None).await?;
    for round in 0..10 {
        let id = ask(store, s, &format!("r{round}")).await?;
        let answers = (0..8).map(|n| {
            let verdict = if n % 2 == 0 { allow() } else { Verdict::Deny };
            let message = Some(n.to_string());
            store.commit(
                vec![Change::DecideApproval(DecideApproval { message, ..decision(id, verdict) })],
                Priority::Urgent,
            )
        });
        let answers = futures::future::join_all(answers).await;
        let made = answers
            .iter()
            .flatten()
            .filter(|it| it.approval().is_some_and(|(_, fresh)| fresh == Fresh::Made))
            .count();
        assert_eq!(made, 1);
        let stands = store.approval(id).await?;
        for answer in answers {
            match answer {
                Ok(committed) => assert_eq!(approval_of(&committed), stands),
                Err(StoreError::Conflict { standing, .. }) => {
                    assert_eq!(standing, serde_json::to_value(&stands)?)
                }
                Err(other) => panic!("{other}"),
            }
        }
    }
    Ok(())
}

pub(crate) async fn an_answer_is_delivered_or_void_never_both(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let s = session(store, "s", None).await?;
    let settle = |id, fate| Change::SettleApproval(SettleApproval { id, fate, at: UnixMillis(9) });
    for (fate, other) in [(Fate::Delivered, Fate::Void), (Fate::Void, Fate::Delivered)] {
        let id = ask(store, s, &format!("{fate:?}")).await?;
        assert_err!(one(store, settle(id, fate)).await, StoreError::Conflict { .. });
        one(store, Change::DecideApproval(decision(id, allow()))).await?;
        one(store, settle(id, fate)).await?;
        let record = store.approval(id).await?;
        let expected = (fate == Fate::Delivered, fate == Fate::Void);
        assert_eq!((record.delivered_at.is_some(), record.void_at.is_some()), expected);
        let again = one(store, settle(id, fate)).await?;
        assert_eq!(again.approval(), Some((&record, Fresh::Found)));
        assert_err!(one(store, settle(id, other)).await, StoreError::Conflict { .. });
        one(store, Change::MarkBreach { id, what: "ran something else".into() }).await?;
        one(store, Change::MarkBreach { id, what: "later".into() }).await?;
        assert_eq!(store.approval(id).await?.breach.as_deref(), Some("ran something else"));
    }
    Ok(())
}

pub(crate) async fn escalation_changes_the_owner_of_a_pending_one(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let a = session(store, "a", None).await?;
    let b = session(store, "b", Some(a)).await?;
    let open = OpenApproval {
        owner: Owner::Session(a),
        escalate_at: Some(UnixMillis(10)),
        ..question(b, "r", "ls")
    };
    one(store, Change::OpenApproval(open.clone())).await?;
    let pending = async |owner| {
        let filter = ApprovalFilter {
            stage: Stage::Pending,
            owner: Some(owner),
            ..ApprovalFilter::default()
        };
        Ok::<_, StoreError>(store.approvals(filter, PageRequest::default()).await?.items.len())
    };
    assert_eq!((pending(Owner::Session(a)).await?, pending(Owner::Operator).await?), (1, 0));
    let escalate = EscalateApproval {
        id: open.id,
        expects_owner: Owner::Session(a),
        expects_escalations: 0,
        to: Owner::Operator,
        escalate_at: None,
        event: None,
    };
    one(store, Change::EscalateApproval(escalate.clone())).await?;
    assert_eq!((pending(Owner::Session(a)).await?, pending(Owner::Operator).await?), (0, 1));
    let record = store.approval(open.id).await?;
    assert_eq!((record.escalations, record.escalate_at), (1, None));
    assert_err!(
        one(store, Change::EscalateApproval(escalate.clone())).await,
        StoreError::Conflict { .. }
    );
    // A reminder keeps the owner. It is still given only once, however many callers find it due.
    let remind =
        EscalateApproval { expects_owner: Owner::Operator, expects_escalations: 1, ..escalate };
    one(store, Change::EscalateApproval(remind.clone())).await?;
    assert_err!(
        one(store, Change::EscalateApproval(remind.clone())).await,
        StoreError::Conflict { .. }
    );
    assert_eq!(store.approval(open.id).await?.escalations, 2);
    one(store, Change::DecideApproval(decision(open.id, allow()))).await?;
    let late = EscalateApproval { expects_escalations: 2, ..remind };
    assert_err!(one(store, Change::EscalateApproval(late)).await, StoreError::Conflict { .. });
    Ok(())
}

pub(crate) async fn deadlines_come_due_in_order(store: &dyn Store) -> anyhow::Result<()> {
    let s = session(store, "s", None).await?;
    let mut ids = Vec::new();
    for (n, deadline, escalate) in
        [(0, Some(300), Some(100)), (1, Some(200), None), (2, None, Some(250)), (3, None, None)]
    {
        let open = OpenApproval {
            deadline: deadline.map(UnixMillis),
            escalate_at: escalate.map(UnixMillis),
            ..question(s, &n.to_string(), "ls")
        };
        ids.push(open.id);
        one(store, Change::OpenApproval(open)).await?;
    }
    for (now, expired, to_escalate, next) in [
        (50, vec![], vec![], Some(100)),
        (100, vec![], vec![0], Some(200)),
        (220, vec![1], vec![0], Some(250)),
        (260, vec![1], vec![0, 2], Some(300)),
        (300, vec![1, 0], vec![2], None),
    ] {
        let due = store.due(UnixMillis(now)).await?;
        let index = |records: &[plexus_store::ApprovalRecord]| -> Vec<usize> {
            records
                .iter()
                .map(|it| ids.iter().position(|id| *id == it.id).expect("one of ours"))
                .collect()
        };
        assert_eq!(
            (index(&due.expired), index(&due.to_escalate), due.next.map(|it| it.0)),
            (expired, to_escalate, next),
            "at {now}"
        );
    }
    one(
        store,
        Change::DecideApproval(DecideApproval {
            by: DecidedBy::Deadline,
            ..decision(ids[1], Verdict::Expire)
        }),
    )
    .await?;
    let due = store.due(UnixMillis(220)).await?;
    assert_eq!(due.expired, vec![]);
    assert_eq!(store.approval(ids[1]).await?.status, ApprovalStatus::Expired);
    Ok(())
}

pub(crate) async fn the_parent_hears_of_its_childs_question(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let parent = session(store, "parent", None).await?;
    let child = session(store, "child", Some(parent)).await?;
    chat(store, child, "work").await?;
    let request = || NewEvent::now("tool_request", JsonText::from(json!({"type": "tool_request"})));
    let open = |key: &str| OpenApproval {
        chat: Some(0),
        event: Some(text("awaiting")),
        parent_event: Some(request()),
        ..question(child, key, "ls")
    };
    one(store, Change::OpenApproval(open("r1"))).await?;
    assert_err!(store.chat(parent, None).await, StoreError::NotFound { .. });
    chat(store, parent, "supervise").await?;
    one(store, Change::OpenApproval(open("r2"))).await?;
    let told = store.read_events(parent, 0, 1, ReadLimit::events(10)).await?;
    assert_eq!(
        told.events.iter().map(|it| it.event_type.as_str()).collect::<Vec<_>>(),
        vec!["tool_request"]
    );
    one(store, end(parent, 0)).await?;
    one(store, end(child, 0)).await?;
    // An approval of a chat that has ended is still opened; only its event has no place to go.
    one(store, Change::OpenApproval(open("r3"))).await?;
    assert_eq!(store.chat(parent, None).await?.total_events, 3);
    assert_eq!(store.session(child).await?.pending_approvals, 3);
    Ok(())
}

pub(crate) async fn too_many_pending_ones_are_busy(store: &dyn Store) -> anyhow::Result<()> {
    let s = session(store, "s", None).await?;
    let all: Vec<_> = (0..limits::MAX_PENDING_PER_SESSION)
        .map(|n| Change::OpenApproval(question(s, &n.to_string(), "ls")))
        .collect();
    let committed = store.commit(all, Priority::Urgent).await?;
    let one_more = || Change::OpenApproval(question(s, "more", "ls"));
    assert_err!(one(store, one_more()).await, StoreError::Busy { .. });
    let first = approval_of(&plexus_store::Committed {
        outcomes: vec![committed.outcomes[0].clone()],
        ..committed
    })
    .id;
    one(store, Change::DecideApproval(decision(first, Verdict::Deny))).await?;
    one(store, one_more()).await?;
    Ok(())
}

pub(crate) async fn lists_show_the_stage_they_are_asked_for(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let a = session(store, "a", None).await?;
    let b = session(store, "b", Some(a)).await?;
    let r = run(store, b).await?;
    let pending = ask(store, a, "p").await?;
    let open = OpenApproval { run: Some(r.n), at: UnixMillis(5), ..question(b, "u", "ls") };
    let undelivered = open.id;
    one(store, Change::OpenApproval(open)).await?;
    let delivered = ask(store, b, "d").await?;
    for id in [undelivered, delivered] {
        one(store, Change::DecideApproval(decision(id, allow()))).await?;
    }
    one(
        store,
        Change::SettleApproval(SettleApproval {
            id: delivered,
            fate: Fate::Delivered,
            at: UnixMillis(1),
        }),
    )
    .await?;
    let any = ApprovalFilter::default();
    for (filter, expected) in [
        (any, vec![delivered, undelivered, pending]),
        (ApprovalFilter { stage: Stage::Pending, ..any }, vec![pending]),
        (ApprovalFilter { stage: Stage::Decided, ..any }, vec![delivered, undelivered]),
        (ApprovalFilter { stage: Stage::Undelivered, ..any }, vec![undelivered]),
        (ApprovalFilter { stage: Stage::Undelivered, run: Some(r), ..any }, vec![undelivered]),
        (ApprovalFilter { session: Some(b), ..any }, vec![delivered, undelivered]),
        (ApprovalFilter { under: Some(a), ..any }, vec![delivered, undelivered]),
        (ApprovalFilter { under: Some(b), ..any }, vec![]),
        (ApprovalFilter { session: Some(a), run: Some(r), ..any }, vec![]),
        (ApprovalFilter { asked_until: Some(UnixMillis(5)), ..any }, vec![undelivered]),
        (ApprovalFilter { asked_until: Some(UnixMillis(4)), ..any }, vec![]),
    ] {
        let whole = store.approvals(filter, PageRequest::default()).await?;
        assert_eq!(whole.items.iter().map(|it| it.id).collect::<Vec<_>>(), expected, "{filter:?}");
        let (mut seen, mut page) = (Vec::new(), PageRequest::first(1));
        loop {
            let got = store.approvals(filter, page).await?;
            seen.extend(got.items);
            match got.next {
                Some(next) => page.after = Some(next),
                None => break,
            }
        }
        assert_eq!(seen, whole.items);
    }
    Ok(())
}

pub(crate) async fn refused_calls_of_a_chat_are_counted(store: &dyn Store) -> anyhow::Result<()> {
    let s = session(store, "s", None).await?;
    let verdicts = [Verdict::Deny, Verdict::Expire, Verdict::Expire, allow(), Verdict::Cancel];
    for number in 0..2 {
        let number = chat(store, s, &format!("chat {number}")).await?;
        for (n, verdict) in verdicts.iter().enumerate().skip(number as usize) {
            let asked = question(s, &format!("{number}-{n}"), "ls");
            let open = OpenApproval { chat: Some(number), ..asked };
            one(store, Change::OpenApproval(open.clone())).await?;
            one(store, Change::DecideApproval(decision(open.id, verdict.clone()))).await?;
        }
        one(store, end(s, number)).await?;
    }
    let idle = session(store, "idle", None).await?;
    for (number, denied, expired) in [(0, 1, 2), (1, 0, 2)] {
        let counted = store.refused(&[(idle, 0), (s, number)]).await?;
        assert_eq!(counted, [(s, plexus_wire::Refused { denied, expired })].into());
    }
    assert_eq!(store.refused(&[(s, 7)]).await?, [].into());
    Ok(())
}
