//! The ends of recorded runs, and ends that were not recorded.

use claude_code::{ClaudeStreamJsonParser, EventBody};

use super::*;

#[cfg(unix)]
fn exit(code: i32) -> ExitStatus {
    std::os::unix::process::ExitStatusExt::from_raw(code << 8)
}

#[cfg(windows)]
fn exit(code: u32) -> ExitStatus {
    std::os::windows::process::ExitStatusExt::from_raw(code)
}

fn verdict(log: &str) -> ResultVerdict {
    let mut parser = ClaudeStreamJsonParser::new();
    let mut verdict = ResultVerdict::default();
    for line in log.lines().filter_map(|line| parser.parse_line(line).unwrap()) {
        match &line.body {
            EventBody::Result(result) => verdict.note_result(result),
            EventBody::Assistant(message) if message.meta.error.is_some() => {
                verdict.note_failure(Failure::of_message(&message.meta));
            }
            _ => {}
        }
    }
    verdict
}

fn reason(log: &str, status: ExitStatus) -> Option<String> {
    match verdict(log).outcome(status) {
        AgentWrapperOutcome::Succeeded => None,
        AgentWrapperOutcome::Failed { reason } => Some(reason),
    }
}

#[test]
fn recorded_runs_end_as_they_ended() {
    let cases = [
        ("text", 0, None),
        ("allow", 0, None),
        ("h_bg", 0, None),
        ("h_task", 0, None),
        ("h_denied", 0, None),
        ("h_err401_max1", 1, Some("the agent is not logged in, or its credentials were refused")),
        ("h_err400", 1, Some("the agent's service refused the request (status 400)")),
        ("h_maxturns", 1, Some("the agent reached its limit of turns")),
        ("i_resume_unknown", 1, Some("session not found")),
        ("h_stream_SIGINT", 0, Some("the agent stopped with an error while it worked")),
        ("n_missing", 1, Some("the agent ended with exit code 1 without a result")),
    ];
    for (name, code, expected) in cases {
        let seen = reason(&testkit::fixtures::read(name).unwrap(), exit(code));
        assert_eq!(seen.as_deref(), expected, "{name}");
    }
}

#[test]
fn no_result_is_no_success() {
    assert_eq!(reason("", exit(0)).as_deref(), Some("the agent ended without a result"));
    assert_eq!(
        reason("", exit(3)).as_deref(),
        Some("the agent ended with exit code 3 without a result")
    );
    #[cfg(unix)]
    {
        let killed = std::os::unix::process::ExitStatusExt::from_raw(9);
        assert_eq!(
            reason("", killed).as_deref(),
            Some("the agent was ended by signal 9 without a result")
        );
    }
}

#[test]
fn a_success_that_exits_with_an_error_is_a_failure() {
    let log = r#"{"type":"result","subtype":"success","is_error":false}"#;
    assert_eq!(reason(log, exit(0)), None);
    assert_eq!(
        reason(log, exit(1)).as_deref(),
        Some("the agent reported success and then ended with exit code 1")
    );
}

#[test]
fn a_success_that_is_an_error_is_a_failure() {
    let log = r#"{"type":"result","subtype":"success","is_error":true,"result":"hunter2"}"#;
    let seen = reason(log, exit(0)).unwrap();
    assert!(!seen.contains("hunter2"), "{seen}");
}

#[test]
fn every_kind_of_result_is_put_in_our_own_words() {
    for subtype in [
        "error_max_budget_usd",
        "error_max_structured_output_retries",
        "error_during_execution",
        "error_new",
    ] {
        let log = format!(
            r#"{{"type":"result","subtype":"{subtype}","is_error":true,"errors":["hunter2"]}}"#
        );
        let seen = reason(&log, exit(1)).unwrap();
        assert!(!seen.contains("hunter2") && !seen.contains("error_"), "{seen}");
    }
    for status in [401, 403, 404, 429, 500, 529] {
        let log = format!(
            r#"{{"type":"result","subtype":"success","is_error":true,"api_error_status":{status},"result":"hunter2"}}"#
        );
        assert!(!reason(&log, exit(1)).unwrap().contains("hunter2"));
    }
}

#[test]
fn a_title_that_matches_no_session_is_a_session_that_was_not_found() {
    let log = r#"{"type":"result","subtype":"error_during_execution","is_error":true,"errors":["Error: --resume requires a valid session ID or session title when used with --print. Provided value \"x\" is not a UUID and does not match any session title."]}"#;
    assert_eq!(reason(log, exit(1)).as_deref(), Some("session not found"));
}
