//! Many at once: no lost wake, one winner, and nobody is asked what a rule has answered.

use std::sync::Arc;

use plexus_core::{Caller, ErrorKind};
use plexus_store::{
    ApprovalFilter, ApprovalStatus, Change, DecidedBy, Fate, PageRequest, Priority, SettleApproval,
    Stage, Topic, UnixMillis,
};
use serde_json::{Value, json};

use crate::childless_hub::{ChildlessHub, answer, bash, within};

/// How often a race is tried: `PLEXUS_RACE_TRIES`, or as often as a suite that is run all day can
/// afford.
fn tries() -> usize {
    std::env::var("PLEXUS_RACE_TRIES").ok().and_then(|tries| tries.parse().ok()).unwrap_or(400)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_in_the_same_instant_as_the_request_is_never_lost() {
    let hub = Arc::new(ChildlessHub::in_file(Arc::new(tempfile::tempdir().unwrap())).await);
    let session = hub.create("s", json!({"loopback_timeout_secs": 0})).await;
    // A decider that answers whatever it sees, as soon as the store says that something is there.
    let decider = {
        let hub = Arc::clone(&hub);
        tokio::spawn(async move {
            let mut wake = hub.store.watch(Topic::Pending);
            let filter = ApprovalFilter { stage: Stage::Pending, ..ApprovalFilter::default() };
            loop {
                wake.seen();
                for record in
                    hub.store.approvals(filter, PageRequest::first(100)).await.unwrap().items
                {
                    hub.ok("loopback.respond", json!({"approval_id": record.id, "approve": true}))
                        .await;
                }
                wake.changed().await;
            }
        })
    };
    let askers: Vec<_> = (0..8)
        .map(|asker| {
            let hub = Arc::clone(&hub);
            tokio::spawn(async move {
                for n in 0..tries() / 8 {
                    let id = format!("{asker}-{n}");
                    let told =
                        within("an answer", hub.permit(session, &id, "Bash", bash("make"))).await;
                    assert_eq!(told["behavior"], "allow");
                }
            })
        })
        .collect();
    for asker in askers {
        asker.await.unwrap();
    }
    decider.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_hundred_deciders_one_wins_and_the_others_are_told_the_same_truth() {
    let hub = Arc::new(ChildlessHub::new().await);
    let session = hub.create("s", json!({})).await;
    for round in 0..10 {
        let (task, asked) = hub.ask(session, &format!("t{round}"), "Bash", bash("ls")).await;
        let deciders: Vec<_> = (0..100)
            .map(|n| {
                let (hub, id) = (Arc::clone(&hub), asked["id"].clone());
                // Each edits differently, so that no two answers are the same.
                let params = json!({"approval_id": id, "approve": true, "updated_input": bash(&format!("ls {n}"))});
                tokio::spawn(async move { (n, hub.call("loopback.respond", params).await) })
            })
            .collect();
        let (mut winners, mut truths) = (Vec::new(), Vec::new());
        for decider in deciders {
            match within("a decider", decider).await.unwrap() {
                (n, Ok(_)) => winners.push(n),
                (_, Err(error)) => {
                    assert_eq!(error.kind, ErrorKind::Conflict);
                    truths.push(error.standing.unwrap()["updated_input"].clone());
                }
            }
        }
        let [winner] = winners.as_slice() else { panic!("{} winners", winners.len()) };
        assert_eq!(truths, vec![bash(&format!("ls {winner}")); 99]);
        assert_eq!(
            within("the answer", task).await.unwrap()["updatedInput"],
            bash(&format!("ls {winner}"))
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn expiry_and_an_answer_in_the_same_moment_agree_on_one() {
    let hub = Arc::new(ChildlessHub::new().await);
    // Long enough that on most machines all have asked before the first expires; where not, the
    // answers come too late and agree on that.
    let session = hub.create("s", json!({"loopback_timeout_secs": 3})).await;
    let mut asked = Vec::new();
    for n in 0..100 {
        asked.push(hub.ask(session, &format!("t{n}"), "Bash", bash("ls")).await);
    }
    // All of them are answered around the moment at which they expire.
    let first = asked[0].1["expires_at"].as_i64().unwrap();
    let deciders: Vec<_> = asked
        .into_iter()
        .enumerate()
        .map(|(n, (task, approval))| {
            let hub = Arc::clone(&hub);
            tokio::spawn(async move {
                let expiry =
                    std::time::UNIX_EPOCH + std::time::Duration::from_secs(first.unsigned_abs());
                let around = expiry + std::time::Duration::from_millis(10 * n as u64);
                let wait = around.duration_since(std::time::SystemTime::now()).unwrap_or_default();
                tokio::time::sleep(wait).await;
                let told = hub.respond(Caller::Operator, &approval, true).await;
                (told, within("the child's answer", task).await.unwrap())
            })
        })
        .collect();
    for decider in deciders {
        match within("a decider", decider).await.unwrap() {
            (Ok(_), told) => assert_eq!(told["behavior"], "allow"),
            (Err(error), told) => {
                assert_eq!(error.standing.unwrap()["status"], "expired");
                assert_eq!(told["behavior"], "deny");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn two_permits_of_the_same_call_are_one_request() {
    let hub = Arc::new(ChildlessHub::new().await);
    let session = hub.create("s", json!({})).await;
    let ruled = hub.create("ruled", json!({})).await;
    let rule = json!({"decision": "allow", "pattern": "Bash(ls)", "scope": {"session": ruled}});
    hub.ok("loopback.rule_add", rule).await;
    for n in 0..200 {
        let id = format!("t{n}");
        let twice = |session| {
            [(); 2].map(|()| {
                let (hub, id) = (Arc::clone(&hub), id.clone());
                tokio::spawn(async move { hub.permit(session, &id, "Bash", bash("ls")).await })
            })
        };
        let [one, two] = twice(session);
        let asked = hub.pending_for(session, &id).await;
        hub.respond(Caller::Operator, &asked, true).await.unwrap();
        let told =
            (within("the first", one).await.unwrap(), within("the second", two).await.unwrap());
        assert_eq!((&told.0, &told.0["behavior"]), (&told.1, &json!("allow")));
        // Also when a rule decides it in the transaction that opens it.
        let [one, two] = twice(ruled);
        let told =
            (within("the first", one).await.unwrap(), within("the second", two).await.unwrap());
        assert_eq!((&told.0, &told.0["behavior"]), (&told.1, &json!("allow")));
    }
    for id in [session, ruled] {
        let filter = ApprovalFilter { session: Some(id), ..ApprovalFilter::default() };
        assert_eq!(
            hub.store.approvals(filter, PageRequest::first(1_000)).await.unwrap().items.len(),
            200
        );
    }
}

/// The end of a run makes an answer void in the moment in which it would leave.
#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_delivered_or_void_and_what_is_void_is_a_denial() {
    let hub = Arc::new(ChildlessHub::new().await);
    let session = hub.create("s", json!({})).await;
    for n in 0..tries() {
        let id = format!("t{n}");
        let (told, asked) = hub.ask(session, &id, "Bash", bash("ls")).await;
        let approval = asked["id"].as_str().unwrap().parse().unwrap();
        hub.respond(Caller::Operator, &asked, true).await.unwrap();
        let void = SettleApproval { id: approval, fate: Fate::Void, at: UnixMillis::now() };
        let ended = hub.store.commit(vec![Change::SettleApproval(void)], Priority::Urgent).await;
        let is_void = hub.store.approval(approval).await.unwrap().void_at.is_some();
        assert_eq!(is_void, ended.is_ok());
        let expected = if is_void { "deny" } else { "allow" };
        assert_eq!(answer(told).await["behavior"], expected, "try {n}");
        // A client that lost its answer and comes back hears the same.
        assert_eq!(
            hub.permit(session, &id, "Bash", bash("ls")).await["behavior"],
            expected,
            "try {n}, again"
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_remembered_answer_and_a_new_request_never_miss_each_other() {
    let hub = Arc::new(ChildlessHub::in_file(Arc::new(tempfile::tempdir().unwrap())).await);
    let session = hub.create("s", json!({"loopback_timeout_secs": 0})).await;
    let lanes: Vec<_> = (0..8)
        .map(|lane| {
            let hub = Arc::clone(&hub);
            tokio::spawn(async move {
                for n in 0..tries() / 8 {
                    one_remember(&hub, session, &format!("make {lane}-{n}")).await;
                }
            })
        })
        .collect();
    for lane in lanes {
        lane.await.unwrap();
    }
}

/// Somebody remembers the answer to a command while the same command is asked again. Nobody answers
/// the second one.
async fn one_remember(hub: &Arc<ChildlessHub>, session: plexus_core::SessionId, command: &str) {
    let (first, second) = (format!("{command} first"), format!("{command} second"));
    let (task, asked) = hub.ask(session, &first, "Bash", bash(command)).await;
    let again = {
        let (hub, command) = (Arc::clone(hub), command.to_owned());
        tokio::spawn(async move { hub.permit(session, &second, "Bash", bash(&command)).await })
    };
    let remember = json!({"approval_id": asked["id"], "approve": true, "remember": {"scope": {"session": session}}});
    let told: Value = hub.ok("loopback.respond", remember).await;
    let what = format!("the answer to `{command}` asked again");
    assert_eq!(within(&what, again).await.unwrap()["behavior"], "allow");
    within("the first answer", task).await.unwrap();
    hub.ok("loopback.rule_remove", json!({"rule_id": told["rule_id"]})).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_last_use_of_a_rule_is_not_taken_twice() {
    let hub = Arc::new(ChildlessHub::new().await);
    let session = hub.create("s", json!({})).await;
    let rule = json!({"decision": "allow", "pattern": "Bash(ls)", "uses": 10});
    let rule = hub.ok("loopback.rule_add", rule).await["rule_id"].clone();
    let asks: Vec<_> = (0..40)
        .map(|n| {
            let hub = Arc::clone(&hub);
            tokio::spawn(
                async move { hub.permit(session, &format!("t{n}"), "Bash", bash("ls")).await },
            )
        })
        .collect();
    let filter = ApprovalFilter { session: Some(session), ..ApprovalFilter::default() };
    let mut wake = hub.store.watch(Topic::Session(session));
    let records = within("all forty requests", async {
        loop {
            wake.seen();
            let records = hub.store.approvals(filter, PageRequest::first(100)).await.unwrap().items;
            if records.len() == 40 {
                return records;
            }
            wake.changed().await;
        }
    })
    .await;
    let by_rule = records.iter().filter(|record| record.status == ApprovalStatus::Allowed).inspect(
        |record| {
            let by = record.decision.as_ref().unwrap().by;
            assert!(matches!(by, DecidedBy::Rule(id) if json!(id) == rule));
        },
    );
    assert_eq!(by_rule.count(), 10);
    asks.iter().for_each(tokio::task::JoinHandle::abort);
}
