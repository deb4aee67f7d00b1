//! Telegram: buttons that come back by long polling.

use serde_json::{Value, json};
use testkit::receivers::Telegram;

use super::{
    TOKEN, assert_waiting, decision, doctor, entry, plexus, server_with_tokens, wait_for_log,
};

const CHAT: i64 = -10_077;
pub(super) const ME: i64 = 4_242;

pub(super) fn to(telegram: &Telegram, token: &str) -> String {
    let more = format!(
        "url = \"{}\"\nchat = {CHAT}\nusers = [{ME}]\ntoken_env = \"{token}\"\nanswers = true\n\
         detail = \"full\"",
        telegram.url()
    );
    entry("bot", "telegram", &more)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_press_decides_once_and_the_second_is_told_what_stands() {
    let telegram = Telegram::start(TOKEN);
    let setup = server_with_tokens(&to(&telegram, "NOTIFY_TOKEN")).await;
    let session = setup.create("asks", json!({})).await;
    setup.ask(&session).await;
    let message = telegram.wait_for(1).await.remove(0);
    assert_eq!(message["chat"]["id"], CHAT);
    assert!(message["text"].as_str().unwrap().starts_with("asks asks: Write\n"), "{message:#}");
    assert_eq!(telegram.press(ME, &message, "Deny").await, "It is denied.");
    // The message of before still shows its buttons to somebody who has not seen the answer.
    let again = telegram.press(ME, &message, "Allow").await;
    assert_eq!(again, "Too late: it is already denied by webhook.");
    let decided = decision(&setup, &session).await;
    assert_eq!(decided["status"], "denied");
    let lines = setup.audit("approval.answered").await;
    assert_eq!((lines.len(), &lines[0]["body"]["via"]), (1, &json!("telegram")), "{lines:#?}");
    let keyboard = &telegram.messages()[0]["reply_markup"]["inline_keyboard"];
    assert_eq!(*keyboard, json!([]), "what is decided has no buttons");
    let (good, words) = plexus(&setup, &["notify", "test", "bot"]).await;
    assert!(good, "{words}");
    assert_eq!(doctor(&setup, "bot").await["verdict"], "good");
    assert!(!setup.server.log().contains(TOKEN), "the bot's token is in the log");
}

#[tokio::test(flavor = "multi_thread")]
async fn strangers_forged_buttons_and_other_chats_decide_nothing() {
    let telegram = Telegram::start(TOKEN);
    let setup = server_with_tokens(&to(&telegram, "NOTIFY_TOKEN")).await;
    let session = setup.create("asks", json!({})).await;
    let approval = setup.ask(&session).await;
    let other = setup.create("other", json!({})).await;
    let second = setup.ask(&other).await;
    let messages = telegram.wait_for(2).await;
    let data = |message: &Value| {
        let button = &message["reply_markup"]["inline_keyboard"][0][0];
        button["callback_data"].as_str().unwrap().to_owned()
    };
    let (first, next) = (data(&messages[0]), data(&messages[1]));
    assert_eq!(telegram.press(ME + 1, &messages[0], "Allow").await, "You may not decide here.");
    let mut elsewhere = messages[0].clone();
    elsewhere["chat"]["id"] = json!(ME);
    assert_eq!(telegram.press(ME, &elsewhere, "Allow").await, "You may not decide here.");
    // The proof of one approval with the id of another, and letters that mean nothing.
    let mixed = format!("{}{}", &first[..20], &next[20..]);
    for forged in [mixed.as_str(), "a", "", "x", "aAAAA", &first.replace('a', "b")] {
        let told = telegram.press_with(ME, &messages[0], forged).await;
        assert!(told.contains("server did not make"), "{forged}: {told}");
    }
    assert_waiting(&setup, &[&approval, &second]).await;
    assert!(setup.audit("approval.answered").await.is_empty());
    let refused = setup.audit("refused").await;
    assert!(refused.len() >= 3, "what was tried is on record");
    let who = format!("user {} in chat ", ME + 1);
    assert!(refused.iter().any(|line| line.to_string().contains(&who)), "{refused:#?}");
    assert!(!setup.server.log().contains("Some("), "the log is in words");
    assert_eq!(telegram.press(ME, &messages[1], "Allow").await, "It is allowed.");
    assert_waiting(&setup, &[&approval]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn telegram_that_is_down_is_told_once_when_it_is_back_and_its_buttons_work() {
    let mut telegram = Telegram::start(TOKEN);
    let mut setup = server_with_tokens(&to(&telegram, "NOTIFY_TOKEN")).await;
    telegram.stop().await;
    let session = setup.create("asks", json!({})).await;
    let approval = setup.ask(&session).await;
    setup.wait_for_metric("plexus_webhook_failed_total", "bot", |failed| failed >= 1).await;
    wait_for_log(&setup, "its buttons cannot be heard").await;
    telegram.start_again();
    let message = telegram.wait_for(1).await.remove(0);
    setup.wait_for_metric("plexus_webhook_pending", "bot", |waiting| waiting == 0).await;
    assert_eq!(telegram.messages().len(), 1);
    assert_waiting(&setup, &[&approval]).await;
    // A button works after a restart of the server: nothing of it was in memory.
    setup.server.crash_and_restart().await.unwrap();
    assert_eq!(telegram.press(ME, &message, "Allow").await, "It is allowed.");
    assert_eq!(telegram.messages().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_token_of_a_bot_is_said() {
    let telegram = Telegram::start(TOKEN);
    let setup = server_with_tokens(&to(&telegram, "WRONG_TOKEN")).await;
    let session = setup.create("asks", json!({})).await;
    let approval = setup.ask(&session).await;
    wait_for_log(&setup, "its buttons cannot be heard").await;
    setup.wait_for_metric("plexus_webhook_failed_total", "bot", |failed| failed >= 1).await;
    let found = doctor(&setup, "bot").await;
    let words = found["words"].as_str().unwrap();
    assert!(words.contains("401 Unauthorized"), "{words}");
    assert!(words.contains("its buttons cannot be heard"), "{words}");
    let (good, words) = plexus(&setup, &["notify", "test", "bot"]).await;
    assert!(!good && words.contains("401 Unauthorized") && !words.contains("1:wrong"), "{words}");
    assert!(!setup.server.log().contains("1:wrong"), "a token is in the log");
    assert_waiting(&setup, &[&approval]).await;
}
