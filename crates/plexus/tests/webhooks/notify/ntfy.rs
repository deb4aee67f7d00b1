//! ntfy, and what every service has in common: how much is told, when, and to whom.

use serde_json::{Value, json};
use testkit::receivers::Ntfy;
use testkit::wait::{PATIENCE, eventually_async};

use crate::receiver::{Act, Receiver};

use super::{
    TOKEN, assert_waiting, decision, doctor, entry, plexus, server_with_tokens, wait_for_log,
};

/// An entry for this server that may decide and tells all of an input.
pub(super) fn to(ntfy: &Ntfy, name: &str, more: &str) -> String {
    let service = format!(
        "url = \"{}\"\ntopic = \"{name}\"\ntoken_env = \"NOTIFY_TOKEN\"\n{more}",
        ntfy.url()
    );
    entry(name, "ntfy", &service)
}

pub(super) const DECIDES: &str = "answers = true\ndetail = \"full\"";

/// The one message about an approval.
async fn message_about(ntfy: &Ntfy, topic: &str) -> Value {
    eventually_async(&format!("a message to {topic}"), PATIENCE, || {
        std::future::ready(ntfy.messages().into_iter().find(|it| it["topic"] == topic))
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_button_decides_once_and_a_second_press_is_told_what_stands() {
    let ntfy = Ntfy::start(TOKEN);
    let setup = server_with_tokens(&to(&ntfy, "phone", DECIDES)).await;
    let session = setup.create("asks", json!({})).await;
    let approval = setup.ask(&session).await;
    let message = ntfy.wait_for(1).await.remove(0);
    assert_eq!(message["title"], "asks asks: Write", "{message:#}");
    let text = message["message"].as_str().unwrap();
    for part in ["content: hello", "risk ", "denied automatically in "] {
        assert!(text.contains(part), "{part} is missing in {text}");
    }

    // A forged token decides nothing.
    let mut forged = message.clone();
    let body = forged["actions"][0]["body"].as_str().unwrap().to_owned();
    let at = body.find("plx_hook_").unwrap() + 100;
    let other = if &body[at..=at] == "0" { "1" } else { "0" };
    forged["actions"][0]["body"] = json!(format!("{}{other}{}", &body[..at], &body[at + 1..]));
    let (status, refused) = Ntfy::press(&forged, "Allow").await;
    assert_eq!((status, &refused["error"]["data"]["kind"]), (401, &json!("unauthorized")));
    assert_waiting(&setup, &[&approval]).await;

    let (status, done) = Ntfy::press(&message, "Allow").await;
    assert_eq!((status, &done["status"]), (200, &json!("allowed")), "{done}");
    for label in ["Allow", "Deny"] {
        let (status, again) = Ntfy::press(&message, label).await;
        assert_eq!(
            (status, &again["error"]["data"]["standing"]["status"]),
            (409, &json!("allowed"))
        );
    }
    let decided = decision(&setup, &session).await;
    assert_eq!(
        (&decided["status"], &decided["decided_by"]),
        (&json!("allowed"), &json!("webhook"))
    );
    let lines = setup.audit("approval.answered").await;
    assert_eq!((lines.len(), &lines[0]["body"]["via"]), (1, &json!("ntfy")), "{lines:#?}");
    let token = &body[body.find("plx_hook_").unwrap()..][..120];
    assert!(!setup.server.log().contains(token), "a token is in the log");
    assert!(!setup.server.log().contains(TOKEN), "the service's token is in the log");
    let (good, words) = plexus(&setup, &["notify", "test", "phone"]).await;
    assert!(good, "{words}");
    assert_eq!(ntfy.wait_for(2).await[1]["title"], "Plexus: a test");
    assert_eq!(doctor(&setup, "phone").await["verdict"], "odd", "it has no public_url");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_holds_no_more_of_the_input_than_configured() {
    let ntfy = Ntfy::start(TOKEN);
    let config = [
        to(&ntfy, "none", ""),
        to(&ntfy, "summary", "detail = \"summary\""),
        to(&ntfy, "full", DECIDES),
    ]
    .concat();
    let setup = server_with_tokens(&config).await;
    let session = setup.create("asks", json!({})).await;
    let input = json!({"command": "touch hidden-word", "description": "a private remark"});
    setup.ask_for(&session, "Bash", &input).await;
    let [none, summary, full] = [
        message_about(&ntfy, "none").await.to_string(),
        message_about(&ntfy, "summary").await.to_string(),
        message_about(&ntfy, "full").await.to_string(),
    ];
    assert!(none.contains("asks asks: Bash") && none.contains("risk "), "{none}");
    for (message, command, remark) in
        [(&none, false, false), (&summary, true, false), (&full, true, true)]
    {
        assert_eq!(message.contains("hidden-word"), command, "{message}");
        assert_eq!(message.contains("private remark"), remark, "{message}");
        assert!(message.contains("denied automatically in "), "{message}");
        assert_eq!(message.contains("plx_hook_"), *message == full, "{message}");
    }

    // Who cannot see all of it has no button to allow it.
    let long = setup.create("long", json!({})).await;
    let input = json!({"file_path": "long.txt", "content": "word ".repeat(2_000)});
    setup.ask_for(&long, "Write", &input).await;
    let cut = eventually_async("the long request", PATIENCE, || {
        let about = |it: &Value| it["topic"] == "full" && it["title"] == "long asks: Write";
        std::future::ready(ntfy.messages().into_iter().find(about))
    })
    .await;
    assert!(cut["message"].as_str().unwrap().contains("(cut)"), "{cut:#}");
    assert_eq!(cut["actions"], Value::Null, "{cut:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_fetches_nothing_that_its_message_kept_back() {
    let ntfy = Ntfy::start(TOKEN);
    let config = to(&ntfy, "phone", "answers = true\ndetail = \"summary\"");
    let setup = server_with_tokens(&config).await;
    let session = setup.create("asks", json!({})).await;
    let input = json!({"file_path": "note.txt", "content": "a hidden word"});
    let approval = setup.ask_for(&session, "Write", &input).await;
    let message = ntfy.wait_for(1).await.remove(0);
    assert!(!message.to_string().contains("hidden word"), "{message:#}");
    // Who carries the message tries its token with another digest.
    let mut other = message.clone();
    let body = other["actions"][0]["body"].as_str().unwrap();
    let mut body: Value = serde_json::from_str(body).unwrap();
    body["input_digest"] = json!("0".repeat(64));
    other["actions"][0]["body"] = json!(body.to_string());
    let (status, answer) = Ntfy::press(&other, "Allow").await;
    let stands = |answer: &Value| answer["error"]["data"]["standing"].clone();
    assert_eq!(
        (status, stands(&answer)),
        (409, json!({"approval_id": approval["id"], "status": "pending"}))
    );
    assert_waiting(&setup, &[&approval]).await;
    // A reason holds what its writer quotes, so it is not shown either.
    let reason = "not this hidden word";
    let denied = json!({"approval_id": approval["id"], "approve": false, "message": reason});
    setup.call("loopback.respond", denied).await;
    let (status, answer) = Ntfy::press(&message, "Allow").await;
    let mut stood = stands(&answer);
    assert!(stood["decided_at"].take().is_u64(), "{answer:#}");
    let expected = json!({
        "approval_id": approval["id"],
        "status": "denied",
        "decided_by": "operator",
        "decided_at": null,
    });
    assert_eq!((status, stood), (409, expected), "{answer:#}");
    assert!(!answer.to_string().contains("hidden word"), "{answer:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_about_a_decision_names_the_session_and_the_receiver() {
    let ntfy = Ntfy::start(TOKEN);
    let decisions = "events = [\"approval.resolved\"]";
    let config = [to(&ntfy, "phone", DECIDES), to(&ntfy, "told", decisions)].concat();
    let setup = server_with_tokens(&config).await;
    let session = setup.create("asks", json!({})).await;
    setup.ask(&session).await;
    let (status, done) = Ntfy::press(&message_about(&ntfy, "phone").await, "Allow").await;
    assert_eq!(status, 200, "{done}");
    let told = message_about(&ntfy, "told").await;
    assert_eq!(told["title"], "asks: Write was allowed through phone", "{told:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_service_that_is_down_is_told_once_when_it_is_back() {
    let mut ntfy = Ntfy::start(TOKEN);
    let setup = server_with_tokens(&to(&ntfy, "phone", DECIDES)).await;
    ntfy.stop().await;
    let (decided, waits) = (setup.create("decided", json!({})).await, "waits");
    let early = setup.ask(&decided).await;
    setup.wait_for_metric("plexus_webhook_failed_total", "phone", |failed| failed >= 1).await;
    let found = doctor(&setup, "phone").await;
    assert_eq!(found["verdict"], "odd", "{found}");
    assert!(found["words"].as_str().unwrap().contains("no connection"), "{found}");
    assert!(setup.server.log().contains("could not be sent"), "the log says so too");
    // Nobody needs to be told of what is decided by now.
    setup.allow(&early).await;
    let session = setup.create(waits, json!({})).await;
    let approval = setup.ask(&session).await;
    ntfy.start_again();
    let message = ntfy.wait_for(1).await.remove(0);
    setup.wait_for_metric("plexus_webhook_pending", "phone", |waiting| waiting == 0).await;
    let titles: Vec<Value> = ntfy.messages().iter().map(|it| it["title"].clone()).collect();
    assert_eq!(titles, ["waits asks: Write"]);
    assert_waiting(&setup, &[&approval]).await;
    let (status, done) = Ntfy::press(&message, "Deny").await;
    assert_eq!((status, &done["status"]), (200, &json!("denied")), "{done}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_token_or_address_is_said_and_the_request_waits_as_before() {
    let ntfy = Ntfy::start(TOKEN);
    let wrong = format!("url = \"{}\"\ntopic = \"t\"\ntoken_env = \"WRONG_TOKEN\"", ntfy.url());
    // It answers 204, as a server at a wrong address may.
    let other = Receiver::new(|_| Act::Take).await;
    let lost = format!("url = \"http://127.0.0.1:{}\"\ntopic = \"t\"", other.port);
    let config = [entry("wrong", "ntfy", &wrong), entry("lost", "ntfy", &lost)].concat();
    let setup = server_with_tokens(&config).await;
    let session = setup.create("asks", json!({})).await;
    let approval = setup.ask(&session).await;
    for (name, why) in [("wrong", "403 Forbidden: forbidden"), ("lost", "is no ntfy server")] {
        wait_for_log(&setup, why).await;
        let found = doctor(&setup, name).await;
        assert!(found["words"].as_str().unwrap().contains(why), "{found}");
        assert!(found["next"].as_str().unwrap().contains("plexus notify test"), "{found}");
        let (good, words) = plexus(&setup, &["notify", "test", name]).await;
        assert!(!good && words.contains(why), "{words}");
    }
    let (good, words) = plexus(&setup, &["notify", "test", "nobody"]).await;
    assert!(!good && words.contains("wrong, lost"), "{words}");
    assert_waiting(&setup, &[&approval]).await;
    setup.allow(&approval).await;
    assert_eq!(decision(&setup, &session).await["decided_by"], "operator");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_of_events_is_one_message() {
    let ntfy = Ntfy::start(TOKEN);
    let config = to(&ntfy, "phone", "detail = \"summary\"\ntimeout_secs = 60")
        .replace("burst_secs = 0", "burst_secs = 1");
    let setup = server_with_tokens(&config).await;
    ntfy.hold();
    let mut approvals = Vec::new();
    for name in ["first", "second", "third"] {
        let session = setup.create(name, json!({})).await;
        approvals.push(setup.ask(&session).await);
        // The first one is under way before the others come.
        eventually_async("the first message", PATIENCE, || {
            std::future::ready((ntfy.begun() > 0).then_some(()))
        })
        .await;
    }
    ntfy.let_go();
    let messages = ntfy.wait_for(2).await;
    setup.wait_for_metric("plexus_webhook_pending", "phone", |waiting| waiting == 0).await;
    assert_eq!(ntfy.messages().len(), 2, "{messages:#?}");
    assert_eq!(messages[0]["title"], "first asks: Write");
    assert_eq!(messages[1]["title"], "2 requests wait");
    let text = messages[1]["message"].as_str().unwrap();
    assert!(text.contains("1. second asks: Write") && text.contains("2. third asks"), "{text}");
    assert_waiting(&setup, &approvals.iter().collect::<Vec<_>>()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_is_grave_enough_and_not_in_quiet_hours_is_told() {
    let ntfy = Ntfy::start(TOKEN);
    let config = [
        to(&ntfy, "grave", "from_risk = \"critical\""),
        // One of the two is quiet at any time, except for a moment at the change.
        to(&ntfy, "night", "quiet = \"00:00-12:00\"\nquiet_except = \"critical\""),
        to(&ntfy, "day", "quiet = \"12:00-00:00\"\nquiet_except = \"critical\""),
    ]
    .concat();
    let setup = server_with_tokens(&config).await;
    let harmless = setup.create("harmless", json!({})).await;
    setup.ask(&harmless).await;
    let grave = setup.create("grave", json!({})).await;
    let input = json!({"command": "rm -rf / --no-preserve-root"});
    let approval = setup.ask_for(&grave, "Bash", &input).await;
    assert_eq!(approval["risk"]["level"], "critical", "{approval:#}");
    for topic in ["grave", "night", "day"] {
        let about = |it: &Value| it["topic"] == topic && it["title"] == "grave asks: Bash";
        eventually_async(&format!("the grave one to {topic}"), PATIENCE, || {
            std::future::ready(ntfy.messages().into_iter().find(about))
        })
        .await;
    }
    let harmless = ntfy.messages().into_iter().filter(|it| it["title"] == "harmless asks: Write");
    let topics: Vec<Value> = harmless.map(|it| it["topic"].clone()).collect();
    assert!(topics.len() <= 1 && !topics.contains(&json!("grave")), "{topics:?}");
    // A receiver that was not told waits for the end of its quiet hours.
    eventually_async("one message that waits for the end", PATIENCE, || async {
        let waiting = setup.metric("plexus_webhook_pending", "night").await
            + setup.metric("plexus_webhook_pending", "day").await;
        (waiting + topics.len() as u64 == 2).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_wrong_entry_changes_nothing_at_a_reload_and_is_said() {
    let setup = server_with_tokens("").await;
    for arguments in [&["notify"][..], &["notify", "test", "me"]] {
        let (good, words) = plexus(&setup, arguments).await;
        assert_eq!(good, arguments.len() == 1, "{words}");
        assert!(words.contains("docs/notify.md says how"), "{words}");
    }
    let config = entry("me", "ntfy", "topic = \"t\"\nanswers = true");
    setup.reconfigure(&config, "the receivers stay as they were").await;
    assert!(setup.server.log().contains("answers = true needs detail"), "{}", setup.server.log());
}
