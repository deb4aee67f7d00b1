//! The story of the cases about receivers and phones, as the people outside live it, and its judge.
//!
//! A webhook, a Telegram bot and the browser of a paired phone are told what is asked. The first
//! question is answered with the webhook's token, the second by a press in Telegram, the third by
//! the phone. Then the phone is revoked, and the operator answers the fourth. The server is struck
//! somewhere on the way.
//!
//! Judged from outside: every question is decided once, a message comes at least once and, once it
//! is noted, never again; a code pairs one phone, and a revoked phone stays revoked.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use serde_json::{Value, json};
use testkit::receivers::{PushService, Telegram};
use tokio::time::Instant;

use crate::case_server::{CaseServer, PATIENCE, RECEIVER_SECRET};
use crate::points::Case;
use crate::story::{create, delete, tail};

/// The chat and the user of Telegram.
const CHAT: i64 = -10_077;
const ME: i64 = 4_242;

/// The name of the phone.
const PHONE: &str = "phone";

/// What came to the webhook, in order: the id and the body.
type Letters = Arc<Mutex<Vec<(String, Value)>>>;

/// Who is told.
struct Outside {
    letters: Letters,
    telegram: Telegram,
    push: PushService,
    config: String,
}

impl Outside {
    async fn start() -> Result<Self> {
        let letters = Letters::default();
        let router = Router::new().route("/", post(take)).with_state(Arc::clone(&letters));
        let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
        let port = listener.local_addr()?.port();
        tokio::spawn(async move { axum::serve(listener, router).await });
        let (telegram, push) = (Telegram::start(RECEIVER_SECRET), PushService::start(0));
        let config = format!(
            r#"
[[webhooks]]
name = "hook"
url = "http://127.0.0.1:{port}/"
secret_env = "MATRIX_SECRET"
answers = true

[[notify]]
name = "bot"
to = "telegram"
url = "{}"
chat = {CHAT}
users = [{ME}]
token_env = "MATRIX_SECRET"
answers = true
detail = "full"
burst_secs = 0

[[notify]]
name = "browsers"
to = "webpush"
services = ["{}"]
burst_secs = 0
"#,
            telegram.url(),
            push.host()
        );
        Ok(Self { letters, telegram, push, config })
    }

