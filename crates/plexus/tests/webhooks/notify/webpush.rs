//! Web Push: a push service that checks who sends, and browsers that decrypt.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};
use testkit::receivers::{Browser, PushService};
use testkit::wait::{PATIENCE, eventually_async};

use super::{assert_waiting, doctor, entry, plexus, server_with_tokens, wait_for_log};
use crate::server_with_receivers::ServerWithReceivers;

const URL: &str = "https://plexus.example.org";

/// An entry for browsers of these push services.
pub(super) fn to(services: &[&PushService], more: &str) -> String {
    let hosts: Vec<String> = services.iter().map(|it| it.host()).collect();
    let more = format!("detail = \"summary\"\nservices = {hosts:?}\n{more}");
    entry("browsers", "webpush", &more)
}

/// A server that tells browsers of these push services.
async fn telling(services: &[&PushService], more: &str) -> ServerWithReceivers {
    server_with_tokens(&format!("public_url = \"{URL}/\"\n{}", to(services, more))).await
}

pub(super) async fn subscribe(
    setup: &ServerWithReceivers,
    service: &PushService,
    name: &str,
) -> Browser {
    subscribe_as(setup, setup.server.token().unwrap(), service, name).await
}

/// The same for somebody with this token.
async fn subscribe_as(
    setup: &ServerWithReceivers,
    token: &str,
    service: &PushService,
    name: &str,
) -> Browser {
    let call = async |method: &str, params: Value| {
        setup.server.call_as(token, method, params).await.unwrap().unwrap()
    };
    let key = call("notify.push_key", json!({})).await["public_key"].clone();
    let browser = service.subscribe(key.as_str().unwrap());
    let mut params = browser.subscription.clone();
    params["name"] = json!(name);
    call("notify.push_subscribe", params).await;
    browser
}

