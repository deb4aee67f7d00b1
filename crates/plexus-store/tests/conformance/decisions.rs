//! Rules, tokens and budgets, which decide before anybody is asked.

use plexus_core::{Caller, DeviceId, RuleId};
use plexus_store::{
    AddDevice, AddSpend, Change, Children, DeleteSession, Device, EndRun, JsonText, NewRule,
    Outcome, Owner, PageRequest, Priority, Prompts, RemoveRules, Reservation, RevokeDevice,
    RevokeTokens, RuleDecision, RuleScope, Spend, SpendLimit, SpendTotals, StartChat, Store,
    StoreError, SubtreeSpend, Thing, Token, TokenHash, UnixMillis, UseRule,
};

use crate::assert_err;
use crate::fixture::{end, one, run, session};

fn rule(scope: RuleScope) -> NewRule {
    NewRule {
        id: RuleId::generate(),
        decision: RuleDecision::Allow,
        pattern: "Bash(git diff:*)".into(),
        scope,
        author: Owner::Operator,
        ends_with: None,
        expires_at: None,
        uses: None,
        reason: Some("harmless".into()),
        matches: vec!["Bash(git diff HEAD)".into()],
        does_not_match: vec!["Bash(git push)".into()],
    }
}

pub(crate) async fn the_last_use_of_a_rule_is_taken_once(store: &dyn Store) -> anyhow::Result<()> {
    let twice = NewRule { uses: Some(2), ..rule(RuleScope::All) };
    one(store, Change::AddRule(twice.clone())).await?;
    assert_eq!(store.rule(twice.id).await?.rule, twice);
    let take = || Change::UseRule(UseRule { id: twice.id, now: UnixMillis(0) });
    let taken =
        futures::future::join_all((0..5).map(|_| store.commit(vec![take()], Priority::Urgent)))
            .await;
    assert_eq!(taken.iter().filter(|it| it.is_ok()).count(), 2);
    assert!(taken.iter().flatten().all(|it| matches!(it.outcomes[..], [Outcome::Rule(_)])));
    assert!(
        taken
            .into_iter()
            .filter_map(Result::err)
            .all(|it| matches!(it, StoreError::Conflict { .. }))
    );
    assert_eq!(store.rule(twice.id).await?.uses_left(), Some(0));

    let brief = NewRule { expires_at: Some(UnixMillis(100)), ..rule(RuleScope::All) };
    one(store, Change::AddRule(brief.clone())).await?;
    one(store, Change::UseRule(UseRule { id: brief.id, now: UnixMillis(99) })).await?;
    assert_err!(
        one(store, Change::UseRule(UseRule { id: brief.id, now: UnixMillis(100) })).await,
        StoreError::Conflict { .. }
    );
    assert_eq!(store.rules(PageRequest::default()).await?.items.len(), 2);
    let spent =
        one(store, Change::RemoveRules(RemoveRules::Spent { now: UnixMillis(100) })).await?;
    assert_eq!(spent.outcomes, vec![Outcome::Count(2)]);
    Ok(())
}

pub(crate) async fn rules_end_with_their_run_and_their_session(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let a = session(store, "a", None).await?;
    let b = session(store, "b", Some(a)).await?;
    let r = run(store, a).await?;
    let of_run =
        NewRule { ends_with: Some(r), author: Owner::Session(a), ..rule(RuleScope::Subtree(b)) };
    let of_session = rule(RuleScope::Session(b));
    let of_all = rule(RuleScope::All);
    for new in [&of_run, &of_session, &of_all] {
        one(store, Change::AddRule(new.clone())).await?;
    }
    let ids = async || {
        let page = store.rules(PageRequest::default()).await?;
        Ok::<_, StoreError>(page.items.into_iter().map(|it| it.rule.id).collect::<Vec<_>>())
    };
    assert_eq!(ids().await?, vec![of_run.id, of_session.id, of_all.id]);
    one(store, Change::RemoveRules(RemoveRules::EndingWith(r))).await?;
    assert_eq!(ids().await?, vec![of_session.id, of_all.id]);
    one(store, Change::DeleteSession(DeleteSession { id: b, children: Children::Refuse })).await?;
    assert_eq!(ids().await?, vec![of_all.id]);
    one(store, Change::RemoveRules(RemoveRules::One(of_all.id))).await?;
    assert_err!(
        one(store, Change::RemoveRules(RemoveRules::One(of_all.id))).await,
        StoreError::NotFound { what: Thing::Rule, .. }
    );
    assert_err!(
        one(store, Change::AddRule(rule(RuleScope::Session(b)))).await,
        StoreError::NotFound { what: Thing::Session, .. }
    );
    Ok(())
}