    fn letters(&self) -> Vec<(String, Value)> {
        self.letters.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The message of Telegram that shows a command.
    fn telegram_about(&self, command: &str) -> Option<Value> {
        let shows = |it: &Value| it["text"].as_str().is_some_and(|text| text.contains(command));
        self.telegram.messages().into_iter().find(shows)
    }
}

async fn take(
    State(letters): State<Letters>,
    headers: HeaderMap,
    axum::Json(body): axum::Json<Value>,
) -> StatusCode {
    let id = headers.get("plexus-webhook-id").and_then(|id| id.to_str().ok()).unwrap_or_default();
    letters.lock().unwrap_or_else(PoisonError::into_inner).push((id.to_owned(), body));
    StatusCode::NO_CONTENT
}

/// Plays one case and judges it.
pub(crate) async fn play(case: &Case) -> Result<()> {
    let outside = Outside::start().await?;
    let mut place = CaseServer::with_config(case, &outside.config).await?;
    let played = tell(&mut place, &outside).await;
    played.map_err(|error| anyhow::anyhow!("{error:#}\nThe server said:\n{}", tail(&place.log())))
}

async fn tell(place: &mut CaseServer, outside: &Outside) -> Result<()> {
    let session = create(place).await?;
    let phone = Phone::pair(place).await?;
    let key = place.call_as(Some(&phone.token), "notify.push_key", json!({})).await??;
    let browser = outside.push.subscribe(key["public_key"].as_str().context("no key")?);
    let mut subscription = browser.subscription.clone();
    subscription["name"] = json!(PHONE);
    place.call_as(Some(&phone.token), "notify.push_subscribe", subscription).await??;

    // Allowed with the token of the webhook.
    ask(place, &session, 0, 'A').await?;
    let asked = outside.wait_for_letter(place, "approval.requested", &command('A')).await?;
    let token = asked["respond"]["token"].as_str().context("no token")?.to_owned();
    answer_outside(place, &token, true).await?;
    ended(place, &session, 0).await?;

    // Denied by a press.
    ask(place, &session, 1, 'B').await?;
    let message =
        place.wait_for("Telegram is told", || outside.telegram_about(&command('B'))).await?;
    let told = press(place, outside, &message, "Deny").await?;
    let expected = ["It is denied.", "Too late: it is already denied by webhook."];
    ensure!(expected.contains(&told.as_str()), "the press was told: {told}");
    ended(place, &session, 1).await?;

    // Allowed by the phone, which is told of this one if of none before.
    let third = ask(place, &session, 2, 'C').await?;
    place
        .wait_for("the phone is told", || (outside.push.taken(&browser) > 0).then_some(()))
        .await?;
    let params = json!({"approval_id": third, "approve": true});
    place.call_as(Some(&phone.token), "loopback.respond", params).await??;
    ended(place, &session, 2).await?;
    nothing_waits(place).await?;

    // Without the phone.
    phone.revoke(place).await?;
    let told_phone = outside.push.taken(&browser);
    ensure!(told_phone <= 4, "the phone was told {told_phone} times of three questions");
    let fourth = ask(place, &session, 3, 'D').await?;
    place.call("loopback.respond", json!({"approval_id": fourth, "approve": true})).await??;
    ended(place, &session, 3).await?;
    outside.wait_for_end(place, 3).await?;
    ensure!(place.was_struck(), "the point was never reached: this case proves nothing");

    each_question_is_decided_once(place, &session).await?;
    used_tokens_decide_nothing(place, outside, &token, &message).await?;
    what_was_told_is_not_told_again(place, outside).await?;
    ensure!(outside.push.taken(&browser) == told_phone, "a revoked phone was told");
    phone.stays_revoked(place).await?;
    delete(place, &session).await
}

/// A paired phone.
struct Phone {
    token: String,
    code: String,
    /// Codes that were made until one gave a token.
    codes: usize,
}

impl Phone {
    /// Pairs it, with another code when the answer to the first was lost.
    async fn pair(place: &mut CaseServer) -> Result<Self> {
        for codes in 1..=2 {
            let made = place.call("identity.pair", json!({"name": PHONE})).await??;
            let code = made["code"].as_str().context("no code")?.to_owned();
            let (status, answer) = place.post("auth/exchange", &json!({"code": code})).await?;
            if status == 200 {
                let token = answer["token"].as_str().context("no token")?.to_owned();
                return Ok(Self { token, code, codes });
            }
            // It was used, or the server that knew it has died. A phone that it made is nobody's.
            ensure!(status == 401, "the code was refused with {status}: {answer}");
            for device in devices(place).await? {
                place.call("identity.unpair", json!({"name": device["name"]})).await??;
            }
        }
        bail!("no code gave a token")
    }

    /// Revokes it. A lost answer may have been a success.
    async fn revoke(&self, place: &mut CaseServer) -> Result<()> {
        match place.call("identity.unpair", json!({"name": PHONE})).await? {
            Ok(_) => {}
            Err(error) if error.kind() == "not_found" => {}
            Err(error) => bail!("unpair: {error}"),
        }
        self.is_refused(place).await
    }

    async fn is_refused(&self, place: &mut CaseServer) -> Result<()> {
        let called = place.call_as(Some(&self.token), "loopback.pending", json!({})).await?;
        let is_refused = called.as_ref().is_err_and(|error| error.kind() == "unauthorized");
        ensure!(is_refused, "a revoked phone was answered: {called:?}");
        Ok(())
    }

