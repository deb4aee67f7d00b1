//! Services that nobody reaches for a whole minute. The other modules do the same with seconds.

use std::time::Duration;

use serde_json::json;
use testkit::receivers::{CHANNEL, Ntfy, PushService, Slack, Telegram};
use testkit::wait::eventually_async;
use tokio::time::Instant;

use super::{APP_TOKEN, TOKEN, assert_waiting, decision, doctor, server_with_tokens};
use super::{ntfy, slack, telegram, webpush};

const OUTAGE: Duration = Duration::from_secs(60);

/// A receiver rests for twice as long after each failure, so it may be a minute or two until
/// somebody looks again.
const LONG_PATIENCE: Duration = Duration::from_secs(600);

const NAMES: [&str; 4] = ["phone", "bot", "team", "browsers"];

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes two minutes: scripts/slow-suite.sh runs it"]
async fn receivers_that_are_down_for_a_minute_are_told_once_when_they_are_back() {
    let mut ntfy = Ntfy::start(TOKEN);
    let mut telegram = Telegram::start(TOKEN);
    let mut slack = Slack::start(TOKEN, APP_TOKEN);
    let mut push = PushService::start(0);
    let config = [
        ntfy::to(&ntfy, "phone", ntfy::DECIDES),
        telegram::to(&telegram, "NOTIFY_TOKEN"),
        slack::to(&slack, "NOTIFY_TOKEN", "NOTIFY_APP_TOKEN"),
        webpush::to(&[&push], ""),
    ]
    .concat();
    let setup = server_with_tokens(&config).await;
    let browser = webpush::subscribe(&setup, &push, "my browser").await;

    let began = Instant::now();
    ntfy.stop().await;
    telegram.stop().await;
    slack.stop().await;
    push.stop().await;
    let session = setup.create("asks", json!({"loopback_timeout_secs": 0})).await;
    let approval = setup.ask(&session).await;
    for name in NAMES {
        setup.wait_for_metric("plexus_webhook_failed_total", name, |failed| failed >= 2).await;
        let found = doctor(&setup, name).await;
        assert!(found["words"].as_str().unwrap().contains("no connection"), "{found}");
    }
    tokio::time::sleep_until(began + OUTAGE).await;
    ntfy.start_again();
    telegram.start_again();
    slack.start_again();
    push.start_again();

    let counts = || {
        let asked = [ntfy.messages(), telegram.messages(), slack.messages()];
        let [a, b, c] = asked.map(|messages| messages.len());
        [a, b, c, push.taken(&browser)]
    };
    eventually_async("a message to each of the four", LONG_PATIENCE, || {
        std::future::ready(counts().iter().all(|count| *count > 0).then_some(()))
    })
    .await;
    for name in NAMES {
        setup.wait_for_metric("plexus_webhook_pending", name, |waiting| waiting == 0).await;
        assert_eq!(setup.metric("plexus_webhook_delivered_total", name).await, 1, "{name}");
    }
    assert_eq!(counts(), [1; 4]);
    assert_waiting(&setup, &[&approval]).await;

    // The buttons of all three are worth as much as without an outage.
    let message = slack.messages().remove(0);
    let told = slack.press((slack::ME, CHANNEL), &message, "Allow", slack::clock(0)).await;
    assert_eq!(told, "It is allowed.");
    let message = telegram.messages().remove(0);
    let told = telegram.press(telegram::ME, &message, "Deny").await;
    assert_eq!(told, "Too late: it is already allowed by webhook.");
    let (status, _) = Ntfy::press(&ntfy.messages().remove(0), "Deny").await;
    assert_eq!(status, 409);
    assert_eq!(decision(&setup, &session).await["status"], "allowed");
    assert_eq!(counts(), [1; 4]);
}
