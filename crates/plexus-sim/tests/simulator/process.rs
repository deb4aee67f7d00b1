//! The simulator as a process: flags, conversations, signals and exit codes.

use std::io::Write;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::driver::{Finished, Sandbox, prompt};

const UUID: &str = "11111111-1111-4111-8111-111111111111";

#[test]
fn the_version_says_that_it_is_a_simulator() {
    let output = Sandbox::new().command(&["--version"]).output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "2.1.325 (Claude Code simulator)\n");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn a_command_line_that_the_cli_refuses_is_refused() {
    let sandbox = Sandbox::new();
    for (args, expected) in [
        (&["--frobnicate"][..], "unknown option '--frobnicate'"),
        (&["-p", "--output-format", "stream-json", "x"], "requires --verbose"),
        (&["-p", "--mcp-config", "nowhere.json", "x"], "MCP config file not found: nowhere.json"),
        (&["-p", "--settings", "nowhere.json", "x"], "nowhere.json"),
        (&["-p"], "Input must be provided"),
    ] {
        let output = sandbox.command(args).stdin(Stdio::null()).output().unwrap();
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{args:?}");
        assert!(stderr.contains(expected), "{args:?} said {stderr:?}");
        assert!(output.stdout.is_empty(), "{args:?} wrote to stdout");
    }
}