pub(crate) async fn devices_are_listed_until_they_are_revoked_with_their_tokens(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let add = |name: &str, at| AddDevice {
        id: DeviceId::generate(),
        name: name.to_owned(),
        at: UnixMillis(at),
    };
    let (phone, tablet) = (add("phone", 1), add("tablet", 2));
    let token = |device: &AddDevice, text: &str| Token {
        hash: TokenHash::of(text),
        caller: Caller::Device(device.id),
        run: None,
        expires_at: None,
    };
    let early = store.commit(vec![Change::AddToken(token(&phone, "plx_early"))], Priority::Normal);
    assert_err!(early.await, StoreError::NotFound { what: Thing::Device, .. });
    for device in [&phone, &tablet] {
        let token = Change::AddToken(token(device, &device.name));
        store.commit(vec![Change::AddDevice(device.clone()), token], Priority::Normal).await?;
    }
    let again = store.commit(vec![Change::AddDevice(add("phone", 3))], Priority::Normal).await;
    assert_err!(again, StoreError::Conflict { .. });
    let names = |devices: Vec<Device>| -> Vec<String> {
        devices.into_iter().map(|device| device.name).collect()
    };
    assert_eq!(names(store.devices().await?), ["phone", "tablet"]);
    let held = store.token(TokenHash::of("phone")).await?.map(|token| token.caller);
    assert_eq!(held, Some(Caller::Device(phone.id)));

    let revoke = |at| Change::RevokeDevice(RevokeDevice { id: phone.id, at: UnixMillis(at) });
    assert_eq!(one(store, revoke(5)).await?.outcomes, [Outcome::Count(1)]);
    assert_eq!(
        one(store, revoke(9)).await?.outcomes,
        [Outcome::Count(0)],
        "doing it twice is once"
    );
    assert_eq!(store.token(TokenHash::of("phone")).await?, None);
    assert!(store.token(TokenHash::of("tablet")).await?.is_some());
    assert_eq!(names(store.devices().await?), ["tablet"]);
    let gone = store.device(phone.id).await?;
    assert_eq!((gone.name.as_str(), gone.revoked_at), ("phone", Some(UnixMillis(5))));
    let next = add("phone", 6);
    one(store, Change::AddDevice(next.clone())).await?;
    assert_eq!(names(store.devices().await?), ["tablet", "phone"]);

    store.prune(UnixMillis(6), Prompts::Keep).await?;
    assert_err!(store.device(phone.id).await, StoreError::NotFound { what: Thing::Device, .. });
    assert_eq!(store.device(next.id).await?.revoked_at, None);
    Ok(())
}

