//! Layer B of the contract: the promises of the live handle, statement by statement.

#![cfg(unix)]
#![allow(clippy::expect_used, reason = "a failed test is allowed to stop loudly")]

mod common;

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::time::Duration;

use claude_code::{
    ClaudeClient, ClaudeCodeError, ClaudePrintRequest, ClaudePrintStreamJsonHandle,
    ClaudeStreamJsonParseErrorCode as Code, EVENT_CHANNEL_CAPACITY, MAX_PROMPT_ARGUMENT_BYTES,
    STDERR_TAIL_BYTES,
};
use common::{Scripted, wait_until, within};
use futures::StreamExt as _;

/// A script that never ends.
const NEVER_ENDS: &str = "while :; do sleep 1000; done";

async fn start(client: &ClaudeClient) -> ClaudePrintStreamJsonHandle {
    client.print_stream_json(ClaudePrintRequest::new("hello")).await.expect("starts")
}

/// Returns the type of the next event.
async fn next_type(handle: &mut ClaudePrintStreamJsonHandle) -> Option<String> {
    let event = within("the next event", handle.events.next()).await?;
    Some(event.expect("readable").event_type().to_owned())
}

#[tokio::test]
async fn s11_argv_has_the_flags_and_the_prompt_last() {
    let child = Scripted::new(
        r#"printf '%s\n' "$@" > argv; [ -t 0 ] && echo tty >> argv; wc -c < /dev/stdin > stdin"#,
    );
    let prompt = "--not-a-flag; $(touch pwned) `touch pwned`";
    let request = ClaudePrintRequest::new(prompt)
        .model("opus")
        .resume("7d1f")
        .fork_session(true)
        .append_system_prompt("be brief")
        .add_dir("/a")
        .add_dir("/b")
        .mcp_config("mcp.json")
        .strict_mcp_config(true)
        .permission_prompt_tool("mcp__x__y")
        .permission_mode("default")
        .allow_tool("Read")
        .allow_tool("Bash(ls:*)")
        .disallow_tool("SendMessage")
        .settings("{}")
        .setting_sources("user")
        .include_partial_messages(true)
        .max_turns(3)
        .extra_arg("--replay-user-messages");
    let output = within("the run", child.client().print(request)).await.expect("runs");
    assert!(output.status.success());
    let expected = "--print --output-format stream-json --verbose --resume 7d1f --fork-session \
        --strict-mcp-config \
        --include-partial-messages --model opus --append-system-prompt be~brief \
        --permission-prompt-tool mcp__x__y \
        --permission-mode default --settings {} --setting-sources user --mcp-config mcp.json \
        --add-dir /a --add-dir /b \
        --allowedTools Read,Bash(ls:*) --disallowedTools SendMessage --max-turns 3 \
        --replay-user-messages --";
    let argv = child.read("argv");
    let (flags, last) = argv.trim_end().rsplit_once('\n').expect("several arguments");
    assert_eq!(flags.replace(' ', "~").replace('\n', " "), expected);
    assert_eq!(last, prompt);
    assert_eq!(child.read("stdin").trim(), "0", "standard input is empty");
    assert!(!child.path("pwned").exists(), "no shell reads the prompt");
}

#[tokio::test]
async fn s11_sessions_are_new_named_or_the_last() {
    for (request, expected) in [
        (ClaudePrintRequest::new("p"), "--print --output-format stream-json --verbose -- p"),
        (
            ClaudePrintRequest::new("p").session_id("u"),
            "--print --output-format stream-json --verbose --session-id u -- p",
        ),
        (
            ClaudePrintRequest::new("p").continue_last(),
            "--print --output-format stream-json --verbose --continue -- p",
        ),
    ] {
        let arguments: Vec<_> =
            request.arguments().iter().map(|arg| arg.to_string_lossy().into_owned()).collect();
        assert_eq!(arguments.join(" "), expected);
    }
}