#[test]
fn a_prompt_may_come_from_plain_stdin_and_the_answer_as_text_or_json() {
    let sandbox = Sandbox::new();
    for (format, check) in [
        ("text", (|text| text == "a b") as fn(&str) -> bool),
        ("json", |text| serde_json::from_str::<Value>(text).unwrap()["result"] == "a b"),
    ] {
        let mut command = sandbox.command(&["-p", "--output-format", format]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        child.stdin.take().unwrap().write_all(b"sim:\nsay a b\n").unwrap();
        let output = child.wait_with_output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(check(text.trim_end()), "{format} gave {text:?}");
    }
}

#[test]
fn a_plain_prompt_writes_its_file_only_when_it_may() {
    let sandbox = Sandbox::new();
    let file = sandbox.work().join("plexus-sim.txt");
    let refused = sandbox.run(&[], "tell a story");
    assert!(!file.exists());
    assert!(refused.result()["result"].as_str().unwrap().starts_with("I was not allowed"));
    let ran = sandbox.run(&["--allowedTools", "Write"], "tell a story");
    assert!(std::fs::read_to_string(&file).unwrap().contains("tell a story"));
    assert!(ran.result()["result"].as_str().unwrap().starts_with("Done"));
}

#[test]
fn a_resumed_conversation_remembers_what_was_said() {
    let sandbox = Sandbox::new();
    let first = sandbox.run(&[], "sim:\nsay one");
    let id = first.result()["session_id"].as_str().unwrap().to_owned();
    let resumed = sandbox.run(&["--resume", &id], "sim:\nrecall");
    assert_eq!(resumed.result()["result"], "sim:\nsay one");
    assert_eq!(resumed.result()["session_id"], id.as_str());
    let forked = sandbox.run(&["--resume", &id, "--fork-session"], "sim:\nrecall");
    assert_eq!(forked.result()["result"], "sim:\nsay one\nsim:\nrecall");
    assert_ne!(forked.result()["session_id"], id.as_str());
    let continued = sandbox.run(&["--continue"], "sim:\nrecall");
    assert_eq!(continued.result()["session_id"], forked.result()["session_id"]);
    let fresh = Sandbox::new().run(&["--continue"], "sim:\nrecall");
    assert_eq!(fresh.result()["result"], "Nothing was said before.");
}

#[test]
fn a_conversation_costs_the_same_in_one_process_and_in_several() {
    let sandbox = Sandbox::new();
    let mut run = sandbox.control(&[]);
    let mut costs = Vec::new();
    for n in 1..4 {
        run.send(&[prompt(&format!("{n}1111111-1111-4111-8111-111111111111"), "sim:\nsay x")]);
        costs.push(run.until_result()["total_cost_usd"].as_f64().unwrap());
        run.until_idle();
    }
    let id = run.seen[0]["session_id"].as_str().unwrap().to_owned();
    run.finish();
    let resumed = sandbox.run(&["--resume", &id], "sim:\nsay x");
    costs.push(resumed.result()["total_cost_usd"].as_f64().unwrap());
    let expected = [1.0, 2.0, 3.0, 4.0].map(|n| n * 0.0008);
    for (cost, expected) in costs.iter().zip(expected) {
        assert!((cost - expected).abs() < 1e-9, "{costs:?}");
    }
}

#[test]
fn a_conversation_forked_after_a_message_keeps_its_whole_cost() {
    let sandbox = Sandbox::new();
    let said = |run: &Finished| {
        let line = run.lines.iter().rfind(|line| line["type"] == "assistant").unwrap();
        line["uuid"].as_str().unwrap().to_owned()
    };
    let first = sandbox.run(&[], "sim:\nsay one");
    let id = first.result()["session_id"].as_str().unwrap().to_owned();
    sandbox.run(&["--resume", &id], "sim:\nsay two");
    let flags = ["--resume", &id, "--fork-session", "--resume-session-at", &said(&first)];
    let forked = sandbox.run(&flags, "sim:\nrecall");
    assert_eq!(forked.result()["result"], "sim:\nsay one");
    assert!((forked.result()["total_cost_usd"].as_f64().unwrap() - 3.0 * 0.0008).abs() < 1e-9);
    // A fork keeps the ids of the messages it copied.
    let fork = forked.result()["session_id"].as_str().unwrap();
    let again = sandbox.run(
        &["--resume", fork, "--fork-session", "--resume-session-at", &said(&first)],
        "sim:\nrecall",
    );
    assert_eq!(again.result()["result"], "sim:\nsay one");
    let unknown = sandbox.run(&["--resume", &id, "--resume-session-at", UUID], "sim:\nrecall");
    assert_eq!(unknown.code(), Some(1));
    assert_eq!(
        unknown.result()["errors"][0],
        format!("No message found with message.uuid of: {UUID}")
    );
}

#[test]
fn the_cost_of_a_killed_process_is_not_carried_on() {
    let sandbox = Sandbox::new();
    let mut run = sandbox.control(&[]);
    run.send(&[prompt(UUID, "sim:\nsay x\ncrash")]);
    run.until_end();
    let id = run.seen[0]["session_id"].as_str().unwrap().to_owned();
    let resumed = sandbox.run(&["--resume", &id], "sim:\nsay x");
    assert!((resumed.result()["total_cost_usd"].as_f64().unwrap() - 0.0008).abs() < 1e-9);
}

#[test]
fn a_session_id_is_used_once() {
    let sandbox = Sandbox::new();
    let first = sandbox.run(&["--session-id", UUID], "sim:\nsay one");
    assert_eq!(first.result()["session_id"], UUID);
    let second = sandbox.run(&["--session-id", UUID], "sim:\nsay two");
    assert_eq!(second.code(), Some(1));
    assert!(second.stderr.contains("already in use"), "{}", second.stderr);
}

#[test]
fn only_whole_json_objects_may_reach_stdin() {
    for line in ["null\n", "{\"type\":\n", "hello\n", "{\"torn"] {
        let sandbox = Sandbox::new();
        let mut run = sandbox.control(&[]);
        run.send_text(line);
        let finished = run.finish();
        assert_eq!(finished.code(), Some(1), "{line:?}");
        assert!(
            finished.stderr.contains("Error parsing streaming input line"),
            "{}",
            finished.stderr
        );
    }
    let sandbox = Sandbox::new();
    let mut run = sandbox.control(&[]);
    run.send_text("\n{\"type\":\"keep_alive\"}\n{\"type\":\"of_the_future\"}\n");
    assert_eq!(run.finish().code(), Some(0));
}

#[test]
fn the_exit_code_after_the_end_of_stdin_is_that_of_the_last_turn() {
    for (script, code) in [("sim:\nsay fine", 0), ("sim:\nfail 500", 1), ("sim:\nnonsense", 1)] {
        let sandbox = Sandbox::new();
        let mut run = sandbox.control(&[]);
        run.send(&[prompt(UUID, script)]);
        run.until_idle();
        assert_eq!(run.finish().code(), Some(code), "{script}");
    }
}

#[test]
fn the_end_of_stdin_lets_the_turn_finish_and_ends_background_tasks() {
    let sandbox = Sandbox::new();
    let mut run = sandbox.control(&["--allowedTools", "Bash"]);
    let script = r#"sim:
tool Bash {"command":"sleep 60; touch too-late","run_in_background":true}
sleep 200
say finished"#;
    run.send(&[prompt(UUID, script)]);
    let task = run.until("the task", |line| line["subtype"] == "task_started");
    run.close_stdin();
    let finished = run.finish();
    assert_eq!(finished.result()["result"], "finished");
    assert_eq!(finished.code(), Some(0));
    let stopped =
        finished.lines.iter().find(|line| line["subtype"] == "task_notification").unwrap();
    assert_eq!((&stopped["task_id"], &stopped["status"]), (&task["task_id"], &json!("stopped")));
}

#[test]
fn a_reader_that_stops_loses_nothing() {
    let sandbox = Sandbox::new();
    let args = [
        "-p",
        "--output-format",
        "stream-json",
        "--verbose",
        "--",
        "sim:\nburst 4000 500\nsay end",
    ];
    let mut child =
        sandbox.command(&args).stdin(Stdio::null()).stdout(Stdio::piped()).spawn().unwrap();
    let mut stdout = child.stdout.take().unwrap();
    // The simulator writes more than a pipe holds while nobody reads.
    std::thread::sleep(std::time::Duration::from_millis(300));
    let mut text = String::new();
    std::io::Read::read_to_string(&mut stdout, &mut text).unwrap();
    assert_eq!(
        text.lines().count(),
        4004,
        "init, the burst, the end, the result and the idle state"
    );
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[cfg(unix)]
mod signals {
    use rustix::process::Signal;

    use super::*;
    use crate::driver::{Running, Stdin, wait_for_file};
    use crate::permit_server::{PermitServer, Reply, permit_flags};

    const LONG: &str = r#"sim:
tool Bash {"command":"echo $$ > pid; touch began; while ! test -e stop; do sleep 0.1; done; touch zz","description":"t"}"#;

    fn started(sandbox: &Sandbox) -> Running {
        let args = [
            "-p",
            "--output-format",
            "stream-json",
            "--verbose",
            "--allowedTools",
            "Bash",
            "--",
            LONG,
        ];
        let run = sandbox.start(&args, Stdin::Closed);
        wait_for_file(&sandbox.work().join("began"));
        run
    }

    /// Tells whether a process is running. A zombie is not: the init process of a container, which
    /// adopts orphans, may never reap it.
    fn is_alive(pid: i32) -> bool {
        let ended = std::fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| {
            stat.rsplit_once(')').is_some_and(|(_, rest)| rest.trim_start().starts_with('Z'))
        });
        let pid = rustix::process::Pid::from_raw(pid).unwrap();
        !ended && rustix::process::test_kill_process(pid).is_ok()
    }

    /// Waits until the shell of the tool is gone.
    fn wait_for_the_end_of_the_tool(sandbox: &Sandbox) {
        let pid =
            std::fs::read_to_string(sandbox.work().join("pid")).unwrap().trim().parse().unwrap();
        let deadline = std::time::Instant::now() + crate::driver::DEADLINE;
        while is_alive(pid) {
            assert!(std::time::Instant::now() < deadline, "the tool did not end");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }

    #[test]
    fn sigterm_and_sighup_end_the_tool_and_leave_no_result() {
        for (which, code) in [(Signal::TERM, 143), (Signal::HUP, 129)] {
            let sandbox = Sandbox::new();
            let run = started(&sandbox);
            signal(run.pid(), which);
            let finished = run.finish();
            assert_eq!(finished.code(), Some(code));
            assert!(!finished.lines.iter().any(|line| line["type"] == "result"));
            wait_for_the_end_of_the_tool(&sandbox);
        }
    }

    #[test]
    fn sigint_in_a_tool_reports_the_end_and_exits_0() {
        let sandbox = Sandbox::new();
        let run = started(&sandbox);
        signal(run.pid(), Signal::INT);
        let finished = run.finish();
        assert_eq!(finished.result()["subtype"], "error_during_execution");
        assert_eq!(finished.result()["terminal_reason"], "aborted_tools");
        assert_eq!(finished.result()["permission_denials"], json!([]));
        assert_eq!(finished.code(), Some(0));
        wait_for_the_end_of_the_tool(&sandbox);
    }

    #[test]
    fn sigint_in_a_permit_tool_exits_0_without_a_word() {
        let sandbox = Sandbox::new();
        let server = PermitServer::start(|_| Reply::Never);
        let config = server.config();
        let mut args = vec!["-p", "--output-format", "stream-json", "--verbose"];
        args.extend(permit_flags(&config));
        args.extend(["--", "sim:\ntool Bash {\"command\":\"touch a\"}"]);
        let run = sandbox.start(&args, Stdin::Closed);
        let deadline = std::time::Instant::now() + crate::driver::DEADLINE;
        while server.tool_calls().is_empty() {
            assert!(std::time::Instant::now() < deadline, "the permit call did not come");
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
        signal(run.pid(), Signal::INT);
        let finished = run.finish();
        assert_eq!(finished.code(), Some(0));
        assert!(!finished.lines.iter().any(|line| line["type"] == "result"));
    }

    #[test]
    fn a_tool_outlives_a_killed_simulator() {
        let sandbox = Sandbox::new();
        let run = started(&sandbox);
        signal(run.pid(), Signal::KILL);
        std::fs::write(sandbox.work().join("stop"), "").unwrap();
        wait_for_file(&sandbox.work().join("zz"));
        drop(run);
    }

    #[test]
    fn an_idle_process_goes_when_it_is_told_to() {
        for (which, code) in [(Signal::INT, 0), (Signal::TERM, 143), (Signal::HUP, 129)] {
            let sandbox = Sandbox::new();
            let mut run = sandbox.control(&[]);
            run.send(&[prompt(UUID, "sim:\nsay x")]);
            run.until_idle();
            let pid = run.pid();
            signal(pid, which);
            run.until_end();
            assert_eq!(run.finish().code(), Some(code));
        }
    }
}

/// Sends a signal.
#[cfg(unix)]
pub(crate) fn signal(pid: i32, signal: rustix::process::Signal) {
    rustix::process::kill_process(rustix::process::Pid::from_raw(pid).unwrap(), signal).unwrap();
}
