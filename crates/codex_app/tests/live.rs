//! The promises of a connection, with a shell script as the server.

#![cfg(unix)]
#![allow(clippy::expect_used, reason = "a failed test is allowed to stop loudly")]

use std::path::Path;
use std::time::Duration;

use agent_lines::child::{ChildOptions, RunError};
use codex_app::event::answer::ThreadOpened;
use codex_app::send::{AccountRead, Initialize, ThreadStart};
use codex_app::{
    CallError, ClientRequest, CodexClient, CodexConnection, CodexError, Launch, MAX_HELD_LINES,
    SendError, ServerBody,
};
use testkit::scripted::Scripted;
use testkit::wait::{PATIENCE, within};

/// Answers the handshake.
const HANDSHAKE: &str =
    r#"read -r hello; echo '{"id":1,"result":{"userAgent":"x/0.169.0"}}'; read -r initialized; "#;

/// A shell script in place of the server.
struct Server(Scripted);

impl Server {
    fn new(script: &str) -> Self {
        Self(Scripted::new(script).expect("a directory"))
    }

    /// Creates a server that answers the handshake and then runs the script.
    fn greeting(script: &str) -> Self {
        Self::new(&format!("{HANDSHAKE}{script}"))
    }

    fn options(&self) -> ChildOptions {
        let options = ChildOptions::new(Scripted::program());
        self.0.env().iter().fold(options, |options, (name, value)| options.env(name, value))
    }

    fn start(&self) -> CodexConnection {
        let launch = Launch::new(self.0.dir());
        CodexClient::new(self.options()).start(&launch).expect("starts")
    }

    async fn greeted(&self) -> CodexConnection {
        let mut server = self.start();
        let hello = server.handshake(Initialize::new("test", "0"));
        within("the handshake", PATIENCE, hello).await.expect("greets");
        server
    }
}

fn account() -> ClientRequest {
    ClientRequest::AccountRead(AccountRead::default())
}

