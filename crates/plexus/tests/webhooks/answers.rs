//! An answer that comes back with a one-time token: once, in time, for what was told, by POST.

use reqwest::StatusCode;
use serde_json::{Value, json};

use crate::receiver::{Act, Receiver};
use crate::server_with_receivers::ServerWithReceivers;

struct Asked {
    setup: ServerWithReceivers,
    receiver: Receiver,
    session: String,
    approval: Value,
    url: String,
    token: String,
}

/// A server whose receiver may answer, and a session that asks.
async fn asked(more: Value) -> Asked {
    let receiver = Receiver::new(|_| Act::Take).await;
    let setup = ServerWithReceivers::new(&[("phone", receiver.port, "answers = true")]).await;
    let session = setup.create("asks", more).await;
    let approval = setup.ask(&session).await;
    let letter = receiver.wait_for_type("approval.requested").await.body();
    let word = |name: &str| {
        letter["respond"][name].as_str().unwrap_or_else(|| panic!("{letter:#}")).to_owned()
    };
    Asked { url: word("url"), token: word("token"), setup, receiver, session, approval }
}

async fn post(url: &str, body: &Value) -> (StatusCode, Value) {
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let answer = client.post(url).json(body).send().await.unwrap();
    let status = answer.status();
    (status, answer.json().await.unwrap_or(Value::Null))
}