pub(crate) async fn tokens_are_found_by_hash_and_end_with_their_run(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let s = session(store, "s", None).await?;
    let r = run(store, s).await?;
    let token = |text: &str, caller, run| Token {
        hash: TokenHash::of(text),
        caller,
        run,
        expires_at: None,
    };
    let child = token("plx_child", Caller::Child(s), Some(r));
    let parent = token("plx_parent", Caller::Session(s), None);
    let brief =
        Token { expires_at: Some(UnixMillis(5)), ..token("plx_brief", Caller::Operator, None) };
    for it in [child, parent, brief] {
        one(store, Change::AddToken(it)).await?;
        assert_eq!(store.token(it.hash).await?, Some(it));
    }
    assert_err!(one(store, Change::AddToken(child)).await, StoreError::Conflict { .. });
    assert_eq!(store.token(TokenHash::of("plx_guess")).await?, None);
    let revoke =
        async |which| Ok::<_, StoreError>(one(store, Change::RevokeTokens(which)).await?.outcomes);
    assert_eq!(revoke(RevokeTokens::Run(r)).await?, vec![Outcome::Count(1)]);
    assert_eq!(store.token(child.hash).await?, None);
    assert_eq!(
        revoke(RevokeTokens::Expired { now: UnixMillis(5) }).await?,
        vec![Outcome::Count(1)]
    );
    assert_eq!(revoke(RevokeTokens::Session(s)).await?, vec![Outcome::Count(1)]);
    assert_eq!(revoke(RevokeTokens::One(parent.hash)).await?, vec![Outcome::Count(0)]);
    one(store, Change::AddToken(parent)).await?;
    one(store, Change::DeleteSession(DeleteSession { id: s, children: Children::Refuse })).await?;
    assert_eq!(store.token(parent.hash).await?, None, "a token goes with its session");
    Ok(())
}

pub(crate) async fn spending_of_many_sessions_is_read_at_once(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let a = session(store, "a", None).await?;
    let b = session(store, "b", Some(a)).await?;
    let c = session(store, "c", Some(b)).await?;
    let idle = session(store, "idle", None).await?;
    let cost = |cost_micros| Spend { cost_micros, turns: 1, ..Spend::default() };
    for (session, amount) in [(a, 1), (b, 10), (c, 100)] {
        one(store, Change::AddSpend(AddSpend { session, amount: cost(amount) })).await?;
    }
    let start = StartChat { reserve: Some(aside(cost(5), vec![])), ..StartChat::new(c, "hi") };
    one(store, Change::StartChat(start)).await?;
    let found = store.subtree_spend(&[a, c, idle]).await?;
    assert_eq!(found.len(), 2, "{found:?}");
    for id in [a, c] {
        let alone = store.spend(id).await?;
        let together = SubtreeSpend { spent: alone.subtree, reserved: alone.reserved };
        assert_eq!(found.get(&id), Some(&together));
    }
    assert_eq!(store.subtree_spend(&[]).await?.len(), 0);
    Ok(())
}

pub(crate) async fn spending_adds_up_over_the_subtree(store: &dyn Store) -> anyhow::Result<()> {
    let a = session(store, "a", None).await?;
    let b = session(store, "b", Some(a)).await?;
    let c = session(store, "c", Some(b)).await?;
    let cost = |cost_micros| Spend { cost_micros, turns: 1, ..Spend::default() };
    for (session, amount) in [(a, 1), (b, 10), (c, 100), (c, 1000)] {
        one(store, Change::AddSpend(AddSpend { session, amount: cost(amount) })).await?;
    }
    let start = StartChat { reserve: Some(aside(cost(5), vec![])), ..StartChat::new(c, "hi") };
    one(store, Change::StartChat(start)).await?;
    let expected = SpendTotals {
        own: cost(1),
        subtree: Spend { turns: 4, ..cost(1111) },
        reserved: cost(5),
        reserved_own: Spend::default(),
        largest: cost(1000),
        descendants: 2,
    };
    assert_eq!(store.spend(a).await?, expected);
    assert_eq!(store.spend(b).await?.own, cost(10));
    one(store, Change::DeleteSession(DeleteSession { id: b, children: Children::Delete })).await?;
    let kept = SpendTotals {
        own: Spend { turns: 4, ..cost(1111) },
        reserved: Spend::default(),
        descendants: 0,
        ..expected
    };
    assert_eq!(store.spend(a).await?, kept, "what is deleted has been spent all the same");
    let c = a;
    let huge = Spend { cost_micros: u64::MAX, ..Spend::default() };
    one(store, Change::AddSpend(AddSpend { session: c, amount: huge })).await?;
    one(store, Change::AddSpend(AddSpend { session: c, amount: huge })).await?;
    assert!(
        store.spend(a).await?.subtree.cost_micros > 1_000_000_000_000,
        "a sum never fails, and never goes back"
    );
    Ok(())
}