    /// The phone stays out, also with the code it came with and after another start of the server.
    async fn stays_revoked(&self, place: &mut CaseServer) -> Result<()> {
        self.is_refused(place).await?;
        let (status, answer) = place.post("auth/exchange", &json!({"code": self.code})).await?;
        ensure!(status == 401, "a code worked twice: {status} {answer}");
        ensure!(devices(place).await?.is_empty(), "a revoked phone is listed");
        let paired = audit(place, "device.paired").await?.len();
        ensure!((1..=self.codes).contains(&paired), "{} codes made {paired} phones", self.codes);
        let revoked = audit(place, "device.revoked").await?.len();
        ensure!(revoked == paired, "{paired} phones were paired, and {revoked} revoked");
        Ok(())
    }
}

async fn devices(place: &mut CaseServer) -> Result<Vec<Value>> {
    let listed = place.call("identity.devices", json!({})).await??;
    Ok(listed["devices"].as_array().context("no devices")?.clone())
}

async fn audit(place: &mut CaseServer, kind: &str) -> Result<Vec<Value>> {
    let audit = place.call("loopback.audit", json!({"limit": 500})).await??;
    let lines = audit["lines"].as_array().context("no lines")?;
    Ok(lines.iter().filter(|line| line["kind"] == kind).cloned().collect())
}

/// What a question runs; no part of another's.
fn command(letter: char) -> String {
    format!("echo {letter}-word >> ran")
}

/// Starts a chat and waits for its question. Returns the id of the approval.
async fn ask(place: &mut CaseServer, session: &str, chat: u64, letter: char) -> Result<String> {
    let input = json!({"command": command(letter)});
    let params = json!({"session_id": session, "prompt": format!("sim:\ntool Bash {input}"), "idempotency_key": format!("chat-{chat}")});
    let deadline = Instant::now() + PATIENCE * 2;
    loop {
        match place.call("agents.chat_async", params.clone()).await? {
            Ok(_) => break,
            // The process of the chat before may still hold the place.
            Err(error) if error.kind() == "busy" && Instant::now() < deadline => {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            Err(error) => bail!("chat {chat} could not be started: {error}"),
        }
    }
    loop {
        let params = json!({"session_id": session, "wait_ms": 1_000});
        let waiting = place.call("loopback.wait_for_approval", params).await??;
        let first = &waiting["approvals"][0];
        if let Some(id) = first["id"].as_str() {
            ensure!(first["input"]["command"] == command(letter), "another waits: {first}");
            return Ok(id.to_owned());
        }
        ensure!(Instant::now() < deadline, "chat {chat} asked nothing");
    }
}

/// Waits for the end of a chat, which completes whatever was answered.
async fn ended(place: &mut CaseServer, session: &str, chat: u64) -> Result<()> {
    let deadline = Instant::now() + PATIENCE * 2;
    loop {
        let params = json!({"session_id": session, "chat": chat, "from_seq": 0, "limit": 1000});
        let page = place.call("agents.poll", params).await??;
        match page["status"].as_str() {
            Some("complete") => return Ok(()),
            Some("failed" | "cancelled") => bail!("chat {chat}: {page:#}"),
            _ => tokio::time::sleep(Duration::from_millis(20)).await,
        }
        ensure!(Instant::now() < deadline, "chat {chat} does not end: {page:#}");
    }
}

/// Answers with a one-time token, as a receiver does: until there is an answer. A lost one may have
/// decided.
async fn answer_outside(place: &mut CaseServer, token: &str, approve: bool) -> Result<()> {
    let body = json!({"token": token, "approve": approve});
    let (status, answer) = place.post("hooks/respond", &body).await?;
    let stands = if approve { "allowed" } else { "denied" };
    let has_stood = status == 409 && answer["error"]["data"]["standing"]["status"] == stands;
    let has_decided = status == 200 && answer["status"] == stands;
    ensure!(has_decided || has_stood, "the token was answered {status}: {answer}");
    Ok(())
}

/// Presses a button, and brings the server back meanwhile. Returns what the person is told.
async fn press(
    place: &mut CaseServer,
    outside: &Outside,
    message: &Value,
    label: &str,
) -> Result<String> {
    let mut pressed = std::pin::pin!(outside.telegram.press(ME, message, label));
    loop {
        tokio::select! {
            told = &mut pressed => return Ok(told),
            () = tokio::time::sleep(Duration::from_millis(20)) => {}
        }
        place.keep_alive().await?;
    }
}

impl Outside {
    /// Waits for a letter of this type about a command.
    async fn wait_for_letter(
        &self,
        place: &mut CaseServer,
        kind: &str,
        command: &str,
    ) -> Result<Value> {
        let is_it =
            |body: &Value| body["type"] == kind && body["approval"]["input"]["command"] == command;
        place
            .wait_for(kind, || self.letters().into_iter().map(|it| it.1).find(|body| is_it(body)))
            .await
    }

    /// Waits until the webhook is told of the end of a chat.
    async fn wait_for_end(&self, place: &mut CaseServer, chat: u64) -> Result<()> {
        let is_it = |body: &Value| body["type"] == "session.ended" && body["chat"] == chat;
        place
            .wait_for("session.ended", || {
                self.letters().iter().any(|(_, body)| is_it(body)).then_some(())
            })
            .await
    }
}

/// Waits until nothing is left to be told.
async fn nothing_waits(place: &mut CaseServer) -> Result<()> {
    let deadline = Instant::now() + PATIENCE * 2;
    loop {
        let listed = place.call("notify.receivers", json!({})).await??;
        let receivers = listed["receivers"].as_array().context("no receivers")?;
        ensure!(receivers.len() == 3, "{listed}");
        if receivers.iter().all(|it| it["waiting"] == 0) {
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "something still waits to be told: {listed:#}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// P3: four questions, four decisions, each as it was answered; what was allowed ran once.
async fn each_question_is_decided_once(place: &mut CaseServer, session: &str) -> Result<()> {
    let page = place.call("loopback.history", json!({"session_id": session})).await??;
    let decided: BTreeSet<(&str, &str)> = page["decisions"]
        .as_array()
        .context("no decisions")?
        .iter()
        .map(|it| {
            let text = |name: &str| it[name].as_str().unwrap_or_default();
            (text("status"), text("decided_by"))
        })
        .collect();
    let commands: Vec<&str> = page["decisions"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|it| it["input"]["command"].as_str())
        .collect();
    let distinct: BTreeSet<&str> = commands.iter().copied().collect();
    ensure!(commands.len() == 4 && distinct.len() == 4, "decided were {commands:?}");
    ensure!(
        decided.contains(&("allowed", "webhook")) && decided.contains(&("denied", "webhook")),
        "{page:#}"
    );
    let answered = audit(place, "approval.answered").await?;
    let via: BTreeSet<_> = answered.iter().map(|line| line["body"]["via"].as_str()).collect();
    ensure!(answered.len() == 3 && via.len() == 3, "answered from outside: {answered:#?}");
    let ran = std::fs::read_to_string(place.work().join("ran")).unwrap_or_default();
    ensure!(ran == "A-word\nC-word\nD-word\n", "this ran: {ran:?}");
    Ok(())
}

/// A token or a button that was used is told what stands.
async fn used_tokens_decide_nothing(
    place: &mut CaseServer,
    outside: &Outside,
    token: &str,
    message: &Value,
) -> Result<()> {
    let (status, answer) =
        place.post("hooks/respond", &json!({"token": token, "approve": false})).await?;
    let stands = &answer["error"]["data"]["standing"]["status"];
    ensure!(status == 409 && *stands == "allowed", "a used token: {status} {answer}");
    let told = press(place, outside, message, "Allow").await?;
    ensure!(told == "Too late: it is already denied by webhook.", "a used button: {told}");
    let answered = audit(place, "approval.answered").await?.len();
    ensure!(answered == 3, "{answered} answers from outside");
    Ok(())
}

/// Every message came; one may have come twice, under the same id: the one that was taken when the
/// server was struck. What is noted stays noted over another start.
async fn what_was_told_is_not_told_again(place: &mut CaseServer, outside: &Outside) -> Result<()> {
    nothing_waits(place).await?;
    let letters = outside.letters();
    let mut copies: BTreeMap<&str, (&Value, usize)> = BTreeMap::new();
    for (id, body) in &letters {
        let known = copies.entry(id).or_insert((body, 0));
        known.1 += 1;
        ensure!(known.0 == body, "an id came again with something else: {body:#}");
    }
    let of = |kind: &str| copies.values().filter(|(body, _)| body["type"] == kind).count();
    let told = ["approval.requested", "approval.resolved", "session.ended"].map(of);
    ensure!(told == [4, 4, 4], "the webhook was told of {told:?}");
    let twice = copies.values().filter(|(_, count)| *count > 1).count();
    ensure!(twice <= 1 && letters.len() <= copies.len() + 1, "{twice} messages came twice");
    let shown = outside.telegram.messages().len();
    ensure!((1..=5).contains(&shown), "Telegram was told {shown} times of four questions");
    place.restart().await?;
    nothing_waits(place).await?;
    ensure!(
        outside.letters().len() == letters.len() && outside.telegram.messages().len() == shown,
        "what was noted was told again"
    );
    Ok(())
}