fn kind(answer: &Value) -> &str {
    answer["error"]["data"]["kind"].as_str().unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_decides_once_and_the_audit_says_by_whom() {
    let Asked { setup, receiver, session, approval, url, token } = asked(json!({})).await;
    let yes = json!({"token": token, "approve": true, "message": "from my phone", "input_digest": approval["input_digest"]});
    let (status, done) = post(&url, &yes).await;
    assert_eq!((status, &done["status"]), (StatusCode::OK, &json!("allowed")), "{done}");
    receiver
        .wait_for("the end of the chat", |body| {
            body["type"] == "session.ended" && body["status"] == "complete"
        })
        .await;
    let history = setup.call("loopback.history", json!({"session_id": session})).await;
    let decision = &history["decisions"][0];
    assert_eq!(
        (&decision["decided_by"], &decision["message"]),
        (&json!("webhook"), &json!("from my phone"))
    );
    let lines = setup.audit("approval.answered").await;
    assert_eq!((lines.len(), &lines[0]["body"]["receiver"]), (1, &json!("phone")));
    // The same again, and another word: both are told that it is used.
    for approve in [true, false] {
        let (status, again) = post(&url, &json!({"token": token, "approve": approve})).await;
        assert_eq!((status, kind(&again)), (StatusCode::CONFLICT, "conflict"), "{again}");
        assert_eq!(again["error"]["data"]["standing"]["status"], "allowed");
    }
    assert!(!setup.server.log().contains(&token), "a token is in the log");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_of_fifty_that_use_a_token_at_once_decides() {
    let Asked { setup, url, token, session, .. } = asked(json!({})).await;
    let answers = (0..50).map(|_| {
        let (url, body) = (url.clone(), json!({"token": token, "approve": false}));
        async move { post(&url, &body).await }
    });
    let answers = futures::future::join_all(answers).await;
    let decided = answers.iter().filter(|(status, _)| *status == StatusCode::OK).count();
    let refused = answers.iter().filter(|(status, _)| *status == StatusCode::CONFLICT).count();
    assert_eq!((decided, refused), (1, 49), "{answers:?}");
    assert_eq!(setup.audit("approval.answered").await.len(), 1);
    let history = setup.call("loopback.history", json!({"session_id": session})).await;
    assert_eq!(history["decisions"].as_array().unwrap().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_good_for_nothing_else() {
    let Asked { setup, receiver, approval, url, token, .. } = asked(json!({})).await;
    let client = reqwest::Client::builder().no_proxy().build().unwrap();
    let got = client.get(format!("{url}?token={token}&approve=true")).send().await.unwrap();
    assert_eq!(
        got.status(),
        StatusCode::METHOD_NOT_ALLOWED,
        "a link that somebody previews decides nothing"
    );
    // The token is not accepted at the other doors.
    let as_caller = setup.server.call_as(&token, "loopback.pending", json!({})).await.unwrap();
    assert_eq!(as_caller.unwrap_err().kind(), "unauthorized");
    let other = setup.create("other", json!({})).await;
    let second = setup.ask(&other).await;
    let letter = receiver
        .wait_for("the second request", |body| body["approval"]["id"] == second["id"])
        .await
        .body();
    let second_token = letter["respond"]["token"].as_str().unwrap();
    assert_ne!(second_token, token);
    // The proof of one approval with the id of another, which stands in front.
    let name = "plx_hook_".len();
    let mixed = format!("{}{}", &second_token[..name + 32], &token[name + 32..]);
    for (body, status, expected) in [
        (json!({"token": mixed, "approve": true}), StatusCode::UNAUTHORIZED, "unauthorized"),
        (json!({"token": "plx_hook_", "approve": true}), StatusCode::UNAUTHORIZED, "unauthorized"),
        (json!({"token": token}), StatusCode::BAD_REQUEST, "invalid"),
        (
            json!({"token": token, "approve": true, "updated_input": {}}),
            StatusCode::BAD_REQUEST,
            "invalid",
        ),
        (
            json!({"token": token, "approve": true, "input_digest": "0".repeat(64)}),
            StatusCode::CONFLICT,
            "conflict",
        ),
        (
            json!({"token": token, "approve": true, "message": "x".repeat(100_000)}),
            StatusCode::PAYLOAD_TOO_LARGE,
            "invalid",
        ),
    ] {
        let (got, answer) = post(&url, &body).await;
        assert_eq!((got, kind(&answer)), (status, expected), "{answer}");
        assert!(!answer.to_string().contains(&token), "an answer shows the token");
    }
    let pending = setup.call("loopback.pending", json!({})).await["approvals"].clone();
    let ids: Vec<&Value> =
        pending.as_array().unwrap().iter().map(|approval| &approval["id"]).collect();
    assert_eq!(ids, [&approval["id"], &second["id"]], "nothing of this decided anything");
    assert_eq!(
        setup.audit("refused").await.len(),
        3,
        "what was tried with tokens that are none is on record"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_ends_with_its_time() {
    let Asked { setup, receiver, url, token, .. } =
        asked(json!({"loopback_timeout_secs": 2})).await;
    receiver.wait_for_type("approval.expired").await;
    let (status, late) = post(&url, &json!({"token": token, "approve": true})).await;
    assert_eq!((status, kind(&late)), (StatusCode::GONE, "expired"), "{late}");
    assert!(setup.audit("approval.answered").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_works_after_a_restart_and_not_for_a_receiver_that_may_no_longer_answer() {
    let Asked { mut setup, receiver, url, token, .. } = asked(json!({})).await;
    setup.server.crash_and_restart().await.unwrap();
    // The server has another port now; the token is the same.
    let path = url.rsplit_once("/hooks").unwrap().1;
    let url = format!("{}/hooks{path}", setup.server.url().unwrap());
    let (status, done) =
        post(&url, &json!({"token": token, "approve": false, "message": "no"})).await;
    assert_eq!((status, &done["status"]), (StatusCode::OK, &json!("denied")), "{done}");
    let resolved = receiver.wait_for_type("approval.resolved").await.body();
    assert_eq!(resolved["approval"]["decided_by"], "webhook");
    assert_eq!(resolved["approval"]["receiver"], "phone");
    drop(setup);

    let silent = Receiver::new(|_| Act::Take).await;
    let setup = ServerWithReceivers::new(&[("phone", silent.port, "")]).await;
    let url = format!("{}/hooks/respond", setup.server.url().unwrap());
    let (status, refused) = post(&url, &json!({"token": token, "approve": true})).await;
    assert_eq!(
        (status, kind(&refused)),
        (StatusCode::NOT_FOUND, "not_found"),
        "nobody may answer here"
    );
}
