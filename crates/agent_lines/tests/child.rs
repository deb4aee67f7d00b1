//! Uses the crate alone: a small protocol over the lines of a small program.

#![cfg(unix)]
#![allow(clippy::expect_used, reason = "a failed test is allowed to stop loudly")]

use agent_lines::child::{
    ChildOptions, Input, InputError, InputWriter, LiveChild, MAX_QUEUED_BYTES, RunError, StartError,
};
use agent_lines::json::{LineReader, Value};
use agent_lines::{CliVersion, LineError, LineErrorCode, LineParser, VersionError, ask_version};
use futures::StreamExt as _;
use testkit::wait::{PATIENCE, within};

/// Reads lines of `{"say": …}`.
#[derive(Default)]
struct Sayings(LineReader);

impl LineParser for Sayings {
    type Event = String;

    fn parse_bytes(&mut self, line: &[u8]) -> Result<Option<String>, LineError> {
        let said = self.0.read_bytes(line, |value, _repairs| {
            value.get("say").and_then(Value::as_str).map(|text| text.into_owned())
        })?;
        said.map(|text| text.ok_or_else(|| LineError::typed("not a saying", "no string `say`")))
            .transpose()
    }
}

fn shell(script: &str, input: Input) -> LiveChild<String> {
    ChildOptions::new("/bin/sh").start(["-c", script], input, Sayings::default()).expect("starts")
}

async fn next(child: &mut LiveChild<String>) -> Option<Result<String, LineError>> {
    within("the next event", PATIENCE, child.events.next()).await
}

#[tokio::test]
async fn an_open_input_is_written_while_events_are_read() {
    let mut child = shell("exec cat", Input::Open);
    let input = InputWriter::new(child.stdin.take().expect("an input"));
    for word in ["one", "two"] {
        input.send(format!("{{\"say\":\"{word}\"}}\n")).expect("queued");
        assert_eq!(next(&mut child).await, Some(Ok(word.to_owned())));
    }
    input.close();
    assert_eq!(next(&mut child).await, None);
    let status = within("the end", PATIENCE, child.completion).await.expect("ends");
    assert!(status.success());
    assert_eq!(input.send("late\n".to_owned()), Err(InputError::Closed));
}

#[tokio::test]
async fn a_child_that_does_not_read_fills_its_queue_and_holds_up_nobody() {
    let mut child = shell("exec sleep 3600", Input::Open);
    let input = InputWriter::new(child.stdin.take().expect("an input"));
    let line = || "x".repeat(MAX_QUEUED_BYTES / 4);
    // The pipe takes a part of the first line, so there is room for four lines but not for many
    // more.
    let sent = (0..16).take_while(|_| input.send(line()).is_ok()).count();
    assert_eq!((sent, input.send(line())), (4, Err(InputError::Full)));
    drop(child.events);
    within("the end", PATIENCE, child.completion).await.expect("ends");
}

#[tokio::test]
async fn a_text_is_fed_and_the_input_closed() {
    let mut child = shell("cat; echo '{}'", Input::Text("{\"say\":\"fed\"}\n".to_owned()));
    assert_eq!(next(&mut child).await, Some(Ok("fed".to_owned())));
    let error = next(&mut child).await.expect("an item").expect_err("no saying");
    assert_eq!(
        (error.code, error.details.as_str()),
        (LineErrorCode::TypedParse, "no string `say`")
    );
    assert_eq!(next(&mut child).await, None);
}

#[tokio::test]
async fn a_dropped_event_stream_ends_the_child() {
    let mut child = shell("echo '{\"say\":\"hello\"}'; exec sleep 3600", Input::Empty);
    assert_eq!(next(&mut child).await, Some(Ok("hello".to_owned())));
    drop(child.events);
    let status = within("the end", PATIENCE, child.completion).await.expect("ends");
    assert!(!status.success());
}

#[tokio::test]
async fn a_child_that_overstays_is_stopped() {
    let child = ChildOptions::new("/bin/sh")
        .timeout(std::time::Duration::from_millis(100))
        .start(["-c", "exec sleep 3600"], Input::Empty, Sayings::default())
        .expect("starts");
    let error = within("the end", PATIENCE, child.completion).await.expect_err("too long");
    assert!(matches!(error, RunError::Timeout { .. }), "{error}");
}

#[tokio::test]
async fn what_cannot_start_says_why() {
    let options = ChildOptions::new("/nowhere/agent");
    let error = options
        .start([""; 0], Input::Empty, Sayings::default())
        .expect_err("there is no such program");
    assert!(matches!(error, StartError::NotFound { .. }), "{error}");
    let error = ask_version("/nowhere/agent".as_ref()).await.expect_err("no such program");
    assert!(matches!(error, VersionError::Start(StartError::NotFound { .. })), "{error}");
}

#[test]
fn debug_shows_no_value_of_the_environment() {
    let shown = format!("{:?}", ChildOptions::new("x").env("TOKEN", "hunter2"));
    assert!(shown.contains("TOKEN") && !shown.contains("hunter2"), "{shown}");
}

#[test]
fn versions_are_read_and_compared() {
    let version = |text| CliVersion::parse(text);
    assert_eq!(version("v0.166.0-alpha.1").map(|v| v.to_string()).as_deref(), Some("0.166.0"));
    assert!(version("2.1.325") > version("2.0.999"));
    assert_eq!(version("codex"), None);
}