#[tokio::test]
async fn the_server_gets_its_switches_and_the_handshake_before_anything_else() {
    let child = Server::new(
        r#"printf '%s\n' "$@" > argv; pwd > pwd; read -r hello; echo "$hello" > hello
        echo '{"id":1,"result":{"userAgent":"codex/0.169.0"}}'; read -r second; echo "$second" > second"#,
    );
    let mut server = child.start();
    let hello = server.handshake(Initialize::new("test", "0"));
    let answer = within("the handshake", PATIENCE, hello).await.expect("greets");
    assert_eq!(answer.user_agent, "codex/0.169.0");
    within("the end", PATIENCE, server.close()).await.expect("ends");
    let read = |name| child.0.read(name).expect("a file of the child");
    assert!(read("argv").starts_with("app-server\n--disable\nplugins\n"), "{}", read("argv"));
    let untrusted = format!("projects={{\"{}\"={{trust_level=", child.0.dir().display());
    assert!(read("argv").contains(&untrusted), "{}", read("argv"));
    assert_eq!(Path::new(read("pwd").trim()), child.0.dir().canonicalize().expect("a path"));
    assert!(read("hello").contains(r#""method":"initialize""#), "{}", read("hello"));
    assert_eq!(read("second").trim(), r#"{"method":"initialized"}"#);
}

#[tokio::test]
async fn a_call_gets_its_own_answer_and_what_came_meanwhile_is_kept_in_order() {
    let child = Server::greeting(
        r#"read -r call; echo '{"method":"one","params":{}}'; echo 'not json'
        echo '{"id":1,"method":"item/tool/call","params":{}}'; echo '{"id":7,"result":{}}'
        echo '{"id":2,"result":{"thread":{"id":"t-1"}}}'; echo '{"method":"last"}'"#,
    );
    let mut server = child.greeted().await;
    let call = server.call(ClientRequest::ThreadStart(ThreadStart::default()));
    let opened = within("the answer", PATIENCE, call).await.expect("an answer");
    let opened: ThreadOpened = opened.read().expect("a thread");
    assert_eq!(opened.thread.id, "t-1");
    let mut seen = Vec::new();
    while let Some(line) = within("the next line", PATIENCE, server.next_line()).await {
        seen.push(match line {
            Err(error) => error.code.to_string(),
            Ok(line) => match line.body {
                ServerBody::Request { id, .. } => format!("asks {id}"),
                ServerBody::Answer(answer) => format!("answers {}", answer.id),
                ServerBody::Notification(_) => "tells".to_owned(),
            },
        });
    }
    assert_eq!(seen, ["tells", "JsonParse", "asks 1", "answers 7", "tells"]);
    assert!(within("the end", PATIENCE, server.ended()).await.expect("ends").success());
}

#[tokio::test]
async fn a_refusal_an_end_and_a_flood_are_errors_of_the_call() {
    let child = Server::greeting(
        r#"read -r a; echo '{"id":2,"error":{"code":-32600,"message":"no"}}'; read -r b"#,
    );
    let mut server = child.greeted().await;
    let refused = within("the refusal", PATIENCE, server.call(account())).await;
    assert!(matches!(refused, Err(CallError::Refused(error)) if error.message == "no"));
    let ended = within("the end", PATIENCE, server.call(account())).await;
    assert_eq!(ended, Err(CallError::Ended));

    let child = Server::greeting(r#"read -r a; while :; do echo '{"method":"flood"}'; done"#);
    let mut server = child.greeted().await;
    let flooded = within("the flood", PATIENCE, server.call(account())).await;
    assert_eq!(flooded, Err(CallError::TooManyLines));
    let mut kept = 0;
    while kept < MAX_HELD_LINES {
        within("a kept line", PATIENCE, server.next_line()).await.expect("a line").expect("read");
        kept += 1;
    }
    drop(server);
    child.0.wait_until_nothing_is_left().await;
}

/// Time is paused, so the timeout passes at once.
#[tokio::test(start_paused = true)]
async fn a_server_that_never_answers_is_an_error_of_the_call() {
    let child = Server::new("exec sleep 3600");
    let mut server = child.start();
    let hello = server.handshake(Initialize::new("test", "0")).await;
    assert_eq!(hello, Err(CallError::Silent));
    server.end().await.expect("ends");
}

#[tokio::test]
async fn a_dropped_connection_leaves_nothing_behind() {
    let detached = if cfg!(target_os = "linux") { "setsid" } else { "" };
    let child = Server::greeting(&format!(
        r#"{detached} sleep 3600 > /dev/null 2>&1 & trap '' TERM; sleep 3600 & echo '{{"method":"ready"}}'; wait; wait"#
    ));
    let mut server = child.greeted().await;
    within("the line", PATIENCE, server.next_line()).await.expect("a line").expect("readable");
    drop(server);
    child.0.wait_until_nothing_is_left().await;
}

#[tokio::test]
async fn a_server_that_hears_nothing_is_ended() {
    let child = Server::greeting("trap '' TERM; while :; do sleep 1; done");
    let options = child.options().termination_grace(Duration::from_millis(100));
    let mut server = CodexClient::new(options).start(&Launch::new(child.0.dir())).expect("starts");
    let hello = server.handshake(Initialize::new("test", "0"));
    within("the handshake", PATIENCE, hello).await.expect("greets");
    let status = within("the end", PATIENCE, server.end()).await.expect("ends");
    assert!(!status.success());
    child.0.wait_until_nothing_is_left().await;
}

#[tokio::test]
async fn a_timeout_fires_and_leaves_nothing() {
    let child = Server::new("exec sleep 3600");
    let options = child.options().timeout(Duration::from_millis(200));
    let mut server = CodexClient::new(options).start(&Launch::new(child.0.dir())).expect("starts");
    let hello = within("the end", PATIENCE, server.handshake(Initialize::new("test", "0"))).await;
    assert_eq!(hello, Err(CallError::Ended));
    let error = within("the end", PATIENCE, server.ended()).await.expect_err("too long");
    assert!(matches!(error, RunError::Timeout { .. }), "{error}");
    child.0.wait_until_nothing_is_left().await;
}

#[tokio::test]
async fn methods_that_act_unasked_are_not_sent() {
    let child = Server::greeting("cat > sent");
    let mut server = child.greeted().await;
    for method in ["review/start", "command/exec", "fs/writeFile", "account/login/start"] {
        let request = ClientRequest::Other { method: method.to_owned(), params: None };
        let refused = server.request(request);
        assert_eq!(refused, Err(SendError::Unsupervised { method: method.to_owned() }));
    }
    server.request(account()).expect("queued");
    within("the end", PATIENCE, server.close()).await.expect("ends");
    let sent = child.0.read("sent").expect("what was sent");
    assert_eq!(sent.lines().count(), 1, "{sent}");
}

#[tokio::test]
async fn a_failed_start_says_what_to_do() {
    let nowhere = CodexClient::new(ChildOptions::new("/nowhere/codex"));
    let error = nowhere.start(&Launch::new("/")).expect_err("no such program").to_string();
    assert!(error.contains("/nowhere/codex") && error.contains("npm install"), "{error}");
    let relative = CodexClient::default().start(&Launch::new("here")).expect_err("relative");
    assert!(matches!(relative, CodexError::Launch(_)), "{relative}");
}