#[tokio::test]
async fn s11_a_long_prompt_goes_in_by_stdin() {
    let child = Scripted::new(r#"printf '%s\n' "$@" > argv; wc -c > stdin"#);
    for (length, by_stdin) in
        [(MAX_PROMPT_ARGUMENT_BYTES, false), (MAX_PROMPT_ARGUMENT_BYTES + 1, true)]
    {
        let request = ClaudePrintRequest::new("p".repeat(length));
        within("the run", child.client().print(request)).await.expect("runs");
        assert_eq!(child.read("argv").contains("ppp"), !by_stdin);
        assert_eq!(
            child.read("stdin").trim(),
            if by_stdin { length.to_string() } else { "0".to_owned() }
        );
    }
}

#[tokio::test]
async fn s12_the_first_event_arrives_before_the_exit() {
    let child = Scripted::new(
        r#"echo '{"type":"first"}'; while [ ! -e go ]; do sleep 0.02; done; echo '{"type":"last"}'"#,
    );
    let mut handle = start(&child.client()).await;
    assert_eq!(next_type(&mut handle).await.as_deref(), Some("first"));
    // The child cannot have ended, because it waits for this file.
    std::fs::write(child.path("go"), "").expect("written");
    assert_eq!(next_type(&mut handle).await.as_deref(), Some("last"));
    assert_eq!(next_type(&mut handle).await, None);
    assert!(within("the completion", handle.completion).await.expect("ends").success());
}

#[tokio::test]
async fn s12_a_bad_line_is_one_error_in_its_place() {
    let child = Scripted::new(
        r#"printf '{"type":"a"}\r\n\n{"type":"b"\nnull\n{"type":"c"}\n   \n{"type":"no newline at the end"}'"#,
    );
    let output =
        within("the run", child.client().print(ClaudePrintRequest::new("x"))).await.expect("runs");
    let seen: Vec<String> = output
        .events
        .iter()
        .map(|event| {
            event
                .as_ref()
                .map_or_else(|error| error.code.to_string(), |event| event.event_type().to_owned())
        })
        .collect();
    assert_eq!(seen, ["a", "JsonParse", "TypedParse", "c", "no newline at the end"]);
}

#[tokio::test]
async fn s13_a_full_channel_makes_the_child_wait_and_drops_nothing() {
    const LINES: usize = 3000;
    // Each line has about a kilobyte. Together they far exceed the channel, the reader's buffer and
    // the pipe.
    let child = Scripted::new(&format!(
        r#"pad=$(printf '%01000d' 0); i=0
        while [ $i -lt {LINES} ]; do echo "{{\"type\":\"n\",\"session_id\":\"$i\",\"pad\":\"$pad\"}}"; i=$((i+1)); done; echo x > done"#
    ));
    let mut handle = start(&child.client()).await;
    assert_eq!(next_type(&mut handle).await.as_deref(), Some("n"));
    tokio::time::sleep(Duration::from_millis(500)).await;
    assert!(!child.path("done").exists(), "the child must wait for its reader");
    let mut next = 1;
    while let Some(event) = within("the next event", handle.events.next()).await {
        assert_eq!(event.expect("readable").session_id(), Some(next.to_string().as_str()));
        next += 1;
    }
    assert_eq!(next, LINES);
    assert!(child.path("done").exists());
    assert_eq!(EVENT_CHANNEL_CAPACITY, 32);
}

#[tokio::test]
async fn s14_a_line_over_the_limit_is_skipped_with_its_true_size() {
    let child = Scripted::new(
        r#"echo '{"type":"a"}'; head -c 5000000 /dev/zero | tr '\0' 'x'; echo; head -c 1000 /dev/zero | tr '\0' ' '; echo '{"type":"b"}'"#,
    );
    let client = child.builder().max_line_bytes(100_000).build();
    let output = within("the run", client.print(ClaudePrintRequest::new("x"))).await.expect("runs");
    let [Ok(a), Err(error), Ok(b)] = output.events.as_slice() else {
        panic!("{:?}", output.events)
    };
    assert_eq!((a.event_type(), b.event_type()), ("a", "b"));
    assert_eq!((error.code, error.line_bytes), (Code::LineTooLong, Some(5_000_000)));
}

/// Returns the script of a child with a grandchild in its group, and on Linux one in a session of
/// its own, like the CLI's tools.
fn family(ending: &str) -> String {
    let detached = if cfg!(target_os = "linux") {
        "setsid sleep 1000 < /dev/null > /dev/null 2>&1 &"
    } else {
        ""
    };
    format!(r#"sleep 1000 & {detached} echo '{{"type":"started"}}'; {ending}"#)
}

#[tokio::test]
async fn s15_dropping_the_handle_ends_the_child_with_everything_it_started() {
    let child = Scripted::new(&family(NEVER_ENDS));
    let mut handle = start(&child.client()).await;
    assert_eq!(next_type(&mut handle).await.as_deref(), Some("started"));
    drop(handle);
    child.wait_until_nothing_is_left().await;
    no_zombie_of_ours().await;
}

#[tokio::test]
async fn s15_dropping_the_events_ends_the_child_and_completion_says_how() {
    let child = Scripted::new(&family(NEVER_ENDS));
    let mut handle = start(&child.client()).await;
    assert_eq!(next_type(&mut handle).await.as_deref(), Some("started"));
    drop(handle.events);
    let status = within("the completion", handle.completion).await.expect("ends");
    assert_eq!(status.signal(), Some(15));
    assert_eq!(child.processes(), [0; 0], "completion comes after the last process");
}

/// Waits until this process has no zombie child.
async fn no_zombie_of_ours() {
    if cfg!(target_os = "linux") {
        let own = std::process::id().to_string();
        let is_ours = |stat: &str| {
            let fields: Vec<&str> =
                stat.rsplit_once(')').map_or("", |(_, rest)| rest).split_whitespace().collect();
            fields.first() == Some(&"Z") && fields.get(1) == Some(&own.as_str())
        };
        wait_until("the reaping of every child", || {
            let entries = std::fs::read_dir("/proc").expect("/proc");
            !entries.filter_map(Result::ok).any(|entry| {
                std::fs::read_to_string(entry.path().join("stat")).is_ok_and(|stat| is_ours(&stat))
            })
        })
        .await;
    }
}

#[tokio::test]
async fn s16_a_grandchild_that_holds_stdout_does_not_hold_the_stream() {
    let child = Scripted::new(&format!(
        r#"({NEVER_ENDS}) & echo '{{"type":"a"}}'; printf '{{"type":"last, no newline"}}'; exit 3"#
    ));
    let mut handle = start(&child.client()).await;
    assert_eq!(next_type(&mut handle).await.as_deref(), Some("a"));
    assert_eq!(next_type(&mut handle).await.as_deref(), Some("last, no newline"));
    assert_eq!(next_type(&mut handle).await, None);
    assert_eq!(within("the completion", handle.completion).await.expect("ends").code(), Some(3));
    child.wait_until_nothing_is_left().await;
}

#[tokio::test]
async fn s17_the_timeout_fires_whatever_the_child_and_the_caller_do() {
    let flood = r#"while :; do echo '{"type":"flood"}'; done"#;
    let short = ClaudePrintRequest::new("x");
    let long = ClaudePrintRequest::new("x".repeat(4_000_000));
    for (what, script, request, reads) in [
        ("idle", NEVER_ENDS, short.clone(), true),
        ("flooding", flood, short.clone(), true),
        ("caller stalled", flood, short, false),
        ("stdin being fed", NEVER_ENDS, long, true),
    ] {
        let child = Scripted::new(&family(script));
        let limit = Duration::from_millis(700);
        let client =
            child.builder().timeout(limit).termination_grace(Duration::from_millis(200)).build();
        let mut handle = client.print_stream_json(request).await.expect("starts");
        if reads {
            within(what, async { while handle.events.next().await.is_some() {} }).await;
        }
        let error = within(what, handle.completion).await.expect_err(what);
        assert!(
            matches!(error, ClaudeCodeError::Timeout { after } if after == limit),
            "{what}: {error}"
        );
        child.wait_until_nothing_is_left().await;
    }
}

#[tokio::test]
async fn s18_a_nonzero_exit_is_ok() {
    let child = Scripted::new("exit 42");
    let output = within("the run", child.client().print(ClaudePrintRequest::new("x")))
        .await
        .expect("is no error");
    assert_eq!(output.status.code(), Some(42));
}

#[tokio::test]
async fn s18_a_spawn_failure_says_which_binary_and_what_to_do() {
    let child = Scripted::new("");
    let run = |client: ClaudeClient| async move {
        client
            .print_stream_json(ClaudePrintRequest::new("x"))
            .await
            .expect_err("cannot start")
            .to_string()
    };
    let missing = run(child.builder().binary("/nowhere/claude").build()).await;
    assert!(missing.contains("/nowhere/claude") && missing.contains("install"), "{missing}");
    let plain = child.path("plain");
    std::fs::write(&plain, "not a program").expect("written");
    let error = run(child.builder().binary(&plain).build()).await;
    assert!(error.contains("plain") && error.contains("not executable"), "{error}");
    let nowhere = run(child.builder().working_dir("/nowhere/at/all").build()).await;
    assert!(nowhere.contains("working directory /nowhere/at/all"), "{nowhere}");
    let nul = child
        .client()
        .print_stream_json(ClaudePrintRequest::new("a\0b"))
        .await
        .expect_err("not an argument");
    assert!(matches!(nul, ClaudeCodeError::Spawn { .. }), "{nul:?}");
}

#[tokio::test]
async fn s19_ten_mebibytes_of_stderr_do_not_block_and_the_tail_is_redacted() {
    let child = Scripted::new(
        r#"head -c 10485760 /dev/zero | tr '\0' 'e' >&2
        printf '\nbell\007 esc\033[31m\nkey sk-ant-api03-abcdefghijkl\nAuthorization: Bearer abcdefghijkl\nANTHROPIC_API_KEY=hunter2hunter2\n{"token": "abcdefghijkl"}\nthe end\n' >&2
        echo '{"type":"a"}'; exit 1"#,
    );
    let output =
        within("the run", child.client().print(ClaudePrintRequest::new("x"))).await.expect("runs");
    let tail = output.stderr_tail;
    assert!(
        tail.len() <= STDERR_TAIL_BYTES && tail.len() > STDERR_TAIL_BYTES / 2,
        "{} bytes",
        tail.len()
    );
    assert!(tail.ends_with("the end\n"));
    for secret in ["abcdefghijkl", "hunter2", "\u{7}", "\u{1b}"] {
        assert!(!tail.contains(secret), "{secret:?} in {}", &tail[tail.len() - 300..]);
    }
    for kept in ["bell esc", "key [redacted]", "Bearer [redacted]", "ANTHROPIC_API_KEY=[redacted]"]
    {
        assert!(tail.contains(kept), "{kept:?} not in {}", &tail[tail.len() - 300..]);
    }
}

#[tokio::test]
async fn s20_a_child_that_writes_before_it_reads_cannot_deadlock_us() {
    let child = Scripted::new(
        r#"i=0; pad=$(printf '%01000d' 0)
        while [ $i -lt 2000 ]; do echo "{\"type\":\"n\",\"pad\":\"$pad\"}"; i=$((i+1)); done; wc -c > stdin"#,
    );
    let request = ClaudePrintRequest::new("p".repeat(3_000_000));
    let output = within("the run", child.client().print(request)).await.expect("runs");
    assert_eq!((output.events.len(), child.read("stdin").trim()), (2000, "3000000"));
}

#[tokio::test]
async fn s21_termination_asks_with_sigterm_first() {
    let child = Scripted::new(&family(
        // The naps are short, because a shell that is asked just before a nap runs its trap only
        // after it.
        "trap 'echo asked > asked; exit 143' TERM; echo > ready; while :; do sleep 0.1; done",
    ));
    let client = child.builder().termination_grace(Duration::from_secs(3_600)).build();
    let handle = start(&client).await;
    child.wait_for_file("ready").await;
    handle.termination().terminate();
    assert_eq!(within("the completion", handle.completion).await.expect("ends").code(), Some(143));
    assert_eq!(child.read("asked").trim(), "asked");
    child.wait_until_nothing_is_left().await;
}

#[tokio::test]
async fn s21_a_child_that_does_not_listen_is_killed_after_its_grace() {
    let child = Scripted::new(&family(&format!("trap '' TERM; echo > ready; {NEVER_ENDS}")));
    let client = child.builder().termination_grace(Duration::from_millis(200)).build();
    let handle = start(&client).await;
    child.wait_for_file("ready").await;
    handle.termination().terminate();
    assert_eq!(within("the completion", handle.completion).await.expect("ends").signal(), Some(9));
    child.wait_until_nothing_is_left().await;
}

#[tokio::test]
async fn s21_asked_twice_it_goes_faster() {
    let child = Scripted::new(&family(&format!("trap '' TERM; echo > ready; {NEVER_ENDS}")));
    // With this grace, a single request would outlast the test's deadline.
    let client = child.builder().termination_grace(Duration::from_secs(3600)).build();
    let handle = start(&client).await;
    child.wait_for_file("ready").await;
    let termination = handle.termination();
    termination.terminate();
    termination.terminate();
    assert_eq!(within("the completion", handle.completion).await.expect("ends").signal(), Some(9));
    child.wait_until_nothing_is_left().await;
    // After the end, a request does nothing.
    termination.terminate();
}

#[test]
fn s22_nothing_differs_between_systems_and_nothing_needs_a_pty() {
    // Everything that differs between systems is in one module of `agent_lines`, which has the same
    // test.
    fn look_at(dir: &Path) {
        for entry in std::fs::read_dir(dir).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                look_at(&path);
                continue;
            }
            let text = std::fs::read_to_string(&path).expect("a source file");
            for word in ["cfg(unix", "cfg(windows", "target_os", "std::os::", "rustix", "openpt"] {
                assert!(!text.contains(word), "{word} in {}", path.display());
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    look_at(&root.join("src"));
    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).expect("a manifest");
    assert!(!manifest.contains("pty"));
}

#[tokio::test]
async fn events_survive_a_runtime_of_one_thread_and_many_runs_at_once() {
    let child = Scripted::new(r#"for i in 1 2 3 4 5; do echo '{"type":"n"}'; done"#);
    let client = child.client();
    let runs = (0..20).map(|_| client.print(ClaudePrintRequest::new("x")));
    for output in within("all runs", futures::future::join_all(runs)).await {
        assert_eq!(output.expect("runs").events.len(), 5);
    }
    child.wait_until_nothing_is_left().await;
}

#[test]
fn a_runtime_that_is_shut_down_takes_the_child_with_it() {
    let child = Scripted::new(&family(NEVER_ENDS));
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let handle = runtime.block_on(async {
        let mut handle = start(&child.client()).await;
        assert_eq!(next_type(&mut handle).await.as_deref(), Some("started"));
        handle
    });
    drop(runtime);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(async {
        child.wait_until_nothing_is_left().await;
        let error =
            within("the completion", handle.completion).await.expect_err("nobody saw the end");
        assert!(matches!(error, ClaudeCodeError::RunLost));
    });
}
