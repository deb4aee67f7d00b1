//! Slack: buttons that come back over its socket.

use std::time::{SystemTime, UNIX_EPOCH};

use plexus_store::{Change, JsonText, MarkOutbox, OutboxEntry, Priority, Sending, UnixMillis};
use serde_json::{Value, json};
use testkit::receivers::{CHANNEL, Slack};
use testkit::wait::{PATIENCE, eventually_async};

use super::{
    APP_TOKEN, TOKEN, assert_waiting, decision, doctor, entry, plexus, server_with_tokens,
    wait_for_log,
};

pub(super) const ME: &str = "U0ME";

pub(super) fn to(slack: &Slack, token: &str, app_token: &str) -> String {
    let more = format!(
        "url = \"{}\"\nchannel = \"{CHANNEL}\"\nusers = [\"{ME}\"]\ntoken_env = \"{token}\"\n\
         app_token_env = \"{app_token}\"\nanswers = true\ndetail = \"full\"",
        slack.url()
    );
    entry("team", "slack", &more)
}

/// The time that Slack states, so many seconds from now.
pub(super) fn clock(ahead: i64) -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs();
    i64::try_from(now).unwrap() + ahead
}

#[tokio::test(flavor = "multi_thread")]
async fn a_press_decides_once_whatever_the_clock_says() {
    let slack = Slack::start(TOKEN, APP_TOKEN);
    let setup = server_with_tokens(&to(&slack, "NOTIFY_TOKEN", "NOTIFY_APP_TOKEN")).await;
    let session = setup.create("asks", json!({})).await;
    // A name that Slack would read as a mention of everybody.
    setup.ask_for(&session, "Write", &json!({"file_path": "<!channel>", "content": "x"})).await;
    let message = slack.wait_for(1).await.remove(0);
    for block in message["blocks"].as_array().unwrap() {
        assert!(block["text"].is_null() || block["text"]["type"] == "plain_text", "{block}");
    }
    assert!(!message["text"].as_str().unwrap().contains("<!"), "{message:#}");
    let (me, hour) = ((ME, CHANNEL), 3_600);
    assert_eq!(slack.press(me, &message, "Allow", clock(-hour)).await, "It is allowed.");
    let again = slack.press(me, &message, "Deny", clock(hour)).await;
    assert_eq!(again, "Too late: it is already allowed by webhook.");
    assert_eq!(decision(&setup, &session).await["status"], "allowed");
    let lines = setup.audit("approval.answered").await;
    assert_eq!((lines.len(), &lines[0]["body"]["via"]), (1, &json!("slack")), "{lines:#?}");
    // The decision takes the place of the buttons.
    eventually_async("the message without buttons", PATIENCE, || {
        let blocks = slack.messages()[0]["blocks"].clone();
        let has_buttons = blocks.as_array().unwrap().iter().any(|it| it["type"] == "actions");
        std::future::ready((!has_buttons).then_some(()))
    })
    .await;
    let (good, words) = plexus(&setup, &["notify", "test", "team"]).await;
    assert!(good, "{words}");
    assert_eq!(doctor(&setup, "team").await["verdict"], "good");
    for secret in [TOKEN, APP_TOKEN] {
        assert!(!setup.server.log().contains(secret), "a token is in the log");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_and_forged_buttons_decide_nothing_and_a_new_socket_goes_on() {
    let slack = Slack::start(TOKEN, APP_TOKEN);
    let setup = server_with_tokens(&to(&slack, "NOTIFY_TOKEN", "NOTIFY_APP_TOKEN")).await;
    let session = setup.create("asks", json!({})).await;
    let approval = setup.ask(&session).await;
    let message = slack.wait_for(1).await.remove(0);
    let told = slack.press(("U0OTHER", CHANNEL), &message, "Allow", clock(0)).await;
    assert_eq!(told, "You may not decide here.");
    for forged in ["", "plx_hook_", "plx_hook_00_team"] {
        let action = json!({"action_id": "plexus_allow", "value": forged});
        let told = slack.press_with((ME, CHANNEL), &message, &action).await;
        assert!(told.starts_with("Could not accept this token"), "{told}");
    }
    assert_waiting(&setup, &[&approval]).await;
    let refused = setup.audit("refused").await;
    assert!(refused.len() >= 4, "what was tried is on record");
    let who = format!("user U0OTHER in channel {CHANNEL} of Slack");
    assert!(refused.iter().any(|line| line.to_string().contains(&who)), "{refused:#?}");
    let before = slack.sockets();
    slack.renew();
    eventually_async("another socket", PATIENCE, || {
        std::future::ready((slack.sockets() > before).then_some(()))
    })
    .await;
    let told = slack.press((ME, CHANNEL), &message, "Deny", clock(0)).await;
    assert_eq!(told, "It is denied.");
}

#[tokio::test(flavor = "multi_thread")]
async fn slack_that_is_down_is_told_once_when_it_is_back_and_its_buttons_work() {
    let mut slack = Slack::start(TOKEN, APP_TOKEN);
    let setup = server_with_tokens(&to(&slack, "NOTIFY_TOKEN", "NOTIFY_APP_TOKEN")).await;
    let before = eventually_async("a socket", PATIENCE, || {
        std::future::ready(Some(slack.sockets()).filter(|sockets| *sockets > 0))
    })
    .await;
    slack.stop().await;
    let decided = setup.create("decided", json!({})).await;
    let early = setup.ask(&decided).await;
    setup.wait_for_metric("plexus_webhook_failed_total", "team", |failed| failed >= 1).await;
    wait_for_log(&setup, "its buttons cannot be heard").await;
    let found = doctor(&setup, "team").await;
    let words = found["words"].as_str().unwrap();
    assert!(words.contains("no connection"), "{words}");
    assert!(words.contains("its buttons cannot be heard"), "{words}");
    // Nobody needs to be told of what is decided by now.
    setup.allow(&early).await;
    let session = setup.create("waits", json!({})).await;
    let approval = setup.ask(&session).await;
    slack.start_again();
    let message = slack.wait_for(1).await.remove(0);
    setup.wait_for_metric("plexus_webhook_pending", "team", |waiting| waiting == 0).await;
    let texts: Vec<Value> = slack.messages().iter().map(|it| it["text"].clone()).collect();
    assert_eq!(texts, ["waits asks: Write"]);
    assert_waiting(&setup, &[&approval]).await;
    // The press waits at Slack for the next socket.
    assert_eq!(slack.press((ME, CHANNEL), &message, "Allow", clock(0)).await, "It is allowed.");
    assert!(slack.sockets() > before, "the socket of before is gone");
    assert_eq!(decision(&setup, &session).await["status"], "allowed");
    assert_eq!(slack.messages().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_messages_about_one_request_the_newest_is_sent() {
    let mut slack = Slack::start(TOKEN, APP_TOKEN);
    slack.stop().await;
    let gathers = to(&slack, "NOTIFY_TOKEN", "NOTIFY_APP_TOKEN").replace("burst_secs = 0\n", "");
    let mut setup = server_with_tokens(&gathers).await;
    let session = setup.create("asks", json!({"loopback_timeout_secs": 0})).await;
    let approval = setup.ask(&session).await;
    let other = setup.create("too", json!({"loopback_timeout_secs": 0})).await;
    setup.ask(&other).await;
    setup
        .change_store(async |store| {
            let end = UnixMillis(i64::MAX);
            let asked = store.outbox_due("team", end, 16).await.unwrap().entries;
            assert_eq!(asked.len(), 2, "{asked:#?}");
            let mut changes = Vec::new();
            for entry in asked {
                // All of them are due, whatever became of earlier attempts.
                let due = Sending::Begun { due_at: entry.due_at, until: entry.created_at };
                changes.push(Change::MarkOutbox(MarkOutbox { id: entry.id, result: due }));
                let mut body: Value = entry.body.read().unwrap();
                if body["approval"]["id"] != approval["id"] {
                    continue;
                }
                // Reminders of the first request, as they come during an outage.
                for n in 1..=3 {
                    let id = uuid::Uuid::now_v7();
                    body["id"] = json!(id);
                    body["type"] = json!("approval.escalated");
                    let at = entry.created_at.plus(std::time::Duration::from_millis(n));
                    changes.push(Change::Enqueue(OutboxEntry {
                        id,
                        kind: "approval.escalated".into(),
                        body: JsonText::of(&body).unwrap(),
                        created_at: at,
                        due_at: entry.created_at,
                        attempts: 0,
                        last_error: None,
                        ..entry.clone()
                    }));
                }
            }
            store.commit(changes, Priority::Normal).await.unwrap();
            slack.start_again();
        })
        .await;
    let message = slack.wait_for(1).await.remove(0);
    assert_eq!(message["text"], "2 requests wait");
    let texts = message["blocks"].to_string();
    assert!(texts.contains("Still waiting: asks asks: Write"), "{message:#}");
    assert_eq!(texts.matches("asks asks: Write").count(), 1, "{message:#}");
    setup.wait_for_metric("plexus_webhook_pending", "team", |waiting| waiting == 0).await;
    assert_eq!(slack.messages().len(), 1, "{:#?}", slack.messages());
    // The buttons decide.
    let blocks = message["blocks"].as_array().unwrap();
    let buttons = blocks.iter().find(|block| block["block_id"] == approval["id"]).unwrap();
    let mut action = buttons["elements"][0].clone();
    action["block_id"] = approval["id"].clone();
    let told = slack.press_with((ME, CHANNEL), &message, &action).await;
    assert_eq!(told, "It is allowed.");
    assert_eq!(decision(&setup, &session).await["status"], "allowed");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_tokens_of_slack_are_said() {
    let slack = Slack::start(TOKEN, APP_TOKEN);
    let setup = server_with_tokens(&to(&slack, "WRONG_TOKEN", "WRONG_TOKEN")).await;
    let session = setup.create("asks", json!({})).await;
    let approval = setup.ask(&session).await;
    wait_for_log(&setup, "its buttons cannot be heard").await;
    setup.wait_for_metric("plexus_webhook_failed_total", "team", |failed| failed >= 1).await;
    let found: Value = doctor(&setup, "team").await;
    let words = found["words"].as_str().unwrap();
    assert!(words.contains("chat.postMessage: invalid_auth"), "{words}");
    assert!(words.contains("apps.connections.open: invalid_auth"), "{words}");
    let (good, words) = plexus(&setup, &["notify", "test", "team"]).await;
    assert!(!good && words.contains("chat.postMessage: invalid_auth"), "{words}");
    assert!(!setup.server.log().contains("1:wrong"), "a token is in the log");
    assert_waiting(&setup, &[&approval]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_press_is_taken_while_the_answer_to_another_is_slow() {
    let slack = Slack::start(TOKEN, APP_TOKEN);
    let config = to(&slack, "NOTIFY_TOKEN", "NOTIFY_APP_TOKEN");
    let setup = server_with_tokens(&format!("{config}timeout_secs = 60\n")).await;
    let (first, second) =
        (setup.create("first", json!({})).await, setup.create("second", json!({})).await);
    setup.ask(&first).await;
    setup.ask(&second).await;
    let messages = slack.wait_for(2).await;
    slack.hold();
    let me = (ME, CHANNEL);
    let presses = async {
        tokio::join!(
            slack.press(me, &messages[0], "Allow", clock(0)),
            slack.press(me, &messages[1], "Deny", clock(0)),
        )
    };
    let meanwhile = async {
        // Slack has told nobody anything yet, and both are taken.
        slack.wait_until_taken(2).await;
        slack.let_go();
    };
    tokio::join!(presses, meanwhile);
    // What the second person is told comes after its decision.
    eventually_async("both answers", PATIENCE, || {
        std::future::ready((slack.told() == 2).then_some(()))
    })
    .await;
    assert_eq!(decision(&setup, &first).await["status"], "allowed");
    assert_eq!(decision(&setup, &second).await["status"], "denied");
}
