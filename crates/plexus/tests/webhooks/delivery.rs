//! Every event arrives, with an id that is never another event's, whatever the receiver does.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use plexus_store::{Change, JsonText, OutboxEntry, Priority, Store, UnixMillis};
use serde_json::json;

use crate::receiver::{Act, Letter, Receiver};
use crate::server_with_receivers::ServerWithReceivers;

/// The ids of some letters with what each says; the same id must always say the same.
fn by_id(letters: &[Letter]) -> BTreeMap<String, String> {
    let mut known: BTreeMap<String, String> = BTreeMap::new();
    for letter in letters {
        assert_eq!(
            letter.body()["id"],
            letter.id.as_str(),
            "the header and the body name another id"
        );
        let before = known.insert(letter.id.clone(), letter.text.clone());
        assert!(
            before.is_none_or(|before| before == letter.text),
            "an id came again with something else"
        );
    }
    known
}

#[tokio::test(flavor = "multi_thread")]
async fn each_change_of_an_approval_is_told_once() {
    let receiver = Receiver::new(|_| Act::Take).await;
    let setup = ServerWithReceivers::new(&[("phone", receiver.port, "")]).await;
    let session = setup.create("asks", json!({})).await;
    let approval = setup.ask(&session).await;
    let asked = receiver.wait_for_type("approval.requested").await.body();
    assert_eq!(asked["approval"]["id"], approval["id"]);
    assert_eq!(asked["approval"]["input"]["content"], "hello");
    assert_eq!(asked["approval"]["session_name"], "asks");
    assert_eq!(asked["approval"]["risk"], approval["risk"]);
    assert_eq!(approval["risk"]["level"], "medium");
    assert_eq!(asked.get("respond"), None, "who may not answer gets no token");
    setup.allow(&approval).await;
    let resolved = receiver.wait_for_type("approval.resolved").await.body();
    assert_eq!(
        (&resolved["approval"]["status"], &resolved["approval"]["decided_by"]),
        (&json!("allowed"), &json!("operator"))
    );
    let ended = receiver.wait_for_type("session.ended").await.body();
    assert_eq!(
        (&ended["status"], &ended["chat"], &ended["session"]["name"]),
        (&json!("complete"), &json!(0), &json!("asks"))
    );
    setup
        .wait_for_metric("plexus_webhook_delivered_total", "phone", |delivered| delivered == 3)
        .await;
    assert_eq!(by_id(&receiver.letters()).len(), 3);
    assert_eq!(setup.metric("plexus_webhook_pending", "phone").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_fails_breaks_off_or_redirects_gets_every_event_in_the_end() {
    // A receiver that breaks off has taken the message without saying so: that message comes twice,
    // with one id.
    let receiver = Receiver::new(|n| match n {
        0 => Act::Fail,
        1 => Act::Redirect,
        2 => Act::BreakOff,
        _ => Act::Take,
    })
    .await;
    let setup = ServerWithReceivers::new(&[(
        "rude",
        receiver.port,
        "events = [\"session.ended\"]\ntimeout_secs = 60",
    )])
    .await;
    let session = setup.create("s", json!({})).await;
    for _ in 0..3 {
        setup.chat_to_end(&session).await;
    }
    setup
        .wait_for_metric("plexus_webhook_delivered_total", "rude", |delivered| delivered == 3)
        .await;
    setup.wait_for_metric("plexus_webhook_pending", "rude", |waiting| waiting == 0).await;
    assert_eq!(setup.metric("plexus_webhook_failed_total", "rude").await, 3);
    let told = by_id(&receiver.letters());
    assert_eq!(
        (told.len(), receiver.letters().len()),
        (3, 6),
        "three events, three of them sent twice"
    );
    let chats: Vec<u64> = {
        let letters = receiver.letters();
        let mut chats: Vec<u64> =
            letters.iter().map(|letter| letter.body()["chat"].as_u64().unwrap()).collect();
        chats.sort_unstable();
        chats.dedup();
        chats
    };
    assert_eq!(chats, [0, 1, 2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_that_is_down_or_killed_is_told_when_it_is_back() {
    let mut receiver = Receiver::new(|_| Act::Take).await;
    let setup =
        ServerWithReceivers::new(&[("phone", receiver.port, "events = [\"session.ended\"]")]).await;
    let session = setup.create("s", json!({})).await;
    setup.chat_to_end(&session).await;
    receiver.wait_for("chat 0", |body| body["chat"] == 0).await;
    receiver.kill().await;
    setup.chat_to_end(&session).await;
    setup.chat_to_end(&session).await;
    setup.wait_for_metric("plexus_webhook_failed_total", "phone", |failed| failed > 0).await;
    setup.wait_for_metric("plexus_webhook_pending", "phone", |waiting| waiting == 2).await;
    receiver.start_again(|_| Act::Take);
    receiver.wait_for("chat 1", |body| body["chat"] == 1).await;
    receiver.wait_for("chat 2", |body| body["chat"] == 2).await;
    assert_eq!(by_id(&receiver.letters()).len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_killed_tells_after_its_restart_what_it_had_not() {
    let receiver = Receiver::new(|_| Act::Take).await;
    let mut deaf = Receiver::new(|_| Act::Hang).await;
    let config = "events = [\"approval.requested\", \"session.ended\"]\ntimeout_secs = 60";
    let mut setup =
        ServerWithReceivers::new(&[("phone", receiver.port, config), ("deaf", deaf.port, config)])
            .await;
    let session = setup.create("s", json!({})).await;
    let approval = setup.ask(&session).await;
    setup.wait_for_metric("plexus_webhook_pending", "deaf", |waiting| waiting == 1).await;
    setup.server.kill_9().unwrap();
    // The receiver that was deaf works again by the time the server is back.
    deaf.kill().await;
    deaf.start_again(|_| Act::Take);
    setup.server.start_again().await.unwrap();
    setup.allow(&approval).await;
    for receiver in [&receiver, &deaf] {
        let asked = receiver.wait_for_type("approval.requested").await.body();
        assert_eq!(asked["approval"]["id"], approval["id"]);
        receiver.wait_for_type("session.ended").await;
        assert_eq!(by_id(&receiver.letters()).len(), 2, "{:#?}", receiver.letters());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_slow_or_endless_receiver_holds_nobody_else() {
    let quick = Receiver::new(|_| Act::Take).await;
    let slow = Receiver::new(|_| Act::Hang).await;
    let endless = Receiver::new(|_| Act::Babble).await;
    let config = "events = [\"session.ended\"]\ntimeout_secs = 60";
    let webhooks = [
        ("slow", slow.port, config),
        ("endless", endless.port, config),
        ("quick", quick.port, config),
    ];
    let setup = ServerWithReceivers::new(&webhooks).await;
    let session = setup.create("s", json!({})).await;
    for _ in 0..5 {
        setup.chat_to_end(&session).await;
    }
    setup
        .wait_for_metric("plexus_webhook_delivered_total", "quick", |delivered| delivered == 5)
        .await;
    setup
        .wait_for_metric("plexus_webhook_delivered_total", "endless", |delivered| delivered == 5)
        .await;
    assert_eq!(
        setup.metric("plexus_webhook_pending", "slow").await,
        5,
        "its messages wait for it alone"
    );
    assert_eq!(by_id(&quick.letters()).len(), 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_undeliverable_message_is_given_up_and_audited() {
    let receiver = Receiver::new(|_| Act::Fail).await;
    let setup = ServerWithReceivers::new(&[(
        "never",
        receiver.port,
        "events = [\"session.ended\"]\ngive_up_after_secs = 0",
    )])
    .await;
    let session = setup.create("s", json!({})).await;
    setup.chat_to_end(&session).await;
    setup.wait_for_metric("plexus_webhook_given_up_total", "never", |given_up| given_up == 1).await;
    let lines = setup.audit("webhook.given_up").await;
    assert_eq!(lines.len(), 1, "{lines:#?}");
    let body = &lines[0]["body"];
    assert_eq!((&body["receiver"], &body["event"]), (&json!("never"), &json!("session.ended")));
    assert_eq!(body["id"], receiver.letters()[0].id.as_str());
    assert!(body["why"].as_str().unwrap().contains("500"), "{body}");
    assert_eq!(setup.metric("plexus_webhook_pending", "never").await, 0);
}

/// A message of this age to the receiver `phone`, whose sending failed so often.
fn message(age: Duration, attempts: u32) -> OutboxEntry {
    let created_at = UnixMillis(UnixMillis::now().0 - i64::try_from(age.as_millis()).unwrap());
    let last_error = (attempts > 0).then(|| "no connection".to_owned());
    OutboxEntry {
        id: uuid::Uuid::now_v7(),
        kind: "session.ended".into(),
        target: "phone".into(),
        body: JsonText::of(&json!({"type": "session.ended"})).unwrap(),
        created_at,
        due_at: created_at,
        attempts,
        last_error,
    }
}

async fn enqueue(store: &dyn Store, messages: &[OutboxEntry]) {
    let changes = messages.iter().cloned().map(Change::Enqueue).collect();
    store.commit(changes, Priority::Normal).await.unwrap();
}

const HOUR: Duration = Duration::from_secs(3_600);

#[tokio::test(flavor = "multi_thread")]
async fn one_attempt_that_reaches_nobody_gives_up_all_that_is_too_old() {
    // More than one page, and more than a receiver that is away is tried in a test's patience.
    const OLD: usize = 40;
    let mut receiver = Receiver::new(|_| Act::Take).await;
    receiver.kill().await;
    let mut setup = ServerWithReceivers::new(&[("phone", receiver.port, "")]).await;
    let old: Vec<_> = (0..OLD).map(|_| message(25 * HOUR, 0)).collect();
    let young = message(HOUR, 0);
    setup
        .change_store(async |store| {
            enqueue(store, &old).await;
            enqueue(store, std::slice::from_ref(&young)).await;
        })
        .await;
    let all = |given_up| given_up == OLD as u64;
    setup.wait_for_metric("plexus_webhook_given_up_total", "phone", all).await;
    let lines = setup.audit("webhook.given_up").await;
    let told: BTreeSet<&str> =
        lines.iter().map(|line| line["body"]["id"].as_str().unwrap()).collect();
    let old: Vec<String> = old.iter().map(|entry| entry.id.to_string()).collect();
    assert_eq!(told, old.iter().map(String::as_str).collect(), "{lines:#?}");
    assert_eq!(lines.len(), OLD, "{lines:#?}");
    for line in &lines {
        let why = line["body"]["why"].as_str().unwrap();
        assert!(why.contains("no connection"), "{line:#}");
    }
    // The young one waits for the receiver.
    receiver.start_again(|_| Act::Take);
    let young = young.id.to_string();
    setup.wait_for_metric("plexus_webhook_pending", "phone", |waiting| waiting == 0).await;
    let letters = receiver.letters();
    assert!(letters.iter().all(|letter| letter.id == young) && !letters.is_empty(), "{letters:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_old_and_was_tried_in_vain_is_given_up_before_anything_is_sent() {
    let receiver = Receiver::new(|_| Act::Take).await;
    let mut setup = ServerWithReceivers::new(&[("phone", receiver.port, "")]).await;
    let tried = [message(25 * HOUR, 1), message(25 * HOUR, 7)];
    // Nobody could take it: quiet hours put it off, or this server did not run.
    let new = message(25 * HOUR, 0);
    setup
        .change_store(async |store| {
            enqueue(store, &tried).await;
            enqueue(store, std::slice::from_ref(&new)).await;
        })
        .await;
    setup.wait_for_metric("plexus_webhook_pending", "phone", |waiting| waiting == 0).await;
    let ids: BTreeSet<String> = receiver.letters().into_iter().map(|letter| letter.id).collect();
    assert_eq!(ids, BTreeSet::from([new.id.to_string()]));
    let mut lines = setup.audit("webhook.given_up").await;
    lines.sort_by_key(|line| line["body"]["attempts"].as_u64());
    let told: Vec<_> =
        lines.iter().map(|it| (&it["body"]["id"], &it["body"]["attempts"])).collect();
    let [once, often] = tried.map(|entry| json!(entry.id));
    assert_eq!(told, [(&once, &json!(1)), (&often, &json!(7))], "{lines:#?}");
    assert_eq!(lines[0]["body"]["why"], "no connection", "{lines:#?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn escalation_and_expiry_are_told_too() {
    let receiver = Receiver::new(|_| Act::Take).await;
    let setup = ServerWithReceivers::new(&[("phone", receiver.port, "")]).await;
    let patient = setup.create("patient", json!({"escalate_after_secs": 1})).await;
    setup.ask(&patient).await;
    let escalated = receiver.wait_for_type("approval.escalated").await.body();
    assert_eq!(
        (&escalated["approval"]["escalated_to"], &escalated["approval"]["session_name"]),
        (&json!("operator"), &json!("patient"))
    );
    let hasty = setup.create("hasty", json!({"loopback_timeout_secs": 2})).await;
    setup.ask(&hasty).await;
    let expired = receiver.wait_for_type("approval.expired").await.body();
    assert_eq!(
        (&expired["approval"]["decided_by"], &expired["approval"]["session_id"]),
        (&json!("deadline"), &json!(hasty))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_budget_is_told_of_when_most_and_when_all_of_it_is_used_up() {
    let receiver = Receiver::new(|_| Act::Take).await;
    let setup = ServerWithReceivers::new(&[(
        "phone",
        receiver.port,
        "events = [\"budget.warned\", \"budget.stopped\"]",
    )])
    .await;
    let priced = setup.create("priced", json!({})).await;
    setup.chat_to_end(&priced).await;
    let shown = setup.call("claudecode.get", json!({"session_id": priced})).await;
    let one = shown["session"]["spent"]["cost_usd"].as_f64().unwrap();
    let most = setup.create("most", json!({"budget": {"cost_usd": one * 1.2}})).await;
    setup.chat_to_end(&most).await;
    let hang = |session: &str| json!({"session_id": session, "prompt": "sim:\nsay hm\nhang"});
    setup.call("claudecode.chat_async", hang(&most)).await;
    let warned = receiver.wait_for_type("budget.warned").await.body();
    assert_eq!((&warned["session"]["name"], &warned["of"]), (&json!("most"), &json!("cost")));
    let all = setup.create("all", json!({"budget": {"wall_secs": 1}})).await;
    setup.call("claudecode.chat_async", hang(&all)).await;
    let stopped = receiver.wait_for_type("budget.stopped").await.body();
    assert_eq!((&stopped["session"]["name"], &stopped["of"]), (&json!("all"), &json!("wall time")));
    assert_eq!(setup.audit("budget.stopped").await.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_breach_is_told_of_with_what_was_done() {
    let receiver = Receiver::new(|_| Act::Take).await;
    let setup =
        ServerWithReceivers::new(&[("phone", receiver.port, "events = [\"breach\"]")]).await;
    let session = setup.create("rogue", json!({})).await;
    let prompt = "sim:\nbreach Bash {\"command\":\"true\"}\nhang";
    setup.call("claudecode.chat_async", json!({"session_id": session, "prompt": prompt})).await;
    let told = receiver.wait_for_type("breach").await.body();
    assert_eq!(told["session"]["id"], session.as_str());
    assert!(
        told["what"].as_str().unwrap().contains("ran a tool that nobody here allowed"),
        "{told:#}"
    );
    assert!(setup.audit("breach").await.iter().any(|line| line["body"]["what"] == told["what"]));
}