fn aside(amount: Spend, within: Vec<SpendLimit>) -> Reservation {
    Reservation { amount, within }
}

pub(crate) async fn a_chats_reservation_keeps_others_from_starting_until_it_ends(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let top = session(store, "top", None).await?;
    let a = session(store, "a", Some(top)).await?;
    let b = session(store, "b", Some(top)).await?;
    let cost = |cost_micros| Spend { cost_micros, turns: 1, ..Spend::default() };
    let limit =
        SpendLimit { holder: top, cost_micros: Some(10), turns: Some(2), above: Vec::new() };
    let start = |session, amount| {
        let reserve = Some(aside(amount, vec![limit.clone()]));
        Change::StartChat(StartChat {
            reserve,
            idempotency_key: Some("k".into()),
            ..StartChat::new(session, "hi")
        })
    };
    one(store, start(a, cost(10))).await?;
    assert_err!(one(store, start(b, cost(1))).await, StoreError::Busy { .. });
    assert_eq!(store.session(b).await?.newest_chat, None, "a chat without room does not start");
    // The chat is found by its key and reserves nothing a second time.
    one(store, start(a, cost(10))).await?;
    assert_eq!(store.spend(top).await?.reserved, cost(10));
    one(store, end(a, 0)).await?;
    assert_eq!(store.spend(top).await?.reserved, Spend::default(), "it ends with its chat");

    // The last chat to start may exceed the limit; the next one may not start.
    one(store, Change::AddSpend(AddSpend { session: a, amount: cost(9) })).await?;
    one(store, start(b, cost(5))).await?;
    one(store, end(b, 0)).await?;
    one(store, Change::AddSpend(AddSpend { session: b, amount: cost(5) })).await?;
    let c = session(store, "c", Some(top)).await?;
    assert_err!(one(store, start(c, cost(1))).await, StoreError::Busy { .. });
    let by_turns = SpendLimit { holder: top, cost_micros: None, turns: Some(3), above: Vec::new() };
    let reserve = Some(aside(cost(1), vec![by_turns]));
    one(store, Change::StartChat(StartChat { reserve, ..StartChat::new(c, "hi") })).await?;
    one(store, Change::DeleteSession(DeleteSession { id: c, children: Children::Refuse })).await?;
    assert_eq!(store.spend(top).await?.reserved, Spend::default(), "and with its session");
    Ok(())
}

pub(crate) async fn a_chat_above_leaves_room_for_the_chats_it_may_wait_for(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let top = session(store, "top", None).await?;
    let child = session(store, "child", Some(top)).await?;
    let other = session(store, "other", Some(top)).await?;
    let start = |session, above| {
        let limit = SpendLimit { holder: top, cost_micros: Some(10), turns: None, above };
        let amount = Spend { cost_micros: 10, ..Spend::default() };
        let reserve = Some(aside(amount, vec![limit]));
        Change::StartChat(StartChat { reserve, ..StartChat::new(session, "hi") })
    };
    one(store, start(top, vec![])).await?;
    assert_err!(one(store, start(child, vec![])).await, StoreError::Busy { .. });
    one(store, start(child, vec![top])).await?;
    let held = store.spend(top).await?;
    assert_eq!((held.reserved.cost_micros, held.reserved_own.cost_micros), (20, 10));
    assert_err!(one(store, start(other, vec![top])).await, StoreError::Busy { .. });
    Ok(())
}

pub(crate) async fn no_rule_ends_with_a_run_that_has_ended(
    store: &dyn Store,
) -> anyhow::Result<()> {
    let s = session(store, "s", None).await?;
    let r = run(store, s).await?;
    one(store, Change::EndRun(EndRun { run: r, exit: JsonText::empty_object() })).await?;
    let late =
        NewRule { ends_with: Some(r), author: Owner::Session(s), ..rule(RuleScope::Subtree(s)) };
    assert_err!(one(store, Change::AddRule(late)).await, StoreError::Conflict { .. });
    assert_eq!(store.rules(PageRequest::default()).await?.items.len(), 0);
    Ok(())
}
