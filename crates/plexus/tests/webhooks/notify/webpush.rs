//! Web Push: a push service that checks who sends, and browsers that decrypt.

use std::os::unix::fs::PermissionsExt as _;

use serde_json::{Value, json};
use testkit::receivers::{Browser, PushService};

use super::{assert_waiting, doctor, entry, plexus, stage, wait_for_log};
use crate::stage::Stage;

const URL: &str = "https://plexus.example.org";

/// A server that tells browsers of these push services.
async fn telling(services: &[&PushService], more: &str) -> Stage {
    let hosts: Vec<String> = services.iter().map(|it| it.host()).collect();
    let more = format!("detail = \"summary\"\nservices = {hosts:?}\n{more}");
    stage(&format!("public_url = \"{URL}/\"\n{}", entry("browsers", "webpush", &more))).await
}

async fn subscribe(stage: &Stage, service: &PushService, name: &str) -> Browser {
    let key = stage.call("notify.push_key", json!({})).await["public_key"].clone();
    let browser = service.subscribe(key.as_str().unwrap());
    let mut params = browser.subscription.clone();
    params["name"] = json!(name);
    stage.call("notify.push_subscribe", params).await;
    browser
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_decrypts_what_waits_also_when_a_clock_is_an_hour_off() {
    for ahead in [0, 3_600, -3_600] {
        let service = PushService::start(ahead);
        let stage = telling(&[&service], "contact = \"mailto:me@example.org\"").await;
        let browser = subscribe(&stage, &service, "my phone").await;
        let session = stage.create("asks", json!({})).await;
        let approval = stage.ask(&session).await;
        let pushed = service.wait_for(&browser).await;
        let id = approval["id"].as_str().unwrap();
        assert_eq!(
            (&pushed.message["title"], &pushed.message["approval_id"], &pushed.message["tag"]),
            (&json!("asks asks: Write"), &json!(id), &json!(id)),
        );
        assert_eq!(pushed.message["url"], format!("{URL}/#/queue/{id}"));
        let body = pushed.message["body"].as_str().unwrap();
        assert!(body.contains("note.txt") && body.contains("denied automatically in"), "{body}");
        assert!(!body.contains("hello"), "a summary has no content: {body}");
        assert_eq!(pushed.claims["sub"], "mailto:me@example.org");
        assert!(pushed.ttl <= 300, "a request that has expired needs nobody: {}", pushed.ttl);
        assert_eq!(doctor(&stage, "browsers").await["verdict"], "good");
        let kept = stage.server.data_dir().join("webpush.json");
        assert_eq!(kept.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_subscription_is_removed_and_said() {
    let service = PushService::start(0);
    let stage = telling(&[&service], "").await;
    let (old, new) =
        (subscribe(&stage, &service, "old phone").await, subscribe(&stage, &service, "new").await);
    service.expire(&old);
    let session = stage.create("asks", json!({})).await;
    stage.ask(&session).await;
    service.wait_for(&new).await;
    stage.wait_for_metric("plexus_webhook_pending", "browsers", |waiting| waiting == 0).await;
    wait_for_log(&stage, "the push subscription of \"old phone\" has expired").await;
    let listed = stage.call("notify.receivers", json!({})).await["receivers"][0].clone();
    assert_eq!((&listed["subscriptions"], &listed["failed"]), (&json!(1), &json!(0)), "{listed}");
    // The last one goes too: now nobody is told, and that is said.
    service.expire(&new);
    let (good, words) = plexus(&stage, &["notify", "test", "browsers"]).await;
    assert!(!good && words.contains("has expired"), "{words}");
    let found = doctor(&stage, "browsers").await;
    assert!(found["words"].as_str().unwrap().contains("0 subscriptions"), "{found}");
    let other = stage.create("other", json!({})).await;
    let approval = stage.ask(&other).await;
    wait_for_log(&stage, "no browser has subscribed").await;
    let pending = stage.call("loopback.pending", json!({})).await["approvals"].clone();
    assert!(pending.as_array().unwrap().iter().any(|it| it["id"] == approval["id"]));
    // Who subscribes now is told of what still waits.
    let latest = subscribe(&stage, &service, "latest").await;
    assert_eq!(service.wait_for(&latest).await.message["title"], "other asks: Write");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_service_that_is_down_is_told_once_and_others_not_twice() {
    let (mut down, up) = (PushService::start(0), PushService::start(0));
    let stage = telling(&[&down, &up], "").await;
    let (far, near) = (subscribe(&stage, &down, "far").await, subscribe(&stage, &up, "near").await);
    down.stop().await;
    let session = stage.create("asks", json!({})).await;
    let approval = stage.ask(&session).await;
    up.wait_for(&near).await;
    stage.wait_for_metric("plexus_webhook_failed_total", "browsers", |failed| failed >= 2).await;
    down.start_again();
    down.wait_for(&far).await;
    stage.wait_for_metric("plexus_webhook_pending", "browsers", |waiting| waiting == 0).await;
    assert_eq!((down.taken(&far), up.taken(&near)), (1, 1));
    assert_waiting(&stage, &[&approval]).await;
    // A clock that is days off is said, with what to look at.
    down.set_ahead(3 * 24 * 3_600);
    let (good, words) = plexus(&stage, &["notify", "test", "browsers"]).await;
    assert!(!good && words.contains("is the clock of this machine right"), "{words}");
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_subscriptions_are_refused() {
    let service = PushService::start(0);
    let stage = telling(&[&service], "").await;
    let key = stage.call("notify.push_key", json!({})).await["public_key"].clone();
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
        let error = stage.server.call("notify.push_subscribe", params).await.unwrap_err();
        assert!(error.to_string().contains(expected), "{expected}: {error}");
    }
    stage.call("notify.push_subscribe", good.clone()).await;
    stage.call("notify.push_subscribe", good.clone()).await;
    let counted = || async {
        stage.call("notify.receivers", json!({})).await["receivers"][0]["subscriptions"].clone()
    };
    assert_eq!(counted().await, 1, "the same address is one subscription");
    stage.call("notify.push_unsubscribe", json!({"endpoint": good["endpoint"]})).await;
    assert_eq!(counted().await, 0);
    // A session is not the operator.
    let parent = stage.call("identity.parent", json!({"name": "parent"})).await;
    let token = parent["token"].as_str().unwrap();
    let refused = stage.server.call_as(token, "notify.push_subscribe", good).await.unwrap();
    assert_eq!(refused.unwrap_err().kind(), "forbidden");
}