/// Pairs a phone of this name by its code, and has it subscribe with its own token.
async fn paired(setup: &ServerWithReceivers, service: &PushService, name: &str) -> Browser {
    let (good, words) = plexus(setup, &["pair", "--json", "--name", name]).await;
    assert!(good, "{words}");
    let pairing: Value = serde_json::from_str(&words).unwrap();
    let url = format!("{}/auth/exchange", setup.server.url().unwrap());
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let answer = client.post(url).json(&json!({"code": pairing["code"]})).send().await.unwrap();
    let signed_in: Value = answer.json().await.unwrap();
    assert_eq!(signed_in["device"], name, "{signed_in}");
    subscribe_as(setup, signed_in["token"].as_str().unwrap(), service, name).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_decrypts_what_waits_also_when_a_clock_is_an_hour_off() {
    for ahead in [0, 3_600, -3_600] {
        let service = PushService::start(ahead);
        let setup = telling(&[&service], "contact = \"mailto:me@example.org\"").await;
        let browser = subscribe(&setup, &service, "my phone").await;
        let session = setup.create("asks", json!({})).await;
        let approval = setup.ask(&session).await;
        let pushed = service.wait_for(&browser).await;
        let id = approval["id"].as_str().unwrap();
        assert_eq!(
            (&pushed.message["title"], &pushed.message["approval_id"], &pushed.message["tag"]),
            (&json!("asks asks: Write"), &json!(id), &json!(id)),
        );
        assert_eq!(pushed.message["url"], format!("{URL}/approve/{id}"));
        let body = pushed.message["body"].as_str().unwrap();
        assert!(body.contains("note.txt") && body.contains("denied automatically in"), "{body}");
        assert!(!body.contains("hello"), "a summary has no content: {body}");
        assert_eq!(pushed.claims["sub"], "mailto:me@example.org");
        assert!(pushed.ttl <= 300, "a request that has expired needs nobody: {}", pushed.ttl);
        assert_eq!(doctor(&setup, "browsers").await["verdict"], "good");
        let kept = setup.server.data_dir().join("webpush.json");
        assert_eq!(kept.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_subscription_is_removed_and_said() {
    let service = PushService::start(0);
    let setup = telling(&[&service], "").await;
    let (old, new) =
        (subscribe(&setup, &service, "old phone").await, subscribe(&setup, &service, "new").await);
    service.expire(&old);
    let session = setup.create("asks", json!({})).await;
    setup.ask(&session).await;
    service.wait_for(&new).await;
    setup.wait_for_metric("plexus_webhook_pending", "browsers", |waiting| waiting == 0).await;
    wait_for_log(&setup, "the push subscription of \"old phone\" has expired").await;
    let listed = setup.call("notify.receivers", json!({})).await["receivers"][0].clone();
    assert_eq!((&listed["subscriptions"], &listed["failed"]), (&json!(1), &json!(0)), "{listed}");
    // The last one goes too: now nobody is told, and that is said.
    service.expire(&new);
    let (good, words) = plexus(&setup, &["notify", "test", "browsers"]).await;
    assert!(!good && words.contains("has expired"), "{words}");
    let found = doctor(&setup, "browsers").await;
    assert!(found["words"].as_str().unwrap().contains("0 subscriptions"), "{found}");
    let other = setup.create("other", json!({})).await;
    let approval = setup.ask(&other).await;
    wait_for_log(&setup, "no browser has subscribed").await;
    let pending = setup.call("loopback.pending", json!({})).await["approvals"].clone();
    assert!(pending.as_array().unwrap().iter().any(|it| it["id"] == approval["id"]));
    // Who subscribes now is told of what still waits.
    let latest = subscribe(&setup, &service, "latest").await;
    assert_eq!(service.wait_for(&latest).await.message["title"], "other asks: Write");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_service_that_is_down_is_told_once_and_others_not_twice() {
    let (mut down, up) = (PushService::start(0), PushService::start(0));
    let setup = telling(&[&down, &up], "").await;
    let (far, near) = (subscribe(&setup, &down, "far").await, subscribe(&setup, &up, "near").await);
    down.stop().await;
    let session = setup.create("asks", json!({})).await;
    let approval = setup.ask(&session).await;
    up.wait_for(&near).await;
    setup.wait_for_metric("plexus_webhook_failed_total", "browsers", |failed| failed >= 2).await;
    down.start_again();
    down.wait_for(&far).await;
    setup.wait_for_metric("plexus_webhook_pending", "browsers", |waiting| waiting == 0).await;
    assert_eq!((down.taken(&far), up.taken(&near)), (1, 1));
    assert_waiting(&setup, &[&approval]).await;
    // A clock that is days off is said, with what to look at.
    down.set_ahead(3 * 24 * 3_600);
    let (good, words) = plexus(&setup, &["notify", "test", "browsers"]).await;
    let why = "is the clock of this machine right";
    assert!(!good && words.contains(why), "{words}");
    wait_for_log(&setup, why).await;
    let found = doctor(&setup, "browsers").await;
    assert!(found["words"].as_str().unwrap().contains(why), "{found}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_revoked_phone_is_pushed_nothing_while_others_still_are() {
    let service = PushService::start(0);
    let setup = telling(&[&service], "").await;
    let (lost, kept) =
        (paired(&setup, &service, "lost").await, paired(&setup, &service, "kept").await);
    let first = setup.create("first", json!({})).await;
    setup.ask(&first).await;
    for phone in [&lost, &kept] {
        assert_eq!(service.wait_for(phone).await.message["title"], "first asks: Write");
    }
    let (good, words) = plexus(&setup, &["devices", "revoke", "lost"]).await;
    assert!(good && words.contains("revoked lost"), "{words}");
    // Neither a test nor an approval reaches it from now on.
    let (good, words) = plexus(&setup, &["notify", "test", "browsers"]).await;
    assert!(good, "{words}");
    assert_eq!((service.taken(&lost), service.taken(&kept)), (1, 2));
    let second = setup.create("second", json!({})).await;
    let approval = setup.ask(&second).await;
    let told = || std::future::ready((service.taken(&kept) == 3).then_some(()));
    eventually_async("the push to the other phone", PATIENCE, told).await;
    setup.wait_for_metric("plexus_webhook_pending", "browsers", |waiting| waiting == 0).await;
    assert_eq!((service.taken(&lost), service.taken(&kept)), (1, 3));
    let receivers = setup.call("notify.receivers", json!({})).await;
    assert_eq!(receivers["receivers"][0]["subscriptions"], 1, "{receivers:#}");
    let pending = setup.call("loopback.pending", json!({})).await;
    let waits = pending["approvals"].as_array().unwrap().iter();
    assert!(waits.clone().any(|it| it["id"] == approval["id"]), "{pending:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_subscriptions_are_refused() {
    let service = PushService::start(0);
    let setup = telling(&[&service], "").await;
    let key = setup.call("notify.push_key", json!({})).await["public_key"].clone();
    let good = service.subscribe(key.as_str().unwrap()).subscription;
    let with = |field: &str, value: Value| {
        let mut params = good.clone();
        params[field] = value;
        params
    };
    for (params, expected) in [
        (with("endpoint", json!("https://internal.example.org/x")), "not a known push service"),
        (with("endpoint", json!("http://127.0.0.1:1/x")), "not a known push service"),
        (with("endpoint", json!("http://fcm.googleapis.com/x")), "https://"),
        (with("endpoint", json!("nowhere")), "not an address"),
        (
            with("endpoint", json!(format!("https://fcm.googleapis.com/{}", "x".repeat(3_000)))),
            "2048",
        ),
        (with("p256dh", json!("AAAA")), "P-256"),
        (with("auth", json!("AAAA")), "16 bytes"),
        (with("name", json!("x".repeat(101))), "100 characters"),
        (with("more", json!(1)), "more"),
    ] {
        let error = setup.server.call("notify.push_subscribe", params).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{expected}: {error}");
    }
    setup.call("notify.push_subscribe", good.clone()).await;
    setup.call("notify.push_subscribe", good.clone()).await;
    let counted = || async {
        setup.call("notify.receivers", json!({})).await["receivers"][0]["subscriptions"].clone()
    };
    assert_eq!(counted().await, 1, "the same address is one subscription");
    setup.call("notify.push_unsubscribe", json!({"endpoint": good["endpoint"]})).await;
    assert_eq!(counted().await, 0);
    // A session is not the operator.
    let parent = setup.call("identity.parent", json!({"name": "parent"})).await;
    let token = parent["token"].as_str().unwrap();
    let refused = setup.server.call_as(token, "notify.push_subscribe", good).await.unwrap();
    assert_eq!(refused.unwrap_err().kind(), "forbidden");
}
